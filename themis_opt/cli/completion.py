"""What the shell completes: names of instances, policies and models; files it knows by itself."""

from collections.abc import Callable, Iterable
from pathlib import Path


def starting_with(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What completes a word to one of some names, which are asked for when it is needed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def instances(incomplete: str) -> list[str]:
    """Shipped instances, and files and folders of instances that begin so."""
    from themis_opt.problem.catalog import all_shipped

    folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    files = [f"{path}/" if path.is_dir() else str(path) for path in paths if path.is_dir() or path.suffix == ".json"]
    return [name for name in (*all_shipped(), *files) if name.startswith(incomplete)]


def policies(incomplete: str) -> list[str]:
    """Policies, launching policies before a slash, and dispatch rules behind a plus, after the last comma."""
    from themis_opt.policies.registry import LAUNCHING, POLICIES
    from themis_opt.schedules.dispatch import DISPATCH

    before, comma, last = incomplete.rpartition(",")
    launching, slash, chunk = last.rpartition("/")
    policy, plus, _ = chunk.partition("+")
    specifications = [f"{policy}+{rule}" for rule in DISPATCH] if plus else list(POLICIES)
    names = (
        [f"{launching}/{name}" for name in specifications]
        if slash
        else [*specifications, *(f"{name}/" for name in LAUNCHING)]
    )
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def models(incomplete: str) -> list[str]:
    """Models of workloads."""
    from themis_opt.workloads.models import MODELS

    return [name for name in MODELS if name.startswith(incomplete)]

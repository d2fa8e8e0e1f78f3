"""A warm process that solves instances with the code of one checkout, so that neither imports nor compilation count.

The parent writes one JSON document a line, and reads one a line.  The child, this file run as a program, calls the
public ``themis_opt.compare`` alone, which every checkout has.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from themis_opt.problem.instance import Instance

PATIENCE = 100
"""Multiples of its time limit, and of at least ten seconds, after which a child is ended: the machine may be busy."""


class Limits(TypedDict):
    """What a solve may spend; those of ``themis_opt.compare``."""

    time_limit: float
    workers: int
    seed: int
    deterministic: bool


class Outcome(TypedDict, total=False):
    """What a solve came to, in picoseconds and seconds, or why it did not."""

    makespan: float
    bound: float
    seconds: float
    error: str


class SolverProcess:
    """The child of one checkout, started when it is first needed and again after it died.

    Parameters
    ----------
    tree : Path
        A checkout; its ``.venv/bin/python`` is used if there is one, else the interpreter of the parent.
    is_timed : bool
        Whether the seconds of a solve count; if not, children begin cold and compute the bounds of an instance once.
    """

    def __init__(self, tree: Path, *, is_timed: bool = True) -> None:
        self.tree, self.is_timed = tree, is_timed
        self._child: subprocess.Popen[str] | None = None

    @property
    def commit(self) -> str:
        """The commit that is checked out, marked where files differ from it."""
        command = ["git", "-C", str(self.tree), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def solve(self, document: str, sizes: str, limits: Limits, policy: str = "exact", without: str = "") -> Outcome:
        """Solve the JSON document of an instance, `without` a mechanism of :mod:`ablation` if one is named."""
        question = {"document": document, "sizes": sizes, "limits": limits, "policy": policy, "without": without}
        child = self._started()
        timer = Timer(PATIENCE * max(limits["time_limit"], 10.0), child.kill)
        timer.start()
        try:
            outcome: Outcome = self._ask(child, question)
        except (BrokenPipeError, json.JSONDecodeError):
            self.close()
            outcome = {"error": "died or took too long"}
        finally:
            timer.cancel()
        return outcome

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _started(self) -> subprocess.Popen[str]:
        """The child, once it is warm."""
        if self._child is None:
            python = self.tree / ".venv/bin/python"
            command = [
                str(python if python.exists() else sys.executable),
                __file__,
                *([] if self.is_timed else ["cold"]),
            ]
            environment = os.environ | {"PYTHONPATH": str(self.tree)}
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=self.tree
            )
            assert self._child.stdout is not None
            self._child.stdout.readline()
        return self._child

    @staticmethod
    def _ask(child: "subprocess.Popen[str]", question: Mapping[str, Any]) -> Outcome:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(question) + "\n")
        child.stdin.flush()
        answer: Outcome = json.loads(child.stdout.readline())
        return answer


def serve() -> None:
    """Answer questions from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints must not stand between answers
    is_timed = "cold" not in sys.argv
    if is_timed:
        warm_up()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        try:
            outcome = (timed_answer if is_timed else answer)(**json.loads(line))
        except Exception as error:
            outcome = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(outcome), file=answers, flush=True)


def timed_answer(document: str, sizes: str, limits: Limits, policy: str, without: str) -> Outcome:
    """Solve one instance, bounds included."""
    import themis_opt

    with taken_out(without):
        began = monotonic()
        result = themis_opt.compare(loaded(document), (policy,), sizes=sizes, **limits)
        seconds = monotonic() - began
    return {"makespan": result.results[0].makespan, "bound": max(result.bounds.values()), "seconds": seconds}


def answer(document: str, sizes: str, limits: Limits, policy: str, without: str) -> Outcome:
    """Solve one instance from its bound, which is computed once."""
    import themis_opt

    bound = bound_of(document, sizes)
    instance, knobs = loaded(document), {name: value for name, value in limits.items() if name != "time_limit"}
    made = themis_opt.make_policy(policy, seconds=limits["time_limit"], sizes=sizes, **knobs)
    with taken_out(without):
        began = monotonic()
        if hasattr(made, "solve"):
            reference = made.solve(instance, bound)
            makespan, bound = reference.schedule.makespan, max(bound, reference.bound)
        else:
            makespan = themis_opt.simulate(instance, made(instance)).makespan
        seconds = monotonic() - began
    return {"makespan": makespan, "bound": bound, "seconds": seconds}


@cache
def bound_of(document: str, sizes: str) -> float:
    """The best bound of an instance before any search, in picoseconds."""
    import themis_opt

    return max(themis_opt.bounds(loaded(document), equal_sizes=sizes == "equal").values())


def loaded(document: str) -> "Instance":
    """The instance of a JSON document."""
    import themis_opt

    with TemporaryDirectory() as folder:
        path = Path(folder) / "instance.json"
        path.write_text(document, encoding="utf-8")
        return themis_opt.load(path)


def taken_out(without: str) -> AbstractContextManager[None]:
    """Take a mechanism out of this process, if one is named."""
    if not without:
        return nullcontext()
    import ablation  # which looks at the checkout of this process

    return ablation.taken_out(without)


def warm_up() -> None:
    """Compile and load everything: deterministic searches wait for it."""
    import themis_opt

    costly = {"kind": "ring", "size": 4, "bandwidth": "100 GB/s", "latency": "1 us", "launch_overhead": "2 us"}
    collectives = [{"kind": "all_reduce", "size": "16 MiB", "chunks": 8}]
    documents = [{"network": {"dimensions": [costly] * 3}, "collectives": collectives}]
    instances = [themis_opt.Instance.model_validate(document) for document in documents]
    instances.append(themis_opt.load("3d-sw_sw_sw_homo.all_reduce.100MiB"))
    for instance in instances:
        for sizes in ("equal", "free"):
            themis_opt.compare(instance, ("exact",), sizes=sizes, time_limit=0.5, workers=1, deterministic=True)
    iteration = themis_opt.load("2d-sw_sw.gnmt")
    themis_opt.compare(iteration, ("exact",), sizes="free", time_limit=0.5, workers=1, deterministic=True)


if __name__ == "__main__":
    serve()

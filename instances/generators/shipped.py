"""The files of ``instances/iterations``, made from the generators."""

from pathlib import Path

from generators.paper import NETWORKS, WORKLOADS, paper_iteration
from generators.slow_links import SLOW_LINKS_FILE, slow_iteration
from generators.v100_cluster import NAME, PIPELINES, TRAININGS, v100_iteration, v100_pipeline
from themis_opt.families.door import save
from themis_opt.problem.instance import Instance


def shipped_iterations() -> dict[str, Instance]:
    """The instance of each file, by file name."""
    pairs = [(network, workload) for network in NETWORKS for workload in WORKLOADS]
    paper = {f"{network}.{workload}.json": paper_iteration(network, workload) for network, workload in pairs}
    pipelines = {f"v100-64.{name}.json": v100_pipeline(name) for name in PIPELINES}
    return (
        paper
        | pipelines
        | {SLOW_LINKS_FILE: slow_iteration()}
        | {f"{NAME}.{training}.json": v100_iteration(training) for training in TRAININGS}
    )


def write_shipped(folder: Path) -> None:
    """Write all files into a folder.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    for name, instance in shipped_iterations().items():
        save(instance, folder / name)

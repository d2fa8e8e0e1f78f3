"""Training iterations: overlap, buckets, exposed communication, scaling, skipped synchronisation and SplitBrain."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from themis_opt.errors import InputError
from themis_opt.reports.document import Report
from themis_opt.reports.experiment import Experiment
from themis_opt.reports.iteration_buckets import buckets
from themis_opt.reports.iteration_overlap import overlap, panels
from themis_opt.reports.iteration_runs import Finding, IterationRun, iteration_runs, of_block
from themis_opt.reports.iteration_scaling import scaling, skipping
from themis_opt.reports.iteration_splitbrain import splitbrain
from themis_opt.reports.results import results
from themis_opt.reports.rows import Row
from themis_opt.reports.sections import failures, warnings

BLOCKS: Mapping[str, Callable[[Sequence[IterationRun]], Finding]] = MappingProxyType(
    {
        "overlap": overlap,
        "buckets": buckets,
        "panels": panels,
        "scaling": scaling,
        "skipped synchronisation": skipping,
        "splitbrain": splitbrain,
    }
)
"""The section on each block of the experiment, in this order."""


def iterations(rows: Sequence[Row], experiment: Experiment) -> Report:
    """Show what each block of the experiment says about training iterations.

    Raises
    ------
    InputError
        If no block has a run of an iteration, or a run does not say how its time is made up.
    """
    found = results(rows)
    runs = iteration_runs(found)
    made = [section(own) for block, section in BLOCKS.items() if (own := of_block(runs, block))]
    if not made:
        rule = f"no run of an iteration in any of the blocks {', '.join(BLOCKS)}"
        raise InputError(rule, field="column block")
    said = [sentence for finding in made for sentence in finding.said]
    sections = tuple(finding.section for finding in made)
    return Report(experiment.title, (*said, *warnings(rows, found)), (*sections, *failures(rows)))

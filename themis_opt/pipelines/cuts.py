r"""Which blocks of a model lie on which stage, and in which order passes run, decided together.

Cuts between blocks are enumerated by depth first search.  A stage that works :math:`w` for each of :math:`m`
microbatches takes at least :math:`m w`, so a beginning of a cut is left out where this is no less than a limit, or what
is left does not fit below it.  The limit is the iteration of the cut by
:func:`themis_opt.workloads.pipeline.balanced`, a dynamic programme, or less where too many cuts are below it.  Each
other cut has a bound of all its orders (:mod:`themis_opt.pipelines.bounds`); the least of these, of the limit and of
the best iteration bounds all cuts between blocks with all orders.  Cuts are tried in the order of their bounds, with
policies and then with the reference.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from formulations.limits import Limits
from themis_opt.base.allowance import Allowance
from themis_opt.base.units import format_percent, format_short_time
from themis_opt.pipelines.bounds import bounds
from themis_opt.pipelines.models import pipeline_of
from themis_opt.pipelines.schedule import PipelineSchedule
from themis_opt.pipelines.steps import PipelineContest, best_policy, searched
from themis_opt.problem.fields import ModelError
from themis_opt.problem.network import Network
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.microbatch_orders import stage_of_parts
from themis_opt.workloads.pipeline import ends_of_blocks, layer_times
from themis_opt.workloads.setup import Setup, read_setup
from themis_opt.workloads.timing import Timing

MOST_CUTS = 1000  # cuts that are looked at, those whose busiest stage works least
SHARE_OF_A_CUT = 0.3  # what the reference on one cut may spend of the time that is left, so that several cuts have some


@dataclass(frozen=True)
class CutAndOrder:
    """The best cut with its schedule, and the least iteration of all cuts and orders, in picoseconds.

    `counts`: blocks of each part; empty for parts of equal time, which may end inside a block.
    `balanced`: the iteration of such parts by the best policy.
    """

    counts: tuple[int, ...]
    schedule: PipelineSchedule
    bound: int
    balanced: int

    def __str__(self) -> str:
        value, balanced = map(format_short_time, (self.schedule.value, self.balanced))
        cut = f"The cut {','.join(map(str, self.counts))}" if self.counts else "The cut into parts of equal time"
        words = f"{cut} takes {value} with the best order, at most {format_percent(self.gap)} above all cuts"
        return f"{words} between blocks; parts of equal time take {balanced}."

    @property
    def gap(self) -> float:
        """The iteration over the bound, minus 1."""
        return self.schedule.value / self.bound - 1


def read_cut_setup(
    network: Network, timing: Timing, layers: tuple[Layer, ...], *, layers_per_stage: str | None = None, **choices: Any
) -> tuple[Setup, CutAndOrder | None]:
    """The setup of choices in words, and the best cut where ``best`` is asked for as the layers of each stage."""
    if layers_per_stage != "best":
        return read_setup(network, timing, layers_per_stage=layers_per_stage, **choices), None
    setup = read_setup(network, timing, **choices)
    cut = cut_and_order(layers, setup)
    return replace(setup, layers_per_stage=cut.counts), cut


def cut_and_order(layers: tuple[Layer, ...], setup: Setup, seconds: float = 20.0) -> CutAndOrder:
    """Search cuts and orders together for some seconds. Raises InputError if the setup has no pipeline."""
    allowance, setup = Allowance(seconds), replace(setup, layers_per_stage=())
    counts: tuple[int, ...] = ()
    pipelines = {counts: pipeline_of("", layers, setup)}
    best = balanced = best_policy(pipelines[counts])
    limit, cuts = _fewest_cuts(layers, setup, best.value)
    for cut in cuts:
        with suppress(ModelError):  # a cut that memory rules out
            pipelines[cut] = pipeline_of("", layers, replace(setup, layers_per_stage=cut))
    least = {cut: next(bounds(pipeline)) for cut, pipeline in pipelines.items()}
    for cut in sorted(least, key=lambda cut: (bool(cut), least[cut])):
        if allowance.left <= 0 or least[cut] >= best.value:
            continue
        contest = PipelineContest(pipelines[cut], Limits(seconds=max(allowance.left * SHARE_OF_A_CUT, 0.1)))
        contest.prove()
        for schedule in searched(contest):
            least[cut] = max(least[cut], int(contest.bound))
            best, counts = min((best, counts), (schedule, cut), key=lambda pair: pair[0].value)
            balanced = balanced if cut else best
    return CutAndOrder(counts, best, min(limit, best.value, *(least[cut] for cut in least if cut)), balanced.value)


def _fewest_cuts(layers: tuple[Layer, ...], setup: Setup, most: int) -> tuple[int, list[tuple[int, ...]]]:
    """The highest limit up to `most` below which there are few cuts, and these, with some above it where more fit."""
    low, high, limit, cuts, more = 0, most, most, list[tuple[int, ...]](), list[tuple[int, ...]]()
    while high - low > most // 4096:
        some = list(islice(_cuts(layers, setup, limit), MOST_CUTS + 1))
        low, high, cuts, more = (limit, high, some, more) if len(some) <= MOST_CUTS else (low, limit, cuts, some)
        limit = (low + high) // 2
    return low, list(dict.fromkeys([*cuts, *more]))[:MOST_CUTS]


def _cuts(layers: tuple[Layer, ...], setup: Setup, most: int) -> Iterator[tuple[int, ...]]:
    """Blocks of each part in all ways in which no stage works as long as `most`."""
    stage_of = stage_of_parts(setup.stages or 1, setup.virtual_stages, setup.schedule)
    begin, works = 0, list[int]()
    for end in ends_of_blocks(layers):
        works.append(sum(_work(layer, setup) for layer in layers[begin:end]))
        begin = end
    stack: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), (0,) * (setup.stages or 1))]
    while stack:
        counts, busy = stack.pop()
        done, left = sum(counts), len(stage_of) - len(counts)
        if not left and done == len(works):
            yield counts
        room = sum(most - busy[stage] * setup.microbatches for stage in {*stage_of[len(counts) :]})
        if not left or sum(works[done:]) * setup.microbatches >= room:
            continue
        stage, now = stage_of[len(counts)], 0
        for count in range(1, len(works) - done - left + 2):
            now += works[done + count - 1]
            if (busy[stage] + now) * setup.microbatches >= most:
                break
            stack.append(((*counts, count), (*busy[:stage], busy[stage] + now, *busy[stage + 1 :])))


def _work(layer: Layer, setup: Setup) -> int:
    times = layer_times(layer, setup, setup.microbatches)
    return times.forward * (1 + setup.repeats) + times.input_gradient + times.weight_gradient

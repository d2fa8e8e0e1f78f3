"""The best order of a pipeline, by annealing and CP-SAT from the best policy."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from formulations.interruption import TimeUp
from formulations.limits import MAX_SECONDS, Limits
from themis_opt.base.allowance import SLACK, cut_off
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.pipelines.bounds import bounds
from themis_opt.pipelines.gaps import filled
from themis_opt.pipelines.offloads import with_offloads
from themis_opt.pipelines.order_search import anneal
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.priorities import PriorityOrders
from themis_opt.pipelines.problem import TRANSFERS, Action, ActionKind, Pipeline
from themis_opt.pipelines.schedule import PipelineSchedule, simulate, steps_of
from themis_opt.pipelines.validation import validate
from themis_opt.schedules.contest import Contest
from themis_opt.schedules.incumbent import Progress, Step, take_turns, tell_notebook

if TYPE_CHECKING:
    from formulations.microbatch_order import MicrobatchProblem, OrderOutcome

VARIANTS, OFFLOADS, FILLED = "variants", "offloads", "filled"
"""Names under which rules with other numbers are tried, orders with transfers to hosts, and policies without gaps."""

MEMORIES = (1.25, 1.5, 2.0, 3.0, 0.0)
"""Memory of orders that are then made to fit by transfers, as multiples of what there is; 0 for all activations."""

ACTIONS_PER_SECOND = 50_000  # actions of rules that a core plans and simulates, for limits that count work


MOST_PASSES = 300  # passes of all stages for which CP-SAT is asked: with more, annealing gains more in the same seconds


class PipelineContest(Contest[PipelineSchedule]):
    """The policies of a pipeline, and the search that takes its start from them."""

    def __init__(self, pipeline: Pipeline, limits: Limits, report: Progress = tell_notebook) -> None:
        super().__init__(limits, report=report)
        self.pipeline = pipeline

    def prove(self) -> None:
        """Raise the bound in half of the time that is left."""
        with suppress(TimeUp), cut_off(self.allowance, SLACK / 2), self.turn():
            for least in bounds(self.pipeline):
                self.raise_bound(least)
                if self.left <= 0:
                    return

    def measure(self, schedule: PipelineSchedule) -> float:
        """What the objective of the pipeline asks for, in picoseconds."""
        return schedule.value

    def check(self, schedule: PipelineSchedule) -> None:
        """As :func:`themis_opt.pipelines.validation.validate`."""
        validate(schedule)


def planned(pipeline: Pipeline, policy: str) -> Iterator[PipelineSchedule]:
    """The schedule of a policy. Raises InputError or InvalidSchedule if the policy is not for the pipeline."""
    yield simulate(pipeline, with_offloads(pipeline, PIPELINE_POLICIES[policy](pipeline)))


def searched(contest: PipelineContest) -> Iterator[PipelineSchedule]:
    """The best schedule after all steps."""
    with suppress(TimeUp):
        take_turns(contest, PIPELINE_STEPS)
    if contest.best is not None:
        yield contest.best


@dataclass
class Rules:
    """All policies, and their rules with other numbers."""

    engine: str = ""

    def applies(self, contest: PipelineContest) -> bool:
        """Whether some policy was not tried yet, which is so at first: no name stands for the variants."""
        return VARIANTS not in contest.tried

    def run(self, contest: PipelineContest) -> None:
        """Try one after the other until the turn is over."""
        pipeline = contest.pipeline
        work = _work_of_rules(pipeline)
        for name in [name for name in PIPELINE_POLICIES if name not in contest.tried]:
            with suppress(InputError, InvalidSchedule):
                for schedule in planned(pipeline, name):
                    validate(schedule)
                    contest.offer(schedule)
            contest.allowance.charge(work)
        contest.tried.add(VARIANTS)
        if contest.best is None or not contest.done:
            contest.offer(simulate(pipeline, PriorityOrders(pipeline).best_orders()))
            contest.allowance.charge(work)


@dataclass
class OffloadActivations:
    """Orders for more memory than there is, with transfers to the host (:mod:`themis_opt.pipelines.offloads`)."""

    engine: str = ""

    def applies(self, contest: PipelineContest) -> bool:
        """Whether there is a link to hosts, and a limit that was not exceeded yet."""
        pipeline = contest.pipeline
        return pipeline.memory is not None and pipeline.offload is not None and OFFLOADS not in contest.tried

    def run(self, contest: PipelineContest) -> None:
        """Try one memory after the other until the turn is over."""
        pipeline, everything = contest.pipeline, contest.pipeline.replace(memory=None, offload=None)
        contest.tried.add(OFFLOADS)
        behind = {0, *(-(-(pipeline.offload or 0) // time) for time in pipeline.forward)}
        for times in MEMORIES:
            relaxed = everything.replace(memory=int((pipeline.memory or 0) * times)) if times else everything
            orders = PriorityOrders(relaxed).best_orders()
            for spared in sorted(behind):
                if contest.best is not None and contest.done:
                    return
                with suppress(InvalidSchedule):
                    contest.offer(simulate(pipeline, with_offloads(pipeline, orders, spared)))
                contest.allowance.charge(_work_of_rules(pipeline))


@dataclass
class FillGaps:
    """Gaps of the best orders are filled, and at first those of all policies (:mod:`themis_opt.pipelines.gaps`)."""

    engine: str = ""

    def applies(self, contest: PipelineContest) -> bool:
        """Whether there is a schedule to start from, all of whose activations stay."""
        return contest.best is not None and not contest.best.offloads

    def run(self, contest: PipelineContest) -> None:
        """Fill the gaps of one after the other until the turn is over."""
        for start in self._starts(contest):
            for schedule in filled(contest.pipeline, start.orders):
                contest.allowance.charge(_work_of_rules(contest.pipeline))
                contest.offer(schedule)
                if contest.done:
                    return

    def _starts(self, contest: PipelineContest) -> Iterator[PipelineSchedule]:
        yield known(contest.best)
        for name in PIPELINE_POLICIES if FILLED not in contest.tried else ():
            with suppress(InputError, InvalidSchedule):
                yield from (schedule for schedule in planned(contest.pipeline, name) if not schedule.offloads)
        contest.tried.add(FILLED)


@dataclass
class AnnealOrders:
    """Passes are moved within the orders of stages (:mod:`themis_opt.pipelines.order_search`)."""

    engine: str = "annealing"

    def applies(self, contest: PipelineContest) -> bool:
        """Whether there is a schedule to start from, all of whose activations stay."""
        return contest.best is not None and not contest.best.offloads

    def run(self, contest: PipelineContest) -> None:
        """Anneal until the turn is over, or nothing is gained."""
        seed, number = contest.next_seed()
        contest.offer(anneal(known(contest.best), contest.allowance, int(contest.enough), seed + number))


@dataclass
class ExactOrders:
    """CP-SAT from the best orders (:mod:`formulations.microbatch_order`), which proves bounds as well."""

    engine: str = "cp_sat"

    def applies(self, contest: PipelineContest) -> bool:
        """Whether there is a schedule to start from, of so few passes that CP-SAT finds a better one in seconds."""
        return contest.best is not None and _num_passes(contest.pipeline) <= MOST_PASSES

    def run(self, contest: PipelineContest) -> None:
        """Search until the turn is over, or the schedule is proven."""
        from formulations.microbatch_order import MicrobatchOrder

        pipeline, start, lower = contest.pipeline, known(contest.best), int(contest.bound)
        times = (*pipeline.forward, *pipeline.inputs, *pipeline.weights, pipeline.message, pipeline.offload or 0)
        tick = math.gcd(*times)
        model = MicrobatchOrder(microbatch_problem(pipeline, tick), -(-lower // tick), start.value // tick)
        model.hint(_table(start, tick), _transfers(start, tick))
        seconds = contest.left
        outcome = model.solve(contest.solver_limits(), lambda best, bound: contest.tell(best * tick, bound * tick))
        contest.allowance.charge(seconds)
        if outcome.status == "interrupted":
            contest.allowance.interrupt()
        if outcome.starts is not None:
            better = _schedule(pipeline, outcome, tick)
            validate(better)
            contest.offer(better)
        contest.raise_bound(outcome.bound * tick)


PIPELINE_STEPS: tuple[Step, ...] = (
    Rules(),
    OffloadActivations(),
    FillGaps(),
    AnnealOrders(),
    ExactOrders(),
)
"""The steps of the reference."""


def best_policy(pipeline: Pipeline) -> PipelineSchedule:
    """The best of all policies that apply and of their rules with other numbers."""
    contest = PipelineContest(pipeline, Limits(seconds=MAX_SECONDS))
    Rules().run(contest)
    return known(contest.best)


def known(schedule: PipelineSchedule | None) -> PipelineSchedule:
    """A schedule that there is, since the first policies are for every pipeline."""
    assert schedule is not None
    return schedule


def _work_of_rules(pipeline: Pipeline) -> float:
    """Seconds of work for the orders of a rule."""
    return _num_passes(pipeline) / ACTIONS_PER_SECOND


def _num_passes(pipeline: Pipeline) -> int:
    return pipeline.num_parts * pipeline.microbatches * len(pipeline.kinds)


def microbatch_problem(pipeline: Pipeline, tick: int) -> "MicrobatchProblem":
    """The integer data of the model."""
    from formulations.microbatch_order import MicrobatchProblem

    parts = range(pipeline.num_parts)
    durations = [[pipeline.duration(kind, part) // tick for part in parts] for kind in pipeline.kinds]
    kept = -pipeline.change_of_memory(pipeline.kinds[-1]) if pipeline.split else pipeline.activation
    return MicrobatchProblem(
        durations=durations,
        stages=pipeline.parts_of,
        hops=[pipeline.hop(part) // tick for part in parts[:-1]],
        microbatches=pipeline.microbatches,
        queue=pipeline.messages_queue,
        memory=pipeline.memory,
        kept=(pipeline.activation, kept),
        from_first=pipeline.objective == "period",
        transfer=None if pipeline.offload is None else pipeline.offload // tick,
    )


def _table(schedule: PipelineSchedule, tick: int) -> list[list[list[int]]]:
    """Starts by kind, part and microbatch in ticks; those of alike steps in order, where any may leave for the host."""
    pipeline = schedule.pipeline
    table: dict[ActionKind, list[list[int]]] = {
        kind: [[0] * pipeline.microbatches for _ in range(pipeline.num_parts)] for kind in pipeline.kinds
    }
    for action, start in schedule.start.items():
        now = start // tick
        for step in steps_of(pipeline, action):
            if step.kind not in TRANSFERS:
                table[step.kind][step.part][step.microbatch] = now
                now += pipeline.duration(step.kind, step.part) // tick
    in_order = sorted if pipeline.offload is None else list
    return [[in_order(starts) for starts in table[kind]] for kind in pipeline.kinds]


def _transfers(schedule: PipelineSchedule, tick: int) -> dict[tuple[int, int], tuple[int, int]]:
    """When activations leave and come back, in ticks, by part and microbatch."""
    start, pairs = schedule.start, product(range(schedule.pipeline.num_parts), range(schedule.pipeline.microbatches))
    out, back = TRANSFERS
    return {p: (start[Action(out, *p)] // tick, start[Action(back, *p)] // tick) for p in pairs if (out, *p) in start}


def _schedule(pipeline: Pipeline, outcome: "OrderOutcome", tick: int) -> PipelineSchedule:
    """A schedule with the starts of the model, or with its orders alone where activations leave.

    Stages may begin later than they could, which makes a period shorter.  Activations come back between passes, which
    the model does not ask for.
    """
    times = {
        Action(kind, part, i): start * tick
        for kind, by_part in zip(pipeline.kinds, outcome.starts or (), strict=True)
        for part, row in enumerate(by_part)
        for i, start in enumerate(row)
    }
    for place, (out, back) in outcome.transfers.items():
        times[Action(ActionKind.OFFLOAD, *place)] = out * tick + (pipeline.offload or 0)
        times[Action(ActionKind.LOAD, *place)] = back * tick
    rank = {ActionKind.OFFLOAD: 0, ActionKind.LOAD: 1}
    by_time = sorted(times, key=lambda action: (times[action], rank.get(action.kind, 2)))
    orders = tuple(tuple(a for a in by_time if pipeline.stage_of[a.part] == s) for s in range(pipeline.stages))
    if outcome.transfers:
        return simulate(pipeline, orders)
    return PipelineSchedule(pipeline, orders, times)

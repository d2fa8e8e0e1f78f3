"""Schedules as models for other solvers: CP-SAT protocol buffers, and a linear programme with integers.

What is written is what the reference gives to CP-SAT: paths and sequences of the chunks of a schedule
(:mod:`formulations.chunk_order`), with the schedule as hint, and the sequences along its paths alone
(:mod:`formulations.sequencing`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from formulations.chunk_order import ChunkOrder
from formulations.cp_sat import hinted_objective, model_file
from formulations.sequencing import as_text, num_order_variables, sequencing_milp
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.formats.exports import Exporter, Fact
from themis_opt.schedules.schedule import Schedule
from themis_opt.solving.lowering import in_ticks, job_plans

LINEAR_RESOLUTION = 2**18  # ticks into which the linear programme divides the makespan: its writer keeps six digits
MAX_MODEL_STAGES = 20_000  # stages of a model that is written: CP-SAT loads as many
MAX_ORDERS = 100_000
"""Variables of the linear programme for orders; it has two rows for each, and solvers give up far below."""


@dataclass(frozen=True)
class SolverModel(Exporter):
    """A schedule as models for other solvers."""

    form: Literal["all", "binary", "text", "lp", "mps"] = "all"  # CP-SAT, binary or as text; LP or MPS

    endings: ClassVar[tuple[str, ...]] = ("pb", "pbtxt", "lp", "mps")

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str | bytes]]:
        """One file per form.

        Raises InputError if the schedule is too large, or has compute.
        """
        if schedule.has_period:
            raise InputError("models are for schedules without compute", field="--to", value="model")
        if schedule.plan.num_stages > MAX_MODEL_STAGES:
            rule = f"models have at most {MAX_MODEL_STAGES} stages, this has {schedule.plan.num_stages}"
            raise InputError(f"{rule}; use fewer chunks", field="chunks")
        if self._is_for_cp_sat:
            model = _model(schedule).model
            if self.form != "text":
                yield "model.pb", model_file(model, "pb")
            if self.form != "binary":
                yield "model.pbtxt", model_file(model, "txt")
        if not self._is_linear(schedule):
            return
        if not _fits(schedule):
            rule = f"a linear programme has at most {MAX_ORDERS} pairs of stages; use fewer chunks"
            raise InputError(rule, field="--to", value=f"model:form={self.form}")
        data = in_ticks(schedule, LINEAR_RESOLUTION)
        paths = [[times.paths for times in plans] for plans in job_plans(data, schedule)]
        programme = sequencing_milp(data.jobs, paths, -(-schedule.makespan // data.tick))
        for form in ("lp", "mps"):
            if self.form in ("all", form):
                yield f"sequences.{form}", as_text(programme, form)

    @property
    def _is_for_cp_sat(self) -> bool:
        return self.form in ("all", "binary", "text")

    def _is_linear(self, schedule: Schedule) -> bool:
        """Whether the linear programme is written: when it is asked for, and with all where there is one."""
        return self.form in ("lp", "mps") or (self.form == "all" and _fits(schedule))

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files."""
        if self._is_for_cp_sat:
            tick = in_ticks(schedule).tick
            yield (
                f"times in the model are whole ticks of {tick} ps, rounded down: a proven optimum, times {tick} ps, "
                "is a lower bound for the chunk sizes of this schedule"
            )
        if self._is_linear(schedule):
            tick = in_ticks(schedule, LINEAR_RESOLUTION).tick
            yield f"the linear programme keeps the paths of this schedule; its ticks have {tick} ps"

    def check(self, schedule: Schedule, folder: Path) -> Iterator[Fact]:
        """Compare the files with the models, and the objective of the hint with the schedule."""
        yield from super().check(schedule, folder)
        if self._is_for_cp_sat:
            objective = hinted_objective(_model(schedule).model)
            most = -(-schedule.makespan // in_ticks(schedule).tick)
            if objective is None or objective > most:
                raise InvalidSchedule("model", f"the hint has objective {objective}, the schedule {most} ticks")
            yield f"the schedule is feasible for the model: {objective} ticks"


def _model(schedule: Schedule) -> ChunkOrder:
    """The model with the schedule as hint."""
    data = in_ticks(schedule)
    model = ChunkOrder(data.jobs, -(-schedule.makespan // data.tick))
    model.hint(job_plans(data, schedule))
    return model


def _fits(schedule: Schedule) -> bool:
    """Whether the linear programme of the schedule has a size that solvers read."""
    data = in_ticks(schedule)
    paths = [[times.paths for times in plans] for plans in job_plans(data, schedule)]
    return num_order_variables(data.jobs, paths) <= MAX_ORDERS

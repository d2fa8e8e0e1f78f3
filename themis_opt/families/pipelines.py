"""Pipelines of microbatches."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from formulations.limits import Limits
from themis_opt.base.errors import InputError, suggestion
from themis_opt.families.family import SEARCH_KNOBS, Family, checked_problem, chosen_policy
from themis_opt.pipelines import bounds, comparison
from themis_opt.pipelines.comparison import PipelineComparison
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.problem import Pipeline, StageOrders
from themis_opt.pipelines.schedule import PipelineSchedule, simulate
from themis_opt.pipelines.validation import validate
from themis_opt.policies.registry import REFERENCE
from themis_opt.schedules.timed import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PipelineFamily(Family):
    """Orders of microbatches on stages."""

    name = "pipelines"
    usual = tuple(PIPELINE_POLICIES)
    instead: ClassVar = {
        "tune": "a pipeline has no chunks, so call 'solve', or 'sweep' over memory",
        "robustness": "call 'compare' on 'pipeline.replace(message=...)' with slower messages",
    }

    def solve(self, problem: Pipeline, *, time_limit: float = Limits.seconds, **limits: Any) -> PipelineComparison:
        """All policies and the reference."""
        return comparison.compare(problem, None, Limits(seconds=time_limit, **limits))

    def compare(
        self, problem: Pipeline, policies: Sequence[Any], *, time_limit: float = Limits.seconds, **limits: Any
    ) -> PipelineComparison:
        """Policies by name."""
        known = (*PIPELINE_POLICIES, REFERENCE)
        for name in policies:
            if name not in known:
                raise InputError(f"is no policy of pipelines{suggestion(name, known)}", field="policies", value=name)
        return comparison.compare(problem, policies, Limits(seconds=time_limit, **limits))

    def bounds(self, problem: Pipeline, **options: Any) -> Mapping[str, float]:
        """The bound of filling and draining, in any order of the microbatches."""
        return {"filling_and_draining": float(bounds.bound(problem, **options))}

    def has_policy(self, specification: str) -> bool:
        """Whether there is such a rule, or it is the reference."""
        return specification in (*PIPELINE_POLICIES, REFERENCE)

    def knobs(self, specification: str) -> tuple[str, ...]:
        """The limits of the reference; rules have none."""
        return SEARCH_KNOBS if specification == REFERENCE else ()

    def facts(self, problem: Pipeline) -> Mapping[str, str | int]:
        """Stages stand for NPUs, and microbatches for chunks of activations."""
        return {
            "network": problem.name or "pipeline",
            "dimensions": 1,
            "npus": problem.stages,
            "kind": "pipeline",
            "size_bytes": problem.activation * problem.microbatches,
            "chunks": problem.microbatches,
        }

    def make_policy(self, specification: str, **knobs: Any) -> Any:
        """A policy of :data:`themis_opt.pipelines.policies.PIPELINE_POLICIES`."""
        return partial(chosen_policy(PIPELINE_POLICIES, specification), **knobs)

    def simulate(self, problem: Pipeline, plan: StageOrders, **options: Any) -> PipelineSchedule:
        """The order of actions of each stage, timed."""
        return simulate(problem, plan, **options)

    def validate(self, schedule: PipelineSchedule) -> None:
        """As :func:`themis_opt.pipelines.validation.validate`."""
        validate(schedule)

    def explain(self, schedule: PipelineSchedule) -> Explanation:
        """The critical path over stages and messages, and how busy stages and links are."""
        return schedule.timed.explain()

    def text(self, problem: Pipeline) -> str:
        """As :func:`themis_opt.pipelines.files.pipeline_text`."""
        from themis_opt.pipelines.files import pipeline_text

        return pipeline_text(problem)

    def in_short(self, problem: Pipeline) -> str:
        """Stages and microbatches."""
        parts = f"{problem.num_parts} parts of a model on {problem.stages} stages"
        return f"{parts}, {problem.microbatches} microbatches; the objective is the {problem.objective}"

    def of_workload(self, model: str, layers: Any, setup: Any) -> Pipeline:
        """As :func:`themis_opt.pipelines.models.pipeline_of`."""
        from themis_opt.pipelines.models import pipeline_of

        return pipeline_of(model, layers, setup)

    def read_solution(self, path: Path, problem: Pipeline | None = None) -> tuple[PipelineSchedule, None]:
        """As :func:`themis_opt.pipelines.files.read_schedule`."""
        from themis_opt.pipelines.files import read_schedule

        schedule = read_schedule(path)
        checked_problem(schedule, problem, path)
        return schedule, None

    def plot(self, schedule: PipelineSchedule, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """A row for each stage and link."""
        from themis_opt.formats.plot import plot_operations

        return plot_operations(schedule.timed, ax, **options)

    def export(
        self, schedule: PipelineSchedule, to: str, folder: Path, *, check: bool = False
    ) -> tuple[list[Path], list[str]]:
        """The CSV that PyTorch runs, or a trace for Perfetto."""
        from themis_opt.base.documents import make_folder
        from themis_opt.families.files import export_trace
        from themis_opt.formats.exports import Replay
        from themis_opt.pipelines.torch_csv import TORCH, replay, torch_rows, write_torch_csv

        if to == "trace":
            return export_trace(schedule.timed, schedule.pipeline.name, folder), []
        if to != TORCH:
            raise InputError(f"must be {TORCH} or trace for the schedule of a pipeline", field="--to", value=to)
        make_folder(folder)
        write_torch_csv(folder / f"{TORCH}.csv", schedule)
        time = Replay("PyTorch", replay(schedule.pipeline, torch_rows(schedule)), schedule.makespan)
        return [folder / f"{TORCH}.csv"], [str(time)] if check else []

    def sweep(
        self, problem: Pipeline, over: Mapping[str, Sequence[Any]], policies: Any = None, **limits: Any
    ) -> list[dict[str, Any]]:
        """Over fields of the pipeline, such as ``memory``, ``microbatches`` or ``message``."""
        rows = []
        for field, values in over.items():
            if field not in Pipeline.model_fields:
                raise InputError("must be a field of the pipeline", field="over", value=field)
            for value in values:
                changed = problem.replace(**{field: value})
                results = self.compare(changed, policies or tuple(PIPELINE_POLICIES), **limits).results
                rows += [{field: value} | result.row() for result in results]
        return rows

"""What commands do beside the questions of the door: plans of steps, workloads, calibrations and exports."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from themis_opt.base.errors import InputError, reading
from themis_opt.base.units import parse_size
from themis_opt.families.door import AnyProblem, family_of, problem_for
from themis_opt.families.family import AnySchedule
from themis_opt.problem.instance import Instance

if TYPE_CHECKING:
    from themis_opt.graphs.clusters import ClusterDocument
    from themis_opt.pipelines.problem import Pipeline
    from themis_opt.runtime.calibration import NetworkCalibration
    from themis_opt.runtime.coordinator import Coordinator
    from themis_opt.study.comparison import ComparisonProgress
    from themis_opt.study.step_plan import StepPlan
    from themis_opt.workloads.layers import Layer
    from themis_opt.workloads.setup import Setup

USUAL_CHUNKS = {"lag": 64, "occupy": 4}
"""Chunks of a collective by the rule for latency: where each takes a start-up of the dimension, few are usual."""


def instance_for(source: AnyProblem, field: str = "instance") -> Instance:
    """An instance on dimensions. Raises InputError if the source is another problem."""
    problem = problem_for(source)
    if isinstance(problem, Instance):
        return problem
    rule = f"is a {problem.family}: 'bound', 'compare', 'show', 'simulate', 'solve' and 'sweep' take it"
    raise InputError(rule, field=field, value=source if isinstance(source, str) else problem.name)


def training_step(sources: "Sequence[AnyProblem]", memory: int | str | None = None) -> Instance:
    """The step of an iteration or of traces, under a limit of memory.

    Of traces of several ranks the one that computes longest counts.  Raises InputError if there is no such step, or the
    memory is none.
    """
    from themis_opt.formats.readers.registry import import_files, is_trace

    paths = [str(source) for source in sources]
    if len(sources) > 1 and not all(map(is_trace, paths)):
        step = cast(Instance, import_files(paths).instance)
    else:
        step = max(map(instance_for, sources), key=lambda instance: instance.compute)
    if memory is None:
        return step
    with reading("--memory", memory):
        limit = parse_size(memory)
    if limit < 1:
        raise InputError("must be more than nothing", field="--memory", value=memory)
    return step.replace(memory=limit)


def plan(
    *sources: AnyProblem,
    memory: int | str | None = None,
    time_limit: float = 10.0,
    workers: int = 2,
    progress: "ComparisonProgress | None" = None,
) -> "StepPlan":
    """Find what a training step should gather and reduce when, and in which buckets.

    Parameters
    ----------
    *sources : Instance, str or path
        An iteration, or traces of the PyTorch profiler or Chakra.
    memory : int or str, optional
        What parameters, gradients and gathers may take of an NPU, such as ``"60GB"``.
    time_limit : float
        Seconds of the search.
    workers : int
        Threads of the solver.
    progress : callable, optional
        As of :func:`themis_opt.solve`.

    Returns
    -------
    StepPlan
        With ``best`` and ``today``, the ``bound``, and ``sentence()`` and ``document()`` as of the command.

    Raises
    ------
    InputError
        If there is no step in the sources, or nothing fits in memory.

    Examples
    --------
    >>> planned = plan("v100-64.vgg-16", time_limit=1)
    >>> planned.bound <= planned.best.makespan <= planned.today.makespan
    True
    """
    from themis_opt.study.step_plan import plan_step

    return plan_step(training_step(sources, memory), time_limit=time_limit, progress=progress, workers=workers)


def layers_of(model: str, sequence: int | None = None, *, weights_only: bool = False) -> "tuple[Layer, ...]":
    """The layers of a model, perhaps without biases and normalisation. Raises InputError if there is no such model."""
    from themis_opt.workloads.models import find_model
    from themis_opt.workloads.setup import weights_only as only_weights

    layers = find_model(model).layers(sequence)
    return only_weights(layers) if weights_only else layers


def cluster(
    kind: str | None, *, seed: int | None = None, collective: str = "all_reduce", size: str = "1 GB", **shape: Any
) -> "tuple[ClusterDocument, str]":
    """The document of a collective on a cluster of a kind and a shape, or of a seed, and a line that says what it is.

    Raises InputError if there is no such cluster, or not one of `kind` and `seed`.
    """
    from themis_opt.graphs.clusters import Cluster, cluster, made, random_cluster
    from themis_opt.graphs.description import graph_headline

    if (kind is None) == (seed is None):
        raise InputError("name a kind, or give --seed", field="KIND", value=kind)
    document = random_cluster(seed or 0) if kind is None else cluster(Cluster(kind, **shape), collective, size)
    return document, graph_headline(made(document))


class MadeWorkload(NamedTuple):
    """A problem, the layers of its model and its setup, the memory of an NPU in rows, and what was assumed."""

    problem: "Instance | Pipeline"
    layers: "tuple[Layer, ...]"
    setup: "Setup"
    held: Sequence[dict[str, Any]] = ()
    notes: tuple[str, ...] = ()

    def pipeline(self, model: str) -> "Pipeline":
        """The order of microbatches as a problem, of the same setup."""
        from themis_opt.pipelines.models import pipeline_of

        return pipeline_of(model, self.layers, self.setup)


def workload(model: str, network: AnyProblem, **choices: Any) -> "Instance | Pipeline":
    """Make a training iteration of a model on a network.

    Parameters
    ----------
    model : str
        A name of ``themis-opt workload --list``, a specification such as ``transformer:layers=2:hidden=512``, or the
        ``config.json`` of Hugging Face.
    network : Instance, str or path
        The problem whose network to take.
    **choices
        Of :func:`make_workload`, and fields of :class:`themis_opt.workloads.setup.Setup`, such as ``group=8`` or
        ``memory="80 GB"``:
    parallelism : str, optional
        Such as ``fsdp``; by default ``data``, or what `stages`, `experts` and `data` ask for.
    batch, sequence, dtype, flops, efficiency
        Samples of a step, tokens of a sample, type of elements, speed of an NPU and the share of it that is reached.
    layer_times : path, optional
        Measured times of layers, instead of `flops`.
    weights_only : bool
        Leave out biases and normalisation.
    chunks, latency
        As of an instance.
    family : {"product", "pipeline"}
        ``pipeline``: the order of microbatches as a problem, with `stages`.

    Raises
    ------
    InputError
        If a choice is unknown or does not fit, or the iteration does not fit in memory.

    Examples
    --------
    >>> workload("resnet-50", "dgx_h100_superpod.all_reduce.1GiB", parallelism="data").network.num_npus
    256
    """
    return make_workload(model, network, **choices).problem


def make_workload(
    model: str,
    network: AnyProblem,
    *,
    parallelism: str | None = None,
    batch: int = 32,
    sequence: int | None = None,
    dtype: str = "fp16",
    flops: str | None = None,
    efficiency: float = 1.0,
    layer_times: str | Path | None = None,
    weights_only: bool = False,
    chunks: int | None = None,
    latency: str | None = None,
    family: Literal["product", "pipeline"] = "product",
    **choices: Any,
) -> MadeWorkload:
    """The workload of :func:`workload`, with what else is known of it."""
    from themis_opt.pipelines.cuts import read_cut_setup
    from themis_opt.pipelines.models import pipeline_of
    from themis_opt.problem.cost import check_clock
    from themis_opt.workloads import parallelisms
    from themis_opt.workloads.models import find_model
    from themis_opt.workloads.setup import rate_of
    from themis_opt.workloads.timing import device_in, read_times

    source, layers = instance_for(network, "network"), layers_of(model, sequence, weights_only=weights_only)
    named, trained = choices.pop("device", ""), find_model(model)
    timing = rate_of(flops, efficiency, named, dtype) if layer_times is None else read_times(Path(layer_times), layers)
    device = named or device_in(source.network.name)
    rule = latency or ("occupy" if device else source.latency)  # kernels of NCCL and the like queue up
    asked = parallelism or _asked(choices)
    setup, cut = read_cut_setup(source.network, timing, layers, batch=batch, dtype=dtype, device=device, **choices)
    if family == "pipeline":
        return MadeWorkload(pipeline_of(model, layers, setup), layers, setup)
    number = chunks if chunks is not None else USUAL_CHUNKS.get(rule, 4)
    instance = parallelisms.make_workload(trained, layers, setup, parallelism=asked, chunks=number, latency=rule)
    check_clock(instance)
    rate = f"Compute runs at {timing}; --flops, --efficiency and --layer-times state another."
    held = parallelisms.memory_of(layers, setup, asked).rows(setup)
    offloads = asked == "pipeline" and setup.host_link is not None
    host = "The iteration keeps all activations; solve the file of --pipeline for those that go to the host."
    notes = (
        *trained.assumptions,
        *([rate] if named else []),
        *([host] if offloads else []),
        *([] if cut is None else [str(cut)]),
    )
    return MadeWorkload(instance, layers, setup, held, notes)


def _asked(choices: "dict[str, Any]") -> str:
    """The parallelism that choices ask for, where none is named."""
    outer = any(choices.get(name) for name in ("stages", "data", "context"))
    if outer or (choices.get("experts") and choices.get("group")):
        return "pipeline"
    return "expert" if choices.get("experts") else "data"


def calibrate(
    problem: AnyProblem,
    *,
    local: str | None = None,
    pace: str | None = None,
    repeat: int = 5,
    coordinator: "Coordinator | None" = None,
    progress: Any = None,
) -> "NetworkCalibration":
    """Measure bandwidth, launches, latency and sums of each dimension with real processes.

    Parameters
    ----------
    problem : Instance, str or path
        Its network and sizes.
    local, pace : str, optional
        Dimensions and bandwidths of processes on this machine, as of ``themis-opt calibrate``.
    repeat : int
        Runs of each measurement.
    coordinator : Coordinator, optional
        Of ranks on other machines; by default processes are started here, which talk over TCP.
    progress : callable, optional
        Called with what runs, how many runs are done, and how many there are.

    Returns
    -------
    NetworkCalibration
        With the measured ``instance``, and the costs in ``rows()``.

    Examples
    --------
    >>> measured = calibrate("fig5.all_reduce.256MB", local="2", pace="8MB/s", repeat=1)  # doctest: +SKIP
    """
    from themis_opt.runtime.calibration import calibrate as measure
    from themis_opt.runtime.coordinator import Coordinator
    from themis_opt.runtime.coordinator import local as here
    from themis_opt.runtime.local_network import on_network
    from themis_opt.runtime.program import RunOptions

    instance = on_network(instance_for(problem), local, pace)
    family = family_of(instance)
    schedule = family.simulate(instance, family.make_policy("baseline")(instance))
    told: dict[str, Any] = {} if progress is None else {"progress": progress}
    with ExitStack() as stack:
        if coordinator is None:
            npus = instance.fabric.num_npus
            coordinator = stack.enter_context(Coordinator(npus, here(npus, "tcp"), "127.0.0.1"))
        return measure(instance, schedule, coordinator, RunOptions(paced=pace is not None), repeat=repeat, **told)


def export(schedule: AnySchedule, to: str, folder: str | Path, *, check: bool = False) -> list[Path]:
    """Write a schedule in the format of another tool.

    Parameters
    ----------
    schedule : Schedule, GraphSchedule or PipelineSchedule
    to : str
        A name of ``themis-opt list exports``, with knobs behind colons, such as ``msccl:dialect=rccl``.
    folder : path
        Where the files are written.
    check : bool
        Read the files again, and run them by the rules of their format.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    InputError
        If the format is unknown, or cannot express the schedule.

    Examples
    --------
    >>> import themis_opt
    >>> from tempfile import TemporaryDirectory
    >>> schedule = themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"]).best.schedule
    >>> with TemporaryDirectory() as folder:
    ...     [path.name for path in themis_opt.export(schedule, "trace", folder, check=True)]
    ['trace.json']
    """
    return list(family_of(schedule.problem).export(schedule, to, Path(folder), check=check).files)

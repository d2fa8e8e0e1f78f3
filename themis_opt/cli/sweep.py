"""``themis-opt sweep`` and ``robustness``: what if figures of a network were others, or off."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply, ask

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.problem.instance import Instance

V100 = options.Training(dtype="fp32", flops="15.7 TFLOP/s", efficiency=0.6)
"""The NPU of which Zhang et al. (NetAI 2020) measured how training scales."""


@options.grouped
def sweep(
    source: options.InstanceArgument,
    *,
    trained_on: Annotated[
        str | None,
        Option("--network", help="Sweep the training of a model, which stands in the place of the instance, on it."),
    ] = None,
    over: Annotated[
        list[str] | None,
        Option(
            help="What to vary, once for each: size=64KiB..1GiB:4, chunks=8,16,32, or npus, share (of every bandwidth) "
            "or compression of the network, such as npus=8,64, or bandwidth, latency, "
            "launch_overhead or size (NPUs) of a dimension, such as dim1.bandwidth=100GB/s,200GB/s, "
            "or of one of its rails, such as server.NIC.bandwidth=25GB/s..100GB/s. Of a graph: size, or the bandwidth "
            "of a link, such as nic0.bandwidth=25GB/s,50GB/s."
        ),
    ] = None,
    target: Annotated[
        float | None, Option(help="Of iterations, the scaling factor for which the least compression is looked for.")
    ] = None,
    measured: Annotated[
        str | None,
        Option(
            help="Of iterations, the time or scaling factor that was measured, such as '190 ms' or '60 %', for which "
            "the use of the network is looked for; several by NPUs, such as 8=1.2s,64=1.5s, fit it to the first one."
        ),
    ] = None,
    overhead: Annotated[
        float, Option(help="Of iterations, work that is not divided, over work that is (Amdahl).")
    ] = 0.0,
    training: options.Training = V100,
    changes: options.Changes,
    network: options.NetworkChanges,
    policies: options.Policies = None,
    sizes: options.ChunkSizes = "equal",
    output: Annotated[Path | None, options.output("Folder for sweep.csv and pictures over what varies first.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run policies over message sizes, chunk counts, or bandwidth, latency, launches and NPUs of a dimension.

    Of training iterations, say how far they scale, and with --target how much compression they need.
    """
    if trained_on is None:
        problem = options.load_problem(source, changes, network, policies)
    else:
        problem = _trained(source, options.load_instance(trained_on), training, changes.chunks or 4)
    given: dict[str, Any] = {
        "policies": policies,
        "sizes": sizes,
        "output": output,
        "target": target,
        "measured": measured,
    }
    given |= {"overhead": overhead, **network.given()}
    ask("sweep", problem, problem, over, **given).tell(as_json=as_json)


def _trained(model: str, instance: "Instance", training: options.Training, chunks: int) -> "Instance":
    from themis_opt.workloads.models import find_model
    from themis_opt.workloads.parallelisms import make_workload
    from themis_opt.workloads.setup import Setup, element_bytes

    trained, size = find_model(model), element_bytes(training.dtype)
    setup = Setup(network=instance.network, timing=training.rate(), batch=training.batch, element_bytes=size)
    return make_workload(trained, trained.layers(training.sequence), setup, chunks=chunks)


LOSS_COLUMNS: "ShownColumns" = {
    "policy": ("policy", "text"),
    "nominal_makespan_ns": ("nominal", "time"),
    "nominal_loss": ("nominal loss", "share"),
    **{f"{name}_loss": (name, "share") for name in ("mean", "median", "p95", "p99", "max")},
    "mean_slowdown": ("mean slowdown", "share"),
}
OF_TOLERANCE: "ShownColumns" = {
    "way": ("bytes that may be lost", "text"),
    **{f"p{share}_ns": (f"p{share}", "time") for share in (50, 95, 99)},
    **{f"p{share}_gain": (f"p{share} gain", "ratio") for share in (50, 95, 99)},
}


@options.grouped
def robustness(
    path: options.ScheduleFile,
    *,
    replanning: options.Replanning,
    samples: Annotated[int | None, Option(help="Disturbed copies of the network: 1000, on graphs 100.")] = None,
    seed: Annotated[int, Option(help="Seed of the samples.")] = 0,
    bandwidth: Annotated[float, Option(help="Largest deviation of a bandwidth (a fraction).")] = 0.10,
    jitter: Annotated[float, Option(help="Largest extra latency of a stage (a fraction).")] = 1.0,
    compute_jitter: Annotated[
        float, Option(help="Largest extra duration of a compute task (a fraction), where there are any.")
    ] = 0.0,
    chunk_delay: Annotated[
        str, Option(help="Delay of each chunk: exponential:MEAN or lognormal:MEDIAN:SIGMA, such as 100us.")
    ] = "",
    output: Annotated[Path | None, options.output("Picture of the losses, PNG or SVG by its suffix.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run a schedule's plan, and a usual one, in many disturbed copies of its problem, with its costs or others."""
    from themis_opt.families.door import family_of

    schedule = replanning.apply(options.load_solution(path)[0])

    from themis_opt.study import robustness as study

    instance, delay = schedule.problem, study.parse_chunk_delay(chunk_delay)
    family = family_of(instance)
    rival = family.rival(instance)
    disturbance: dict[str, Any] = {"seed": seed, "bandwidth_spread": bandwidth}
    disturbance |= {"samples": samples} if samples is not None else {}
    disturbance |= {"latency_jitter": jitter, "compute_jitter": compute_jitter}
    schedules = {"plan": schedule, rival: family.simulate(instance, family.make_policy(rival)(instance))}
    distributions = family.robustness(instance, schedules, **disturbance, chunk_delay=delay)
    name, count = instance.name or "instance", len(distributions[0].losses)
    disturbed = f"{count} samples, bandwidth +-{100 * bandwidth:.4g} %, latency up to +{100 * jitter:.4g} %"
    if compute_jitter:
        disturbed += f", compute up to +{100 * compute_jitter:.4g} %"
    if chunk_delay:
        disturbed += f", chunks late by {chunk_delay}"
    files = []
    if output is not None:
        from themis_opt.reports.rendering.charts import save
        from themis_opt.reports.study_charts import loss_curves

        save(loss_curves(distributions), output, f"{name}\n{disturbed}")
        files.append(output)
    rows = [d.row() for d in distributions]
    document = (
        {"samples": count} | disturbance | ({"chunk_delay": chunk_delay} if chunk_delay else {}) | {"policies": rows}
    )
    title = f"{name}: loss against the bound of each sample; {disturbed}"
    tables, sentences = [Listing(title, rows, LOSS_COLUMNS)], [study.on_robustness(distributions)]
    if study.has_tolerance(instance):
        effect = study.tolerance_effect(schedule, **disturbance, chunk_delay=delay)
        document["tolerance"] = effect.rows()
        title = f"{name}: a part of the bytes may be lost, at most {effect.most:.4g} times as fast by fewer bytes"
        tables.append(Listing(title, effect.rows(), OF_TOLERANCE))
        sentences.append(effect.verdict)
    Reply(document, sentences, tables, files=files).tell(as_json=as_json)

"""``themis-opt robustness``: what a schedule is worth when bandwidths and latencies are off."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns

RIVAL = "themis+scf"  # the policy that the schedule is compared with
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
    samples: Annotated[int, Option(help="Disturbed copies of the network.")] = 1000,
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
    """Run a schedule's plan, and Themis, in many disturbed copies of its instance, with its costs or others."""
    from themis_opt.families.door import family_of

    read: Any = options.load_solution(path)[0]
    family = family_of(read.problem)
    if family.robustness is None:
        family.refuse("robustness")
    schedule = replanning.apply(read)

    from themis_opt.cli.printing import sizes_in_words
    from themis_opt.policies.registry import specify
    from themis_opt.study import robustness as study

    instance, delay = schedule.instance, study.parse_chunk_delay(chunk_delay)
    rival = specify(RIVAL, instance)
    disturbance: dict[str, Any] = {"samples": samples, "seed": seed, "bandwidth_spread": bandwidth}
    disturbance |= {"latency_jitter": jitter, "compute_jitter": compute_jitter}
    policies = study.executions("plan", schedule) | study.executions(rival, options.scheduled(instance, RIVAL))
    distributions = study.loss_distributions(instance, policies, **disturbance, chunk_delay=delay)
    name = instance.name or "instance"
    disturbed = f"{samples} samples, bandwidth +-{100 * bandwidth:.4g} %, latency up to +{100 * jitter:.4g} %"
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
    document = disturbance | ({"chunk_delay": chunk_delay} if chunk_delay else {}) | {"policies": rows}
    title = f"{name}, chunk sizes of the plan {sizes_in_words(schedule)}: loss against the bound of each sample"
    tables, sentences = [Listing(f"{title}; {disturbed}", rows, LOSS_COLUMNS)], [study.on_robustness(distributions)]
    if study.has_tolerance(instance):
        effect = study.tolerance_effect(schedule, **disturbance, chunk_delay=delay)
        document["tolerance"] = effect.rows()
        title = f"{name}: a part of the bytes may be lost, at most {effect.most:.4g} times as fast by fewer bytes"
        tables.append(Listing(title, effect.rows(), OF_TOLERANCE))
        sentences.append(effect.verdict)
    Reply(document, sentences, tables, files=files).tell(as_json=as_json)

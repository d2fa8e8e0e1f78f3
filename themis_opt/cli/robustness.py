"""``themis-opt robustness``: what a schedule is worth when bandwidths and latencies are off."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from themis_opt.cli import options

if TYPE_CHECKING:
    from themis_opt.robustness import LossDistribution

RIVAL = "themis+scf"
"""The policy that the schedule is compared with."""


def robustness(
    path: options.ScheduleFile,
    samples: Annotated[int, typer.Option(help="Disturbed copies of the network.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
    bandwidth: Annotated[float, typer.Option(help="Largest deviation of a bandwidth (a fraction).")] = 0.10,
    jitter: Annotated[float, typer.Option(help="Largest extra latency of a stage (a fraction).")] = 1.0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Picture of the losses, PNG or SVG by its suffix.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run a schedule's plan, and Themis, in many disturbed copies of its network."""
    schedule = options.load_schedule(path)

    from themis_opt.cli.printing import print_json
    from themis_opt.policies.registry import make_policy
    from themis_opt.robustness import executions, loss_distributions
    from themis_opt.simulator import simulate

    instance = schedule.instance
    rival = simulate(instance, make_policy(RIVAL)(instance))
    disturbance: dict[str, Any] = {
        "samples": samples,
        "seed": seed,
        "bandwidth_spread": bandwidth,
        "latency_jitter": jitter,
    }
    policies = executions("plan", schedule) | executions(RIVAL, rival)
    distributions = loss_distributions(instance, policies, **disturbance)
    name = instance.name or "instance"
    disturbed = f"{samples} samples, bandwidth +-{100 * bandwidth:.4g} %, latency up to +{100 * jitter:.4g} %"
    if output is not None:
        _draw(output, distributions, f"{name}\n{disturbed}")
    if as_json:
        print_json(disturbance | {"policies": [d.row() for d in distributions]})
        return
    _print(distributions, f"{name}: loss against the bound of each sample; {disturbed}")


def _draw(path: Path, distributions: "Sequence[LossDistribution]", title: str) -> None:
    from themis_opt.formats.gantt import save_figure
    from themis_opt.formats.robustness_plot import loss_curves

    save_figure(loss_curves(distributions, title), path)
    typer.echo(f"wrote {path}", err=True)


def _print(distributions: "Sequence[LossDistribution]", title: str) -> None:
    from themis_opt.cli.printing import durations, percent, print_table

    rows = [d.row() for d in distributions]
    nominal = durations([d.nominal_makespan for d in distributions])
    losses = ("nominal_loss", "mean_loss", "median_loss", "p95_loss", "p99_loss", "max_loss", "mean_slowdown")
    columns = ("policy", "nominal", "nominal loss", "mean", "median", "p95", "p99", "max", "mean slowdown")
    cells = [
        (str(row["policy"]), makespan, *(percent(float(row[name])) for name in losses))
        for row, makespan in zip(rows, nominal, strict=True)
    ]
    print_table(title, columns, cells)

"""What a tolerance of lost bytes is worth where chunks come late.

Three ways to run one plan: every byte is sent and waited for; the part that may be lost is never sent; all is sent,
and of every launch the chunks that come latest are not waited for, as long as their bytes may be lost.  The second
gains at most 1 / (1 - p), and less the more an iteration waits for delays; the third gains nothing where nobody is
late, and more the longer the tail of the delays (DLCP:
H. Wang et al., *Domain-specific Communication Optimization for Distributed DNN Training*,
https://arxiv.org/abs/2008.08445).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.study.plan_cache import scaled
from themis_opt.study.robustness import LossDistribution, executions, loss_distributions

WAYS = ("all waited for", "never sent", "late is lost")


@dataclass(frozen=True)
class ToleranceEffect:
    """Iteration times of the three ways in the same samples."""

    tolerance: float  # the largest fraction of a tensor that may be lost
    distributions: tuple[LossDistribution, ...]  # one for each of WAYS

    @property
    def most(self) -> float:
        """What fewer bytes can gain at most: 1 / (1 - p)."""
        return 1 / (1 - self.tolerance)

    def rows(self) -> list[dict[str, str | float]]:
        """Quantiles of the time in ns of every way, and what they gain over waiting for all."""
        rows = []
        for way, distribution in zip(WAYS, self.distributions, strict=True):
            row: dict[str, str | float] = {"way": way}
            for share in (0.5, 0.95, 0.99):
                time, whole = (float(np.quantile(d.makespans, share)) for d in (distribution, self.distributions[0]))
                row |= {f"p{100 * share:.0f}_ns": time / 1000, f"p{100 * share:.0f}_gain": whole / time}
            rows.append(row)
        return rows


def has_tolerance(instance: Instance) -> bool:
    """Whether bytes of some tensor may be lost."""
    return instance.iteration is not None and any(tensor.tolerance for tensor in instance.iteration.tensors)


def tolerance_effect(schedule: Schedule, **disturbance: Any) -> ToleranceEffect:
    """Run the plan of a schedule in the three ways.

    `schedule`: of an iteration with tensors of which some bytes may be lost.
    `**disturbance`: as :func:`~themis_opt.study.robustness.loss_distributions` takes it.
    """
    instance = schedule.instance
    whole = without_tolerance(instance)
    lost = tuple(
        exchange.size - least.size for exchange, least in zip(whole.exchanges, instance.exchanges, strict=True)
    )
    execution = next(iter(executions("plan", schedule).values()))
    all_sent = replace(execution, plan=scaled(execution.plan, whole))
    waited, late = loss_distributions(whole, {WAYS[0]: all_sent, WAYS[2]: replace(all_sent, lost=lost)}, **disturbance)
    (fewer,) = loss_distributions(instance, {WAYS[1]: execution}, **disturbance)
    tensors = instance.iteration.tensors if instance.iteration else ()
    return ToleranceEffect(max(tensor.tolerance for tensor in tensors), (waited, fewer, late))


def without_tolerance(instance: Instance) -> Instance:
    """The instance in which every byte has to arrive."""
    if instance.iteration is None:
        return instance
    tensors = tuple(tensor.varied(tolerance=0.0) for tensor in instance.iteration.tensors)
    return instance.varied(iteration=instance.iteration.varied(tensors=tensors))


def say_gain(effects: Sequence[ToleranceEffect]) -> tuple[str, ...]:
    """In a sentence, what is gained at the median and in the worst of a hundred cases."""
    sentences = []
    for effect in effects:
        _, fewer, late = effect.rows()
        sentences.append(
            f"Of bytes that may be lost, never sending them gains {fewer['p50_gain']:.3f} times in the median and "
            f"{fewer['p99_gain']:.3f} in one of a hundred, at most {effect.most:.3f}; losing what is late "
            f"{late['p50_gain']:.3f} and {late['p99_gain']:.3f}."
        )
    return tuple(sentences)

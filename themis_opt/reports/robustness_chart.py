"""How robust plans are, as a chart: the share of samples that lose no more than each amount."""

from collections.abc import Sequence

import pandas as pd

from themis_opt.reports.rendering.charts import Axis, Chart, ecdf
from themis_opt.study.robustness import LossDistribution

LOSS = Axis("loss", "loss: makespan over the bound of the sample, minus 1", format="percent")


def loss_curves(distributions: Sequence[LossDistribution]) -> Chart:
    """The empirical distribution function of the losses of every policy, and its loss without disturbance.

    A curve further left loses less, a steeper one varies less; the dot is the undisturbed network.
    """
    losses = pd.concat([pd.DataFrame({"policy": d.policy, "loss": d.losses}) for d in distributions])
    nominal = pd.DataFrame([{"policy": d.policy, "loss": d.nominal_loss, "share": 0.0} for d in distributions])
    return ecdf(losses, LOSS, "samples that lose no more", "policy", dots=nominal)

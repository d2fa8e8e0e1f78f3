"""The picture of what sizes of buckets take."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from themis_opt.reports.rendering.charts import Axis, Chart, lines
from themis_opt.tuning.buckets import MIB

SIZE = Axis("mebibytes", "size of a bucket, MiB", log=True)
TIME = Axis("iteration_ns", "time of an iteration", log=True, format="duration")


def bucket_chart(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """The rows of :func:`themis_opt.tuning.buckets.bucket_rows` as a curve above the bound."""
    frame = pd.DataFrame(rows)
    frame = frame.assign(what="time", mebibytes=frame["bucket_bytes"] / MIB)
    bound = frame.assign(iteration_ns=frame["bound_ns"], what="bound")
    return lines(frame, SIZE, TIME, "what", guides=bound)

"""Rows judged: the gap of every makespan to the best bound that is valid for it.

The frames of results have a row for each makespan, with the columns of the rows and

label
    The policy, with those settings in which runs of that policy differ; categorical, in the order of the rows.
head
    The name at the head of the policy, such as ``exact``.
best_bound_ns
    Best bound on this instance that is valid for the chunk sizes of the run; NaN if there is none.
gap
    Makespan over that bound, minus 1.
is_optimal
    Whether the bound proves that nothing is faster.
"""

import numpy as np
import pandas as pd

from themis_opt.batches.rows_file import BOUND

SEARCHES = ("exact", "search")  # policies that use their time limit
BASELINE = "baseline"  # the policy with a fixed order, over which speed-ups are
OPTIMAL = 1e-4  # gap up to which a schedule counts as proven optimal
BOUND_ROUNDING = 1e-9  # relative error of a bound


def policy_head(policy: str) -> str:
    """The name at the head of a specification or of its label, such as ``exact`` of ``exact, 10 s``."""
    return policy.partition(",")[0].partition("+")[0].partition(":")[0]


def results(rows: pd.DataFrame) -> pd.DataFrame:
    """All makespans of runs that went well, in the order of the rows."""
    is_made = (rows["status"] == "ok") & (rows["policy"] != BOUND) & rows["makespan_ns"].notna()
    made, labels = rows[is_made], _labels(rows)[is_made]
    schedules = made.assign(
        label=pd.Categorical(labels, categories=labels.unique()),
        head=made["policy"].map(policy_head),
        best_bound_ns=_bounds(rows)[is_made],
    )
    gap = schedules["makespan_ns"] / schedules["best_bound_ns"] - 1
    return schedules.assign(gap=gap, is_optimal=gap <= OPTIMAL)


def _bounds(rows: pd.DataFrame) -> pd.Series:
    """Best bound on the instance of every row, for schedules with its chunk sizes.

    Bounds of `bound` runs hold for any sizes, but for those in `bound_equal_ns`.  What a search proved about
    equal chunks says nothing about others.
    """
    proven = rows[["bound_ns", "bound_equal_ns"]].where(rows["status"] != "failed").where(lambda bound: bound > 0)
    holds_for_any = (rows["policy"] == BOUND) | (rows["sizes"] != "equal")
    bounds = pd.DataFrame({"any": proven["bound_ns"].where(holds_for_any), "equal": proven.max(axis=1)})
    best = bounds.groupby(rows["fingerprint"]).transform("max")
    return best["equal"].where(rows["sizes"] == "equal", best["any"])


def _labels(rows: pd.DataFrame) -> pd.Series:
    """Names of policies: searches with other sizes or time limits are told apart."""
    is_search = rows["policy"].map(policy_head).isin(SEARCHES)
    several = rows.groupby("policy")[["sizes", "time_limit"]].transform("nunique", dropna=False) > 1
    sizes = (", " + rows["sizes"] + " sizes").where(is_search & several["sizes"], "")
    limits = rows["time_limit"].map(", {:g} s".format, na_action="ignore")
    return rows["policy"] + sizes + limits.where(is_search & several["time_limit"] & limits.notna(), "")


def speedups(schedules: pd.DataFrame) -> pd.Series:
    """How many times faster than the fixed order each run is; NaN where the fixed order did not run.

    Of several dispatch rules the fixed order is that with the first one.
    """
    fixed = schedules[schedules["head"] == BASELINE]
    fixed = fixed[fixed["label"] == fixed["label"].iloc[0]] if len(fixed) else fixed
    makespans = fixed.drop_duplicates("fingerprint", keep="last").set_index("fingerprint")["makespan_ns"]
    return schedules["fingerprint"].map(makespans).astype(float) / schedules["makespan_ns"]


def gathered(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The frame with rows of equal keys one after the other, keys in the order in which they first come."""
    places = frame.groupby(keys, sort=False, observed=True, dropna=False).ngroup()
    return frame.iloc[places.argsort(kind="stable")]


def geometric_mean(values: pd.Series) -> float:
    """The geometric mean of positive numbers, of those that are known; NaN if none is."""
    return float(np.exp(np.log(values).mean()))

"""Certificates of lower bounds: what somebody needs to verify a bound in whole numbers and fractions, without a solver.

``instances/library/README.md`` describes the format, and ``check.py`` beside it verifies it.
"""

from collections.abc import Iterable, Mapping
from math import floor
from typing import Any

from formulations.head_tail import LoadWindow
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import has_launches
from themis_opt.solving.cut import collectives_of, group_sizes, worst_cut
from themis_opt.solving.makespan_bounds import chain, chunk_counts, fluid, window_proof
from themis_opt.solving.period_bounds import critical_spans, inside_window

CERTIFICATE_FORMAT = "themis-opt/bounds/1"
WEIGHT_UNIT = 10**9  # weights are whole numbers of so many parts
KNOWN = 1 - 1e-6  # share of a bound that counts as known before, since rounding of weights takes a little from it

CertifiedBound = dict[str, Any]


def certificate(instance: Instance, *, equal: bool = False) -> CertifiedBound:
    """The certificate of what is known of an instance, for equal chunks or for those of any sizes."""
    parts = [_cut(instance), *(_of_period(instance) if has_launches(instance) else _of_makespan(instance, equal))]
    return {"format": CERTIFICATE_FORMAT, "fingerprint": instance.fingerprint, "bounds": parts}


def _of_makespan(instance: Instance, equal: bool) -> Iterable[CertifiedBound]:
    yield {"kind": "chain"}
    known = max(chain(instance), fluid(instance)) * KNOWN
    for windows in (_windows(instance, known=0.0), _windows(instance, known=known, equal=equal)):
        if windows:  # none where they prove no more than is known
            yield {"kind": "windows", "windows": windows}
    if instance.ports.is_plain:
        yield from _counts(instance)


def _windows(instance: Instance, known: float, *, equal: bool = False) -> list[CertifiedBound]:
    """The weights of windows at the optimum of :mod:`formulations.head_tail`."""
    return _rows(instance, window_proof(instance, known, equal=equal)[1])


def _rows(instance: Instance, weights: Mapping[LoadWindow, float]) -> list[CertifiedBound]:
    """Windows as plain values; times are rounded down, so that no stage drops out."""
    rows = [
        {
            "resource": instance.resource_names[window.machine],
            "head": max(floor(window.head) - 1, 0),
            "tail": max(floor(window.tail) - 1, 0),
            "weight": round(weight * WEIGHT_UNIT),
        }
        for window, weight in weights.items()
    ]
    return [row for row in rows if row["weight"]]


def _counts(instance: Instance) -> Iterable[CertifiedBound]:
    """Either few chunks, which are long, or more, which cost what is fixed (:mod:`formulations.chunk_count`)."""
    counts = chunk_counts(instance)
    few = counts.few(counts.bound(chain(instance)))
    if any(few):
        proof = counts.proof(tuple(count + 1 for count in few))
        windows = {LoadWindow(f.machine, f.threshold + f.head, f.tail): weight for f, weight in proof.items()}
        if rows := _rows(instance, windows):
            yield {"kind": "counts", "few": list(few), "windows": rows}


def _cut(instance: Instance) -> CertifiedBound:
    """The worst cut of :mod:`themis_opt.solving.cut`."""
    worst, names = worst_cut(instance), instance.fabric.dimension_names
    crossing = [exchange.name for exchange in worst.exchanges]
    members = {} if len(crossing) == len(instance.exchanges) else {"collectives": crossing}
    return {"kind": "cut", "inside": [names[k] for k in worst.inside], "side": worst.side} | members


def _of_period(instance: Instance) -> Iterable[CertifiedBound]:
    """The busiest dimension, and the longest path of tasks and of windows between them."""
    whole = _together(instance, instance.exchanges)
    loads = [row | {"head": 0, "tail": 0} for row in _windows(whole, known=0.0)]
    yield {"kind": "load", "windows": loads}
    names, count = [task.name for task in instance.tasks], len(instance.tasks)
    spans = []
    for after, before in critical_spans(instance):
        alone = _together(instance, [one.exchange for one in inside_window(instance, after, before)])
        bounds = [_windows(alone, known=0.0), _windows(alone, known=fluid(alone) * KNOWN)]
        spans.append({"after": names[after], "before": names[before % count], "bounds": [*filter(None, bounds)]})
    yield {"kind": "path", "spans": spans}


def _together(instance: Instance, exchanges: Iterable[Exchange]) -> Instance:
    """The problem of exchanges alone, in one collective for each kind and span."""
    collectives = collectives_of(instance, group_sizes(exchanges))
    return Instance(network=instance.fabric, collectives=collectives, latency=instance.latency)

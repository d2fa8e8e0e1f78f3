"""What designs come to, in sentences."""

from collections.abc import Sequence

from themis_opt.base.units import format_duration, format_percent
from themis_opt.designing.design import Design


def on_design(designs: Sequence[Design]) -> tuple[str, ...]:
    """What free orders make of a design for the fixed one, and where more bandwidth would help most."""
    best = min(designs, key=lambda answer: answer.time)
    rows = best.rows()
    dearest = max(rows, key=lambda row: row["saved_ns_per_gb_per_s"])
    proven = f"no bandwidths are more than {format_percent(1 - best.bound / best.time)} faster, which is proven"
    sentences = [f"The best design takes {format_duration(best.time)} ({best.reading} order); {proven}."]
    if dearest["saved_ns_per_gb_per_s"] > 0:
        sentences.append(f"One more GB/s helps most on {dearest['dimension']}.")
    return tuple(sentences)

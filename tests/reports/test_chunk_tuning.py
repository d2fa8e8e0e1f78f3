"""The report on the number of chunks, on rows whose numbers can be worked out by hand."""

import pytest
from drawing.chunk_tuning import chunk_tuning
from report_rows import drawn, frame, row

from themis_opt.reports.experiment import ExperimentHead


def made(rows):
    return chunk_tuning(frame(rows), ExperimentHead("made_up", "Made up"))


def runs(makespans, policy="themis+scf", **changes):
    """One run for each chunk count."""
    return [
        row(policy=policy, chunks=chunks, fingerprint=str(chunks), makespan_ns=makespan, **changes)
        for chunks, makespan in makespans.items()
    ]


TUNED = [*runs({2: 300, 8: 150, 64: 200}), *runs({2: 240, 8: 100.5, 64: 100}, "hourglass")]


def cells(report, heading, table=0):
    (section,) = [section for section in report.sections if section.heading == heading]
    return {row[0]: row[1:] for row in section.tables[table].rows}


def test_the_gain_is_over_the_usual_chunks_of_the_usual_policy():
    policies = cells(made(TUNED), "All runs")
    assert policies["themis+scf"][1] == pytest.approx(200 / 150)
    assert policies["hourglass"][1] == pytest.approx(2)
    assert policies["hourglass"][3] == pytest.approx(2)


def test_fewer_chunks_within_a_percent_are_told():
    policies = cells(made(TUNED), "All runs")
    assert policies["hourglass"][4:] == (64, 8)
    assert policies["themis+scf"][4:] == (8, 8)


def test_the_policy_that_gains_most_is_named_with_its_number_of_chunks():
    assert made(TUNED).summary[0] == (
        "All runs: hourglass gains most from its best number of chunks; it is 2.00 times as fast as 64 equal chunks "
        "with themis+scf, and the median of that number is 64."
    )


def test_speeds_are_relative_to_the_best_of_all_policies():
    curves = drawn(made(TUNED), "chunks-1-1")
    assert curves["themis+scf"].x == (2, 8, 64)
    assert curves["themis+scf"].y == pytest.approx((100 / 300, 100 / 150, 100 / 200))
    assert max(curves["hourglass"].y) == 1

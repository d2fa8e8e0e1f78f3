"""Calibration: a robust fit, and a network that is recovered."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from programs import schedule

from themis_opt.base.errors import InputError
from themis_opt.formats.calibration import robust_fit
from themis_opt.problem.catalog import load
from themis_opt.runtime import calibration
from themis_opt.runtime.calibration import calibrate

TRUE = (2e-4, 8e-8, 1e-8)


def design(sizes):
    return np.array([[1.0, size, size * sums] for sums in (0, 1) for size in sizes])


def test_exact_times_are_fitted_exactly():
    rows = design(np.geomspace(1e4, 1e6, 5))
    assert robust_fit(rows, rows @ TRUE)[0] == pytest.approx(TRUE, rel=1e-6)


def test_outliers_count_little():
    rows = design(np.geomspace(1e4, 1e6, 5))
    times = rows @ TRUE
    times[3] *= 1.6
    values = robust_fit(rows, times)[0]
    assert values[1] == pytest.approx(TRUE[1], rel=0.02)


def test_costs_are_never_negative():
    rows = design(np.geomspace(1e4, 1e6, 5))
    times = rows @ (0.0, 8e-8, -1e-8)
    fixed, per_byte, per_sum = robust_fit(rows, times)[0]
    assert per_sum == 0
    assert fixed >= 0
    assert 7e-8 < per_byte < 8e-8


@pytest.mark.benchmarks
def test_paced_networks_are_found_again(succeed, tmp_path):
    problem = schedule("s4 s2", size=2**19, chunks=4).instance
    path, measured = tmp_path / "guess.json", tmp_path / "measured.json"
    path.write_text(problem.model_dump_json(), encoding="utf-8")
    said = succeed("calibrate", path, "--pace", "8MB/s,4MB/s", "--repeat", 1, "-o", measured, "--json")
    rates = [row["bandwidth"] for row in json.loads(said)]
    assert rates == pytest.approx([8e6, 4e6], rel=0.25)
    assert rates[0] > 1.4 * rates[1]
    assert [dimension.source for dimension in load(measured).network.dimensions] == ["measured"] * 2
    assert measured.with_suffix(".svg").read_text().startswith("<?xml")


def test_what_no_times_can_tell_is_refused(monkeypatch):
    problem = load("2d-sw_sw.transformer-1t")
    assert problem.fabric is not problem.network
    with pytest.raises(InputError, match="dimensions that are split cannot be calibrated"):
        calibrate(problem, schedule("s2 r2"), None)

    def execute(planned, *others, **options):
        run = SimpleNamespace(start=np.zeros(1), end=np.ones(1))
        return SimpleNamespace(executed=[SimpleNamespace(name=n, predicted=planned[n], runs=[run]) for n in planned])

    monkeypatch.setattr(calibration, "execute", execute)
    with pytest.raises(InputError, match="dim1: takes no longer for more bytes: measure larger collectives"):
        calibrate((made := schedule("s2 r2")).instance, made, None)

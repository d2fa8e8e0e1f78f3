"""Times of layers: from operations, and from files."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from themis_opt.base.errors import InputError
from themis_opt.workloads.layers import linear
from themis_opt.workloads.timing import LayerTimes, Rate, parse_rate, read_times

LAYERS = (linear("a", 1000, 500), linear("b", 500, 10))
TIMES = {"forward": "3 us", "weight_gradient": "4 us", "input_gradient": "5 us"}


def write(folder: Path, **layers: object) -> Path:
    path = folder / "times.json"
    path.write_text(json.dumps({"layers": layers}))
    return path


def test_operations_take_their_time_at_the_rate_reached() -> None:
    times = Rate(10**12, 0.5)(LAYERS[0], 8)
    assert times.forward == times.weight_gradient == times.input_gradient == 16 * 10**6


def test_parts_of_the_work_take_parts_of_the_time() -> None:
    assert LayerTimes(**TIMES).scaled(Fraction(1, 4)).weight_gradient == 10**6


@pytest.mark.parametrize(
    ("text", "rate"), [("120 TFLOP/s", 120 * 10**12), ("1.5 PFLOP/s", 15 * 10**14), ("7", 7), ("2 FLOP/s", 2)]
)
def test_rates(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "3 GB/s", "0", "-1 TFLOP/s", "nan TFLOP/s"])
def test_texts_that_are_no_rates(text: str) -> None:
    with pytest.raises(InputError, match="--flops"):
        parse_rate(text)


@pytest.mark.parametrize("efficiency", [0.0, -0.5, 1.01, float("nan")])
def test_efficiencies_that_cannot_be(efficiency: float) -> None:
    with pytest.raises(InputError, match="--efficiency"):
        Rate(10**12, efficiency)


@pytest.mark.parametrize("efficiency", [1e-9, 1 / 3])
def test_small_efficiencies_take_long(efficiency: float) -> None:
    layer = LAYERS[0]
    ideal = layer.flops * 10**12 / 10**15
    assert Rate(10**15, efficiency)(layer, 1).forward == pytest.approx(ideal / efficiency, abs=1)


def test_times_are_read_from_a_file(tmp_path: Path) -> None:
    times = read_times(write(tmp_path, a=TIMES, b=TIMES), LAYERS)(LAYERS[1], 32)
    assert (times.forward, times.weight_gradient, times.input_gradient) == (3_000_000, 4_000_000, 5_000_000)


@pytest.mark.parametrize(
    ("layers", "rule"),
    [
        ({"a": TIMES}, "layer 'b' is missing"),
        ({"a": TIMES, "b": TIMES, "c": TIMES}, "the model has no layer 'c'"),
        ({"a": TIMES, "b": TIMES | {"forward": "-1 us"}}, "greater than or equal to 0"),
        ({"a": TIMES, "b": {"forward": "1 us"}}, "required field is missing"),
    ],
)
def test_files_that_do_not_fit_the_model(tmp_path: Path, layers: dict[str, object], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        read_times(write(tmp_path, **layers), LAYERS)

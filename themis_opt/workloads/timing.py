"""How long each layer computes: as measured, or from its operations and the rate of the NPU, by default of a device."""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from themis_opt.base.documents import read_json, schema_text
from themis_opt.base.errors import InputError, reading, suggestion
from themis_opt.base.units import PICOSECONDS_PER_SECOND, Picoseconds, parse_quantity
from themis_opt.problem.documents import errors_of
from themis_opt.problem.fields import MOST_ERRORS, Model
from themis_opt.workloads.layers import Layer

RATE_UNITS: Mapping[str, Decimal] = {
    f"{prefix}FLOP/s": Decimal(10**power) for prefix, power in (("", 0), ("M", 6), ("G", 9), ("T", 12), ("P", 15))
}
"""Floating-point operations per second, by unit."""

USUAL_RATE = 120 * 10**12  # operations per second of an NPU, unless something else is known


class LayerTimes(Model):
    """Picoseconds of the three passes of one layer, for the whole batch on one NPU."""

    forward: Picoseconds = Field(ge=0)
    weight_gradient: Picoseconds = Field(ge=0)
    input_gradient: Picoseconds = Field(ge=0)

    def scaled(self, factor: Fraction) -> "LayerTimes":
        """The times multiplied by a factor: less where work is shared, more where the slowest NPU is waited for."""
        times = {name: f"{round(time * factor)} ps" for name, time in self}
        return LayerTimes(**times)


Timing = Callable[[Layer, int], LayerTimes]  # the times of a layer for a batch


@dataclass(frozen=True)
class Rate:
    """Times from operations: each gradient takes as many as the forward pass."""

    flops: int  # operations per second that the NPU could reach
    efficiency: float = 1.0  # fraction of them that it does reach

    def __post_init__(self) -> None:
        if not 0 < self.efficiency <= 1:
            raise InputError("must be more than 0 and at most 1", field="--efficiency", value=self.efficiency)

    def __str__(self) -> str:
        share = "" if self.efficiency == 1 else f"{100 * self.efficiency:.4g} % of "
        return f"{share}{self.flops / 1e12:.6g} TFLOP/s"

    def __call__(self, layer: Layer, batch: int) -> LayerTimes:
        """The times of `layer` on `batch` samples, to the nearest picosecond."""
        rate = self.flops * Fraction(str(self.efficiency))
        time = f"{round(batch * layer.flops * PICOSECONDS_PER_SECOND / rate)} ps"
        return LayerTimes(forward=time, weight_gradient=time, input_gradient=time)


@dataclass(frozen=True)
class MeasuredTimes:
    """Times of each layer by its name; they hold for the batch with which they were measured."""

    times: Mapping[str, LayerTimes]

    def __str__(self) -> str:
        return "measured times"

    def __call__(self, layer: Layer, batch: int) -> LayerTimes:
        """The times of `layer`, whatever the batch."""
        return self.times[layer.name]


class _TimesFile(Model):
    layers: dict[str, LayerTimes]


def times_schema() -> str:
    """The JSON Schema of files of times of layers."""
    return schema_text(_TimesFile.model_json_schema())


def read_times(path: Path, layers: Iterable[Layer]) -> MeasuredTimes:
    """Times of all layers from a JSON file ``{"layers": {"conv1": {"forward": "9 us", ...}, ...}}``.

    Raises InputError if the file cannot be read, or does not have exactly the layers of the model.
    """
    with errors_of(path):
        times = _TimesFile.model_validate(read_json(path)).layers
    names = [layer.name for layer in layers]
    missing, unknown = [n for n in names if n not in times], [n for n in times if n not in set(names)]
    if missing or unknown:
        rules = [f"the model has no layer '{name}'{suggestion(name, missing)}" for name in unknown]
        rules += [f"layer '{name}' is missing" for name in missing]
        first, *others = (InputError(rule, field="layers", source=str(path)) for rule in rules[:MOST_ERRORS])
        raise InputError(first.rule, field="layers", source=str(path), others=others)
    return MeasuredTimes(times)


def times_document(layers: Iterable[Layer], timing: Timing, batch: int) -> str:
    """The text of a file for :func:`read_times`, one layer on a line, with times to be replaced by measured ones."""
    lines = [
        f"    {json.dumps(layer.name)}: {json.dumps(timing(layer, batch).model_dump(mode='json'))}" for layer in layers
    ]
    return '{\n  "layers": {\n' + ",\n".join(lines) + "\n  }\n}"


def parse_rate(text: str) -> int:
    """Operations per second of a rate such as ``"120 TFLOP/s"``.

    Raises InputError if it is no rate, or not at least one operation per second.
    """
    with reading("--flops", text):
        rate = parse_quantity(text, RATE_UNITS, "FLOP/s")
    if rate < 1:
        raise InputError("must be at least 1 FLOP/s", field="--flops", value=text)
    return int(rate)


GB, TERA = 10**9, 10**12


class Accelerator(NamedTuple):
    """Bytes of memory, and operations per second of matrices in 16 bits without sparsity."""

    memory: int
    peak: int


_DEVICE_ROWS = tomllib.loads(Path(__file__).with_name("devices.toml").read_text(encoding="utf-8"))
DEVICES = {name: Accelerator(row["memory_gb"] * GB, row["teraflops"] * TERA) for name, row in _DEVICE_ROWS.items()}


def find_device(device: str) -> Accelerator | None:
    """A device in any spelling of its letters; None without a name. Raises InputError if it is unknown."""
    known = {name.lower(): accelerator for name, accelerator in DEVICES.items()}
    if device and device.lower() not in known:
        rule = f"must be one of {', '.join(DEVICES)}{suggestion(device, DEVICES)}"
        raise InputError(rule, field="--device", value=device)
    return known.get(device.lower())


def memory_of(device: str) -> int | None:
    """Bytes of a device; None without a name. Raises InputError if it is unknown."""
    known = find_device(device)
    return known.memory if known else None


def device_in(name: str) -> str:
    """The device that the name of a network says, such as V100 in ``V100-256``; nothing if it says none."""
    return next((device for device in DEVICES if device.lower() in name.lower()), "")

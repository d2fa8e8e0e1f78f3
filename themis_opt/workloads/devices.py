"""Memory and peak rates of accelerators, by the name that data sheets give them."""

import tomllib
from pathlib import Path
from typing import NamedTuple

from themis_opt.base.errors import InputError, suggestion

GB, TERA = 10**9, 10**12


class Accelerator(NamedTuple):
    """Bytes of memory, and operations per second of matrices in 16 bits without sparsity."""

    memory: int
    peak: int


_ROWS = tomllib.loads(Path(__file__).with_name("devices.toml").read_text(encoding="utf-8"))
DEVICES = {name: Accelerator(row["memory_gb"] * GB, row["teraflops"] * TERA) for name, row in _ROWS.items()}


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

"""Memory and peak rates of accelerators, by the name that data sheets give them."""

from collections.abc import Mapping
from typing import NamedTuple

from themis_opt.base.errors import InputError, suggestion

GB, TERA = 10**9, 10**12


class Accelerator(NamedTuple):
    """Bytes of memory, and operations per second of matrices in 16 bits without sparsity."""

    memory: int
    peak: int


DEVICES: Mapping[str, Accelerator] = {
    "V100": Accelerator(16 * GB, 125 * TERA),
    "P4d": Accelerator(40 * GB, 312 * TERA),
    "A100": Accelerator(80 * GB, 312 * TERA),
    "H100": Accelerator(80 * GB, 989 * TERA),
    "H800": Accelerator(80 * GB, 989 * TERA),
    "H200": Accelerator(141 * GB, 989 * TERA),
    "GB200": Accelerator(186 * GB, 2500 * TERA),
    "MI300X": Accelerator(192 * GB, 1307 * TERA),
    "Gaudi_3": Accelerator(128 * GB, 1835 * TERA),
    "TPU_v4": Accelerator(32 * GB, 275 * TERA),
}
"""The smaller memory where there are two; P4d are the A100 of AWS.

https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf,
https://aws.amazon.com/ec2/instance-types/p4/, https://www.nvidia.com/en-us/data-center/a100/,
https://www.nvidia.com/en-us/data-center/h100/, https://arxiv.org/abs/2412.19437 (section 3.1),
https://www.nvidia.com/en-us/data-center/h200/, https://www.nvidia.com/en-us/data-center/gb200-nvl72/,
https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html,
https://www.intel.com/content/www/us/en/products/details/processors/ai-accelerators/gaudi3.html,
https://cloud.google.com/tpu/docs/v4
"""


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

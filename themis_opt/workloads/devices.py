"""Memory of accelerators, by the name that data sheets give them."""

from collections.abc import Mapping

from themis_opt.base.errors import InputError, suggestion

GB = 10**9

DEVICES: Mapping[str, int] = {
    "V100": 16 * GB,
    "P4d": 40 * GB,
    "A100": 80 * GB,
    "H100": 80 * GB,
    "H800": 80 * GB,
    "H200": 141 * GB,
    "GB200": 186 * GB,
    "MI300X": 192 * GB,
    "Gaudi_3": 128 * GB,
    "TPU_v4": 32 * GB,
}
"""Bytes of each device, the smaller where there are two; P4d are the A100 of AWS.

https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf,
https://aws.amazon.com/ec2/instance-types/p4/, https://www.nvidia.com/en-us/data-center/a100/,
https://www.nvidia.com/en-us/data-center/h100/, https://arxiv.org/abs/2412.19437 (section 3.1),
https://www.nvidia.com/en-us/data-center/h200/, https://www.nvidia.com/en-us/data-center/gb200-nvl72/,
https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html,
https://www.intel.com/content/www/us/en/products/details/processors/ai-accelerators/gaudi3.html,
https://cloud.google.com/tpu/docs/v4
"""


def memory_of(device: str) -> int | None:
    """Bytes of a device; None without a name. Raises InputError if it is unknown."""
    if device and device not in DEVICES:
        rule = f"must be one of {', '.join(DEVICES)}{suggestion(device, DEVICES)}"
        raise InputError(rule, field="--device", value=device)
    return DEVICES.get(device)


def device_in(name: str) -> str:
    """The device that the name of a network says, such as V100 in ``V100-256``; nothing if it says none."""
    return next((device for device in DEVICES if device.lower() in name.lower()), "")

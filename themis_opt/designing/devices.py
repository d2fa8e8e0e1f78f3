"""Devices at the edge that share a channel: which parameters and how much bandwidth each of them gets.

Every device receives its parameters and computes on them, and the last one counts.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from formulations.device_shares import DeviceShares, least_time, share
from themis_opt.base.units import Bytes, BytesPerSecond
from themis_opt.problem.documents import read_model
from themis_opt.problem.fields import MAX_BANDWIDTH, MAX_BYTES, Count, FieldError, Model

DEVICES_FORMAT: Literal["themis-opt/devices/1"] = "themis-opt/devices/1"
DeviceRate = Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)]
DeviceBytes = Annotated[Bytes, Field(gt=0, le=MAX_BYTES)]


class Device(Model):
    """Equal devices.

    `speed`: parameters, as bytes, that one of them computes in a second.
    `channel`: bytes per second that it receives for each byte per second of bandwidth.
    `memory`: parameters that fit on it.
    """

    name: Annotated[str, Field(min_length=1)]
    count: Annotated[Count, Field(ge=1, le=10_000)] = 1
    speed: DeviceRate
    channel: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    memory: DeviceBytes | None = None


class DeviceProblem(Model):
    """Parameters to divide among devices, and the bandwidth that they share."""

    format: Literal["themis-opt/devices/1"] = DEVICES_FORMAT
    name: str = ""
    description: str = ""
    parameters: DeviceBytes
    bandwidth: DeviceRate
    devices: Annotated[tuple[Device, ...], Field(min_length=1, max_length=10_000)]

    @cached_property
    def figures(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Counts, speeds, channels and memories of the entries, each a group of devices that act as one.

        A group of n devices with equal shares is one of n times the speed and memory: times do not change.
        """
        columns = [(d.count, d.speed * d.count, d.channel, (d.memory or np.inf) * d.count) for d in self.devices]
        counts, speeds, channels, memories = np.array(columns, dtype=np.float64).T
        return counts, speeds, channels, memories

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [device.name for device in self.devices]
        if len(set(names)) < len(names):
            raise FieldError("names must differ", "devices")
        if self.figures[3].sum() < self.parameters:
            raise FieldError("devices must have memory for all parameters together", "parameters")
        return self


@dataclass(frozen=True)
class DeviceDesign:
    """The shares that are done earliest, beside the same bandwidth and parameters for everybody."""

    problem: DeviceProblem
    shares: DeviceShares

    @property
    def equal_seconds(self) -> float:
        """Seconds with equal bandwidth for all and parameters that fit it: only those are divided well."""
        counts, speeds, channels, memories = self.problem.figures
        received = channels * self.problem.bandwidth * counts / counts.sum()
        return least_time(speeds * received / (received + speeds), memories, float(self.problem.parameters))

    @property
    def verdict(self) -> str:
        """What the shares gain, and that none are better."""
        time, gain = self.shares.time, self.equal_seconds / self.shares.time
        return (
            f"The last device is done after {time:.4g} s, {gain:.2f} times as fast as with equal bandwidths. "
            f"No shares are more than {self.gap:.2g} % faster: proven by the price of bandwidth."
        )

    @property
    def gap(self) -> float:
        """How far the time may lie above the least possible, in percent."""
        return 100 * (self.shares.time / self.shares.bound - 1)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each entry; figures are those of one of its devices."""
        counts = self.problem.figures[0]
        columns = zip(self.problem.devices, counts, self.shares.work, self.shares.bandwidth, strict=True)
        return [
            {"device": device.name, "count": device.count, "parameters": work / count, "bandwidth": bandwidth / count}
            for device, count, work, bandwidth in columns
        ]

    def document(self) -> dict[str, Any]:
        """Everything, as values for JSON: seconds, bytes, bytes per second."""
        figures = {"seconds": self.shares.time, "bound": self.shares.bound, "equal_seconds": self.equal_seconds}
        return {"problem": self.problem.name, "verdict": self.verdict} | figures | {"devices": self.rows()}


def design_devices(problem: DeviceProblem) -> DeviceDesign:
    """Divide parameters and bandwidth."""
    _, speeds, channels, memories = problem.figures
    return DeviceDesign(problem, share(speeds, channels, memories, float(problem.parameters), problem.bandwidth))


def read_devices(path: Path) -> DeviceProblem:
    """Read a problem. Raises InputError if it breaks a rule."""
    return read_model(path, DeviceProblem, DEVICES_FORMAT)

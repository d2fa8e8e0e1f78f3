"""The choices that make a workload, as a command line or a table of an experiment tells them."""

from collections.abc import Callable
from typing import Any, TypeVar

from themis_opt.base.errors import InputError
from themis_opt.base.units import parse_bandwidth, parse_size, parse_time
from themis_opt.problem.network import Network
from themis_opt.workloads.setup import Setup, element_bytes
from themis_opt.workloads.timing import Timing
from themis_opt.workloads.transformations import parse_compression, parse_refresh
from themis_opt.workloads.unequal import parse_unequal

Q = TypeVar("Q")


def read_setup(
    network: Network,
    timing: Timing,
    *,
    dtype: str,
    update: str,
    separate: bool,
    speeds: str,
    share: str,
    compress: str,
    index_bytes: int,
    refresh: str,
    memory: str | None,
    host_link: str | None,
    **others: Any,
) -> Setup:
    """The setup of choices in words; `others` are fields of :class:`~themis_opt.workloads.setup.Setup` as they are.

    Raises InputError if a choice cannot be read or breaks a rule; it names the option of the command line.
    """
    return Setup(
        network=network,
        timing=timing,
        element_bytes=element_bytes(dtype),
        update=_quantity("--update", update, parse_time),
        shared=not separate,
        unequal=parse_unequal(speeds, share),
        compression=parse_compression(compress, index_bytes),
        refresh=parse_refresh(refresh),
        memory=None if memory is None else _quantity("--memory", memory, parse_size),
        host_link=None if host_link is None else _quantity("--host-link", host_link, parse_bandwidth),
        **others,
    )


def _quantity(field: str, text: str, parse: Callable[[str], Q]) -> Q:
    try:
        return parse(text)
    except ValueError as error:
        raise InputError(str(error), field=field, value=text) from None

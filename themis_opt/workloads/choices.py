"""The choices that make a workload, as a command line or a table of an experiment tells them."""

from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.base.units import parse_time
from themis_opt.problem.network import Network
from themis_opt.workloads.setup import Setup, element_bytes
from themis_opt.workloads.timing import Timing
from themis_opt.workloads.transformations import parse_compression, parse_refresh
from themis_opt.workloads.unequal import parse_unequal


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
    **others: Any,
) -> Setup:
    """The setup of choices in words; `others` are fields of :class:`~themis_opt.workloads.setup.Setup` as they are.

    Raises
    ------
    InputError
        If a choice cannot be read or breaks a rule; it names the option of the command line.
    """
    return Setup(
        network=network,
        timing=timing,
        element_bytes=element_bytes(dtype),
        update=_time("--update", update),
        shared=not separate,
        unequal=parse_unequal(speeds, share),
        compression=parse_compression(compress, index_bytes),
        refresh=parse_refresh(refresh),
        **others,
    )


def _time(field: str, text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise InputError(str(error), field=field, value=text) from None

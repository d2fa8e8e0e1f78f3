"""Communicator groups (JSON) of ASTRA-sim 2: NPUs by the number of the group."""

from collections.abc import Sequence
from dataclasses import replace

from themis_opt.base.sources import Source
from themis_opt.formats.readers.parts import Part, Reader, only


def _recognizes(source: Source) -> bool:
    return bool(source.keys()) and all(key.isdigit() for key in source.keys())  # noqa: SIM118 (a method of Source)


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "file of groups")
    groups: dict[str, tuple[int, ...]] = {}
    for name, members in source.json_object().items():
        if not isinstance(members, list) or not members:
            raise source.error("must be a list of NPUs", name, members)
        groups[name] = tuple(source.whole(npu, f"{name}[{k}]") for k, npu in enumerate(members))
        if len(set(groups[name])) < len(members):
            raise source.error("names an NPU twice", name)
    return Part(change=lambda machine: replace(machine, groups=groups))


READER = Reader("communicator groups of ASTRA-sim 2", ("json",), _recognizes, _read)

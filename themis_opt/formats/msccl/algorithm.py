"""The file: an MSCCL algorithm as threadblocks of steps, its dialects and their limits.

The format and the limits are those of the readers in https://github.com/microsoft/msccl (``msccl``),
https://github.com/Azure/msccl-executor-nccl (``azure``) and https://github.com/ROCm/rccl (``rccl``).
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.problem.phases import CollectiveKind

EXPORT_LOG = logging.getLogger("themis_opt.formats.msccl")  # says how far large exports and their checks are

MAX_XML_NAME = 63  # bytes of a name that RCCL and NCCL keep
ANY_SIZE = 1 << 40
"""Bytes that stand for no limit where 0 does not: without a limit, MSCCL leaves messages above 128 MiB to NCCL."""

RECEIVES = ("r", "rcs", "rrs", "rrc", "rrcs")
SENDS = ("s", "rcs", "rrs", "rrcs")
LOCAL = ("cpy", "re", "nop")

MSCCL_COLLECTIVES: Mapping[CollectiveKind, str] = {
    kind: kind.value.replace("_", "") for kind in CollectiveKind if kind is not CollectiveKind.SEND
}


@dataclass(frozen=True)
class Dialect:
    """Limits of a reader of the format."""

    max_steps: int  # of a threadblock
    max_threadblocks: int  # of a GPU
    max_peers: int = 32  # threadblocks of a GPU that send, and that receive, on one channel
    max_channels: int = 32
    max_count: int = 71  # units of one step
    max_offset: int = 32_767  # units of a loop: offsets are numbers of 16 bits
    max_nodes: int = 4096  # XML elements of one GPU
    says_out_of_place: bool = True
    """Whether one file serves both in place and out of place.  Else reduce-scatters are spelled with an underscore, and
    the largest message by the first that is too large."""

    def collective(self, kind: CollectiveKind) -> str:
        """How it spells a collective."""
        has_underscore = kind is CollectiveKind.REDUCE_SCATTER and not self.says_out_of_place
        return kind.value if has_underscore else MSCCL_COLLECTIVES[kind]


DIALECTS: Mapping[str, Dialect] = {
    "msccl": Dialect(256, 216, says_out_of_place=False),
    "azure": Dialect(64, 216),
    "rccl": Dialect(64, 64),
}


def first_too_large(max_bytes: int) -> int:
    """The first size that is too large, where 0 stands for no limit."""
    return max_bytes + 1 if max_bytes else ANY_SIZE


def collective_named(name: str, field: str) -> CollectiveKind:
    """The collective of a name, with or without underscores. Raises InputError if there is none."""
    kinds = {known: kind for kind, known in MSCCL_COLLECTIVES.items()}
    if name.replace("_", "") not in kinds:
        raise InputError(f"must be one of {', '.join(kinds)}", field=field, value=name)
    return kinds[name.replace("_", "")]


@contextmanager
def followed(source: str) -> Iterator[None]:
    """Name the file of a failed check, and refuse one that refers to what it does not have."""
    try:
        yield
    except InvalidSchedule as error:
        raise error.within(source) from None
    except (IndexError, KeyError, ValueError) as error:
        rule = f"must name channels, buffers and GPUs that are in it, and inputs of one size: {error}"
        raise InputError(rule, source=source) from None


@dataclass
class MscclStep:
    """A step of a threadblock; it waits for step `deps` of threadblock `depid` of its GPU, if that is not -1."""

    type: str
    srcbuf: str = "i"
    srcoff: int = -1
    dstbuf: str = "o"
    dstoff: int = -1
    cnt: int = 0
    depid: int = -1
    deps: int = -1
    hasdep: int = 0


@dataclass
class ThreadBlock:
    """Steps that run one after the other, with one peer to send to and one to receive from; -1 stands for none."""

    id: int
    send: int
    recv: int
    chan: int
    steps: list[MscclStep]


@dataclass
class Gpu:
    """The threadblocks of a GPU, and the units of its buffers."""

    id: int
    i_chunks: int
    o_chunks: int
    s_chunks: int
    threadblocks: list[ThreadBlock]

    @property
    def units(self) -> dict[str, int]:
        """Units of the buffers by their names."""
        return {"i": self.i_chunks, "o": self.o_chunks, "s": self.s_chunks}


@dataclass
class MscclAlgorithm:
    """An algorithm, with the attributes that its file spells."""

    name: str
    coll: str
    proto: str
    nchannels: int
    nchunksperloop: int
    ngpus: int
    inplace: int
    outofplace: int | None
    min_bytes: int
    max_bytes: int
    gpus: list[Gpu]

    @property
    def longest(self) -> int:
        """Steps of the longest threadblock."""
        return max(len(block.steps) for gpu in self.gpus for block in gpu.threadblocks)


def check_limits(algorithm: MscclAlgorithm, dialect: str) -> None:
    """Refuse an algorithm that the readers of a dialect would refuse, or would silently not run.

    Raises InputError, with what it has, what the dialect allows, and what would help.
    """
    limits = DIALECTS[dialect]
    for what, has, most, remedy in _measures(algorithm, limits):
        if has > most:
            rule = f"has {has:,} {what}, dialect {dialect} allows {most:,}; {remedy}"
            raise InputError(rule, field="msccl", value=algorithm.name)


def _measures(algorithm: MscclAlgorithm, limits: Dialect) -> Iterator[tuple[str, int, int, str]]:
    """A limit: its name, how much of it there is, how much there may be, and what makes it less."""
    blocks = [gpu.threadblocks for gpu in algorithm.gpus]
    fewer = "fewer chunks make it less"
    yield "characters in its name", len(algorithm.name), MAX_XML_NAME, "a shorter one helps"
    yield "units in a loop", algorithm.nchunksperloop, limits.max_offset, fewer
    scratch = max(max(gpu.i_chunks, gpu.o_chunks, gpu.s_chunks) for gpu in algorithm.gpus)
    yield "units in a buffer", scratch, limits.max_offset, fewer
    yield "channels", algorithm.nchannels, limits.max_channels, fewer
    yield "threadblocks on a GPU", max(map(len, blocks)), limits.max_threadblocks, f"{fewer}, and so do fewer peers"
    ends = [
        Counter((way, b.chan) for b in gpu_blocks for way, peer in (("send", b.send), ("recv", b.recv)) if peer >= 0)
        for gpu_blocks in blocks
    ]
    peers = max(max(each.values(), default=0) for each in ends)
    yield "peers on a channel of a GPU", peers, limits.max_peers, "use fewer peers"
    yield "steps in a threadblock", algorithm.longest, limits.max_steps, fewer
    counts = [step.cnt for gpu_blocks in blocks for block in gpu_blocks for step in block.steps]
    yield "units in a step", max(counts), limits.max_count, "use more, smaller steps"
    nodes = [2 + sum(1 + len(block.steps) for block in gpu_blocks) for gpu_blocks in blocks]
    yield "XML elements for a GPU", max(nodes), limits.max_nodes, fewer


def to_xml(algorithm: MscclAlgorithm) -> str:
    """The text of the file."""
    named = ("name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace")
    head = {name: getattr(algorithm, name) for name in named if getattr(algorithm, name) is not None}
    lines = [f"<algo{_attributes(head | {'minBytes': algorithm.min_bytes, 'maxBytes': algorithm.max_bytes})}>"]
    for gpu in algorithm.gpus:
        lines.append(f"  <gpu{_attributes({name: v for name, v in vars(gpu).items() if name != 'threadblocks'})}>")
        for block in gpu.threadblocks:
            lines.append(f"    <tb{_attributes({name: v for name, v in vars(block).items() if name != 'steps'})}>")
            lines += [f"      <step{_attributes({'s': s} | vars(step))}/>" for s, step in enumerate(block.steps)]
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def _attributes(values: Mapping[str, object]) -> str:
    return "".join(
        f' {name}="{value}"' if isinstance(value, int) else f" {name}={quoteattr(str(value))}"
        for name, value in values.items()
    )


def from_xml(text: str, source: str) -> MscclAlgorithm:
    """Read the text of a file. Raises InputError if it is no algorithm, or declares entities."""
    if "<!" in text:
        raise InputError("must declare no document type and no entities", source=source)
    try:
        return _algorithm(ElementTree.fromstring(text))
    except ElementTree.ParseError as error:
        raise InputError(f"not XML: {error}", source=source) from None
    except (KeyError, ValueError) as error:
        raise InputError(f"not an MSCCL algorithm: {error}", source=source) from None


def _algorithm(root: ElementTree.Element) -> MscclAlgorithm:
    numbers = {name: int(root.attrib[name]) for name in ("nchannels", "nchunksperloop", "ngpus", "inplace")}
    gpus = list(map(_gpu, root.iter("gpu")))
    if [gpu.id for gpu in gpus] != list(range(numbers["ngpus"])):
        raise ValueError(f"ngpus={numbers['ngpus']} but GPUs {[gpu.id for gpu in gpus]}")
    return MscclAlgorithm(
        name=root.attrib["name"],
        coll=root.attrib["coll"],
        proto=root.attrib["proto"],
        outofplace=int(root.attrib["outofplace"]) if "outofplace" in root.attrib else None,
        min_bytes=int(root.attrib.get("minBytes", 0)),
        max_bytes=int(root.attrib.get("maxBytes", 0)),
        gpus=gpus,
        **numbers,
    )


def _gpu(element: ElementTree.Element) -> Gpu:
    blocks = []
    for block in element.iter("tb"):
        steps = list(block.iter("step"))
        if [step.attrib["s"] for step in steps] != [str(s) for s in range(len(steps))]:
            raise ValueError(f"steps of threadblock {block.attrib['id']} are not numbered from 0")
        numbers = {name: int(block.attrib[name]) for name in ("id", "send", "recv", "chan")}
        blocks.append(ThreadBlock(steps=[_step(step.attrib) for step in steps], **numbers))
    if [block.id for block in blocks] != list(range(len(blocks))):
        raise ValueError(f"threadblocks of GPU {element.attrib['id']} are not numbered from 0")
    for made in blocks:
        for number, (step, following) in enumerate(zip(made.steps, [*made.steps[1:], None], strict=True)):
            if step.depid >= 0 and not (step.depid < len(blocks) and 0 <= step.deps < len(blocks[step.depid].steps)):
                raise ValueError(f"step {number} of threadblock {made.id} waits for a step that does not exist")
            if step.type == "nop" and (step.depid < 0 or following is None or following.depid < 0):
                raise ValueError(f"nop {number} of threadblock {made.id} must wait, and so must the step behind it")
    return Gpu(threadblocks=blocks, **{n: int(element.attrib[n]) for n in ("id", "i_chunks", "o_chunks", "s_chunks")})


def _step(values: Mapping[str, str]) -> MscclStep:
    if values["type"] not in (*RECEIVES, *SENDS, *LOCAL):
        raise ValueError(f"unknown type of step '{values['type']}'")
    if not {values["srcbuf"], values["dstbuf"]} <= {"i", "o", "s"}:
        raise ValueError(f"unknown buffer '{values['srcbuf']}' or '{values['dstbuf']}'")
    fields: dict[str, Any] = {name: values[name] for name in ("type", "srcbuf", "dstbuf")}
    fields |= {name: int(values[name]) for name in ("srcoff", "dstoff", "cnt", "depid", "deps", "hasdep")}
    return MscclStep(**fields)

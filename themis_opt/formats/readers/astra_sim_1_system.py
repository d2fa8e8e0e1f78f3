"""System files (text) of ASTRA-sim 1: ``key: value`` lines, algorithms joined by underscores.

Source: https://github.com/astra-sim/astra-sim, branch ASTRA-sim-1.0, ``Sys.cc``.  A message of the analytical backend
uses all links of an NPU in its dimension, but where all NPUs are connected, those to one of them.
"""

from collections.abc import Iterator, Mapping, Sequence

from themis_opt.base.sources import Source
from themis_opt.formats.readers.astra_sim_system import (
    ALL_TO_ALL,
    AT_ONCE,
    CYCLES,
    IGNORED,
    NATIVE,
    SCHEDULING_POLICIES,
    USED,
    algorithm,
    algorithms,
    as_exchanged,
    executed,
)
from themis_opt.formats.readers.parts import Part, Reader, only
from themis_opt.problem.fields import MAX_CHUNKS
from themis_opt.problem.network import Algorithm, Dimension, Kind

CHOICES: Mapping[str, tuple[str, ...]] = {
    **SCHEDULING_POLICIES,
    "intra-dimension-scheduling": ("FIFO", "RG", "SCF", "smallestFirst", "lessRemainingPhaseFirst"),
    "inter-dimension-scheduling": (
        *("baseline", "ascending", "themis", "offlineGreedy", "themisFlex", "offlineGreedyFlex", "roundRobin"),
    ),
}
SYSTEM_1_FIELDS = (*USED, *CHOICES, *NATIVE, *IGNORED, "seprate-log")


def _recognizes(source: Source) -> bool:
    return sum(f"{name}:" in source.head for name in SYSTEM_1_FIELDS) >= 3


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "system")
    given = _pairs(source)
    source.check_keys(given, SYSTEM_1_FIELDS)
    for name, known in CHOICES.items():
        source.choice(given.get(name, known[0]), dict.fromkeys(known), name)
    numbers = {
        name: source.number(_number(source, given[name], name), name, most=1e12) for name in USED if name in given
    }
    if "preferred-dataset-splits" in given:
        source.whole(int(numbers["preferred-dataset-splits"]), "preferred-dataset-splits", least=1, most=MAX_CHUNKS)
    by_collective = {
        name: tuple(algorithm(source, part, name) for part in given[name].split("_"))
        for name in NATIVE
        if name in given
    }
    chosen = algorithms(source, by_collective)
    newest_first = given.get("scheduling-policy") == "LIFO"
    return Part(
        change=lambda machine: executed(source, machine, chosen, numbers, _share, newest_first=newest_first),
        finish=lambda instance: as_exchanged(instance, chosen, by_collective.get(ALL_TO_ALL, ()), _share),
        notes=(CYCLES, *_notes(given)),
    )


def _notes(given: Mapping[str, str]) -> Iterator[str]:
    scheduling = given.get("inter-dimension-scheduling", "baseline")
    if scheduling != "baseline":
        yield (
            f"The file orders chunks by {scheduling}; the fixed order stands first here, and themis+scf is Themis: "
            "outside of what is exact."
        )
    if float(given.get("active-chunks-per-dimension", 1)) != 1:
        yield AT_ONCE


def _pairs(source: Source) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, line in source.lines:
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not value:
            raise source.error(f"must be 'key: value' (line {number})", value=line.strip())
        if name in pairs:
            raise source.error(f"stands twice (line {number})", name)
        pairs[name] = value
    return pairs


def _number(source: Source, text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise source.error("must be a number", name, text) from None


def _share(dimension: Dimension, algorithm: Algorithm) -> float:
    """Share of the links of an NPU that a message uses."""
    one_of_many = dimension.kind is Kind.FULLY_CONNECTED and algorithm is not Algorithm.DIRECT
    return 1 / (dimension.size - 1) if one_of_many else 1.0


READER = Reader("system of ASTRA-sim 1", ("txt",), _recognizes, _read)

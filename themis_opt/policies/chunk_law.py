"""The law of chunks: few chunks of unequal sizes that keep every dimension of a network busy (docs/law.md).

This file needs the standard library alone, and its functions take floats as well as fractions.  A chunk of s bytes
holds a dimension of P NPUs for s (1 - 1 / P) times its `byte_time` if it visits that dimension first, and for 1 / P' of
that after dimensions of P' NPUs.

A *block* is a set of chunks of one reduce-scatter or all-reduce, with an order of their stages.  A block is *solid* if
all dimensions are busy from its begin to its end.
"""

from collections.abc import Iterable, Sequence
from functools import cache, reduce
from itertools import pairwise, permutations
from math import inf, log2
from operator import add, mul
from typing import NamedTuple

FLOAT_ERROR = 1e-12  # relative error of floats that decides no comparison
MOST_LAW_CHUNKS = 25  # of two dimensions
MOST_EQUAL_CHUNKS = 8  # tried where chunks cost something, or nothing better is known
LEAST_GAP = 1e-6  # gap below which no more chunks are made
MIRRORED_PATHS = {
    (3, 0): (
        "eeaebacABebedcebdAeABbcfdabEdcBcaaedaaesDEiAedaefPEdfDbafdffmkFbfBcfadfgnFBhacfecbDEDiBabdfbcNKlECcafcffjtHHjc"
        "aebcarcDccBfbafcOdkLfaeddbbQSdhHcbfaccdfGgdAdebdeCHecHdfeafdIrcIjBaeccbBbBAfbbaaeanfCBeAcbecbabABBabfcdelAEfcA"
        "afdccNEgIddceafeDvCKjbecabalCBhKcceefbaobIhabfcfemhMffabcbefGMgfGAafddflbDedCfaaeaQhfEdacacfaJsdMiaddbcfPYhkNA"
        "bebdemIDiEadabddOKnDHbafaccnhFBecffaedUBfLkafabddOTmcKabfbcdjMElIadaafdGgiECabccfbsADfBBcfecambAcEbaacfbmoaFdB"
        "bdccalIGiBaaebcdLKeaabfcbddJWiiPbaefebFfeHhabcbfcfEJjAaabefbpaEebBaeecbDEDiBaefcfbpgCccBadaefgnFBhaddefaodFebA"
        "dbbffCadDaabdfadOTmcKaafdefMniLcbbabddiFadCAcfbdehCJiAa"
    ),
    (3, 1): (
        "bdafcdfljFBgaedecafcCdGhCdafbdefdhOIhdAdacabdeLYlbMbaeafacdJmAFgdbceeaebeAeAaAceafbdesaBBAbfedeaffKbiKcccdaffe"
        "bDFIehAdaecddaIHhcEaecbfafcpjAbABcbcfaffKrhOgabfafedchjMhfBedbdfadDAddGafbfabeaQakIAcbeafefcbpEAhAedecdfamGCkE"
        "BadcfacayGAcFCeddbecaIUdjJbdecfafeJpcIjA"
    ),
    (4, 0): (
        "gvelottdPmacBhaspotgxcEgoBIcmahgouaqeDCGCBffdrakqovbTFFqHCCeluwmhpdNUZhfgHcouaakqaKimiEdbBwkiuaxkADoafOlbknmom"
        "xaahEEElCebuwhfxhqFKGsCBBcuveiwfJPxfbToakqfkexxjoGBbmHAekbriwxbsGHEndAcxthowhQJAfAHkcewvgekpVXPqiFIafxboougnlq"
        "PgCjahrumcuqReKadmLdcjcuiwvkfzbBUoahoawbvmvuhMGkiAthosawdKPlakRkaasgwsoaEyzAObjacsiwvbbZIkrLHkBwhauawbsaCJoLiA"
        "epomowgMsDfWmechmcwqkecECbcfEbavdhhqtoEHQodeAmugxuqebzjaMeiAleanwidGTRileWcotiqcxtGtzeOHlarfuwbltWUPqHjIbsrqui"
        "tbpddbmFDBfkiwertzcQMlnHCcwgsspctlrFEciAotqibqdBIKhkJGetiixmtdhKoHjMkcevsriwplzhBGkBBhxrfuoaMkJlOpEBknskfxmeCU"
        "IioMdrciugldYXEqjVdaougxupiQrpgNEnahxouertxnaUhdiAgwdxmlxifwHADjauxgwmvbivuHFbiArobnpfbEbZmFpUahlqsfivSTZkoAWc"
        "bamuajgtapFjNlBaugxsqdzskNCfjAlwolrmdEEbnHaEaftckissLTpjkTgBbwuodxmysBSdnAadkbntmrHRZFufSclmiwcudbAolCNhaeqgsr"
        "vuQiGkKjaBmwbmergazAFNqAAwibnmvpCLFEqICdgtcxsspEjzdKNobasgwimdcerANdhacwtlgsdtGqIfJnAbweogscdxiDLjiCrmdklddWZX"
        "wjKMamteokrarnGaAiGAuroufxgvoyIAHmAfxnkknsvDTGqkXahmaxasjozyPQflcqgawcxmsclDkNfacuumawpPhweEJlbxamtkcbZZCyIMab"
        "awavhonzmmMbfiDkwredicfDFkfdNabpmvungchMGGtEbcocxmqhrvlJAfcabwqgajmnNFFsHaacuowlgbIMfiJKocsrermugztDNghaBixqkx"
        "ceUZMhtKIbepowpmlZCXqZrGbsqargxmoxbLGoBagucxwklDMuamUkakqdhfxswnUKhsQBwqgxoueigqCCHjdkwxbpxaNedsLcEakltlsnoaLQ"
        "CoiScaxnjhqxrCCGEifBqiatbubxEdLoMjAbmpkawjUhfiZjlAkidgenpTZZhpgVAnlumhpgAsRdMuMapaaxmwkWagqPGlAlddurmcUZQtlOHa"
        "qlkrudsGGZBhvZbmvixlcoVNxlFSnaeqguqicjOSLqiIbixhcsprZDDoSmCagsbogxdhunFLhhaaiouergysnKfBgAwjogawnFUhBvSBbrccxi"
        "wnGgvkILiadghmgsbKockUjbAxpunhkfRQZmemXackdgerhzPuVmNjcfgxeatnXZbolZeagwmubmbBzbGNkkAnndgvneJZZqkAUaajkqmvtmfC"
        "NhjcAaqnicxmlBjOjEjAqgekawevNPFvJEahxtodxmzpaOhjGacqmtchsGLvCmWnBvdctupmZKEvFEIcexnlkmlFfQdapUbmwhpcsvLloeJbgb"
        "ahhrwhshdUJqjScjsxagxdSQspJJhbfxmwigncYAGsTlawjgshqdGngiObhAbmmwandazDDGkAAgvotspcfFqBKFqbwimxfrhzbFUmiABnrgxh"
        "oczxCKDlaAsnpbjfaUGKwOiTcdiexmtlvGfDhBAAisbnspbQgIaStBcgthocxnfwsEACkCktiuxcbZGdzUJeacisrmwbzbGQcjdaqkeierhyHV"
        "IsdPbdghmhbeTPZlErQasqakgvbksbOefdAmffjuqwBWKnkLHaeuawumnFhFIdlBbguovllxZLvlASlBhxauhicifdICcga"
    ),
    (4, 1): (
        "rdemiwavoNbcrZdhakomxmxkrfygJJcjdBqlouittjceRyBrYjBrpbmkiffoLFDgajJAnmcqfkfntcKQNwbNcldqethcdcLSIshUDatpesladq"
        "oODjieGKciuatqohxbecADdClatherkmfqmcERIjoSdtsshckkraxAWKtGAalqixouxebVGzlUErBfrawaultwDuzDADkBvmrnwlbqrYAMoHiP"
        "ckoerngfkhdJLJniJcoueokmgxjZtfhOifAfgsrfuowarViOnEhcawcubmuuhHddJQkpccnnkkpqcfhLHapIIdwdupwkmpiVUKklbSBmpixtvg"
        "trDGsCgSsAowtgevmvhlmzDbLmcuncugxnlezAJIafhAtruokqnvazoCKbpCCwivuatollVXtkhZmBpdxbsebnbGOUrHeObsmkncwfrmBwnLaq"
        "FbenpeicxoaLMBvLaOcupwigqavnofCAfCBaobatkqcxvByBhLefBcbgubqunebwjBDjBbaktkexspgzoOTlkaCwmgbfllqmHMjiBACebnuqrn"
        "qidCaKcDsWbitdotuaxmtEoNlUrcemsqglevqzsGKanDBitbxouutfGizCLLvcowausthjeevfCFEmApgovvtmneEKbnDMearjwoxdetmTQPml"
        "IRcvnsehxsprSFLkQsPamxuokqauavzzKIjjAaxjaxbkqoZONuUAhanvoilextfOZHjnXiBomglcwspdxqGKClaaufgsvrhvmNkIjVcoAmgrdn"
        "llvsKWIetNGaovaksobxhztcLjAgCkiqoajhrqwELLnmRAjxiqsoosbKzrENlfbvbmtcuhrvOabkDGgcrgundikrqRQZfkjSBlwhrmvaptzbBJ"
        "cckDeusmowgreosdGMnga"
    ),
}
"""For D dimensions from fast to slow, paths of 2 D - 1 chunks and of two more, and 2 D weights, which rank the paths.

A letter for each permutation: scatters and gathers of the first chunk of each pair, and scatters of the last chunk.
Then weights, a for 0, b for 1, A for -1, B for -2; the last one is for the number 4.  A hill climb on random networks
found the paths; the weights are the logistic regression of which paths suit which networks.
"""
MOST_RANKED = 180  # over the square of D: paths of a table that are tried
EARLY = 8  # a dead end ends a trial that is less full than one by this over the width and the tried stages
MOST_REDRAWS = 2000  # of paths that the tables lack
REDRAW_HEAT = 0.02  # part of the first half of the time that a change of paths may leave less full

Path = tuple[int, ...]  # dimensions
Clock = tuple[list[float], list[float], list[float]]  # when dimensions are free and chunks ready, and bytes of chunks
Stages = list[tuple[int, int]]  # chunks and positions in their paths, in the order in which dimensions serve them


class LawDimension(NamedTuple):
    """NPUs of a dimension, and the time in which a byte leaves an NPU.

    `fixed`, `lag`: time for which each stage holds the dimension besides, and from then to its result.
    """

    npus: int
    byte_time: float
    fixed: float = 0
    lag: float = 0

    def held(self, part: float) -> float:
        """Time for which a part of the data holds the dimension."""
        return part * self.byte_time * (self.npus - 1) / self.npus + self.fixed


class Chunk(NamedTuple):
    """A share of the data, and the dimensions of its stages: scatters, and for an all-reduce gathers."""

    share: float
    path: Path


class ChunkBlock(NamedTuple):
    """Chunks, their stages in an order that no stage breaks, and whether all dimensions are always busy."""

    chunks: list[Chunk]
    stages: Stages
    is_solid: bool

    @property
    def orders(self) -> dict[int, Stages]:
        """Chunks and phases in the order in which each dimension serves them."""
        orders: dict[int, Stages] = {k: [] for k in self.chunks[0].path}
        for number, position in self.stages:
            orders[self.chunks[number].path[position]].append((number, position // len(orders)))
        return orders


def best_block(
    network: Sequence[LawDimension], phases: int, size: float, most_chunks: int = MOST_LAW_CHUNKS
) -> ChunkBlock:
    """The block of at most so many chunks that takes the least time for a collective of some bytes.

    The closed forms are enough where a chunk costs nothing.  Else some numbers of equal chunks are timed as well.
    `phases`: 2 for an all-reduce, 1 for a reduce-scatter.  An all-gather is a reduce-scatter backwards.
    """
    most = min(most_chunks, MOST_LAW_CHUNKS)
    best = closed_form(network, phases, most, None)
    has_costs = any(dimension.fixed or dimension.lag for dimension in network)
    if best and most > 1 and not has_costs:
        return best
    blocks = [equal_block(network, phases, size, count) for count in range(1, min(most, MOST_EQUAL_CHUNKS) + 1)]
    return min([best, *blocks] if best else blocks, key=lambda block: makespan(network, block, phases, size))


def closed_form(network: Sequence[LawDimension], phases: int, most_chunks: int, most: int | None) -> ChunkBlock | None:
    """The block of two dimensions, or mirrored chunks of an all-reduce, as if chunks cost nothing."""
    width = len(network)
    if width == 2:
        return pair_block(network, phases, min(most_chunks, MOST_LAW_CHUNKS))
    is_mirrored = (width, 0) in MIRRORED_PATHS and phases == 2 and most_chunks >= 2 * width - 1
    return MirroredBlocks(network).block(most_chunks, most) if is_mirrored else None


def whole_sizes(block: ChunkBlock, size: int, unit: int) -> list[int]:
    """Bytes of each chunk in multiples of a unit, nearest to the shares, largest remainders first."""
    whole = total(chunk.share for chunk in block.chunks)
    exact = [chunk.share / whole * (size // unit) for chunk in block.chunks]
    units = [int(number) for number in exact]
    by_rest = sorted(range(len(units)), key=lambda number: units[number] - exact[number])
    for number in by_rest[: size // unit - sum(units)]:
        units[number] += 1
    return [number * unit for number in units]


def makespan(network: Sequence[LawDimension], block: ChunkBlock, phases: int, size: float = 1) -> float:
    """Time of a collective of some bytes, every dimension serving its stages in the order of the block."""
    ready = [0 * size] * len(block.chunks)
    clock = [0 * size] * len(network), ready, [chunk.share * size for chunk in block.chunks]
    for number, position in block.stages:
        serve(network, block.chunks[number].path, position, number, clock)
    return max(ready)


def serve(network: Sequence[LawDimension], path: Path, position: int, number: int, clock: Clock) -> None:
    """Serve a stage of a chunk as soon as its dimension is `free` and the chunk is `ready`."""
    free, ready, parts = clock
    dimension = network[path[position]]
    if position >= len(network):
        parts[number] *= dimension.npus
    free[path[position]] = max(ready[number], free[path[position]]) + dimension.held(parts[number])
    if position < len(network):
        parts[number] /= dimension.npus
    ready[number] = free[path[position]] + dimension.lag


def total(numbers: Iterable[float]) -> float:
    """The sum, rounded number by number as in C; `sum` is more exact from Python 3.12 on."""
    return reduce(add, numbers, 0)


def growing_sizes(count: int, shrunk: float, phases: int) -> tuple[list[float], bool]:
    """Sizes of chunks of which the first is 1, and whether they gather in the reverse order of their scatters.

    The time on the other dimension is `shrunk` times that on the first one in each phase.  Sizes grow from both ends if
    both phases of a chunk follow each other on the other dimension, and from one end if they are nested (theorem 2).
    """
    one = shrunk / shrunk
    nested = [one * shrunk**place for place in range(count)]
    if phases == 1:
        return nested, False
    growth = max(one, 2 * shrunk)
    sizes = [one * growth ** min(place, count - 1 - place) for place in range(count)]
    return (nested, True) if shrunk >= 1 and total(nested) > total(sizes) else (sizes, False)


def pair_block(network: Sequence[LawDimension], phases: int, most_chunks: int = MOST_LAW_CHUNKS) -> ChunkBlock:
    """The block of two dimensions: solid with the fewest chunks, or the shortest (theorems 2 and 5)."""
    times = [dimension.held(1) - dimension.fixed for dimension in network]
    between = times[1] / times[0]
    other = int(between * between * network[1].npus >= network[0].npus)
    npus, ratio = network[1 - other].npus, between if other else 1 / between
    shrunk = ratio / npus
    balanced = (1 - shrunk) / (1 - shrunk + ratio - ratio / ratio / network[other].npus)
    for count in range(most_chunks):
        sizes, is_nested = growing_sizes(count, shrunk, phases)
        share = 1 / (1 + ratio * total(sizes))
        is_solid = shrunk < 1 and share <= balanced * (1 + FLOAT_ERROR)
        if is_solid or ratio * total(sizes) >= npus / LEAST_GAP:
            break
    if shrunk < 1:
        share = max(share, balanced)
    else:
        more, is_more_nested = growing_sizes(count + 1, shrunk, phases)
        if ratio * share * (1 - ratio / ratio / npus) > 1 / total(more):
            share, sizes, is_nested = 0, more, is_more_nested
    base, length = int(share > 0), 2 * phases
    whole = total(sizes)
    chunks = [Chunk(share, (other, 1 - other, 1 - other, other)[:length])] * base
    chunks += [Chunk(size * (1 - share) / whole, (1 - other, other, other, 1 - other)[:length]) for size in sizes]
    return ChunkBlock(chunks, _stages_of_pair(len(chunks), base, phases, is_nested), is_solid)


def _stages_of_pair(count: int, base: int, phases: int, is_nested: bool) -> Stages:
    """Stages of two dimensions: chunk 0 visits the other dimension first if `base` is 1."""
    first, every = range(base, count), range(count)
    scatters = [(number, 0) for number in every]
    if phases == 1:
        return scatters + [(number, 1) for number in every]
    last = [(number, 3) for number in (first[::-1] if is_nested else first)] + [(0, 3)] * base
    if is_nested:
        middle = [(0, 1), (0, 2)] * base + [(number, 1) for number in first] + [(number, 2) for number in first[::-1]]
    else:
        middle = [(number, position) for number in every for position in (1, 2)]
    return scatters + middle + last


@cache
def mirrored_paths(width: int, more: int) -> tuple[list[list[Path]], list[tuple[int, ...]]]:
    """The paths of the entries of a table, and their weights, one list for each weight."""
    count, table, orders = 2 * (width + more) - 1, MIRRORED_PATHS[width, more], list(permutations(range(width)))
    entries = [table[first : first + count + 2 * width] for first in range(0, len(table), count + 2 * width)]
    paths = [[orders[ord(letter) - ord("a")] for letter in entry[:count]] for entry in entries]
    weights = [[ord(c) - ord("a") if c >= "a" else ord("@") - ord(c) for c in entry[count:]] for entry in entries]
    return paths, list(zip(*weights, strict=True))


class MirroredBlocks:
    """Blocks of an all-reduce that are the same backwards: pairs of chunks and one more on D dimensions.

    The second chunk of a pair has the path of the first one backwards, and its size.  So D equal loads decide the sizes
    of D - 1 pairs and of the last chunk, a linear system; further pairs have the size of the first one.  If the
    dimensions can serve stages until half of the time without a pause, the other half is the same backwards.  Time
    counts from 0 to 1 for the first half.
    """

    def __init__(self, network: Sequence[LawDimension], rounding: float = FLOAT_ERROR) -> None:
        times = [dimension.held(1) - dimension.fixed for dimension in network]
        self.dimensions = sorted(range(len(network)), key=times.__getitem__)
        self.times = [times[k] for k in self.dimensions]
        self.npus = [network[k].npus for k in self.dimensions]
        self.rounding, self.width = rounding, len(network)
        self.is_to_spare = 2 * self.times[-1] <= min(map(mul, self.npus, self.times))
        self.early = EARLY if self.is_to_spare else inf
        self._loads: dict[Path, list[float]] = {}

    def block(self, most_chunks: int = MOST_LAW_CHUNKS, most: int | None = None) -> ChunkBlock | None:
        """The block of the first paths of the tables that suit the network, by rank, or else by random changes.

        One more pair is enough where bandwidth is to spare, as far as is known.  Elsewhere `most` paths are tried.
        """
        logs = [log2(slower / faster) for faster, slower in pairwise(self.times)] + [log2(npus) for npus in self.npus]
        for more in range(2):
            entries, weights = mirrored_paths(self.width, more)
            scores = [0.0] * len(entries)
            for column, log in zip(weights, [*logs, 4.0], strict=True):
                scores = [score + weight * log for score, weight in zip(scores, column, strict=True)]
            filled, fullest = -2.0, entries[0]
            for _ in entries[: MOST_RANKED // self.width**2 if self.is_to_spare else most]:
                place = scores.index(max(scores))
                scores[place] = -inf
                reached, block = self.tried(entries[place], self.early)
                if block:
                    return block
                if reached > filled:
                    filled, fullest = reached, entries[place]
            if most_chunks <= 2 * self.width or (more and not self.is_to_spare):
                return None
        return self._of_changed(fullest, filled)

    def _of_changed(self, now: Sequence[Path], filled: float) -> ChunkBlock | None:
        """The block of changed paths, by random changes that fill the first half of the time."""
        orders, state = list(permutations(range(self.width))), 1

        def draw(most: int) -> int:
            nonlocal state
            state = (state * 1103515245 + 12345) % 2**31
            return state // 256 % most

        for _ in range(MOST_REDRAWS):
            tried, goes_on = list(now), True
            while goes_on:
                order, place = divmod(draw(len(tried) * len(orders)), len(tried))
                tried[place], goes_on = orders[order], draw(3) == 0
            reached, block = self.tried(tried, self.early)
            if block:
                return block
            if reached >= filled - REDRAW_HEAT * draw(1024) / 1024:
                now, filled = tried, reached
        return None

    def tried(self, orders: Sequence[Path], early: float = inf) -> tuple[float, ChunkBlock | None]:
        """How far scatters and gathers of each pair, and scatters of the last chunk, fill the first half of the time.

        -1 if no sizes make equal loads; also the block if it is full.
        """
        last, more, width = len(orders) - 1, len(orders) // 2 + 1 - self.width, self.width
        orders = [*orders, orders[last][::-1]]
        loads = [self._loads_of(order[::-1] if place % 2 else order) for place, order in enumerate(orders)]
        pairs = [list(map(add, loads[place], loads[place + 1])) for place in range(0, last, 2)]
        first = [total(times) for times in zip(*pairs[: more + 1], strict=True)] if more else pairs[0]
        sizes = equal_loads([first, *pairs[more + 1 :], loads[-1]])
        if not sizes:
            return -1.0, None
        sizes = sizes[:1] * more + sizes
        paths: list[Path] = []
        durations: list[list[float]] = []
        for place, size in zip(range(0, last + 1, 2), sizes, strict=True):
            path = orders[place] + orders[place + 1]
            held = [size * loads[place][k] for k in path[:width]] + [size * loads[place + 1][k] for k in path[width:]]
            paths += [path, path[::-1]]
            durations += [held, held[::-1]]
        mirror = [*(number ^ 1 for number in range(last)), last]
        reached, stages = first_half(paths[:-1], durations[:-1], mirror, self.rounding, early)
        if reached < 1 - self.rounding:
            return reached, None
        whole = total([size + size for size in sizes[:-1]]) + sizes[-1]
        chunks = [
            Chunk(sizes[number // 2] / whole, tuple(self.dimensions[k] for k in path))
            for number, path in enumerate(paths[:-1])
        ]
        mirrored = [(mirror[number], 2 * width - 1 - position) for number, position in reversed(stages)]
        return reached, ChunkBlock(chunks, stages + mirrored, is_solid=True)

    def _loads_of(self, order: Path) -> list[float]:
        """Time for which all data hold each dimension if they scatter in this order."""
        if order not in self._loads:
            self._loads[order] = loads = [*self.times]
            part = loads[0] / loads[0]
            for k in order:
                loads[k] *= part
                part /= self.npus[k]
        return self._loads[order]


def first_half(
    paths: Sequence[Path], durations: Sequence[Sequence[float]], mirror: Sequence[int], rounding: float, early: float
) -> tuple[float, Stages]:
    """How far mirrored chunks keep every dimension busy from 0 to 1, by trial and error, and their stages until then.

    A dimension that is free serves the longest stage that is there.  A stage is left for the second half if its mirror
    image is served in the first one.  A dead end ends the trial if that is less full than one by `early` over the
    dimensions and the tried stages, as later ones hardly come further.
    """
    width, last, numbers = len(paths[0]) // 2, len(paths[0]) - 1, range(len(paths))
    free, ready, places = [0 * durations[0][0]] * width, [0 * durations[0][0]] * len(paths), [0] * len(paths)
    waiting: list[list[int]] = [[number for number in numbers if paths[number][0] == k] for k in range(width)]
    done: list[int] = []
    stages: Stages = []
    tried, most, reached = 0, 4 * width * len(paths), free[0]

    def fill() -> bool:
        nonlocal tried, reached
        tried += 1
        if tried > most:
            return False
        latest, k = min(free) + rounding, 0
        while free[k] > latest:
            k += 1
        time = free[k]
        if time > reached:
            reached = time
            if time >= 1 - rounding:
                return True
        latest = time + rounding
        there = [i for i in waiting[k] if ready[i] <= latest and places[mirror[i]] <= last - places[i]]
        if not there:
            if reached < 1 - early / (width * tried):
                tried = most
            return False
        if len(there) > 1:
            there.sort(key=lambda number: (-durations[number][places[number]], number))
        for number in there:
            before, position = ready[number], places[number]
            free[k] = ready[number] = time + durations[number][position]
            places[number] = position + 1
            after = waiting[paths[number][position + 1]] if position < last else done
            waiting[k].remove(number)
            after.append(number)
            stages.append((number, position))
            if fill():
                return True
            stages.pop()
            after.remove(number)
            waiting[k].append(number)
            places[number], free[k], ready[number] = position, time, before
        return False

    fill()
    return reached, stages


def equal_loads(columns: Sequence[Sequence[float]]) -> list[float]:
    """Positive numbers whose products with the columns sum to 1 in every row, by elimination; empty without any."""
    rows = [[*row, row[0] / row[0]] for row in zip(*columns, strict=True)]
    heads: list[list[float]] = []
    while rows:
        head = max(rows, key=lambda row: abs(row[0]))
        rows.remove(head)
        if head[0] == 0:
            return []
        heads.append(head)
        for place, row in enumerate(rows):
            factor = row[0] / head[0]
            rows[place] = [a - factor * b for a, b in zip(row[1:], head[1:], strict=True)]
    sizes: list[float] = []
    for head in reversed(heads):
        sizes.insert(0, (head[-1] - total(map(mul, head[1:], sizes))) / head[0])
    return sizes if min(sizes) > 0 else []


def equal_block(network: Sequence[LawDimension], phases: int, size: float, count: int) -> ChunkBlock:
    """Equal chunks, each of which visits the dimensions from the least to the most loaded one, and gathers backwards.

    What can begin first is served first, and the middle of a chunk before first scatters and last gathers.
    """
    width, loads, paths = len(network), [0.0] * len(network), []
    for _ in range(count):
        path, part = tuple(sorted(range(width), key=loads.__getitem__)), 1 / count * size
        for k in path:
            loads[k] += network[k].held(part)
            part /= network[k].npus
        paths.append((path + path[::-1])[: width * phases])
    free, ready, places = [0.0] * width, [0.0] * count, [0] * count
    parts = [1 / count * size] * count
    ends = (0, 2 * width - 1)
    stages: Stages = []
    waiting = list(range(count))
    while waiting:
        number = min(waiting, key=lambda i: (max(ready[i], free[paths[i][places[i]]]), places[i] in ends))
        serve(network, paths[number], places[number], number, (free, ready, parts))
        stages.append((number, places[number]))
        places[number] += 1
        if places[number] == width * phases:
            waiting.remove(number)
    return ChunkBlock([Chunk(1 / count, path) for path in paths], stages, is_solid=False)

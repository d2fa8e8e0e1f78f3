"""What each number of a search changes: ``python tests/benchmarks/parameters.py reports/references/parameters``.

Every number of every ``...Params`` is halved and doubled on a fixed set of cases.  Searches count work in the place of
time and have fixed seeds, so that all figures but the seconds are the same on every machine.  ``rows.csv`` and
``README.md`` are written; that takes about a quarter of an hour of one core.
"""

import argparse
import csv
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from tempfile import mkdtemp
from time import process_time
from typing import Any, Literal

import themis_opt
from themis_opt.base.compiled import compile_at_once
from themis_opt.policies.hourglass import policy as hourglass
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Packet
from themis_opt.schedules.schedule import Schedule
from themis_opt.search import exact, local_search, plan_cache
from themis_opt.search.annealing import is_ready
from themis_opt.search.end_proof import EndProof
from themis_opt.search.exact import Exact
from themis_opt.search.limits import Allowance, SearchLimits
from themis_opt.search.local_search import LocalSearch
from themis_opt.search.plan_cache import PlanCache
from themis_opt.search.starts import usual_schedule
from themis_opt.solving import makespan_bounds
from themis_opt.solving.bounds import bounds

FACTORS = (0.5, 2.0)

NOISE = 0.1
"""Share by which processor times may differ for no reason."""

PAPER = (
    "2d-sw_sw",
    "3d-sw_sw_sw_homo",
    "3d-sw_sw_sw_hetero",
    "3d-fc_ring_sw",
    "4d-ring_sw_sw_sw",
    "4d-ring_fc_ring_sw",
)

Run = Callable[[Any], float]
"""The makespan, iteration time or bound that some parameters give, in picoseconds."""


@dataclass(frozen=True)
class Study:
    """One search: its usual parameters, and what it is tried on.

    `leaves_out` are fields that another study looks at; every case is run `repeats` times, and the fastest run counts.
    """

    params: Any
    cases: Callable[[], Sequence[Run]]
    leaves_out: tuple[str, ...] = ()
    repeats: int = 1


@dataclass(frozen=True)
class Row:
    """A parameter with another value.

    `cases` have been tried, of which `changed` came out otherwise.  `change` is the mean over the cases of the makespan
    with this value over that with the usual one, minus 1, in percent; `deviation` is the standard error of that mean,
    and `least` and `most` are the extremes.  `seconds` is the processor time over that with the usual value.
    """

    search: str
    parameter: str
    usual: str
    value: str
    cases: int
    changed: int
    change: float
    deviation: float
    least: float
    most: float
    seconds: float


def loaded(name: str, **changes: Any) -> Instance:
    """A shipped instance with some changes."""
    return themis_opt.load(name).overridden(**changes)


def released(count: int) -> Instance:
    """Collectives released one after another."""
    instance = loaded("3d-sw_sw_sw_hetero.all_reduce.100MiB", size="20 MiB", chunks=8)
    (one,) = instance.collectives
    several = tuple(one.replace(name=f"number {i}", release=f"{60 * i} us") for i in range(count))
    return instance.replace(collectives=several)


def wide(num_dimensions: int, chunks: int) -> Instance:
    """An all-reduce over many small dimensions."""
    dimensions = [
        {"kind": "ring", "size": 2, "bandwidth": f"{10 + 7 * k % 40} GB/s", "latency": "500 ns"}
        for k in range(num_dimensions)
    ]
    collective = {"kind": "all_reduce", "size": "1 GiB", "chunks": chunks}
    return Instance.model_validate({"network": {"dimensions": dimensions}, "collectives": [collective]})


def on_each(run: Callable[..., float], instances: Iterable[Instance]) -> list[Run]:
    """A function of parameters and an instance on some instances."""
    return [partial(run, instance=instance) for instance in instances]


def hourglass_cases() -> Sequence[Run]:
    """Few and many bytes and chunks, all rules, several collectives, many dimensions."""
    grid = product(PAPER, ("1 MiB", "100 MiB", "1000 MiB"), (4, 8, 16, 64))
    instances = [loaded(f"{n}.all_reduce.100MiB", size=s, chunks=c) for n, s, c in grid]
    for network in PAPER:
        name = f"{network}.all_reduce.100MiB"
        instances.append(loaded(name, ag_order="reverse", chunks=32))
        instances.append(loaded(name, latency="occupy", size="10 MiB"))
        instances.append(loaded(name, chunks=512))
    instances += [loaded("3d-sw_sw_sw_hetero.mixed.100MiB", chunks=c) for c in (1, 4, 32)]
    instances += [*map(released, (3, 12, 24)), wide(10, 64), wide(12, 64)]

    def run(params: Any, instance: Instance) -> int:
        return hourglass.balanced(instance, params).makespan

    return on_each(run, instances)


def hourglass_free_cases() -> Sequence[Run]:
    """Free sizes of few and many bytes, of one and of several collectives."""
    grid = product(PAPER, ("1 MiB", "100 MiB"))
    instances = [loaded(f"{n}.all_reduce.100MiB", size=s) for n, s in grid]
    instances += [*map(released, (3, 6, 12)), loaded("3d-sw_sw_sw_hetero.mixed.100MiB")]
    instances.append(loaded("3d-fc_ring_sw.all_reduce.100MiB", latency="occupy", size="1 MiB"))

    def run(params: Any, instance: Instance) -> int:
        return hourglass.with_free_sizes(instance, params).makespan

    return on_each(run, instances)


def annealed(params: Any, instance: Instance, seed: int, free_sizes: bool, work: float) -> int:
    """Makespan after so many simulated stages, from the usual policies."""
    free_start = usual_schedule if free_sizes else None
    search = LocalSearch(usual_schedule(instance), free_start=free_start, seed=seed, params=params)
    while work > 0:
        work -= search.wave(work, lambda makespan: False)
    return search.best.makespan


def annealing_cases() -> Sequence[Run]:
    """Equal chunks, from a start that leaves something to find."""
    names = [*(f"{network}.all_reduce.100MiB" for network in PAPER[2:]), "3d-sw_sw_sw_hetero.mixed.100MiB"]
    return [
        partial(annealed, instance=loaded(name, chunks=chunks), seed=seed, free_sizes=False, work=1e7)
        for name, chunks, seed in product(names, (8, 32), range(2))
    ]


def free_sizes_cases() -> Sequence[Run]:
    """Free sizes, a few starts each."""
    names = ("3d-sw_sw_sw_hetero.all_reduce.100MiB", "4d-ring_fc_ring_sw.all_reduce.100MiB")
    run = partial(annealed, seed=0, free_sizes=True, work=6e7)
    return on_each(run, [loaded(name, chunks=64) for name in names])


def solved(params: Any, instance: Instance, sizes: Literal["equal", "free"] = "free", seconds: float = 1.0) -> int:
    """Makespan or iteration time of the reference."""
    known = max(bounds(instance, equal_sizes=sizes == "equal").values())
    policy = Exact(seconds=seconds, deterministic=True, sizes=sizes)
    return policy.solve(instance, known, params=params).schedule.makespan


def reference_cases() -> Sequence[Run]:
    """Small plans for CP-SAT, middling ones, many chunks that begin with few, free sizes; all can be improved."""
    chosen = [("4d-ring_fc_ring_sw", 12), ("4d-ring_sw_sw_sw", 12), ("4d-ring_sw_sw_sw", 24), ("3d-fc_ring_sw", 12)]
    chosen += [("3d-sw_sw_sw_hetero", 60)]
    equal = [loaded(f"{network}.all_reduce.100MiB", chunks=chunks) for network, chunks in chosen]
    equal += [loaded("3d-sw_sw_sw_hetero.mixed.100MiB", chunks=chunks) for chunks in (3, 12)]
    many = loaded("4d-ring_fc_ring_sw.all_reduce.100MiB", size="1 MiB", chunks=200)
    equal += [released(12), many, many.overridden(latency="occupy")]
    free = [loaded(f"{network}.all_reduce.100MiB", chunks=8) for network in ("3d-sw_sw_sw_hetero", "4d-ring_sw_sw_sw")]
    short = on_each(partial(solved, sizes="equal", seconds=0.7), equal) + on_each(solved, free)
    few = loaded("4d-ring_fc_ring_sw.all_reduce.100MiB", chunks=4)
    small = loaded("4d-ring_sw_sw_sw.all_reduce.100MiB", size="1 MiB", chunks=6)
    return [
        *short,
        partial(solved, instance=few, sizes="equal", seconds=4.0),
        partial(solved, instance=small, sizes="free", seconds=8.0),
    ]


def proof_cases() -> Sequence[Run]:
    """Few chunks that cost something: gaps that the proof by number of chunks leaves."""
    names = ("2d-sw_sw", "3d-sw_sw_sw_homo", "3d-sw_sw_sw_hetero", "3d-fc_ring_sw")
    instances = [loaded(f"{name}.all_reduce.100MiB", size="16 MiB", chunks=6, latency="occupy") for name in names]

    def run(params: Any, instance: Instance) -> float:
        policy, own = Exact(seconds=2.0, deterministic=True, sizes="free"), replace(exact.USUAL, proof=params)
        reference = policy.solve(instance, max(bounds(instance, equal_sizes=False).values()), params=own)
        return reference.schedule.makespan / reference.bound

    return on_each(run, instances)


def ends_cases() -> Sequence[Run]:
    """Few equal chunks: gaps that the proof by where they begin leaves."""
    chosen = [("3d-sw_sw_sw_hetero", "16 MiB"), ("4d-ring_fc_ring_sw", "16 MiB"), ("4d-ring_fc_ring_sw", "100 MiB")]
    instances = (loaded(f"{name}.all_reduce.100MiB", size=size, chunks=8) for name, size in chosen)
    starts = [hourglass.balanced(instance) for instance in instances]

    def run(params: Any, start: Schedule) -> float:
        limits = SearchLimits(seconds=4.0, workers=1, deterministic=True)
        proof = EndProof(limits, start, max(bounds(start.instance).values()), ignore, ignore, params)
        proof.run(Allowance(limits.seconds, counts_work=True), limits.seconds)
        return proof.best.makespan / proof.bound

    return [partial(run, start=start) for start in starts]


def ignore(_: object) -> None:
    """Report to nobody."""


def period_cases() -> Sequence[Run]:
    """Training iterations with few and many tensors, and few and many chunks."""
    chosen = [("v100-256.bert-large", 4, 3.0), ("v100-256.bert-large", 64, 6.0), ("4d-ring_sw_sw_sw.gnmt", 2, 3.0)]
    chosen += [("3d-sw_sw_sw_homo.dlrm", 4, 3.0), ("4d-ring_fc_ring_sw.resnet-50", 12, 3.0)]

    def run(params: Any, instance: Instance, seconds: float) -> int:
        return solved(replace(exact.USUAL, period=params), instance, seconds=seconds)

    return [partial(run, instance=loaded(name, chunks=chunks), seconds=seconds) for name, chunks, seconds in chosen]


def cache_cases() -> Sequence[Run]:
    """Plans of many sizes and chunk counts, recalled for others."""
    folder, networks = Path(mkdtemp()), PAPER[2:]
    sizes, counts = ("1 MiB", "3 MiB", "10 MiB", "30 MiB", "100 MiB", "1000 MiB"), (4, 8, 16, 64)
    for network, size, chunks in product(networks, sizes, counts):
        instance = loaded(f"{network}.all_reduce.100MiB", size=size, chunks=chunks)
        PlanCache(folder).keep(hourglass.balanced(instance), "equal", 1.0)
    asked = product(networks, ("20 MiB", "200 MiB"), (12, 128))

    def run(params: Any, instance: Instance) -> int:
        found = PlanCache(folder, params).recall(instance, "free")
        return found.schedule.makespan if found else usual_schedule(instance).makespan

    return on_each(run, [loaded(f"{n}.all_reduce.100MiB", size=s, chunks=c) for n, s, c in asked])


def bounds_cases() -> Sequence[Run]:
    """Bounds, of which more is better."""
    instances = [loaded(f"{n}.all_reduce.100MiB", size=s, chunks=8) for n, s in product(PAPER, ("1 MiB", "100 MiB"))]
    instances += [released(12), loaded("3d-sw_sw_sw_hetero.mixed.100MiB"), wide(6, 8), wide(8, 8)]

    def run(params: Any, instance: Instance, compute: Callable[..., float]) -> float:
        return compute(instance, params)

    computed = (makespan_bounds.order_count, makespan_bounds.head_tail_equal)
    return [partial(run, instance=instance, compute=compute) for instance, compute in product(instances, computed)]


def dear(networks: Iterable[str]) -> list[Instance]:
    """Launches, packets and latency that hold the dimension, for few and many bytes."""
    costs = {"launch_overhead": 2_000_000, "packet": Packet(payload=4096, header=30)}
    grid = product(networks, ("16 MiB", "100 MiB"), ("lag", "occupy"))
    free = [loaded(f"{n}.all_reduce.100MiB", size=s, latency=latency) for n, s, latency in grid]
    return [instance.replace(network=instance.network.with_costs(costs)) for instance in free]


def hourglass_dear_cases() -> Sequence[Run]:
    """Free sizes where every chunk costs something."""

    def run(params: Any, instance: Instance) -> int:
        return hourglass.with_free_sizes(instance, params).makespan

    return on_each(run, dear(PAPER))


def annealing_dear_cases() -> Sequence[Run]:
    """The same for the reference without CP-SAT; few chunks that cost nothing too."""
    cheap = loaded("4d-ring_sw_sw_sw.all_reduce.100MiB", chunks=10)

    def run(params: Any, instance: Instance) -> int:
        policy = Exact(seconds=1.0, workers=1, deterministic=True, sizes="free", cp_sat=False)
        return policy.solve(instance, params=replace(exact.USUAL, local=params)).schedule.makespan

    return on_each(run, [*dear(PAPER[2::3]), cheap])


DEAR_HOURGLASS = ("count_margin", "count_work", "resized", "rebalanced")
DEAR_ONLY = ("few_chunks", "melting", "freezing", "mirrored_share", "size_share", "merge_share")
FREE_HOURGLASS = ("free_chunks", "fewest_free_chunks")
WAVES = ("heats", "slice_work", "first_work", "first_steps", "growth", "steps_per_stage")
EQUAL_ONLY = (*WAVES, "moves")
FREE_ONLY = (
    *("warm", "cool", "start_work", "start_steps", "free_counts", "max_turns"),
    *("solid_share", "thawing", "hardening", "largest_thawed", "work_each", "largest"),
)
ITERATIONS_ONLY = ("launch_share",)
CACHE_LIMITS = ("max_entries", "max_stages")
COMMON_MOVES = (
    *("again", "insertion_share", "end_share", "gap_share"),
    *("exchange_share", "path_share", "copy_share", "neighbour_share", "moment_share", "swap_share", "idle_price"),
)

STUDIES: Mapping[str, Study] = {
    "hourglass": Study(hourglass.USUAL, hourglass_cases, (*FREE_HOURGLASS, *DEAR_HOURGLASS), repeats=2),
    "hourglass, free sizes": Study(
        hourglass.USUAL,
        hourglass_free_cases,
        tuple(f.name for f in fields(hourglass.USUAL) if f.name not in FREE_HOURGLASS),
        repeats=2,
    ),
    "hourglass, dear chunks": Study(
        hourglass.USUAL,
        hourglass_dear_cases,
        tuple(f.name for f in fields(hourglass.USUAL) if f.name not in DEAR_HOURGLASS),
    ),
    "annealing": Study(local_search.USUAL, annealing_cases, (*FREE_ONLY, *DEAR_ONLY, *ITERATIONS_ONLY)),
    "annealing, free sizes": Study(local_search.USUAL, free_sizes_cases, (*EQUAL_ONLY, *DEAR_ONLY)),
    "annealing, dear chunks": Study(
        local_search.USUAL,
        annealing_dear_cases,
        ("hot", "cold", *FREE_ONLY, *ITERATIONS_ONLY, *COMMON_MOVES, *WAVES),
    ),
    "reference": Study(exact.USUAL, reference_cases, ("local", "period", "proof", "ends")),
    "proof by number of chunks": Study(exact.USUAL.proof, proof_cases),
    "proof by begin and end counts": Study(exact.USUAL.ends, ends_cases),
    "reference of iterations": Study(
        exact.USUAL.period,
        period_cases,
        (*FREE_ONLY, *DEAR_ONLY, *COMMON_MOVES, *WAVES),
    ),
    "plan cache": Study(plan_cache.CacheParams(), cache_cases, CACHE_LIMITS),
    "bounds": Study(makespan_bounds.USUAL, bounds_cases),
}


def is_params(value: Any) -> bool:
    """Whether a value holds parameters: a dataclass, or a named tuple."""
    return is_dataclass(value) or hasattr(value, "_asdict")


def as_mapping(params: Any) -> dict[str, Any]:
    """Parameters by name."""
    return {f.name: getattr(params, f.name) for f in fields(params)} if is_dataclass(params) else params._asdict()


def numbers(params: Any, leaves_out: Sequence[str] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every number of the parameters, also of those inside, by the names that lead to it.

    The weights of a tuple are looked at one by one, its counts together.
    """
    for name, value in as_mapping(params).items():
        if name in leaves_out:
            continue
        if is_params(value):
            yield from (((name, *rest), number) for rest, number in numbers(value, leaves_out))
        elif isinstance(value, tuple) and isinstance(value[0], float):
            yield from (((name, str(place)), number) for place, number in enumerate(value) if number)
        elif isinstance(value, int | float | tuple):
            yield (name,), value


def varied(params: Any, path: Sequence[str], value: Any) -> Any:
    """The parameters with another value at the end of a path."""
    name, *rest = path
    if not is_params(params):
        return tuple(value if str(place) == name else number for place, number in enumerate(params))
    changes = {name: varied(as_mapping(params)[name], rest, value) if rest else value}
    return replace(params, **changes) if is_dataclass(params) else params._replace(**changes)


def scaled(value: Any, factor: float) -> Any:
    """A number, or all numbers of a tuple, times a factor; counts stay whole and at least 1."""
    if isinstance(value, tuple):
        return tuple(scaled(number, factor) for number in value)
    return max(1, int(value * factor)) if isinstance(value, int) else value * factor


def measured(cases: Sequence[Run], repeats: int, params: Any) -> tuple[list[float], float]:
    """Makespan of every case, and the processor time of all."""
    makespans, seconds = [], 0.0
    for run in cases:
        times = []
        for _ in range(repeats):
            began = process_time()
            makespan = run(params)
            times.append(process_time() - began)
        makespans.append(makespan)
        seconds += min(times)
    return makespans, seconds


def rows_of(search: str, study: Study) -> Iterator[Row]:
    """Every number of the study halved and doubled."""
    measure = partial(measured, study.cases(), study.repeats)
    measure(study.params)  # warms caches up
    before, usual_seconds = measure(study.params)
    for (path, usual), factor in product(numbers(study.params, study.leaves_out), FACTORS):
        value = scaled(usual, factor)
        after, seconds = measure(varied(study.params, path, value))
        changes = [100 * (new / old - 1) for new, old in zip(after, before, strict=True)]
        yield Row(
            search=search,
            parameter=".".join(path),
            usual=shown(usual),
            value=shown(value),
            cases=len(changes),
            changed=sum(change != 0 for change in changes),
            change=round(fmean(changes), 5),
            deviation=round(stdev(changes) / len(changes) ** 0.5, 5),
            least=round(min(changes), 5),
            most=round(max(changes), 5),
            seconds=round(seconds / usual_seconds, 2),
        )


def shown(value: Any) -> str:
    """A number, or a few."""
    return " ".join(map(shown, value)) if isinstance(value, tuple) else f"{value:.10g}"


def verdict(rows: Sequence[Row]) -> str:
    """What the rows of one parameter say changes."""
    if not any(row.changed for row in rows):
        return "nothing" if all(abs(row.seconds - 1) <= NOISE for row in rows) else "time"
    return "mean" if any(abs(row.change) > 2 * row.deviation for row in rows) else "single cases"


HEAD = """
| parameter | usual | makespan halved, % | doubled, % | cases that change | time halved | doubled | changes |
|---|---|---|---|---|---|---|---|
"""


def table(rows: Sequence[Row]) -> str:
    """One line per parameter."""
    lines = []
    for (_, name), (halved, doubled) in grouped(rows):
        pair = (halved, doubled)
        cells = [f"`{name}`", halved.usual, *(f"{row.change:+.3f} ± {row.deviation:.3f}" for row in pair)]
        cells += [f"{halved.changed}, {doubled.changed} of {halved.cases}", *(f"x {row.seconds:.2f}" for row in pair)]
        lines.append(f"| {' | '.join([*cells, verdict(pair)])} |\n")
    return HEAD + "".join(lines)


README = """# Parameters of the searches

**Of {total} numbers, halved and doubled, {mean} change the mean makespan by more than chance, {single} only single \
cases, {time} only the time, {nothing} nothing.**

- Makespan: mean over the cases of its relative change, and the standard error of that mean.  Of `bounds` it is the
  bound, and more is better; of `reference of iterations` the iteration time; of proofs the makespan
  over the bound.
- Time: processor time over that with the usual value; differences of a tenth are noise.
- Searches count work and have fixed seeds: the makespans are the same on every machine.
- The table holds the numbers that change the mean.  `rows.csv` has all of them, `deleted.csv` what changed nothing
  and was deleted.
- Made last: {last}; commit {commit}, Python {python}, {machine}.  Other rows are older.  Made by

```sh
python tests/benchmarks/parameters.py reports/references/parameters
```
"""


def readme(rows: Sequence[Row], commit: str, last: Iterable[str]) -> str:
    """The report; `last` are the studies made at that commit."""
    verdicts = [verdict(group) for _, group in grouped(rows)]
    counts = {name.split()[0]: verdicts.count(name) for name in ("mean", "single cases", "time", "nothing")}
    machine = {
        "commit": commit,
        "last": ", ".join(last),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    text = README.format(total=len(verdicts), **counts, **machine)
    return text + table(decisive(rows))


def decisive(rows: Iterable[Row]) -> list[Row]:
    """The rows of parameters that change the mean, each named with its search."""
    groups = [group for _, group in grouped(rows) if verdict(group) == "mean"]
    return [replace(row, parameter=f"{row.search}: {row.parameter}") for group in groups for row in group]


def grouped(rows: Iterable[Row]) -> list[tuple[tuple[str, str], list[Row]]]:
    """Rows by search and parameter."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.search, row.parameter), []).append(row)
    return list(groups.items())


def read_rows(path: Path) -> list[Row]:
    """Rows of a file, none if it is missing."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        types = {f.name: f.type for f in fields(Row)}
        return [Row(**{name: types[name](text) for name, text in row.items()}) for row in csv.DictReader(file)]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Rows as a file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, rows))


def main() -> None:
    """Run the studies and write what they show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=STUDIES, action="append", help="these studies, the other rows as they are")
    arguments = parser.parse_args()
    compile_at_once()
    is_ready(None)
    rows = {name: [] for name in STUDIES}
    for row in read_rows(arguments.folder / "rows.csv"):
        rows[row.search].append(row)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    for name in arguments.only or STUDIES:
        rows[name] = []
        for row in rows_of(name, STUDIES[name]):
            print(row, flush=True)
            rows[name].append(row)
    everything = [row for own in rows.values() for row in own]
    write_rows(arguments.folder / "rows.csv", everything)
    text = readme(everything, commit.strip(), arguments.only or STUDIES)
    (arguments.folder / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

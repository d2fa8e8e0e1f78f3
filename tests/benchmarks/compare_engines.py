"""Engines beside each other on instances of the library: ``python tests/benchmarks/compare_engines.py``.

An engine is a file in ``engines/`` with a function ``solve(instance, seconds)`` that returns a schedule; it may use two
cores for so many seconds of wall time, imports apart.  Rows are kept in ``reports/engines/results.csv``, and what is
there is not run again.  ``--page`` writes the leaderboard from the rows.
"""

import csv
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from time import monotonic, process_time

import themis_opt
from themis_opt.problem.cost import count_stages
from themis_opt.problem.instance import Instance
from themis_opt.schedules.validation import validate
from themis_opt.study.best_known import BestKnown, Library

ENGINES = {path.stem: path for path in sorted((Path(__file__).parent / "engines").glob("*.py"))}
REPORT = Path(__file__).parents[2] / "reports" / "engines"
COLUMNS = ("instance", "engine", "seconds", "makespan_ps", "wall", "cpu")
SECONDS, FAMILIES, PER_FAMILY = 10.0, ("all_reduce", "costs", "kinds", "paper"), 3
MOST_STAGES = 500  # more pairs of stages than other solvers read
FACTORS = (1.0001, 1.001, 1.01, 1.05, 1.1, 1.25)  # of a performance profile: E. Dolan, J. More (2002)

Rows = Sequence[Mapping[str, str]]


def contest() -> list[BestKnown]:
    """Instances of collectives that start at once, spread over families, with chunks of any sizes."""
    chosen: list[BestKnown] = []
    for family in FAMILIES:
        rows = [row for row in Library().rows if row.name.startswith(family) and row.sizes == "free"]
        small = [row for row in rows if count_stages(instance_of(row)) <= MOST_STAGES]
        chosen += small[:: max(1, len(small) // PER_FAMILY)][:PER_FAMILY]
    return chosen


def instance_of(row: BestKnown) -> Instance:
    """The instance of a row, on dimensions."""
    return themis_opt.load(Library().folder / row.file)


def run(engine: str, name: str, seconds: float) -> None:
    """Print what an engine comes to."""
    spec = spec_from_file_location(f"engine_{engine}", ENGINES[engine])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    instance = themis_opt.load(name)
    began, worked = monotonic(), process_time()
    schedule = module.solve(instance, seconds)
    wall, cpu = monotonic() - began, process_time() - worked
    validate(schedule)
    print(json.dumps({"makespan_ps": schedule.makespan, "wall": round(wall, 2), "cpu": round(cpu, 2)}))


def measure(path: Path, seconds: float) -> None:
    """Run what has no row yet, each in a separate process."""
    done = {(row["instance"], row["engine"], float(row["seconds"])) for row in read(path)}
    for known in contest():
        for engine in ENGINES:
            if (known.name, engine, seconds) in done:
                continue
            command = [sys.executable, __file__, engine, known.name, str(seconds)]
            result = subprocess.run(command, capture_output=True, text=True, timeout=60 * max(seconds, 10), check=False)
            if result.returncode:
                print(known.name, engine, result.stderr.splitlines()[-1], file=sys.stderr)
                continue
            row = {"instance": known.name, "engine": engine, "seconds": seconds} | json.loads(
                result.stdout.splitlines()[-1]
            )
            with path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(row)


def read(path: Path) -> Rows:
    """The rows so far; a file with a head is made if there is none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def page(rows: Rows) -> str:
    """The leaderboard: by engine, on which share of the instances it is within each factor of the best known."""
    best = {row.name: row.makespan_ps for row in Library().rows if row.sizes == "free"}
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratios.setdefault(row["engine"], []).append(int(row["makespan_ps"]) / best[row["instance"]])
    table = sorted(ratios.items(), key=lambda pair: (-sum(r <= FACTORS[2] for r in pair[1]), sum(pair[1])))
    heads = [f"within {factor - 1:.2%}" for factor in FACTORS]
    lines = ["| engine | instances | mean loss | " + " | ".join(heads) + " |", "|---" * (3 + len(FACTORS)) + "|"]
    for engine, values in table:
        shares = [f"{sum(value <= factor for value in values) / len(values):.0%}" for factor in FACTORS]
        loss = f"{sum(values) / len(values) - 1:.2%}"
        lines.append(f"| {engine} | {len(values)} | {loss} | {' | '.join(shares)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) == 4:
        run(sys.argv[1], sys.argv[2], float(sys.argv[3]))
    elif sys.argv[1:] == ["--page"]:
        print(page(read(REPORT / "results.csv")), end="")
    else:
        measure(REPORT / "results.csv", SECONDS)

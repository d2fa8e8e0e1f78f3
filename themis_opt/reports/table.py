"""The report for any rows: the policies side by side, and the best one on every instance."""

from collections import Counter
from collections.abc import Mapping, Sequence

from themis_opt.reports.cells import percent, plural
from themis_opt.reports.document import Column, Report, Section, Table, Value
from themis_opt.reports.experiment import Experiment
from themis_opt.reports.results import Result, baseline_makespans, by_policy, gaps, grouped, policy_head, results
from themis_opt.reports.rows import Row
from themis_opt.reports.sections import (
    MOST_ROWS,
    failures,
    mean_speedup,
    optimal_sentence,
    policy_tables,
    speedup,
    unbounded,
    warnings,
)

COLUMNS = (
    Column("instance"),
    Column("size", "size"),
    Column("chunks", "count"),
    Column("best policy"),
    Column("makespan", "duration"),
    Column("utilisation", "percent"),
    Column("speed-up", "factor"),
    Column("gap", "percent"),
)


def table(rows: Sequence[Row], experiment: Experiment) -> Report:
    """Compare all policies of the rows."""
    found = results(rows)
    text = (
        "Speed-up is over the fixed order, as a geometric mean over the instances that both ran. A gap is makespan "
        "over the best proven bound that holds for the chunk sizes of the run, minus 1.",
    )
    policies = Section("Policies", text, policy_tables(found))
    return Report(
        experiment.title,
        tuple(_summary(rows, found)),
        (policies, _instances(found), *failures(rows)),
    )


def _summary(rows: Sequence[Row], found: Sequence[Result]) -> list[str]:
    policies = by_policy(found)
    said = [
        f"{plural(len(found), 'schedule')} by {plural(len(policies), 'policy', 'policies')} on "
        f"{plural(len({result.row.fingerprint for result in found}), 'instance')}."
    ]
    baseline = baseline_makespans(found)
    means = {name: mean_speedup(runs, baseline) for name, runs in policies.items() if policy_head(name) != "baseline"}
    faster = {name: mean for name, mean in means.items() if mean is not None}
    if faster:
        name, mean = max(faster.items(), key=lambda item: item[1])
        said.append(f"{name} is fastest: {mean:.3f} times as fast as the fixed order, as a geometric mean.")
    wins = Counter(best.policy for best in _best(found))
    said += [
        f"{name} has the shortest makespan on {plural(number, 'instance')}." for name, number in wins.most_common(3)
    ]
    if gaps(found):
        said += [optimal_sentence(found), *unbounded(found)]
    best = gaps(_best(found))
    if best:
        said.append(f"The largest gap of a best schedule is {percent(max(best))}.")
    return said + warnings(rows, found)


def _best(found: Sequence[Result]) -> list[Result]:
    """The shortest makespan on every instance, the first of equals."""
    instances = grouped(found, lambda result: result.row.fingerprint)
    return [min(runs, key=lambda run: run.makespan_ns) for runs in instances.values()]


def _instances(found: Sequence[Result]) -> Section:
    best, text = _best(found), "The shortest makespan of all policies."
    if len(best) > MOST_ROWS:
        text += f" Only the {MOST_ROWS} of {len(best)} instances with the largest gaps."
        best = sorted(best, key=lambda run: -(run.gap or 0))[:MOST_ROWS]
    baseline = baseline_makespans(found)
    return Section("Best policy on every instance", (text,), (Table(COLUMNS, tuple(_row(b, baseline) for b in best)),))


def _row(best: Result, baseline: Mapping[str, float]) -> tuple[Value, ...]:
    row = best.row
    return (
        row.instance,
        row.size_bytes,
        row.chunks,
        best.policy,
        best.makespan_ns,
        row.utilisation,
        speedup(best, baseline),
        best.gap,
    )

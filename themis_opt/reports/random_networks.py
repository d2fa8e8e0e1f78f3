"""Policies on random networks: how their gaps are distributed, and how much of Themis's loss each one leaves."""

from collections.abc import Mapping, Sequence

from themis_opt.reports.cells import percent, plural, tick
from themis_opt.reports.document import Axis, Column, Figure, Report, Section, Series, Table
from themis_opt.reports.experiment import Experiment
from themis_opt.reports.results import REFERENCE, SEARCHES, Result, by_policy, gaps, policy_head, results
from themis_opt.reports.rows import Row
from themis_opt.reports.sections import failures, policy_tables, require_bounds, unbounded, warnings
from themis_opt.reports.statistics import distribution, spread

HEURISTIC, RIVAL = "hourglass", "themis+scf"

TOLERANCE = 1e-6
"""Relative difference up to which two makespans are equal."""

LEAST_LOSS = 0.005
"""Loss of the rival to the reference from which it can be shared out: less is within the doubt about the reference."""

MOST_REMAINING = 2.0
"""Shares of that loss above are drawn here: what matters is below 1."""

SMALLEST_GAP = 1e-5
"""Gaps below are drawn here, because the axes are logarithmic."""


def random_networks(rows: Sequence[Row], experiment: Experiment) -> Report:
    """Compare the distributions of gaps, run-time policies network by network, and what they lose to the reference.

    Raises
    ------
    InputError
        If no makespan has a bound.
    """
    found = results(rows)
    require_bounds(found)
    remaining = remaining_losses(found)
    sections = (_gaps(found), *_duels(found), *_remaining(remaining))
    return Report(experiment.title, tuple(_summary(rows, found, remaining)), (*sections, *failures(rows)))


def _summary(rows: Sequence[Row], found: Sequence[Result], remaining: Mapping[str, list[float]]) -> list[str]:
    networks = {result.row.fingerprint for result in found}
    said = [f"{plural(len(found), 'schedule')} on {plural(len(networks), 'random network')}."]
    for rival, ratios in duels(found).items():
        wins = sum(ratio <= 1 + TOLERANCE for ratio in ratios)
        said.append(
            f"{HEURISTIC} is at least as fast as {rival} on {wins} of {plural(len(ratios), 'network')} "
            f"({percent(wins / len(ratios))}); the worst ratio of makespans is {max(ratios):.4f}."
        )
    for policy, runs in by_policy(found).items():
        gap = spread(gaps(runs))
        if gap:
            said.append(f"{policy}: median gap {percent(gap.median)}, 90th percentile {percent(gap.p90)}.")
    losses = spread(remaining.get(HEURISTIC, []))
    if losses:
        said.append(
            f"Where {RIVAL} loses more than {tick(LEAST_LOSS, 'percent')} to the best known schedule "
            f"({plural(losses.count, 'network')}), {HEURISTIC} leaves {percent(losses.median)} of that loss (median)."
        )
    return said + warnings(rows, found) + unbounded(found)


def _gaps(found: Sequence[Result]) -> Section:
    text = (
        "A gap is makespan over the best proven lower bound that holds for the chunk sizes of the run, minus 1. "
        f"Gaps below {tick(SMALLEST_GAP, 'percent')} are drawn there.",
    )
    axis = Axis("gap to the best bound", log=True, format="percent")
    floors = {policy: [max(gap, SMALLEST_GAP) for gap in gaps(runs)] for policy, runs in by_policy(found).items()}
    floors = {policy: values for policy, values in floors.items() if values}
    boxes = Figure(
        "gap-boxes",
        "Gaps on random networks",
        "box",
        Axis("policy"),
        axis,
        tuple(Series(policy, (), tuple(values)) for policy, values in floors.items()),
        "Box: quartiles and median; whiskers: 5th and 95th percentile.",
    )
    curves = Figure(
        "gap-distribution",
        "Share of networks up to a gap",
        "step",
        axis,
        Axis("networks with at most this gap", format="percent"),
        tuple(Series(policy, *distribution(values)) for policy, values in floors.items()),
        "Further left is better.",
    )
    return Section("Gaps", text, policy_tables(found), (boxes, curves))


def duels(found: Sequence[Result]) -> dict[str, list[float]]:
    """Makespan of the heuristic over that of each other policy that does not search, on every network both ran."""
    ours = _makespans(found, HEURISTIC)
    rivals = [policy for policy in by_policy(found) if policy_head(policy) not in {*SEARCHES, HEURISTIC}]
    ratios = {
        rival: [ours[network] / makespan for network, makespan in _makespans(found, rival).items() if network in ours]
        for rival in rivals
    }
    return {rival: own for rival, own in ratios.items() if own}


def _makespans(found: Sequence[Result], policy: str) -> dict[str, float]:
    return {result.row.fingerprint: result.makespan_ns for result in found if result.row.policy == policy}


def _duels(found: Sequence[Result]) -> tuple[Section, ...]:
    known = duels(found)
    if not known:
        return ()
    columns = (
        Column("against"),
        Column("networks", "count"),
        Column("at least as fast", "count"),
        Column("equally fast", "count"),
        Column("slower", "count"),
        Column("worst ratio", "factor"),
    )
    rows = tuple((rival, *_outcome(ratios)) for rival, ratios in known.items())
    figure = Figure(
        "duel",
        f"Makespan of {HEURISTIC} over that of other policies",
        "step",
        Axis("ratio of makespans"),
        Axis("networks with at most this ratio", format="percent"),
        (
            *(Series(rival, *distribution(ratios)) for rival, ratios in known.items()),
            Series("equally fast", (1.0, 1.0), (0.0, 1.0), guide=True),
        ),
        f"Left of the line {HEURISTIC} is faster.",
    )
    text = f"Makespans within {TOLERANCE:g} of each other count as equal."
    return (Section(f"{HEURISTIC} against the others", (text,), (Table(columns, rows),), (figure,)),)


def _outcome(ratios: Sequence[float]) -> tuple[int, int, int, int, float]:
    """Networks, those where the heuristic is at least as fast, equally fast and slower, and the worst ratio."""
    wins = sum(ratio <= 1 + TOLERANCE for ratio in ratios)
    equal = sum(abs(ratio - 1) <= TOLERANCE for ratio in ratios)
    return len(ratios), wins, equal, len(ratios) - wins, max(ratios)


def remaining_losses(found: Sequence[Result]) -> dict[str, list[float]]:
    """What every policy leaves of the rival's loss to the reference: 0 is the reference, 1 the rival.

    Only networks where the reference policy ran and the rival loses more than :data:`LEAST_LOSS` to the best
    known makespan count.
    """
    best = _best_known(found)
    rival = _makespans(found, RIVAL)
    losses = {
        network: rival[network] - makespan
        for network, makespan in best.items()
        if network in rival and rival[network] > (1 + LEAST_LOSS) * makespan
    }
    policies = {policy: runs for policy, runs in by_policy(found).items() if policy_head(policy) != REFERENCE}
    return {
        policy: [(run.makespan_ns - best[key]) / losses[key] for run in runs if (key := run.row.fingerprint) in losses]
        for policy, runs in policies.items()
    }


def _best_known(found: Sequence[Result]) -> dict[str, float]:
    """Shortest makespan of any policy on the networks that the reference policy ran."""
    best: dict[str, float] = {}
    networks = {result.row.fingerprint for result in found if policy_head(result.row.policy) == REFERENCE}
    for result in found:
        network = result.row.fingerprint
        if network in networks:
            best[network] = min(result.makespan_ns, best.get(network, result.makespan_ns))
    return best


def _remaining(remaining: Mapping[str, list[float]]) -> tuple[Section, ...]:
    known = {policy: losses for policy, losses in remaining.items() if losses}
    if not known:
        return ()
    names = ("policy", "networks", "median", "mean", "90th percentile", "largest")
    columns = tuple(Column(name, form) for name, form in zip(names, ("text", "count", *["percent"] * 4), strict=True))
    rows = tuple(
        (policy, part.count, part.median, part.mean, part.p90, part.largest)
        for policy, losses in known.items()
        if (part := spread(losses))
    )
    figure = Figure(
        "remaining-loss",
        f"Share of the loss of {RIVAL} that remains",
        "step",
        Axis(f"(makespan - best known) / (makespan of {RIVAL} - best known)", format="percent"),
        Axis("networks with at most this share", format="percent"),
        tuple(_remaining_curve(policy, losses) for policy, losses in known.items() if policy != RIVAL),
        f"0 % is the best known schedule, 100 % {RIVAL}. "
        f"Shares above {tick(MOST_REMAINING, 'percent')} are drawn there.",
    )
    text = (
        f"On a sample of the networks a search looked for the best schedule. Where {RIVAL} takes more than "
        f"{tick(LEAST_LOSS, 'percent')} longer than the best known schedule, this is how much of that loss each policy "
        "leaves.",
    )
    return (Section(f"What remains of the loss of {RIVAL}", text, (Table(columns, rows),), (figure,)),)


def _remaining_curve(policy: str, losses: Sequence[float]) -> Series:
    return Series(policy, *distribution([min(loss, MOST_REMAINING) for loss in losses]))

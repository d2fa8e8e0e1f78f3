"""One program for a problem of each family, and one sentence for what a family does not offer."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import themis_opt
from themis_opt.base import registries
from themis_opt.base.errors import InputError
from themis_opt.families.door import FAMILIES
from themis_opt.formats.job_shop import read_job_shop
from themis_opt.graphs.trees import tree_plan
from themis_opt.problem.catalog import INSTANCES

SMALLEST = {"product": "fig5.all_reduce.256MB", "graph": "dgx1.all_gather.1GB"}
USUAL = {"product": "themis+scf", "graph": "trees", "pipeline": "1f1b"}


def pipelines() -> list[str]:
    return sorted(path.name.removesuffix(".pipeline.json") for path in INSTANCES.rglob("*.pipeline.json"))


@pytest.fixture(params=list(FAMILIES))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def problem(family: str) -> object:
    return themis_opt.load(pipelines()[0] if family == "pipeline" else SMALLEST[family])


def test_ten_lines_serve_every_family(family: str, problem: themis_opt.Instance) -> None:
    comparison = themis_opt.solve(problem, time_limit=1)
    best = comparison.best
    themis_opt.validate(best.schedule)
    explanation = themis_opt.explain(best.schedule)
    assert problem.family == family
    assert best.makespan >= max(comparison.bounds.values()) * (1 - 1e-12)
    assert all(bound >= 0 for bound in themis_opt.bounds(problem).values())
    assert best.gap == pytest.approx(best.makespan / best.bound - 1)
    assert best.status in ("optimal", "near-optimal", "feasible")
    assert explanation.steps[0].start == 0
    assert max(share.busy for share in explanation.resources) <= best.makespan
    assert len(themis_opt.plot(best.schedule).get_yticks()) >= 2


LINES = {
    "product": "<Comparison of 1 policies on fig5 all_reduce 256 MB: themis+scf: 7 ms, ",
    "graph": "<GraphComparison of 1 policies on dgx1.all_gather.1GB: trees: 5.841 ms, ",
    "pipeline": "<PipelineComparison of 1 policies on ",
}


def test_problems_networks_and_comparisons_are_shown_in_a_line(problem: themis_opt.Instance, family: str) -> None:
    compared = themis_opt.compare(problem, [USUAL[family]])
    assert repr(compared).startswith(LINES[family])
    for shown in (problem, compared, compared.best, themis_opt.explain(compared.best.schedule)):
        assert (repr(shown)[0], repr(shown)[-1], len(repr(shown)) < 120) == ("<", ">", True)


def test_rows_have_the_same_keys_in_every_family(problem: themis_opt.Instance, family: str) -> None:
    row = themis_opt.compare(problem, [USUAL[family]]).results[0].row()
    assert {"policy", "makespan_ns", "bound_ns", "gap", "status"} <= row.keys()
    assert row["gap"] == pytest.approx(row["makespan_ns"] / row["bound_ns"] - 1)


def test_a_policy_makes_a_plan_that_is_simulated(problem: themis_opt.Instance, family: str) -> None:
    policy = themis_opt.make_policy(USUAL[family])
    schedule = themis_opt.simulate(problem, policy(problem))
    result = themis_opt.compare(problem, [USUAL[family]]).best
    assert schedule.problem.fingerprint == problem.fingerprint
    assert getattr(schedule, "value", schedule.makespan) <= result.makespan


@pytest.mark.parametrize(
    ("family", "over"),
    [
        ("product", {"size": ["1 MiB", "2 MiB"]}),
        ("graph", {"size": ["1 MB", "2 MB"]}),
        ("pipeline", {"microbatches": [4, 8]}),
    ],
)
def test_larger_problems_take_longer_in_every_family(problem: themis_opt.Instance, family: str, over: dict) -> None:
    rows = themis_opt.sweep(problem, over, [USUAL[family]])
    assert rows[0]["makespan_ns"] < rows[1]["makespan_ns"]


@pytest.mark.parametrize("family", ["graph", "pipeline"])
def test_what_a_family_lacks_says_what_to_do_instead(problem: themis_opt.Instance, family: str) -> None:
    with pytest.raises(InputError, match=rf"tune.*is not for {family}s: .*'"):
        themis_opt.tune(problem)


def test_plans_lose_the_same_in_equal_samples_and_never_beat_a_bound(problem: themis_opt.Instance, family: str) -> None:
    off = {"bandwidth_spread": 0.2, "compute_jitter": 0.5, "samples": 5}
    first, again, other = (themis_opt.robustness(problem, [USUAL[family]], seed=seed, **off)[0] for seed in (1, 1, 2))
    assert first.nominal_makespan == themis_opt.compare(problem, [USUAL[family]]).best.makespan
    assert first.losses[0] >= -1e-9
    assert first.bounds.max() > first.nominal_bound
    assert first.makespans.tolist() == again.makespans.tolist() != other.makespans.tolist()
    with pytest.raises(InputError, match="samples = 0: must be at least 1"):
        themis_opt.robustness(problem, [USUAL[family]], samples=0)


def test_a_job_shop_of_every_family_takes_no_longer_than_its_schedule(
    problem: themis_opt.Instance, family: str, tmp_path: Path
) -> None:
    schedule = themis_opt.compare(problem, [USUAL[family]]).best.schedule
    (path,) = themis_opt.export(schedule, "fjsp", tmp_path, check=True)
    jobs = read_job_shop(path).jobs
    assert sum(choice.time for job in jobs for (choice,) in job) == schedule.timed.operations.duration.sum()
    assert len(jobs) < len(schedule.timed.start)


def test_unknown_policies_are_refused_by_name(problem: themis_opt.Instance, family: str) -> None:
    with pytest.raises(InputError, match="treez"):
        themis_opt.compare(problem, ["treez"])


def test_other_packages_add_policies_of_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("mine", f"{tree_plan.__module__}:tree_plan", "themis_opt.graph_policies")
    monkeypatch.setattr(registries, "entry_points", lambda group: [entry] if group == entry.group else [])
    policies = registries.Registry("themis_opt.graph_policies", {"trees": tree_plan})
    assert list(policies) == ["trees", "mine"]
    assert policies["mine"] is tree_plan


def test_what_is_no_problem_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a problem of one of product, graph, pipeline"):
        themis_opt.solve(object())
    with pytest.raises(InputError, match="is a directory, must be a JSON file"):
        themis_opt.solve(tmp_path)

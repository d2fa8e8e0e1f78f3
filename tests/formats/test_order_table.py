import pytest
from iteration_schedules import SHARED, layers, scheduled, with_compute

from themis_opt.base.errors import InputError
from themis_opt.formats.order_table import order_columns, order_json, order_table, read_order_table
from themis_opt.policies.registry import make_policy
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate


@pytest.fixture
def schedule() -> Schedule:
    """Every kind of collective on three dimensions, one of which is unused."""
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, name=name)
        for name, bandwidth in (("node", "2 GB/s"), ("rail", "3 GB/s"), ("pod", "1 GB/s"))
    )
    used = {"dimensions": ("node", "pod"), "size": "256 MB"}
    collectives = (
        Collective(kind="all_reduce", chunks=4, name="gradients", **used),
        Collective(kind="reduce_scatter", chunks=2, name="shards", **used),
        Collective(kind="all_gather", chunks=2, name="parameters", **used),
        Collective(kind="all_to_all", chunks=3, name="tokens", **used),
        Collective(kind="broadcast", chunks=2, name="weights", **used),
        Collective(kind="reduce", chunks=2, name="statistics", **used),
    )
    instance = Instance(name="mixed", network=Network(dimensions=dimensions), collectives=collectives)
    return simulate(instance, make_policy("random:seed=3+scf")(instance))


def test_chunks_have_an_order_for_each_phase_of_their_collective(schedule):
    keys = {c["name"]: set(c["chunks"][0]) - {"index", "bytes"} for c in order_table(schedule)["collectives"]}
    assert keys == {
        "gradients": {"rs_order", "ag_order"},
        "shards": {"rs_order"},
        "parameters": {"ag_order"},
        "tokens": {"a2a_order"},
        "weights": {"sc_order", "ag_order"},
        "statistics": {"rs_order", "ga_order"},
    }


def test_shifts_say_what_is_issued_after_its_iteration():
    schedule = scheduled("dear:threshold=6MB/themis")
    issues = [issue for entry in order_table(schedule)["dimensions"] for issue in entry["issue_order"]]
    shifted = {issue["collective"] for issue in issues if issue["shift"]}
    assert shifted
    assert all("gather" in name for name in shifted)


@with_compute
def test_launches_say_what_they_carry_and_what_waits(schedule):
    instance = schedule.instance
    for row, launch in zip(order_table(schedule)["collectives"], schedule.plan.launches, strict=True):
        assert (row["name"], row["kind"], row["part"]) == (launch.name, launch.kind, launch.part)
        assert row["tensors"] == [instance.exchanges[tensor].name for tensor in launch.tensors]
        for of, moment in ((launch.after, row["after"]), (launch.before, row["before"])):
            assert moment == {"task": instance.tasks[of.task].name, "later": of.later}
        assert row["after_launches"] == [schedule.plan.launches[other].name for other in launch.after_launches]


def test_dimensions_that_are_one_resource_issue_together():
    entry = order_table(scheduled(instance=layers(**SHARED)))["dimensions"][1]
    assert (entry["name"], entry["size"]) == ("near+far", 4)
    assert {issue["dimension"] for issue in entry["issue_order"]} == {"near", "far"}
    columns = order_columns(scheduled(instance=layers(**SHARED)))
    pairs = zip(columns["dimension"], columns["position"], strict=True)
    assert [position for name, position in pairs if name != "dim1"] == list(range(len(entry["issue_order"])))


def check_followed(path, schedule):
    path.write_text(order_json(schedule))
    followed = read_order_table(path, schedule.instance)
    assert followed.makespan == schedule.makespan
    assert followed.start.tolist() == schedule.start.tolist()
    assert order_table(followed) == order_table(schedule)


@pytest.mark.parametrize("policy", ["baseline", "themis+scf", "random:seed=5+scf"])
def test_tables_are_followed_to_the_times_of_their_schedule(tmp_path, schedule, policy):
    check_followed(tmp_path / "order.json", simulate(schedule.instance, make_policy(policy)(schedule.instance)))


@with_compute
def test_tables_of_iterations_are_followed_to_the_length_of_a_period(tmp_path, schedule):
    check_followed(tmp_path / "order.json", schedule)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('"phase": "reduce_scatter"', '"phase": "gather"', "is no stage of its dimension, or stands there twice"),
        ('"fingerprint": "', '"fingerprint": "f', "belongs to another instance"),
        ('"name": "gradients"', '"name": "others"', "collectives = 'others, shards.*: must be gradients, shards"),
        ('"chunk": 0', '"chunk": "zero"', "should be a valid integer"),
        ('["node", "pod"]', '["node", "moon"]', "the network has node, rail, pod"),
        ('"chunks": [{', '"chunks": [null, {', "should be a valid dictionary"),
        ('"chunks": [{', '"chunks": 7, "pieces": [{', "should be a valid list"),
        ('_order": ["node", "pod"]', '_order": 7', "must have lists of dimensions"),
        ('"index": 0, "bytes": ', '"index": 0, "bytes": null, "size": ', "a valid integer"),
    ],
)
def test_what_is_no_table_of_the_instance_is_refused(tmp_path, schedule, old, new, rule):
    path = tmp_path / "order.json"
    assert old in order_json(schedule)
    path.write_text(order_json(schedule).replace(old, new, 1))
    with pytest.raises(InputError, match=rule):
        read_order_table(path, schedule.instance)

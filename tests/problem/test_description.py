"""Instances in words: many tasks and tensors are summed up."""

import themis_opt
from themis_opt.problem.description import tables


def test_large_iterations_are_summed_up_by_kind():
    instance = themis_opt.load("v100-256.bert-large")
    shown = tables(instance)
    kinds = {row["tasks"]: row for row in shown["kinds of tasks"]}
    assert list(shown) == ["network", "kinds of tensors", "kinds of tasks"]
    assert kinds["layer*.mlp.forward"]["count"] == "24"
    assert sum(int(row["count"]) for row in kinds.values()) == len(instance.tasks)
    assert sum(int(row["count"]) for row in shown["kinds of tensors"]) == len(instance.exchanges)


def test_everything_is_shown_if_asked_for():
    instance = themis_opt.load("v100-256.bert-large")
    shown = tables(instance, whole=True)
    assert len(shown["tasks"]) == len(instance.tasks)
    assert len(shown["tensors"]) == len(instance.exchanges)


def test_no_column_of_sizes_has_two_units():
    shown = tables(themis_opt.load("v100-256.resnet-50"))
    for columns, names in (
        (shown["kinds of tensors"], ("size of all", "smallest", "largest")),
        (shown["kinds of tasks"], ("parameters",)),
    ):
        for name in names:
            assert len({row[name].split()[1] for row in columns if row[name] != "0"}) == 1

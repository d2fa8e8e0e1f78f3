"""A policy that fails is left out by name, and the others stay."""

import pytest

import themis_opt
from themis_opt.families.door import family_of
from themis_opt.graphs import comparison as graphs


def dies(problem):
    raise ZeroDivisionError("of a policy")


def test_others_stay_on_dimensions():
    compared = themis_opt.compare(themis_opt.load("fig5.all_reduce.256MB"), ["baseline", dies])
    assert [result.policy for result in compared.results] == ["baseline"]
    assert str(compared.refused["dies"]) == "dies: ZeroDivisionError: of a policy"


def test_others_stay_on_graphs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(graphs, "GRAPH_POLICIES", {**graphs.GRAPH_POLICIES, "dies": dies})
    problem = themis_opt.load("dgx1.all_gather.1GB").resized("1 MB")
    compared = family_of(problem).compare(problem, ["dies", "ring"])
    assert [result.policy for result in compared.results] == ["ring"]
    assert compared.refused == {"dies": "ZeroDivisionError: of a policy"}


def test_policies_without_time_are_left_out_on_graphs():
    problem = themis_opt.load("h100_8_8_8_4.all_reduce.1GB")
    compared = family_of(problem).solve(problem, time_limit=0.1)
    assert compared.left_out
    assert compared.best.makespan >= max(compared.bounds.values())

"""Cuts and orders that are decided together."""

from dataclasses import replace
from functools import partial

import pytest

from formulations.limits import Limits
from themis_opt.pipelines import cuts
from themis_opt.pipelines.comparison import compare
from themis_opt.pipelines.models import pipeline_of
from themis_opt.problem.fields import ModelError
from themis_opt.problem.network import Dimension, Network
from themis_opt.workloads.models import find_model
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

LAYERS = find_model("transformer:layers=4:hidden=64:vocabulary=900:heads=4:inner=256").layers(64)
NETWORK = Network(dimensions=[Dimension(kind="switch", size=2, bandwidth=2 * 10**8, latency="1 us", name="a")])
SETUP = Setup(network=NETWORK, timing=Rate(10**11), stages=2, microbatches=3, batch=3)


@pytest.mark.parametrize(("memory", "most_cuts"), [(None, 1000), (5_800_000, 1000), (None, 1)])
def test_no_cut_between_blocks_with_its_best_order_is_faster(monkeypatch, memory, most_cuts):
    monkeypatch.setattr(cuts, "MOST_CUTS", most_cuts)
    setup = replace(SETUP, memory=memory)
    joint = cuts.cut_and_order(LAYERS, setup, 1.0)
    of_cut = partial(pipeline_of, "", LAYERS)
    values = []
    for first in (1, 2, 3):
        try:
            problem = of_cut(replace(setup, layers_per_stage=(first, 4 - first)))
        except ModelError:  # memory rules it out
            assert memory is not None
            continue
        result = compare(problem, ["exact"], Limits(seconds=1.0)).best
        assert joint.bound <= result.makespan
        values.append(result.makespan)
    assert joint.schedule.value <= min(values) or most_cuts == 1
    assert joint.gap < 0.1
    assert joint.schedule.value <= joint.balanced
    assert joint.bound <= joint.schedule.value

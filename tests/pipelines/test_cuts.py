"""Cuts and orders that are decided together."""

from dataclasses import replace
from functools import partial
from itertools import product

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

LAYERS = find_model("transformer:layers=6:hidden=64:vocabulary=900:heads=4:inner=256").layers(64)
NETWORK = Network(dimensions=[Dimension(kind="switch", size=3, bandwidth=2 * 10**8, latency="1 us", name="a")])
SETUP = Setup(network=NETWORK, timing=Rate(10**11), stages=3, microbatches=2, batch=2)


@pytest.mark.parametrize(("memory", "most_cuts"), [(None, 1000), (4_200_000, 1000), (None, 1)])
def test_no_cut_between_blocks_with_its_best_order_is_faster(monkeypatch, memory, most_cuts):
    monkeypatch.setattr(cuts, "MOST_CUTS", most_cuts)
    setup = replace(SETUP, memory=memory)
    joint = cuts.cut_and_order(LAYERS, setup, 1.0)
    of_cut = partial(pipeline_of, "", LAYERS)
    values = []
    for counts in [(), *(cut for cut in product(range(1, 5), repeat=3) if sum(cut) == 6)]:
        try:
            problem = of_cut(replace(setup, layers_per_stage=counts))
        except ModelError:  # memory rules it out
            assert memory is not None
            continue
        result = compare(problem, ["exact"], Limits(seconds=1.0)).best
        values.append(result.schedule.value)
    balanced, *between = values
    assert (len(between) < 10) == (memory is not None)
    assert joint.bound <= min(between)
    assert joint.schedule.value == (min(values) if most_cuts == 1000 else balanced)
    assert joint.balanced == balanced > min(between)

"""Projections from few NPUs to many, with their error."""

import pytest
from small_iterations import run

from themis_opt.base.errors import InputError
from themis_opt.problem.network import Dimension, Network
from themis_opt.study.sweep import project, varied
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

NETWORK = Network(dimensions=[Dimension(kind="switch", size=16, bandwidth=10**9, latency="5 us", name="nic")])
POLICY = "ddp/baseline"


@pytest.fixture(scope="module")
def instance():
    model = MODELS["vgg-16-cifar"]
    return make_workload(model, model.layers(), Setup(network=NETWORK, timing=Rate(10**12)), chunks=1)


def steps(instance, share):
    return {npus: run(varied(instance, {"npus": npus, "share": share}), POLICY).makespan for npus in (4, 16)}


def test_a_share_of_bandwidths_is_recovered_and_predicts_what_was_held_back(instance):
    projection = project(instance, POLICY, steps(instance, 0.25))
    assert projection.share == pytest.approx(0.25, rel=2e-3)
    assert (projection.fitted, list(projection.errors)) == (4, [16])
    assert max(map(abs, projection.errors.values())) < 5e-3
    slower = {npus: round(time * (1.1 if npus == 16 else 1)) for npus, time in steps(instance, 0.25).items()}
    assert project(instance, POLICY, slower).errors[16] == pytest.approx(1 / 1.1 - 1, rel=1e-2)
    assert "err by" in str(projection)


def test_steps_that_no_share_explains(instance):
    with pytest.raises(InputError, match=r"measured = '4=.*: is explained by no share"):
        project(instance, POLICY, {4: 10**16})

"""How far training scales: factors, the least compression, and steps projected from those that were measured."""

import json
from typing import Any

import pytest
from planning import schedule_of
from small_iterations import run

from themis_opt import sweep
from themis_opt.base.errors import InputError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.study.sweep import (
    efficiency,
    least_compression,
    measured_share,
    parameter_servers,
    project,
    resized,
    varied,
)
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate


def adapters(rate: str) -> Network:
    return Network(name=rate, dimensions=(Dimension(kind="ring", size=64, bandwidth=rate, name="nic"),))


def trained(network: Network, model: str = "resnet-50", **choices: Any) -> Instance:
    setup = Setup(network=network, timing=Rate(15_700_000_000_000, 0.6), element_bytes=4, **choices)
    return make_workload(MODELS[model], MODELS[model].layers(), setup, chunks=1)


@pytest.mark.parametrize(("rate", "milliseconds"), [("10 Gb/s", 161.0), ("100 Gb/s", 16.1)])
def test_all_reduce_of_resnet_50_takes_what_the_bandwidth_says(rate: str, milliseconds: float) -> None:
    (row,) = sweep(trained(adapters(rate)), {"npus": [64]}, ["fused/baseline+fifo"])
    assert float(row["exposed_ns"]) / 1e6 == pytest.approx(milliseconds, rel=1e-3)


def test_no_compression_is_needed_at_100_gigabits() -> None:
    assert least_compression(trained(adapters("100 Gb/s")), "wait_free/hourglass", npus=64) == 1.0


def test_two_to_five_times_compression_reaches_the_target_at_10_gigabits_and_a_little_less_does_not() -> None:
    instance, policy = trained(adapters("10 Gb/s")), "horovod/hourglass"
    needed = least_compression(instance, policy, npus=64)
    assert needed is not None
    assert 2 < needed < 5
    ratios = [needed, needed / 1.01]
    enough, little = (row["scaling_factor"] for row in sweep(instance, {"npus": [64], "compression": ratios}, [policy]))
    assert float(little) < 0.95 <= float(enough)


def test_one_npu_waits_for_nobody_and_less_of_the_network_scales_worse() -> None:
    rows = sweep(trained(adapters("10 Gb/s")), {"npus": [1, 8, 64], "share": [0.3, 1.0]}, ["ddp/hourglass"])
    factors: dict[Any, Any] = {(row["npus"], row["share"]): row["scaling_factor"] for row in rows}
    assert factors[1, 0.3] == factors[1, 1.0] == 1.0
    assert factors[64, 0.3] < factors[64, 1.0] < factors[8, 1.0] < 1
    assert all(float(row["gap"]) >= 0 for row in rows)


def test_target_that_latency_forbids_is_reached_by_no_compression() -> None:
    slow = Network(dimensions=(Dimension(kind="ring", size=64, bandwidth="1 GB/s", latency="1 s"),))
    assert least_compression(trained(slow), "ddp/hourglass", npus=64) is None


TWO = Network(
    dimensions=(Dimension(kind="ring", size=8, bandwidth=1e9), Dimension(kind="switch", size=4, bandwidth=1e9))
)


def test_networks_shrink_from_the_outermost_dimension() -> None:
    assert [resized(TWO, count).sizes for count in (2, 8, 16, 32)] == [(2,), (8,), (8, 2), (8, 4)]


@pytest.mark.parametrize("count", [1, 12, 64])
def test_numbers_that_do_not_fit_the_network_are_refused(count: int) -> None:
    with pytest.raises(InputError, match=f"npus = {count}"):
        resized(TWO, count)


@pytest.mark.parametrize(
    ("share", "ratio", "field"), [(0.0, 1.0, "share"), (1.1, 1.0, "share"), (1.0, 0.5, "compression")]
)
@pytest.mark.parametrize("npus", [1, 8])
def test_shares_and_ratios_out_of_range_are_refused(npus: int, share: float, ratio: float, field: str) -> None:
    over = {"npus": [npus], "share": [share], "compression": [ratio]}
    with pytest.raises(InputError, match=f"{field} = "):
        sweep(trained(adapters("10 Gb/s")), over, ["ddp/hourglass"])


def test_use_of_the_network_comes_back_from_the_time_it_makes() -> None:
    instance, policy = trained(adapters("10 Gb/s")), "wait_free/hourglass"
    slow = varied(instance, {"npus": 64, "share": 0.3})
    time = schedule_of(slow, policy).makespan
    assert measured_share(instance, policy, time, npus=64) == pytest.approx(0.3, rel=2e-3)
    assert measured_share(instance, policy, instance.compute, npus=64) is None
    with pytest.raises(InputError, match="must be at least the compute"):
        measured_share(instance, policy, instance.compute - 1, npus=64)


def test_guidelines_are_their_formulas() -> None:
    assert efficiency(0.0, 64) == 1.0
    assert efficiency(0.1, 8) == pytest.approx(1.1 / 1.8)
    assert parameter_servers(10**9, 8, 10**9, 4 * 10**12) == 4
    assert parameter_servers(1, 1, 1e12, 10**12) == 1


def test_command_prints_the_same_figures() -> None:
    from typer.testing import CliRunner

    from themis_opt.cli.main import application

    line = ["sweep", "resnet-50", "--network", "v100-256.resnet-50", "--over", "npus=1,8,16", "--target", "0.95"]
    line += ["--policies", "horovod/hourglass", "--json"]
    document = json.loads(CliRunner().invoke(application(), line).stdout)
    assert [row["npus"] for row in document["rows"]] == [1, 8, 16]
    assert document["rows"][0]["scaling_factor"] == 1.0
    assert document["least_compression"][0]["npus"] == 16


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

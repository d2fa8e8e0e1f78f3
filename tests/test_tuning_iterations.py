"""Tuning of training iterations: the space, the search and what is found."""

import math
from itertools import pairwise

import pytest

import themis_opt
from themis_opt.errors import InputError
from themis_opt.instance import Dimension, Network
from themis_opt.iteration import ComputeTask, Iteration, Tensor
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.registry import make_iteration_policy
from themis_opt.iterations.simulator import simulate_iterations
from themis_opt.iterations.validation import validate_iterations
from themis_opt.tuning import tune
from themis_opt.tuning.costs import with_costs
from themis_opt.tuning.history import key_of
from themis_opt.tuning.iteration_options import iteration_space
from themis_opt.tuning.iteration_space import IterationSpace
from themis_opt.tuning.parameters import every_choice

MIB = 2**20
COSTS = {"launch_overhead": "10 us"}
FEW = COSTS | {"trials": 25, "max_chunks": 8}
SIZES = (1, 8, 4, 16, 2, 32)
"""MiB of the gradients of the layers, in the order of the forward pass."""


def iteration(sizes=SIZES, chunks=4, **fields):
    layers = range(len(sizes))
    tasks = [ComputeTask(name=f"forward {n}", duration="200 us") for n in layers]
    tasks += [ComputeTask(name=f"backward {n}", duration="400 us") for n in reversed(layers)]
    tensors = [
        Tensor(name=f"gradient {n}", size=sizes[n] * MIB, ready_after=f"backward {n}", needed_before=f"forward {n}")
        for n in layers
    ]
    dimensions = (
        Dimension(kind="switch", size=4, bandwidth="100 GB/s", latency="1 us", name="node"),
        Dimension(kind="ring", size=4, bandwidth="25 GB/s", latency="2 us", name="pod"),
    )
    return IterationInstance(
        name="six layers",
        network=Network(dimensions=dimensions),
        iteration=Iteration(tasks=tuple(tasks), tensors=tuple(tensors)),
        chunks=chunks,
        **fields,
    )


@pytest.fixture(scope="module")
def instance():
    return iteration()


@pytest.fixture(scope="module")
def space(instance):
    return iteration_space(instance, **COSTS)


@pytest.fixture(scope="module")
def tuned(instance):
    return tune(instance, **FEW)


def settings(tuned):
    return [(t.number, key_of(t.choice), t.state, t.measurements, t.repeats) for t in tuned.trials]


def choice(launching="ddp", **changes):
    return {"launching": launching, "order": "ready", "chunks": 4, "chunk_policy": "themis+scf"} | changes


class TestSpace:
    def test_sizes_of_buckets_go_from_the_smallest_tensor_to_all_in_one(self, space):
        by_name = {p.name: p for p in space.parameters}
        for name in ("first_cap", "cap", "buffer", "threshold"):
            assert by_name[name].values[0] == MIB
            assert by_name[name].values[-1] == sum(SIZES) * MIB + 1
        assert 25 * MIB in by_name["cap"].values

    def test_sizes_of_buckets_are_evenly_spread_by_ratio(self, space):
        values = next(p for p in space.parameters if p.name == "first_cap").values
        ratios = [math.log2(larger / smaller) for smaller, larger in pairwise(values[:-1])]
        assert ratios == pytest.approx([0.5] * len(ratios), abs=1e-4)

    def test_a_bucket_may_hold_everything(self, space):
        for launching, knobs in (("ddp", ("cap", "first_cap")), ("horovod", ("buffer",)), ("dear", ("threshold",))):
            largest = {name: sum(SIZES) * MIB + 1 for name in knobs}
            own = choice(launching, **largest, **({"cycle_us": 10**6} if launching == "horovod" else {}))
            launches = make_iteration_policy(space.specification(own)).launching(space.instance)
            assert max(len(launch.tensors) for launch in launches) == len(SIZES)

    def test_chunk_counts_are_powers_of_two_and_that_of_the_instance(self):
        counts = next(p for p in iteration_space(iteration(chunks=6), max_chunks=16).parameters if p.name == "chunks")
        assert counts.values == (1, 2, 4, 6, 8, 16)

    def test_the_default_is_that_of_pytorch(self, space):
        assert space.specification(space.reference) == "ddp/themis+scf"
        assert make_iteration_policy("ddp").launching.cap == space.reference["cap"] == 25 * MIB
        assert make_iteration_policy("ddp").launching.first_cap == space.reference["first_cap"] == MIB

    @pytest.mark.parametrize("sizes", [(1, 2), (30, 40, 50)])
    def test_the_default_keeps_its_name_where_its_caps_are_out_of_range(self, sizes):
        """Below 25 MiB in all, and with no tensor as small as 1 MiB."""
        own = iteration_space(iteration(sizes))
        first = tune(own.instance, trials=1).trials[0]
        assert own.specification(first.choice) == "ddp/themis+scf"

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (choice(first_cap=MIB, cap=60 * MIB), choice(first_cap=2 * MIB, cap=50 * MIB)),
            (choice("wait_free", order="layer"), choice("priority")),
            (choice("fused", order="layer"), choice("fused", order="newest")),
            (choice("fused"), choice(first_cap=63 * MIB + 1, cap=25 * MIB)),
            (choice("fused"), choice("horovod", buffer=63 * MIB + 1, cycle_us=100_000)),
            (choice("fused", chunks=64 * MIB), choice("fused", chunks=32 * MIB)),
        ],
    )  # fmt: skip
    def test_settings_that_make_no_difference_are_one(self, space, one, other):
        own = [{name: near(space, name, value) for name, value in c.items()} for c in (one, other)]
        assert space.canonical(own[0]) == space.canonical(own[1])

    @pytest.mark.parametrize(
        "changes",
        [{"cap": 4 * MIB}, {"order": "layer"}, {"order": "newest"}, {"chunks": 8}, {"chunk_policy": "hourglass"}],
    )
    def test_settings_that_make_a_difference_are_kept(self, space, changes):
        own = dict(space.reference)
        changed = {name: near(space, name, value) for name, value in (own | changes).items()}
        assert space.canonical(own) != space.canonical(changed)

    def test_equal_settings_have_equal_times(self):
        """What is remembered for a setting is what it would have measured itself."""
        own = IterationSpace(iteration((1, 2, 4)), ("themis+scf",), max_chunks=1)
        measured: dict[str, set[int]] = {}
        for raw in every_choice(own.parameters):
            time = own.measure(raw, 0).makespan
            measured.setdefault(key_of(own.canonical(raw)), set()).add(time)
        assert all(len(times) == 1 for times in measured.values())
        assert len(measured) > 10

    def test_a_canonical_setting_is_its_own_canonical_form(self, space):
        for launching in ("fused", "wait_free", "priority"):
            canonical = space.canonical(choice(launching))
            assert space.canonical(canonical) == canonical

    def test_a_measurement_is_the_simulated_schedule(self, instance, space):
        costly = with_costs(instance, **COSTS).replace(chunks=2)
        expected = simulate_iterations(costly, make_iteration_policy("priority/hourglass")(costly))
        measured = space.measure(choice("priority", chunks=2, chunk_policy="hourglass"), 0)
        assert (measured.makespan, measured.pieces) == (expected.iteration_time, 2 * len(SIZES))
        assert measured.ideal <= measured.makespan

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"sizes": ("1MiB",)}, "--sizes-of-collective = ('1MiB',): is for collectives, not for training"),
            ({"profiles": ("equal",)}, "--profiles"),
            ({"min_chunk": "1KiB"}, "--min-chunk = '1KiB'"),
            ({"policies": ("exact",)}, "--policies = 'exact': must name one or more of themis, hourglass, baseline"),
            ({"max_chunks": 0}, "--max-chunks = 0"),
            ({"packet": "many"}, "--packet = 'many'"),
            ({"launch_overhead": "soon"}, "--launch-overhead = 'soon'"),
        ],
    )
    def test_bad_options_are_refused(self, instance, options, said):
        with pytest.raises(InputError) as caught:
            iteration_space(instance, **options)
        assert said in str(caught.value)


def near(space, name, value):
    """The value of the space nearest to a wanted one; chunk counts are not limited."""
    parameter = next(p for p in space.parameters if p.name == name)
    return value if name == "chunks" else parameter.nearest(value)


class TestTune:
    def test_the_default_is_tried_first(self, instance, tuned):
        costly = with_costs(instance, **COSTS)
        expected = simulate_iterations(costly, make_iteration_policy("ddp/themis+scf")(costly))
        assert tuned.trials[0].measurements[0].makespan == expected.iteration_time
        assert tuned.default_schedule.iteration_time == expected.iteration_time

    def test_the_best_beats_the_default_and_both_are_valid(self, tuned):
        for schedule in (tuned.schedule, tuned.default_schedule):
            validate_iterations(schedule)
        assert tuned.schedule.iteration_time < tuned.default_schedule.iteration_time
        assert tuned.gain == pytest.approx(1 - tuned.schedule.iteration_time / tuned.default_schedule.iteration_time)

    def test_the_best_is_the_least_of_all_trials(self, tuned):
        assert tuned.schedule.iteration_time == min(t.measurements[0].makespan for t in tuned.trials)

    def test_one_trial_is_no_worse_than_the_default(self, instance):
        alone = tune(instance, trials=1, **COSTS)
        assert alone.schedule.iteration_time == alone.default_schedule.iteration_time
        assert alone.gain == 0

    def test_the_policy_gives_the_best_schedule_again(self, tuned):
        instance = tuned.schedule.instance
        again = simulate_iterations(instance, make_iteration_policy(tuned.policy)(instance))
        assert again.iteration_time == tuned.schedule.iteration_time

    def test_every_trial_names_a_policy_that_can_be_made(self, tuned):
        for row in tuned.trial_rows():
            make_iteration_policy(row["specification"])

    def test_equal_seeds_give_equal_trials(self, instance, tuned):
        assert settings(tune(instance, **FEW)) == settings(tuned)

    def test_other_seeds_give_other_trials(self, instance, tuned):
        assert settings(tune(instance, seed=1, **FEW)) != settings(tuned)

    def test_equal_settings_are_simulated_once(self, monkeypatch):
        measured, measure = [], IterationSpace.measure
        monkeypatch.setattr(
            IterationSpace, "measure", lambda self, c, case: measured.append(key_of(c)) or measure(self, c, case)
        )
        found = tune(iteration((1, 2)), trials=10, max_chunks=1, policies=("baseline",))
        searched = measured[: found.num_run]
        assert len(searched) == len(set(searched))

    def test_a_resumed_study_goes_on_as_if_it_had_never_ended(self, instance, tmp_path, tuned):
        storage = f"journal:{tmp_path / 'study.log'}"
        tune(instance, **FEW | {"trials": 9}, study="one", storage=storage)
        assert settings(tune(instance, **FEW, study="one", storage=storage)) == settings(tuned)

    @pytest.mark.parametrize(
        ("changed", "part"), [({"launch_overhead": "3 us"}, "instance"), ({"max_chunks": 4}, "space")]
    )
    def test_a_study_about_something_else_is_refused(self, instance, tmp_path, changed, part):
        storage = f"journal:{tmp_path / 'study.log'}"
        tune(instance, **FEW | {"trials": 1}, study="one", storage=storage)
        with pytest.raises(InputError, match=f"belongs to another {part}"):
            tune(instance, **FEW | {"trials": 2} | changed, study="one", storage=storage)

    def test_a_study_of_collectives_is_refused(self, instance, tmp_path):
        storage = f"journal:{tmp_path / 'study.log'}"
        tune(themis_opt.load("one_ring.all_reduce.4MB"), trials=1, study="one", storage=storage)
        with pytest.raises(InputError, match="belongs to another instance"):
            tune(instance, trials=1, study="one", storage=storage)

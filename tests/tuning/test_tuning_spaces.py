"""Spaces of tuning: what can be chosen, what makes no difference, and what a choice is worth."""

from typing import Any

import pytest
from six_layers import MIB, SIZES, iteration

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND
from themis_opt.policies.registry import make_policy
from themis_opt.problem.cost_overrides import is_free_to_cut, with_costs
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.bounds import bounds
from themis_opt.tuning import tune
from themis_opt.tuning.launching import LAUNCHING_KNOBS, USUAL_KNOBS, TunedParameter, every_choice
from themis_opt.tuning.options import chunk_counts, make_space
from themis_opt.tuning.outcome import settings

NAME = "2d-sw_sw.all_reduce.100MiB"
COSTLY = {"launch_overhead": "2 us", "packet": "4096B/30B", "latency": "occupy"}


@pytest.fixture(scope="module")
def instance():
    return themis_opt.load(NAME)


@pytest.fixture(scope="module")
def space():
    """The space of an iteration."""
    return make_space(iteration(), launch_overhead="10 us")


class TestParameters:
    DIVISOR = TunedParameter("divisor", (1, 4, 16), {"policy": ("a",)})
    BOTH = (TunedParameter("policy", ("a", "b")), DIVISOR)

    def test_a_parameter_is_only_chosen_where_it_matters(self):
        assert list(every_choice(self.BOTH)) == [
            {"policy": "a", "divisor": 1},
            {"policy": "a", "divisor": 4},
            {"policy": "a", "divisor": 16},
            {"policy": "b"},
        ]

    def test_the_nearest_number_is_nearest_in_ratio(self):
        assert [self.DIVISOR.nearest(value) for value in (1, 3, 6, 7, 10, 1000)] == [1, 4, 4, 4, 16, 16]


class TestCosts:
    def test_they_replace_those_of_every_dimension(self, instance):
        changed = with_costs(instance, **COSTLY)
        assert changed.latency == "occupy"
        for dimension in changed.network.dimensions:
            assert dimension.launch_overhead == 2_000_000
            assert (dimension.packet.payload, dimension.packet.header) == (4096, 30)

    @pytest.mark.parametrize(
        ("option", "value", "said"),
        [
            ("packet", "4096B", "--packet = '4096B': must be payload and header"),
            ("packet", "0B/30B", "--packet = '0B/30B'"),
            ("packet", "4096B/x", "--packet = '4096B/x'"),
            ("launch_overhead", "2 meters", "--launch-overhead = '2 meters': unknown unit"),
            ("launch_overhead", "-1 us", "--launch-overhead = '-1 us'"),
            ("latency", "never", "--latency = 'never'"),
            ("reduction", "fast", "--reduction = 'fast'"),
            ("reductions", "1 GB/s", "cost = 'reductions': must be one of launch_overhead, packet, reduction"),
        ],
    )
    def test_bad_ones_are_refused_by_the_name_of_the_option(self, instance, option, value, said):
        with pytest.raises(InputError) as caught:
            with_costs(instance, **{option: value})
        assert said in str(caught.value)

    def test_only_an_instance_without_them_is_free_to_cut(self, instance):
        assert is_free_to_cut(instance)
        for name, value in COSTLY.items():
            assert not is_free_to_cut(with_costs(instance, **{name: value}))


class TestChunkSpace:
    def choice(self, **changes):
        usual = {"chunks": 8, "profile": "equal", "policy": "themis", "dispatch": "scf", "threshold_divisor": 16}
        return usual | changes

    def test_chunk_counts_are_powers_of_two_and_between(self):
        assert chunk_counts(20) == (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20)
        assert chunk_counts(1) == (1,)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"policy": "hourglass", "dispatch": "fifo"}, {"policy": "hourglass", "dispatch": "scf"}),
            ({"policy": "baseline", "threshold_divisor": 4}, {"policy": "baseline", "threshold_divisor": 8}),
            ({"chunks": 1, "profile": "free", "dispatch": "lifo"}, {"chunks": 1, "profile": "equal"}),
            ({"chunks": 512, "profile": "free"}, {"chunks": 512, "profile": "equal"}),
            ({"least_chunk_bytes": 4096}, {}),
            ({"chunks": 256, "least_chunk_bytes": 2**20}, {"chunks": 100}),
        ],
    )
    def test_knobs_that_make_no_difference_are_left_out(self, instance, one, other):
        space = make_space(instance)
        assert space.key(self.choice(**one)) == space.key(self.choice(**other))

    @pytest.mark.parametrize(
        "changes",
        [{"chunks": 7}, {"profile": "free"}, {"dispatch": "fifo"},
         {"threshold_divisor": 8}, {"policy": "baseline"}, {"policy": "hourglass"}],
    )  # fmt: skip
    def test_knobs_that_make_a_difference_are_kept(self, instance, changes):
        space = make_space(instance)
        assert space.key(self.choice()) != space.key(self.choice(**changes))

    def test_no_equal_chunk_is_smaller_than_allowed(self, instance):
        space = make_space(instance, min_chunk="1 MiB")
        assert space.cut(self.choice(chunks=256)).collectives[0].chunks == 100

    def test_collectives_of_several_sizes_have_a_least_chunk(self, instance):
        (large,) = instance.collectives
        several = instance.replace(collectives=(large.replace(name="a"), large.replace(name="b", size="10 MiB")))
        space = make_space(several)
        assert space.counts(self.choice(chunks=64, least_chunk_bytes=2**18)) == (64, 40)
        least = make_space(several, min_chunk="8 MiB").parameters[-1]
        assert (least.name, least.values) == ("least_chunk_bytes", (8 * MIB,))

    def test_a_measurement_is_the_simulated_schedule(self, instance):
        space = make_space(instance, **COSTLY)
        expected = simulate(with_costs(instance, **COSTLY).overridden(chunks=8), make_policy("themis+scf")(
            with_costs(instance, **COSTLY).overridden(chunks=8)))  # fmt: skip
        measured = space.measure(self.choice())
        assert (measured.makespan, measured.pieces) == (expected.makespan, 8)
        assert measured.utilisation == expected.utilisation

    def test_free_sizes_are_never_worse_than_equal_ones(self, instance):
        space = make_space(instance, **COSTLY)
        equal, free = (space.measure(self.choice(profile=profile)).makespan for profile in ("equal", "free"))
        assert free < equal

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"min_chunk": "0B"}, "--min-chunk = 0: must be from 1 to"),
            ({"min_chunk": "1 TB"}, "--min-chunk = 1000000000000: must be from 1 to"),
            ({"min_chunk": "1 mile"}, "--min-chunk = '1 mile': unknown unit"),
            ({"profiles": ("equal", "equal")}, "--chunk-sizes = 'equal, equal'"),
        ],
    )
    def test_bad_options_are_refused(self, instance, options, said):
        with pytest.raises(InputError) as caught:
            make_space(instance, **options)
        assert said in str(caught.value)


def choice(launching="ddp", **changes):
    return {"launching": launching, "order": "ready", "chunks": 4, "chunk_policy": "themis+scf"} | changes


def near(space, name, value):
    """The value of the space nearest to a wanted one; chunk counts are not limited."""
    parameter = next(p for p in space.parameters if p.name == name)
    return value if name == "chunks" else parameter.nearest(value)


class TestLaunchingSpace:
    def test_sizes_of_buckets_go_from_the_smallest_tensor_to_all_in_one(self, space):
        by_name = {p.name: p for p in space.parameters}
        for name in ("first_cap", "cap", "buffer", "threshold"):
            values = sorted({*by_name[name].values} - {USUAL_KNOBS[name]} | {MIB})
            assert values[0] == MIB
            assert values[-1] == sum(SIZES) * MIB + 1
        assert 25 * MIB in by_name["cap"].values

    def test_the_default_is_that_of_pytorch(self, space):
        assert space.specification(space.reference) == "ddp/baseline+fifo"
        assert make_policy("ddp").launching.cap == space.reference["cap"] == 25 * MIB
        assert make_policy("ddp").launching.first_cap == space.reference["first_cap"] == MIB

    @pytest.mark.parametrize("sizes", [(1, 2), (30, 40, 50)])
    def test_the_default_keeps_its_name_where_its_caps_are_out_of_range(self, sizes):
        """Below 25 MiB in all, and with no tensor as small as 1 MiB."""
        space = make_space(iteration(sizes))
        first = tune(space.instance, trials=1).trials[0]
        assert space.specification(first.choice) == "ddp/baseline+fifo"

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
        nearest = [{name: near(space, name, value) for name, value in c.items()} for c in (one, other)]
        assert space.key(nearest[0]) == space.key(nearest[1])

    @pytest.mark.parametrize(
        "changes",
        [{"cap": 4 * MIB}, {"order": "layer"}, {"order": "newest"}, {"chunks": 8}, {"chunk_policy": "hourglass"}],
    )
    def test_settings_that_make_a_difference_are_kept(self, space, changes):
        usual = dict(space.reference)
        changed = {name: near(space, name, value) for name, value in (usual | changes).items()}
        assert space.key(usual) != space.key(changed)

    def test_equal_settings_have_equal_times(self):
        """What is remembered for a setting is what it would have measured itself."""
        space = make_space(iteration((1, 2, 4)), policies=("themis",), max_chunks=1)
        measured: dict[str, set[int]] = {}
        for raw in every_choice(space.parameters):
            time = space.measure(raw).makespan
            measured.setdefault(space.key(raw), set()).add(time)
        assert all(len(times) == 1 for times in measured.values())
        assert len(measured) > 10

    def test_a_measurement_is_the_simulated_schedule(self, space):
        costly = space.instance.replace(chunks=2)
        expected = simulate(costly, make_policy("priority/hourglass")(costly))
        measured = space.measure(choice("priority", chunks=2, chunk_policy="hourglass"))
        assert (measured.makespan, measured.pieces) == (expected.makespan, 2 * len(SIZES))
        assert space.proven == max(bounds(space.instance).values()) <= measured.makespan

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"profiles": ("equal",)}, "--chunk-sizes = ('equal',): is for collectives, not for training"),
            ({"min_chunk": "1KiB"}, "--min-chunk = '1KiB'"),
        ],
    )
    def test_options_of_collectives_are_refused(self, options, said):
        with pytest.raises(InputError) as caught:
            make_space(iteration(), **options)
        assert said in str(caught.value)


def test_usual_values_of_knobs_are_those_of_the_policies() -> None:
    """A knob that is as usual is not told: the policy must then have that value by itself."""
    policies: dict[str, Any] = {name: make_policy(f"{name}/baseline").launching for name in LAUNCHING_KNOBS}
    values = {
        knob: getattr(policies[name], knob.removesuffix("_us"))
        for name, knobs in LAUNCHING_KNOBS.items()
        for knob in knobs
    }
    values["cycle_us"] //= PICOSECONDS_PER_MICROSECOND
    assert values == {name: value for name, value in USUAL_KNOBS.items() if name != "order"}


def test_lines_to_paste_say_the_size_of_the_first_bucket_where_it_has_its_own():
    first, line = settings({"launching": "ddp", "first_cap": MIB, "cap": 50 * MIB})
    assert first.startswith(f"torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = {MIB}  # without effect where")
    assert line == "model = DistributedDataParallel(model, bucket_cap_mb=50)"
    assert settings({"launching": "ddp", "first_cap": 50 * MIB, "cap": 50 * MIB}) == (line,)
    assert settings({"launching": "fused"}) == ()


class TestMemory:
    """Four stages of each chunk on two dimensions, a thousand bytes for each stage."""

    def test_a_setting_that_needs_more_is_not_tried(self, instance):
        space = make_space(instance, memory=300e-6)
        choice = {"profile": "equal", "policy": "baseline", "dispatch": "fifo"}
        assert space.measure(choice | {"chunks": 64}).pieces == 64
        with pytest.raises(InputError, match=r"memory = 0\.0003: must be 0\.00032 GiB or more for 320 stages"):
            space.measure(choice | {"chunks": 80})

    def test_too_little_for_what_users_do_today_is_refused_at_once(self, instance):
        with pytest.raises(InputError, match=r"must be 0\.00026 GiB or more for 256 stages; or take fewer chunks"):
            make_space(instance, memory=200e-6)

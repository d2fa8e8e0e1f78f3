"""Spaces of tuning: what can be chosen, what makes no difference, and what a choice is worth."""

import pytest
from six_layers import iteration

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.policies.registry import make_policy
from themis_opt.problem.cost_overrides import is_free_to_cut, with_costs
from themis_opt.schedules.simulator import simulate
from themis_opt.tuning.space import TunedParameter, chunk_counts, make_space

NAME = "2d-sw_sw.all_reduce.100MiB"
COSTLY = {"launch_overhead": "2 us", "packet": "4096B/30B", "latency": "occupy"}


@pytest.fixture(scope="module")
def instance():
    return themis_opt.load(NAME)


def test_the_nearest_number_is_nearest_in_ratio():
    divisor = TunedParameter("divisor", (1, 4, 16))
    assert [divisor.nearest(value) for value in (1, 3, 6, 7, 10, 1000)] == [1, 4, 4, 4, 16, 16]


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

    def test_collectives_of_several_sizes_have_a_least_chunk(self, instance):
        (large,) = instance.collectives
        several = instance.replace(collectives=(large.replace(name="a"), large.replace(name="b", size="10 MiB")))
        space = make_space(several)
        assert space.counts(self.choice(chunks=64, least_chunk_bytes=2**18)) == (64, 40)

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
        ("options", "said"), [({"profiles": ("equal", "equal")}, "--chunk-sizes = 'equal, equal'")]
    )
    def test_bad_options_are_refused(self, instance, options, said):
        with pytest.raises(InputError) as caught:
            make_space(instance, **options)
        assert said in str(caught.value)


def test_training_steps_are_refused_with_the_command_that_plans_them():
    with pytest.raises(InputError, match="is for collectives: 'plan' finds the buckets of a training step"):
        make_space(iteration())


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

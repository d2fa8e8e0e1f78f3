"""Ranges of message sizes, each served by one choice."""

from itertools import product

import numpy as np
import pytest

from themis_opt.formats.nccl_tuner import fewest_ranges


def test_each_size_has_its_fastest_choice():
    times = np.array([[1.0, 2.0], [2.0, 3.0], [5.0, 4.0], [9.0, 6.0]])
    assert fewest_ranges(times) == [(0, 0), (2, 1)]


def test_choices_within_the_tolerance_spare_a_range():
    times = np.array([[1.0, 1.015], [1.015, 1.0], [2.0, 1.0]])
    assert fewest_ranges(times) == [(0, 1)]
    assert fewest_ranges(times, 0.01) == [(0, 0), (1, 1)]


def test_of_several_good_choices_the_fastest_on_the_whole_is_taken():
    times = np.array([[1.0, 1.01, 5.0], [1.01, 1.0, 5.0], [1.02, 1.0, 5.0]])
    assert fewest_ranges(times, 0.05) == [(0, 1)]


def test_a_choice_that_does_not_serve_a_size_is_not_taken_there():
    assert fewest_ranges(np.array([[np.inf, 7.0], [1.0, 9.0]])) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("seed", range(20))
def test_no_fewer_ranges_would_do(seed):
    times = 1 + np.random.default_rng(seed).integers(0, 3, (6, 3)) * 0.015
    good = times <= times.min(axis=1, keepdims=True) * 1.02
    ranges = fewest_ranges(times)
    firsts, choices = zip(*ranges, strict=True)
    assert all(good[first:end, k].all() for first, end, k in zip(firsts, (*firsts[1:], 6), choices, strict=True))
    assigned = (every for every in product(range(3), repeat=6) if all(good[k, c] for k, c in enumerate(every)))
    assert len(ranges) == min(1 + int(np.count_nonzero(np.diff(every))) for every in assigned)

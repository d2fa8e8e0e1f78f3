"""What stays in memory, is swapped or computed again: against brute force."""

import random
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.offloading import Fate, Layers, choose, least_memory

NUMBERS = st.integers(1, 9)


@st.composite
def problems(draw: st.DrawFn) -> Layers:
    count = draw(st.integers(2, 5))
    sizes = draw(st.lists(NUMBERS, min_size=count + 1, max_size=count + 1))
    forward, backward, transfer = (draw(st.lists(NUMBERS, min_size=count, max_size=count)) for _ in range(3))
    memory = least_memory(sizes) + draw(st.integers(-1, sum(sizes)))
    return Layers(sizes, forward, backward, transfer, memory)


def fits(layers: Layers, fates: tuple[Fate, ...]) -> bool:
    """Replay both passes, with what can be away being away."""
    if fates[0] is Fate.RECOMPUTE or any(set(pair) == {Fate.RECOMPUTE} for pair in pairwise(fates)):
        return False
    for layer, fate in enumerate(fates):
        kept = {j for j in range(layer) if fates[j] is Fate.KEEP}
        source = {layer - 1} if fate is Fate.RECOMPUTE else set()
        held = sum(layers.sizes[j] for j in kept)
        again = sum(layers.sizes[j] for j in kept | source)
        if held + layers.sizes[layer] + layers.sizes[layer + 1] > layers.memory:
            return False
        if again + 2 * layers.sizes[layer] + layers.sizes[layer + 1] > layers.memory:
            return False
    return True


def time(layers: Layers, fates: tuple[Fate, ...]) -> int:
    """The longest of compute and of every window that transfers have to fit around."""
    again = [layers.forward[j - 1] if fate is Fate.RECOMPUTE else 0 for j, fate in enumerate(fates)]
    times = [sum(layers.forward) + sum(layers.backward) + sum(again)]
    for layer in range(len(fates)):
        crossing = sum(2 * layers.transfer[j] for j in range(layer, len(fates)) if fates[j] is Fate.SWAP)
        passes = layers.forward[: layer + 1], layers.backward[: layer + 1], again[: layer + 1]
        times.append(crossing + sum(map(sum, passes)))
    return max(times)


def spent(layers: Layers, fates: tuple[Fate, ...]) -> int:
    """What is computed again, and what crosses the link there and back."""
    again = sum(layers.forward[j - 1] for j, fate in enumerate(fates) if fate is Fate.RECOMPUTE)
    return again + sum(2 * layers.transfer[j] for j, fate in enumerate(fates) if fate is Fate.SWAP)


def tight(seed: int) -> Layers:
    """Four layers in little more memory than they need, so that every limit decides about some of them."""
    draw = random.Random(seed)
    sizes, forward, backward, transfer = ([draw.randint(1, 9) for _ in range(length)] for length in (5, 4, 4, 4))
    slow = [time * (1 + seed % 2 * 8) for time in transfer]  # of odd seeds, so that computing again pays
    return Layers(sizes, forward, backward, slow, memory=least_memory(sizes) + draw.randint(-1, 9))


@pytest.mark.parametrize("seed", range(30))
def test_tight_choices_are_as_good_as_the_best_of_all(seed: int) -> None:
    is_best(tight(seed))


@settings(max_examples=20, deadline=None)
@given(problems())
def test_choice_is_as_good_as_the_best_of_all(layers: Layers) -> None:
    is_best(layers)


def is_best(layers: Layers) -> None:
    """Of least time, and with that of least time in copies."""
    legal = [fates for fates in product(Fate, repeat=len(layers.forward)) if fits(layers, fates)]
    outcome = choose(layers)
    if not legal:
        assert outcome is None
        return
    assert outcome is not None
    assert outcome.proven
    assert outcome.fates in legal
    assert outcome.bound == time(layers, outcome.fates) == min(time(layers, fates) for fates in legal)
    assert spent(layers, outcome.fates) == min(
        spent(layers, fates) for fates in legal if time(layers, fates) == outcome.bound
    )


@pytest.mark.parametrize(("sizes", "memory"), [([3, 5, 2, 4], 12), ([9, 1], 19), ([2, 9, 4], 22)])
def test_least_memory_holds_an_activation_and_the_gradients_of_two(sizes: list[int], memory: int) -> None:
    assert least_memory(sizes) == memory
    times = [1] * (len(sizes) - 1)
    assert choose(Layers(sizes, times, times, times, memory)) is not None
    assert choose(Layers(sizes, times, times, times, memory - 1)) is None


def test_nothing_leaves_where_everything_fits() -> None:
    outcome = choose(Layers([5, 5, 5], [1, 1], [2, 2], [1, 1], memory=100))
    assert outcome is not None
    assert outcome.fates == (Fate.KEEP, Fate.KEEP)


@pytest.mark.parametrize(("transfer", "fate"), [(1, Fate.SWAP), (50, Fate.RECOMPUTE)])
def test_slow_links_make_computing_again_worth_it(transfer: int, fate: Fate) -> None:
    """The backward pass of layer 2 needs 18 of 20 bytes: the input of layer 1 has to be away."""
    layers = Layers([1, 6, 6, 6, 1], [4] * 4, [8] * 4, [99, transfer, 99, 99], memory=20)
    outcome = choose(layers)
    assert outcome is not None
    assert outcome.fates[1] is fate
    is_best(layers)

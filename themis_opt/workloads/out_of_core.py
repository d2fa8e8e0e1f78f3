"""Training beyond the memory of an NPU: activations that are kept, swapped to the host, or computed again.

Data parallelism in which the input of every layer has one of three fates between its forward and its backward pass,
chosen by :mod:`formulations.offloading` for a memory and a link to the host (M. Wahib et al., *Scaling Distributed
Deep Learning Workloads beyond the Memory Capacity with KARMA*, SC 2020, https://arxiv.org/abs/2008.11421).  The memory
holds parameters and gradients all the time; the rest is for activations and for the gradients of two of them.

What is swapped leaves after the forward pass that used it.  It is out before the memory that it held is needed, and
before the backward pass begins; it comes back as early as there is room.  One transfer at a time crosses the link.
Updates on the host, which KARMA has too, are outside of the model.
"""

from collections.abc import Sequence
from itertools import pairwise

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_size
from themis_opt.problem.iteration import Iteration
from themis_opt.problem.network import Dimension, Kind
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.layers import Layer, count
from themis_opt.workloads.passes import Passes
from themis_opt.workloads.setup import Setup

HOST = "host"  # name of the link
TICK = 1000  # picoseconds; times of passes are cut to whole ticks for the choice


def out_of_core(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """The iteration in which activations fit `setup.memory`."""
    return offloaded(layers, setup, _fates(layers, setup, activations(layers, setup), _left(layers, setup)))


def offloaded(layers: tuple[Layer, ...], setup: Setup, fates: Sequence[str]) -> Iteration:
    """The iteration with given fates of the inputs of all layers: ``keep``, ``swap`` or ``recompute``.

    They fit the memory if they obey the rules of :mod:`formulations.offloading`.
    """
    sizes, memory = activations(layers, setup), _left(layers, setup)
    passes = Passes(setup.element_bytes)
    if setup.update:
        passes.compute("update", setup.optimizer)
    for layer in layers:
        passes.compute(f"{layer.name}.forward", setup.times(layer).forward, layer.elements())
    for place in range(len(layers) - 1, -1, -1):
        _backward(passes, layers, setup, place, fates[place])
    _swaps(passes, layers, setup, sizes, memory, fates)
    passes.gradients(layers, setup)
    link = Dimension(kind=Kind.SWITCH, size=2, bandwidth=setup.host_link, name=HOST)
    return passes.iteration(links=(link,))


def activations(layers: tuple[Layer, ...], setup: Setup) -> list[int]:
    """Bytes of the inputs of all layers, and of the output of the last one."""
    elements = [*(layer.inputs for layer in layers), layers[-1].outputs]
    return [setup.batch * inputs * setup.element_bytes for inputs in elements]


def _left(layers: tuple[Layer, ...], setup: Setup) -> int:
    if setup.memory is None:
        raise InputError("is required for out-of-core", field="--memory")
    if setup.host_link is None:
        raise InputError("is required for out-of-core", field="--host-link")
    if any(layer.kind == "table" for layer in layers):
        raise InputError("is not for models with tables", field="--parallelism", value="out-of-core")
    fixed = 2 * count(layers) * setup.element_bytes
    if setup.memory <= fixed:
        rule = f"must be more than the {format_size(fixed)} of parameters and gradients"
        raise InputError(rule, field="--memory", value=format_size(setup.memory))
    return setup.memory - fixed


def _fates(layers: tuple[Layer, ...], setup: Setup, sizes: list[int], memory: int) -> list[str]:
    from formulations.offloading import Layers, choose, least_memory  # OR-Tools loads for a while

    bandwidth = setup.host_link or 1.0
    times = [setup.times(layer) for layer in layers]
    backward = [time.weight_gradient + (time.input_gradient if place else 0) for place, time in enumerate(times)]
    chosen = choose(
        Layers(
            sizes=sizes,
            forward=[time.forward // TICK for time in times],
            backward=[time // TICK for time in backward],
            transfer=[int(size / bandwidth * PICOSECONDS_PER_SECOND) // TICK for size in sizes[:-1]],
            memory=memory,
        )
    )
    if chosen is None:
        least = least_memory(sizes) + (setup.memory or 0) - memory
        rule = f"is too small for a batch of {setup.batch}: one layer alone needs {format_size(least)}"
        raise InputError(rule, field="--memory", value=format_size(setup.memory or 0))
    return [fate.value for fate in chosen.fates]


def _backward(passes: Passes, layers: tuple[Layer, ...], setup: Setup, place: int, fate: str) -> None:
    """The backward pass of a layer, after the forward pass of the one before where that is run again."""
    layer, times = layers[place], setup.times(layers[place])
    if fate == "recompute":
        before = layers[place - 1]
        passes.compute(f"{before.name}.recompute", setup.times(before).forward)
    passes.compute(f"{layer.name}.weight_gradient", times.weight_gradient)
    if place:
        passes.compute(f"{layer.name}.input_gradient", times.input_gradient)


def _swaps(
    passes: Passes, layers: tuple[Layer, ...], setup: Setup, sizes: list[int], memory: int, fates: Sequence[str]
) -> None:
    """Send out what is swapped, and bring it back before it is needed, so that the memory is never exceeded.

    `sizes`: bytes of all activations.
    `memory`: bytes for them.
    `fates`: what becomes of the input of each layer.
    """
    out, back = _leaving(layers, sizes, memory, fates), _returning(sizes, memory, fates)
    for place, step in sorted(back.items()):
        name, elements = layers[place].name, setup.batch * layers[place].inputs
        needed = f"{name}.recompute" if _is_source(fates, place) else f"{name}.weight_gradient"
        let_in = f"{layers[-1].name}.forward" if step == len(layers) - 1 else f"{layers[step + 1].name}.input_gradient"
        for way, ready, before, after in (
            ("out", f"{name}.forward", out[place], ()),
            ("in", let_in, needed, (f"{name}.swap_out",)),
        ):
            send = CollectiveKind.SEND
            passes.exchange(f"{name}.swap_{way}", send, elements, ready, before, (HOST,), model=True, after=after)


def _is_source(fates: Sequence[str], place: int) -> bool:
    """Whether the next activation is computed again from this one."""
    return place + 1 < len(fates) and fates[place + 1] == "recompute"


def _leaving(layers: tuple[Layer, ...], sizes: list[int], memory: int, fates: Sequence[str]) -> dict[int, str]:
    """The task before which each swapped activation has to be out: the first that has no room otherwise."""
    held, out = 0, {}
    pending: list[int] = []
    for place, layer in enumerate(layers):
        while pending and held + sizes[place] + sizes[place + 1] > memory:
            first = pending.pop(0)
            held -= sizes[first]
            out[first] = f"{layer.name}.forward"
        if fates[place] != "recompute":
            held += sizes[place]
        if fates[place] == "swap":
            pending.append(place)
    begin = f"{layers[-2].name}.recompute" if fates[-1] == "recompute" else f"{layers[-1].name}.weight_gradient"
    return out | dict.fromkeys(pending, begin)


def _returning(sizes: list[int], memory: int, fates: Sequence[str]) -> dict[int, int]:
    """The layer whose backward pass is the first during which each swapped activation may be back."""
    room = [memory - occupied for occupied in _occupied(sizes, fates)]
    back = {}
    for place in range(len(fates) - 1, -1, -1):
        if fates[place] != "swap":
            continue
        step = place + 1 if _is_source(fates, place) else place
        while step + 1 < len(fates) and room[step + 1] >= sizes[place]:
            step += 1
            room[step] -= sizes[place]
        back[place] = step
    return back


def _occupied(sizes: list[int], fates: Sequence[str]) -> list[int]:
    """Bytes during the backward pass of each layer when what is swapped is back only where it is used."""
    kept = [size if fate == "keep" else 0 for size, fate in zip(sizes, fates, strict=False)]
    result = []
    for place, (size, size_after) in enumerate(pairwise(sizes)):
        source = sizes[place - 1] if fates[place] == "recompute" else kept[place - 1] if place else 0
        result.append(sum(kept[: max(place - 1, 0)]) + source + 2 * size + size_after)
    return result

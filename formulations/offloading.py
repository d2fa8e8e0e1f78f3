r"""Offloading: which activations of a network stay in memory, go to the host and back, or are computed again.

Sets and data
    Layers :math:`l = 0, ..., n - 1`; layer l makes activation l + 1 of :math:`a_{l+1}` bytes from activation l, so that
    there are n + 1 of them, in a memory of M bytes.  Its forward pass takes :math:`f_l`, its backward pass
    :math:`b_l`, and activation l crosses the link to the host in :math:`t_l`.  The backward pass of layer l needs
    activation l, and holds gradients of activations l and l + 1 besides.

Variables
    :math:`k_l, s_l, r_l \in \{0, 1\}`: activation :math:`l < n` is kept, swapped, or computed again just before it is
    needed; T, the time of an iteration.

Objective
    minimise T, and then :math:`\sum_l r_l f_{l-1} + 2 s_l t_l` among the choices with that T

Constraints
    1. *choice*: :math:`k_l + s_l + r_l = 1`, and :math:`r_0 = 0`: nothing makes the input again;
    2. *source*: :math:`r_l + r_{l+1} \le 1`: what is computed again comes from an activation that is there;
    3. *backward*: :math:`\sum_{j < l - 1} a_j k_j + a_{l-1} \max(k_{l-1}, r_l) + 2 a_l + a_{l+1} \le M`;
    4. *link*: :math:`T \ge \sum_{j \le l} f_j + 2 \sum_{j \ge l} s_j t_j + \sum_{j \le l} b_j + r_j f_{j-1}`,
       for every l: activations from l on leave after the forward pass of layer l, and return before its backward pass;
       of the last layer, all that is computed.

(3) is a knapsack for every layer; it counts what must be there at once when all that can be away is away, and holds in
the forward pass too, where a layer needs no gradients.  T is a **lower bound on the iteration time of every choice that
fits the memory**, where one transfer at a time crosses the link.  KARMA (M. Wahib et al., SC 2020,
https://arxiv.org/abs/2008.11421) chooses between the same three; the model is this project's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate, pairwise

from ortools.sat.python import cp_model

from formulations.cp_sat import search
from formulations.limits import Limits

USUAL_LIMITS = Limits(seconds=20.0, gap=0.0, deterministic=True)
"""Some hundred layers take a second; a later answer is hardly better."""


class Fate(Enum):
    """What becomes of an activation between the two passes that use it."""

    KEEP = "keep"
    SWAP = "swap"
    RECOMPUTE = "recompute"


@dataclass(frozen=True)
class Layers:
    """The data, as whole numbers.

    `sizes`: of every activation, one more than there are layers.
    `forward`, `backward`, `transfer`: times of the passes of every layer, and of its input on the link in one
      direction.
    `memory`: for activations and their gradients.
    """

    sizes: Sequence[int]
    forward: Sequence[int]
    backward: Sequence[int]
    transfer: Sequence[int]
    memory: int


@dataclass(frozen=True)
class Offload:
    """The fate of the input of every layer, the time that no other choice can beat, and whether that is proven."""

    fates: tuple[Fate, ...]
    bound: int
    proven: bool


@dataclass(frozen=True)
class _Variables:
    model: cp_model.CpModel
    by_fate: dict[Fate, list[cp_model.IntVar]]
    time: cp_model.IntVar

    @property
    def flat(self) -> list[cp_model.IntVar]:
        return [variable for fate in Fate for variable in self.by_fate[fate]]


def least_memory(sizes: Sequence[int]) -> int:
    """The least memory in which every activation can be used, when nothing is kept."""
    return max(2 * before + after for before, after in pairwise(sizes))


def choose(layers: Layers, limits: Limits = USUAL_LIMITS) -> Offload | None:
    """The best choice; None if no choice fits the memory, or none was met within the limits."""
    variables = _variables(layers)
    variables.model.minimize(variables.time)
    first = search(variables.model, [variables.time, *variables.flat], limits, lambda *_: None)
    if first.value is None:
        return None
    variables.model.add(variables.time <= first.value[variables.time.index])
    variables.model.minimize(_spent(layers, variables))
    second = search(variables.model, [variables.time, *variables.flat], limits, lambda *_: None)
    chosen = second.value or first.value
    by_layer = zip(*variables.by_fate.values(), strict=True)
    fates = tuple(next(fate for fate, v in zip(Fate, of, strict=True) if chosen[v.index]) for of in by_layer)
    return Offload(fates, int(first.bound), first.status == "optimal")


def _variables(layers: Layers) -> _Variables:
    model, count = cp_model.CpModel(), len(layers.forward)
    by_fate = {fate: [model.new_bool_var(f"{fate.value}[{layer}]") for layer in range(count)] for fate in Fate}
    serial = 2 * (sum(layers.forward) + sum(layers.backward) + sum(layers.transfer))
    variables = _Variables(model, by_fate, model.new_int_var(0, serial, "time"))
    _add_choice(variables, count)
    _add_source(variables, count)
    _add_backward(variables, layers)
    _add_link(variables, layers)
    return variables


def _add_choice(variables: _Variables, count: int) -> None:
    """(1) choice: one fate each, and the input is not computed again."""
    for layer in range(count):
        variables.model.add_exactly_one(variables.by_fate[fate][layer] for fate in Fate)
    variables.model.add(variables.by_fate[Fate.RECOMPUTE][0] == 0)


def _add_source(variables: _Variables, count: int) -> None:
    """(2) source: no two activations in a row are computed again."""
    again = variables.by_fate[Fate.RECOMPUTE]
    for layer in range(count - 1):
        variables.model.add_at_most_one(again[layer], again[layer + 1])


def _add_backward(variables: _Variables, layers: Layers) -> None:
    """(3) backward: what is kept, what the layer is computed again from, and two activations' gradients."""
    kept, again = variables.by_fate[Fate.KEEP], variables.by_fate[Fate.RECOMPUTE]
    for layer in range(len(kept)):
        held = sum(layers.sizes[j] * kept[j] for j in range(layer - 1))
        working = 2 * layers.sizes[layer] + layers.sizes[layer + 1]
        for before in (kept[layer - 1], again[layer]) if layer else (0,):
            variables.model.add(held + layers.sizes[layer - 1] * before + working <= layers.memory)


def _again(layers: Layers, variables: _Variables, count: int) -> cp_model.LinearExprT:
    """Time of computing again what `count` layers need."""
    again = variables.by_fate[Fate.RECOMPUTE]
    return sum(layers.forward[layer - 1] * again[layer] for layer in range(1, count))


def _add_link(variables: _Variables, layers: Layers) -> None:
    """(4) link: transfers fit between the passes of the first layer whose input is swapped, and all passes into T."""
    swapped, count = variables.by_fate[Fate.SWAP], len(layers.forward)
    head, tail = list(accumulate(layers.forward)), list(accumulate(layers.backward))
    for layer in range(count):
        crossing = sum(2 * layers.transfer[j] * swapped[j] for j in range(layer, count))
        passes = head[layer] + tail[layer]
        variables.model.add(variables.time >= passes + crossing + _again(layers, variables, layer + 1))


def _spent(layers: Layers, variables: _Variables) -> cp_model.LinearExprT:
    """What is computed again and what crosses the link."""
    swapped = variables.by_fate[Fate.SWAP]
    crossing = sum(2 * time * is_swapped for time, is_swapped in zip(layers.transfer, swapped, strict=True))
    return _again(layers, variables, len(layers.forward)) + crossing

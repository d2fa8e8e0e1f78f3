"""The subset lattice: paths of jobs through sets of machines.

A job visits every machine of a set once in each of its phases, in an order of its choice.  The state on the way
is the **set** of machines visited, so a phase is a path through the lattice of subsets from the empty set to
the full one.  Its arcs are pairs ``(visited, machine)``: ``visited`` is a bit mask (bit k for machine k) of the
machines already visited in this phase, ``machine`` the next one.  A set of D machines has D 2^(D-1) arcs where
it has D! orders.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

Arc = tuple[int, int]
Cost = TypeVar("Cost", bound=Any)


@dataclass(frozen=True)
class JobPhase:
    """One traversal of the lattice.

    `duration`: time for which the stage holds its machine.
    `lag`: time from the end of a stage on the machine to its result.
    `resource`: what a stage on the machine holds, one stage at a time; the number of the machine where it is not said.
    """

    duration: Mapping[Arc, float]
    lag: Mapping[int, float]
    resource: Mapping[int, int] = field(default_factory=dict)

    def held(self, machine: int) -> int:
        """The resource that a stage on a machine holds."""
        return self.resource.get(machine, machine)


@dataclass(frozen=True)
class JobClass:
    """Identical jobs.

    `machines`: the machines each job visits in each phase.
    `phases`: the phases, in order; a phase starts when the one before has all results.
    `count`: number of jobs.
    `release`: earliest start.
    `mirrored`: whether the second phase visits the machines in the reverse order of the first.
    """

    machines: tuple[int, ...]
    phases: tuple[JobPhase, ...]
    count: int = 1
    release: float = 0
    mirrored: bool = False

    @property
    def everything(self) -> int:
        """Mask of all machines."""
        return sum(1 << k for k in self.machines)

    @property
    def num_layers(self) -> int:
        """Independent traversals."""
        return 1 if self.mirrored else len(self.phases)

    @property
    def resources(self) -> tuple[int, ...]:
        """All that its stages hold."""
        return tuple(sorted({phase.held(k) for phase in self.phases for k in self.machines}))

    def loads(self) -> dict[int, list[dict[Arc, float]]]:
        """By resource, how long every arc of :meth:`layers` holds it; arcs that do not are left out."""
        loads: dict[int, list[dict[Arc, float]]] = {}
        for number, phase in enumerate(self.phases):
            folded = self.mirrored and number == 1
            for visited_and_machine, duration in phase.duration.items():
                arc = self.mirror(visited_and_machine) if folded else visited_and_machine
                layers = loads.setdefault(phase.held(arc[1]), [{} for _ in range(self.num_layers)])
                layer = layers[0 if folded else number]
                layer[arc] = layer.get(arc, 0) + duration
        return loads

    def least_price(self, price: Mapping[int, float]) -> float:
        """Least total of the time of all stages times the price of their resource, nothing where there is none."""
        layers = self.layers(lambda q, arc: price.get(self.phases[q].held(arc[1]), 0.0) * self.load(q, arc))
        return sum(cheapest_path(self.machines, layer) for layer in layers)

    def layers(self, cost: Callable[[int, Arc], float]) -> list[dict[Arc, float]]:
        """Costs of the arcs of each independent traversal.

        A mirrored second phase is folded into the first: its arc on a machine is then the one that the same
        machine has in the first phase, so that one arc costs both stages.
        """
        layers = [{arc: cost(number, arc) for arc in arcs(self.machines)} for number in range(len(self.phases))]
        if not self.mirrored:
            return layers
        first, second = layers
        return [{arc: first_cost + second[self.mirror(arc)] for arc, first_cost in first.items()}]

    def mirror(self, arc: Arc) -> Arc:
        """The arc of the same machine in the reverse order of the machines."""
        visited, machine = arc
        return self.everything & ~(visited | 1 << machine), machine

    def last_arc(self, machine: int) -> Arc:
        """The arc of a machine that is visited after all others."""
        return self.everything & ~(1 << machine), machine

    def load(self, number: int, arc: Arc) -> float:
        """Time an arc holds its machine, a cost for :meth:`layers`."""
        return self.phases[number].duration[arc]

    def passage(self, number: int, arc: Arc) -> float:
        """Time from the start of a stage to its result, a cost for :meth:`layers`."""
        return self.phases[number].duration[arc] + self.phases[number].lag[arc[1]]


@lru_cache(maxsize=16)
def subsets(machines: tuple[int, ...]) -> tuple[int, ...]:
    """Masks of all subsets of the machines, each after its proper subsets."""
    masks = [0]
    for machine in machines:
        masks += [mask | 1 << machine for mask in masks]
    return tuple(masks)


@lru_cache(maxsize=16)
def arcs(machines: tuple[int, ...]) -> tuple[Arc, ...]:
    """All arcs of the lattice, sources first."""
    return tuple((seen, machine) for seen in subsets(machines) for machine in machines if not seen >> machine & 1)


def cheapest_path(machines: tuple[int, ...], cost: Mapping[Arc, float]) -> float:
    """Least total cost of a path from the empty set to the full one."""
    return cheapest_paths(machines, cost.__getitem__, 0.0)[sum(1 << k for k in machines)]


def cheapest_paths(
    machines: tuple[int, ...],
    cost: Callable[[Arc], Cost],
    nothing: Cost,
    least: Callable[[Cost, Cost], Cost] = min,
    *,
    backwards: bool = False,
) -> dict[int, Cost]:
    """Least total costs of paths from the empty set to every set, or `backwards` from every set to the full one.

    Costs are numbers, or arrays with their `least`.
    """
    best = {sum(1 << k for k in machines) if backwards else 0: nothing}
    every = arcs(machines)
    for arc in reversed(every) if backwards else every:
        ends = arc[0], arc[0] | 1 << arc[1]
        source, target = ends[::-1] if backwards else ends
        total = best[source] + cost(arc)
        best[target] = least(best[target], total) if target in best else total
    return best

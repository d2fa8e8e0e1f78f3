"""A training iteration under construction from a trace: names made unique, empty collectives left out and counted."""

import math
from collections.abc import Sequence
from typing import Any

from themis_opt.base.sources import Source
from themis_opt.formats.readers.parts import EACH_WHEN_READY, Machine
from themis_opt.problem.exchanges import Parallelism
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import MAX_TASKS, MAX_TENSORS, Iteration, Split
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.passes import Passes

MAX_NAME_LETTERS = 200  # letters of a name that is kept
LAUNCHED_SO = (
    "The source launches each collective when it is ready: 'simulate', 'compare' and 'solve' put that policy first."
)


NOTHING = "exchanges nothing between NPUs of this network"


class Draft(Passes):
    """Collects tasks in the order they run, and tensors of so many bytes between them."""

    def __init__(self, source: Source) -> None:
        super().__init__(element_bytes=1)
        self._source, self.empty = source, 0
        self._uses: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """The name, or one with a number where it stands already."""
        name = "".join(c if c.isprintable() else "?" for c in name[:MAX_NAME_LETTERS]) or "task"
        while True:
            self._uses[name] = self._uses.get(name, 0) + 1
            if self._uses[name] == 1:
                return name
            name = f"{name}#{self._uses[name]}"

    def task(self, name: str, picoseconds: int) -> str:
        """Add a task that runs after the others; returns its name, which is unique.

        Raises InputError if there are too many.
        """
        if len(self.tasks) == MAX_TASKS:
            raise self._source.error(f"makes more than {MAX_TASKS} tasks")
        self.compute(self.unique(name), picoseconds)
        return self.tasks[-1].name

    def tensor(
        self,
        name: str,
        kind: CollectiveKind,
        size: int,
        between: tuple[str, str],
        dimensions: tuple[str, ...] | None,
        *,
        parallelism: Parallelism = "data",
        later: bool = False,
        after: tuple[str, ...] = (),
    ) -> str:
        """Add a tensor, unless it is empty or no NPU takes part; returns its name, which is unique, or none.

        Raises InputError if there are too many.

        `between`: the task that makes it, and the one that needs the result.
        `dimensions`: those that it spans; None for all.
        `later`: whether the result is needed in the next iteration, where the order of the tasks does not say so.
        `after`: tensors that must have arrived before it leaves.
        """
        if not size or dimensions == ():
            self.empty += 1
            return ""
        if len(self.tensors) == MAX_TENSORS:
            raise self._source.error(f"makes more than {MAX_TENSORS} tensors")
        given: dict[str, Any] = {"element_bytes": math.gcd(size, 4), "after": after}
        given |= {"needed_in": "next"} if later else {}
        self.exchange(self.unique(name), kind, size, *between, dimensions, model=parallelism == "model", **given)
        return self.tensors[-1].name

    def instance(
        self, name: str, machine: Machine, splits: Sequence[Split] = (), launching: str = EACH_WHEN_READY
    ) -> Instance:
        """The iteration on a machine, and the policy that launches as its source. Raises InputError if it is empty."""
        if not self.tensors:
            raise self._source.error(NOTHING)
        empty = f"{self.empty} collectives without bytes or partners are left out." if self.empty else ""
        made = {"tasks": tuple(self.tasks), "tensors": tuple(self.tensors), "splits": tuple(splits)}
        iteration = Iteration(**made, launching=launching)
        return machine.problem(name, description=empty, iteration=iteration, chunks=machine.chunks)


def needs_network(source: Source, machine: Machine | None) -> Machine:
    """The machine, which must be described. Raises InputError if no file describes it."""
    if machine is None:
        raise source.error("says nothing of the network: name a file, or a shipped instance, that does")
    return machine

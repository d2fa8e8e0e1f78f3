"""An iteration under construction: tasks in the order they run, and tensors that later tasks wait for."""

from collections.abc import Callable, Sequence
from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.iteration import MAX_TASKS, MAX_TENSORS, ComputeTask, Iteration, Split
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.setup import Setup

FEWER = "fewer microbatches or steps make fewer"


class Passes:
    """Collects tasks and tensors in the order of execution.

    `element_bytes`: bytes of one element of every tensor.
    `tasks`, `tensors`: those so far.
    """

    def __init__(self, element_bytes: int) -> None:
        self._element_bytes = element_bytes
        self.tasks: list[ComputeTask] = []
        self.tensors: list[Tensor] = []
        self._waiting: list[tuple[str, CollectiveKind, int, tuple[str, ...], tuple[str, ...]]] = []

    def compute(
        self, name: str, duration: int, elements: int = 0, stage: int = 0, kept: int = 0, until: str = ""
    ) -> None:
        """Add a task of `duration` picoseconds that keeps some parameters; exchanges that block end before it.

        `kept`: elements of activations that it keeps until the end of the task `until`.

        Raises InputError if there are too many tasks.
        """
        if len(self.tasks) == MAX_TASKS:
            raise InputError(f"makes more than {MAX_TASKS} tasks; {FEWER}", field="workload")
        given: dict[str, Any] = {"parameter_bytes": elements * self._element_bytes} if elements else {}
        given |= {"activation_bytes": kept * self._element_bytes, "freed_after": until} if kept else {}
        given |= {"stage": stage} if stage else {}
        ready = self.tasks[-1].name if self.tasks else ""
        self.tasks.append(ComputeTask(name=name, duration=f"{duration} ps", **given))
        waiting, self._waiting = self._waiting, []
        for tensor, kind, size, dimensions, after in waiting:
            self.exchange(tensor, kind, size, ready, name, dimensions, model=True, after=after)

    def backward(self, layers: Sequence[Layer], setup: Setup, prefix: str = "", *, keeps: bool = False) -> None:
        """Add the backward pass of layers that one NPU has whole; the first needs no gradients of its inputs.

        `keeps`: whether what is computed again is kept until the gradients are there.
        """
        for layer in reversed(layers):
            times, name = setup.times(layer), f"{prefix}{layer.name}"
            if setup.repeats:
                kept = (setup.batch * layer.kept, last_use(layer, layers, prefix)) if keeps else (0, "")
                self.compute(f"{name}.recompute", times.forward, kept=kept[0], until=kept[1])
            self.compute(f"{name}.weight_gradient", times.weight_gradient)
            if layer is not layers[0]:
                self.compute(f"{name}.input_gradient", times.input_gradient)

    def gradients(
        self,
        layers: Sequence[Layer],
        setup: Setup,
        elements: Callable[[Layer], int] = Layer.elements,
        dimensions: tuple[str, ...] | None = None,
        *,
        prefix: str = "",
        needed: str = "",
    ) -> None:
        """Add all-reduces of the gradients of each layer, or of all as one.

        `elements`: how many of a layer's gradients an NPU has.
        `prefix`: of the names of tasks and tensors.
        `needed`: the task that waits; by default the update, or the layer's next forward pass.
        """
        parts = {f"{layer.name}.gradients": (layer, elements(layer)) for layer in reversed(layers)}
        if setup.granularity == "fused":
            parts = {"gradients": (layers[0], sum(count for _, count in parts.values()))}
        for name, (layer, count) in parts.items():
            ready = f"{prefix}{layer.name}.weight_gradient"
            user = needed or ("update" if setup.update else f"{layer.name}.forward")
            self.exchange(f"{prefix}{name}", CollectiveKind.ALL_REDUCE, count, ready, user, dimensions)

    def block(
        self, name: str, kind: CollectiveKind, elements: int, dimensions: tuple[str, ...], after: tuple[str, ...] = ()
    ) -> None:
        """Add an exchange between model-parallel NPUs that lies between the last task and the next one."""
        self._waiting.append((name, kind, elements, dimensions, after))

    def exchange(
        self,
        name: str,
        kind: CollectiveKind,
        elements: int,
        ready: str,
        needed: str,
        dimensions: tuple[str, ...] | None = None,
        *,
        model: bool = False,
        **given: Any,
    ) -> None:
        """Add a tensor of some elements, unless it is empty or no NPU takes part; `given` are more of its fields."""
        if not elements or dimensions == ():
            return
        if dimensions:
            given["dimensions"] = dimensions
        if not given.get("after", True):
            del given["after"]  # documents hold what was given
        tensor = Tensor(
            name=name,
            kind=kind,
            size=elements * self._element_bytes,
            ready_after=ready,
            needed_before=needed,
            parallelism="model" if model else "data",
            **{"element_bytes": self._element_bytes} | given,
        )
        self.tensors.append(tensor)

    def iteration(self, splits: tuple[Split, ...] = (), steps: int = 1, remedy: str = FEWER, **given: Any) -> Iteration:
        """What was collected; `given` are more fields of the iteration.

        Raises InputError if there are too many tensors, which says what the `remedy` is.
        """
        if len(self.tensors) > MAX_TENSORS:
            rule = f"makes {len(self.tensors)} tensors, more than {MAX_TENSORS}; {remedy}"
            raise InputError(rule, field="workload")
        return Iteration(tasks=tuple(self.tasks), tensors=tuple(self.tensors), splits=splits, steps=steps, **given)


def last_use(layer: Layer, layers: Sequence[Layer], prefix: str = "") -> str:
    """The task of the backward pass that uses a layer's parameters and activations last."""
    return f"{prefix}{layer.name}.{'weight' if layer is layers[0] else 'input'}_gradient"

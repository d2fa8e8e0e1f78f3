"""PyTorch that follows a schedule or a plan (extra ``torch``).

All-reduces follow a schedule on process groups per dimension; sharded parameters are gathered as a plan says.

Examples
--------
In every process, after ``torch.distributed.init_process_group``::

    schedule = read_schedule("solution/schedule.json")
    model = DistributedDataParallel(model)
    model.register_comm_hook(None, themis_opt.torch.ddp_hook(schedule))

or, with the file that ``themis-opt plan`` writes::

    themis_opt.torch.apply_fsdp(model, "plan/plan.json")
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from themis_opt.base.documents import read_json
from themis_opt.base.errors import InputError
from themis_opt.base.extras import needed
from themis_opt.problem.phases import CollectiveKind, Data
from themis_opt.runtime.engine import Engine
from themis_opt.runtime.layout import cut_columns, stage_view
from themis_opt.runtime.program import Program, RunOptions, compile_program
from themis_opt.schedules.schedule import Schedule

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"themis_opt.torch {needed(error)}", name=error.name) from None
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

# What newer versions call otherwise.
_reduce_scatter = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor
_all_gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor


class ScheduledAllReduce:
    """An all-reduce that follows a schedule.

    The tensor is flattened and padded by less than one element per rank, and cut in chunks in proportion to those of
    the schedule.  Every dimension has a thread that issues its reduce-scatters and all-gathers in order.

    Parameters
    ----------
    schedule : Schedule
        One all-reduce over all dimensions, of any size.
    mesh : DeviceMesh, optional
        Its dimensions are those of the network with the outermost first, so that ranks count the innermost first; by
        default one is made of all ranks.

    Raises
    ------
    InputError
        If the schedule is of anything else, or the mesh has other sizes.
    """

    def __init__(self, schedule: Schedule, mesh: DeviceMesh | None = None) -> None:
        self._program = compile_program(schedule, RunOptions(paced=False))
        exchanges, count = schedule.instance.exchanges, len(schedule.instance.fabric.dimensions)
        is_one = len(exchanges) == 1 and not schedule.has_period
        if not is_one or exchanges[0].kind is not CollectiveKind.ALL_REDUCE or len(exchanges[0].span) != count:
            raise InputError("must be one all-reduce over all dimensions", field="schedule")
        shape = tuple(reversed(self._program.sizes))
        if mesh is None:
            if distributed.get_world_size() != math.prod(shape):
                rule = f"must be {math.prod(shape)}, the NPUs of the schedule"
                raise InputError(rule, field="world size", value=distributed.get_world_size())
            mesh = init_device_mesh("cuda" if distributed.get_backend() == "nccl" else "cpu", shape)
        self._mesh = mesh
        if tuple(self._mesh.mesh.shape) != shape:
            rule = f"must have the sizes of the dimensions, the outermost first: {shape}"
            raise InputError(rule, field="mesh", value=tuple(self._mesh.mesh.shape))
        coordinates = self._mesh.get_coordinate()
        self._places = tuple(reversed(coordinates or ()))
        self._groups = [self._mesh.get_group(len(shape) - 1 - k) for k in range(len(shape))]
        self._peers = [self._line(k) for k in range(len(shape))]
        self._orders = [self._order(k) for k in range(len(shape))]
        self._weights = tuple(schedule.plan.chunks[0].sizes.tolist())

    def _line(self, k: int) -> list[int]:
        """Ranks along a dimension, by place."""
        axis = len(self._places) - 1 - k
        places = [slice(None) if other == axis else place for other, place in enumerate(reversed(self._places))]
        ranks: list[int] = self._mesh.mesh[tuple(places)].tolist()
        return ranks

    def _order(self, k: int) -> torch.Tensor:
        """Places along a dimension in the order of its process group, which counts by rank."""
        numbers = [distributed.get_group_rank(self._groups[k], rank) for rank in self._peers[k]]
        return torch.tensor(numbers, device=self._mesh.device_type).argsort()

    @property
    def num_ranks(self) -> int:
        """Ranks of the mesh."""
        return self._program.num_ranks

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        """Add up a tensor over all ranks, in place; returns the tensor."""
        flat = tensor.detach().reshape(-1)
        columns = -(-flat.numel() // self.num_ranks)
        padded = flat
        if columns * self.num_ranks != flat.numel() or flat.data_ptr() != tensor.data_ptr():
            padded = flat.new_zeros(columns * self.num_ranks)
            padded[: flat.numel()] = flat
        program = _resized(self._program, cut_columns(self._weights, columns))
        parts = padded.view(*reversed(program.sizes), columns)
        Engine(program, lambda operation, _: self._move(program, operation, parts)).run()
        if padded is not flat:
            tensor.copy_(padded[: flat.numel()].view_as(tensor))
        return tensor

    def _move(self, program: Program, operation: int, tensor: torch.Tensor) -> None:
        """Run one stage as a collective of the group of its dimension."""
        _, chunk, position = program.stage_places[operation]
        (launch,) = program.launches
        path = launch.paths[chunk]
        first, last = launch.columns[chunk : chunk + 2]
        k = path[position]
        view = stage_view(launch.kind, launch.span, self._places, path, position, first, last)
        blocks = torch.movedim(tensor[view.index], len(path) // 2 - 1 - view.axis, 0)
        if first == last:
            return
        with torch.no_grad():
            if view.phase.rule.data is Data.SHRINK:
                self._reduce_scatter(blocks, k)
            else:
                self._all_gather(blocks, k)

    def _reduce_scatter(self, blocks: torch.Tensor, k: int) -> None:
        block = blocks[self._places[k]]
        if self._sends_messages(k):
            output = self._swapped(blocks.contiguous(), k).sum(0, dtype=block.dtype)
        else:
            output = torch.empty(block.numel(), dtype=block.dtype, device=block.device)
            _reduce_scatter(output, blocks[self._orders[k]].view(-1), group=self._groups[k])
        block.copy_(output.view(block.shape))
        _finish(block)

    def _all_gather(self, blocks: torch.Tensor, k: int) -> None:
        block = blocks[self._places[k]].contiguous()
        if self._sends_messages(k):
            blocks.copy_(self._swapped(block.expand(blocks.shape), k))
        else:
            output = torch.empty(blocks.numel(), dtype=block.dtype, device=block.device)
            _all_gather(output, block.view(-1), group=self._groups[k])
            blocks[self._orders[k]] = output.view(blocks.shape)
        _finish(block)

    def _sends_messages(self, k: int) -> bool:
        """With gloo, whose collectives of two ranks keep a link up to twice as long as their bytes do."""
        return bool(distributed.get_backend(self._groups[k]) == "gloo")

    def _swapped(self, blocks: torch.Tensor, k: int) -> torch.Tensor:
        """What the ranks along a dimension have for this one, where it has a block for each of them."""
        received = torch.empty(blocks.shape, dtype=blocks.dtype, device=blocks.device)
        received[self._places[k]] = blocks[self._places[k]]
        group, peers = self._groups[k], [peer for peer in enumerate(self._peers[k]) if peer[0] != self._places[k]]
        works = [distributed.irecv(received[place], rank, group=group) for place, rank in peers]
        works += [distributed.isend(blocks[place], rank, group=group) for place, rank in peers]
        for work in works:
            work.wait()
        return received


def _finish(tensor: torch.Tensor) -> None:
    """Wait for a device that works beside this thread: stages of other dimensions may use the result next."""
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()


@lru_cache(maxsize=256)
def _resized(program: Program, columns: tuple[int, ...]) -> Program:
    """The program for a tensor of another size."""
    return replace(program, launches=(replace(program.launches[0], columns=columns),))


def all_reduce(tensor: torch.Tensor, schedule: Schedule, mesh: DeviceMesh | None = None) -> torch.Tensor:
    """Add up a tensor over the ranks of a mesh as a schedule says, in place.

    For more than one tensor make a :class:`ScheduledAllReduce` once: it makes the process groups.
    """
    return ScheduledAllReduce(schedule, mesh)(tensor)


def ddp_hook(
    schedule: Schedule, mesh: DeviceMesh | None = None
) -> Callable[[Any, distributed.GradBucket], torch.futures.Future[torch.Tensor]]:
    """A communication hook for ``DistributedDataParallel`` that averages gradients as a schedule says.

    A bucket is already one flat tensor; it is padded where its elements do not divide by the ranks, at the cost of two
    copies.  Buckets run one after the other, beside the rest of the backward pass.

    Parameters
    ----------
    schedule : Schedule
        One all-reduce over all dimensions; of about the size of a bucket, 25 MiB by default.
    mesh : DeviceMesh, optional
        As for :class:`ScheduledAllReduce`.

    Returns
    -------
    callable
        For ``model.register_comm_hook(None, ...)``.
    """
    scheduled, turns = ScheduledAllReduce(schedule, mesh), ThreadPoolExecutor(max_workers=1)

    def hook(_state: Any, bucket: distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        gradients = bucket.buffer()

        def run() -> None:
            try:
                done.set_result(scheduled(gradients.div_(scheduled.num_ranks)))
            except Exception as error:
                done.set_exception(error)

        turns.submit(run)
        return done

    return hook


def apply_fsdp(
    model: nn.Module, plan: str | Path | Mapping[str, Any], modules: Sequence[nn.Module] | None = None, **options: Any
) -> nn.Module:
    """Shard the parameters of a model in the groups of a plan, and gather them as early as it says.

    What the plan does not name is one more group, that of the model itself.

    Parameters
    ----------
    model : Module
        On the device where it is trained.
    plan : path or mapping
        The file ``plan.json`` that ``themis-opt plan`` writes, or what it holds.
    modules : sequence of Module, optional
        Those that the names of the plan stand for, in the order of the forward pass; by default submodules of these
        names.
    **options
        For every ``fully_shard``, such as `mesh` and `mp_policy`.

    Returns
    -------
    Module
        The model.

    Raises
    ------
    InputError
        If the plan shards nothing, or names modules that the model does not have.
    """
    document = plan if isinstance(plan, Mapping) else read_json(Path(plan))
    settings = document.get("fsdp")
    if not settings:
        raise InputError("must shard parameters: it has no gathers", field="plan.fsdp", value=settings)
    groups = _modules_of(model, settings["groups"], modules)
    for number, group in enumerate(groups):
        fully_shard(group, reshard_after_forward=number not in settings["kept"], **options)
    fully_shard(model, **options)
    for number, group in enumerate(groups):
        _prefetch(group[0], "forward", settings, number, groups)
        _prefetch(group[0], "backward", settings, number, groups)
        early = [groups[other][0] for other in settings.get("early", {}).get(str(number), [])]
        if early:
            group[-1].register_forward_hook(partial(_gather_early, early))
    return model


def _prefetch(
    module: nn.Module, sweep: str, settings: Mapping[str, Any], number: int, groups: Sequence[Sequence[nn.Module]]
) -> None:
    """Set what a group gathers ahead in one pass; without a list PyTorch would gather the next group."""
    if not isinstance(module, FSDPModule):
        raise InputError("must be sharded", field="module", value=type(module).__name__)
    numbers = settings[sweep].get(str(number), [])
    getattr(module, f"set_modules_to_{sweep}_prefetch")([groups[other][0] for other in numbers])


def _gather_early(groups: Sequence[nn.Module], *_: object) -> None:
    """Gather groups again that the backward pass needs, once a group has ended its forward pass."""
    for group in groups:
        if isinstance(group, FSDPModule) and torch.is_grad_enabled():
            group.unshard(async_op=True)


def _modules_of(
    model: nn.Module, groups: Sequence[Sequence[str]], modules: Sequence[nn.Module] | None
) -> list[list[nn.Module]]:
    names = [name for group in groups for name in group]
    if modules is None:
        known = dict(model.named_modules())
        missing = [name for name in names if name not in known]
        if missing:
            raise InputError("is no module of the model", field="plan.fsdp.groups", value=missing[0])
        modules = [known[name] for name in names]
    if len(modules) != len(names):
        raise InputError(f"must be {len(names)}, as many as the plan names", field="modules", value=len(modules))
    by_name = dict(zip(names, modules, strict=True))
    return [[by_name[name] for name in group] for group in groups]

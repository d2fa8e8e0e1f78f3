"""Validation: whether a schedule obeys the model, from its times and the rules alone.

Nothing here comes from the simulator; only the cost model, which defines how long a stage takes, is shared.
Times have one row per iteration, shape (iterations, stages), and a single row where nothing is computed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from themis_opt.base.arrays import BoolArray, IntArray
from themis_opt.base.errors import InvalidSchedule
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_short_time, format_size
from themis_opt.problem.cost import fixed_occupancy, wire_bytes
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.phases import CollectiveKind, Phase
from themis_opt.problem.rails import lateness
from themis_opt.schedules.memory import arrivals, memory_curves
from themis_opt.schedules.plan import Chunks
from themis_opt.schedules.schedule import Schedule

HALVES = ("scatter", "gather")  # parts that are one of the halves of a kind, in their order
RAIL_TOLERANCE = 1e-9  # relative error that floating-point parts of bytes are sure to stay below
ValidationRule = Callable[[Schedule], str | None]  # what is wrong with a schedule, or None


def validate(schedule: Schedule) -> None:
    """Check every rule.

    Raises
    ------
    InvalidSchedule
        For the first broken rule, in the order of :data:`VALIDATION_RULES`.
    """
    for name, rule in VALIDATION_RULES.items():
        broken = rule(schedule)
        if broken is not None:
            raise InvalidSchedule(name, broken)


def shape(schedule: Schedule) -> str | None:
    """One group of chunks per launch, one path per chunk, one time per stage and task, iterations where tasks are."""
    instance, plan, tasks = schedule.instance, schedule.plan, schedule.task_start
    count = len(plan.launches or instance.exchanges)
    if len(plan.chunks) != count:
        return f"{len(plan.chunks)} groups of chunks for {count} {'launches' if plan.launches else 'collectives'}"
    for number, chunks in enumerate(plan.chunks):
        if chunks.sizes.ndim != 1 or chunks.paths.ndim != 2 or len(chunks.sizes) != len(chunks.paths):
            return f"launch {number} has {len(chunks.sizes)} chunk sizes for {len(chunks.paths)} paths"
    if tasks.ndim != 2 or tasks.shape[1] != len(instance.tasks) or (len(tasks) > 1) != schedule.has_period:
        return f"starts of tasks have the shape {tasks.shape}"
    for name in ("start", "end", "ready"):
        times = getattr(schedule, name)
        if times.shape != (len(tasks) * plan.num_stages,):
            return f"{len(times)} {name} times for {plan.num_stages} stages in {len(tasks)} iterations"
    return None


def coverage(schedule: Schedule) -> str | None:
    """The launches carry every exchange once, whole or in both halves, fused with those of its kind and span."""
    exchanges, carried = schedule.instance.exchanges, Counter[tuple[int, str]]()
    for launch in schedule.plan.launches_of(schedule.instance):
        carried.update((number, launch.part) for number in launch.tensors)
        members = [exchanges[number] for number in launch.tensors]
        if len({(e.kind, e.span, e.element_bytes) for e in members}) != 1:
            return f"{launch.name} fuses tensors of different kinds, dimensions or elements"
        if launch.kind is not _run_as(members[0].kind, launch.part):
            return f"{launch.name} runs {launch.kind} as the {launch.part} of {members[0].kind}"
    for number, exchange in enumerate(exchanges):
        parts = tuple(part for part in (*HALVES, "whole") for _ in range(carried[number, part]))
        if parts != ("whole",) and (parts != HALVES or not exchange.kind.rule.halves):
            return f"tensor {exchange.name} is carried in the parts {', '.join(parts) or 'none'}"
    return None


def _run_as(kind: CollectiveKind, part: str) -> CollectiveKind | None:
    """What a part of an exchange of some kind is run as, if there is such a part of it."""
    if part in HALVES:
        return kind.rule.halves and kind.rule.halves[HALVES.index(part)]
    return kind


def stages(schedule: Schedule) -> str | None:
    """Every chunk visits each dimension of its collective exactly once in each phase."""
    checked = set[tuple[int, tuple[int, ...], bytes]]()  # many launches have the same paths
    for exchange, chunks in _launched(schedule):
        num_phases, span = len(exchange.kind.rule.phases), exchange.span
        if (paths := (num_phases, span, chunks.paths.tobytes())) in checked:
            continue
        checked.add(paths)
        if chunks.paths.shape[1] != num_phases * len(span):
            return f"chunks of {exchange.name} have {chunks.paths.shape[1]} stages, must have {num_phases * len(span)}"
        for phase_path in np.split(chunks.paths, num_phases, axis=1):
            wrong = np.flatnonzero((np.sort(phase_path, axis=1) != np.array(span)).any(axis=1))
            if len(wrong):
                visited = phase_path[wrong[0]].tolist()
                return f"chunk {wrong[0]} of {exchange.name} visits dimensions {visited}, must visit {span}"
    return None


def ag_order(schedule: Schedule) -> str | None:
    """Where the instance asks for it, a chunk that scatters gathers in the reverse of its scatter order."""
    if schedule.instance.ag_order == "free":
        return None
    for exchange, chunks in _launched(schedule):
        if exchange.kind.rule.mirrors:
            wrong = np.flatnonzero((chunks.paths != chunks.paths[:, ::-1]).any(axis=1))
            if len(wrong):
                return f"chunk {wrong[0]} of {exchange.name} does not gather in the reverse of its scatter order"
    return None


def sizes(schedule: Schedule) -> str | None:
    """Chunks are not too many, hold whole elements, at least one, and together all bytes of their collective."""
    for exchange, chunks in _launched(schedule):
        wrong = np.flatnonzero(
            (chunks.sizes <= 0) | (chunks.sizes > exchange.size) | (chunks.sizes % exchange.element_bytes != 0)
        )
        if len(wrong):
            size = chunks.sizes[wrong[0]]
            rule = f"must be a multiple of {exchange.element_bytes}, more than 0 and at most {exchange.size}"
            return f"chunk {wrong[0]} of {exchange.name} has {size} bytes, {rule}"
        if len(chunks.sizes) > exchange.chunks:
            return f"{exchange.name} is cut in {len(chunks.sizes)} chunks, the instance allows {exchange.chunks}"
        if chunks.sizes.sum() != exchange.size:
            return f"chunks of {exchange.name} have {chunks.sizes.sum()} bytes together, the collective {exchange.size}"
    return None


def mirrored_halves(schedule: Schedule) -> str | None:
    """Where the instance asks for it, a gather launched alone has the chunks of its scatter, in reverse."""
    if schedule.instance.ag_order == "free":
        return None
    halves = {
        (launch.tensors, launch.part): chunks
        for launch, chunks in zip(schedule.plan.launches_of(schedule.instance), schedule.plan.chunks, strict=True)
    }
    for (tensors, part), chunks in halves.items():
        scatter = halves.get((tensors, "scatter"))
        mirror = scatter and Chunks(scatter.sizes, scatter.paths[:, ::-1])
        if part == "gather" and chunks != mirror:
            return f"the gather of tensors {tensors} does not reverse its scatter"
    return None


def complete(schedule: Schedule) -> str | None:
    """Every stage has its times, but for those of the last of several iterations that wait for one more."""
    known = _rows(schedule, schedule.start) >= 0
    missing = np.argwhere(~known[:-1] if schedule.has_period else ~known)
    return f"{_label(schedule, *missing[0])} has no time" if len(missing) else None


def duration(schedule: Schedule) -> str | None:
    """A stage holds its dimension for the time its bytes take."""
    held = schedule.end - schedule.start
    needed = np.tile(schedule.costs.occupancy, schedule.num_iterations)
    return _first_wrong(schedule, held != needed, "holds its dimension for {} ps, must be {}", held, needed)


def rails(schedule: Schedule) -> str | None:
    """The parts that rails carry are all bytes of a stage, and each arrives while its dimension is held."""
    instance, plan, costs = schedule.instance, schedule.plan, schedule.costs
    phases = plan.phases(instance)
    for k, carried in schedule.rail_bytes.items():
        dimension, stages = instance.fabric.dimensions[k], np.flatnonzero(plan.stage_dimensions == k)
        needed = wire_bytes(instance, k, costs.sent[stages])
        # Parts follow from times, which hold a launch too: of less than a byte it leaves few digits.
        wrong = (carried < 0).any(axis=1) | ~np.isclose(
            carried.sum(axis=1), needed, rtol=RAIL_TOLERANCE, atol=RAIL_TOLERANCE
        )
        if wrong.any():
            stage = int(np.flatnonzero(wrong)[0])
            label = plan.label(instance, int(stages[stage]))
            return f"{label} has {needed[stage]:.15g} bytes, its rails carry {carried[stage].tolist()}"
        late = np.array([lateness(dimension, Phase(phase)) for phase in phases[stages].tolist()]).reshape(carried.shape)
        bandwidth = np.array([rail.bandwidth for rail in dimension.rails])
        arrivals = np.where(carried > 0, late + carried / bandwidth * PICOSECONDS_PER_SECOND, 0.0).max(axis=1)
        held = costs.occupancy[stages] - fixed_occupancy(instance, phases[stages], k)
        wrong = arrivals > held * (1 + RAIL_TOLERANCE)
        if wrong.any():
            stage = int(np.flatnonzero(wrong)[0])
            label = plan.label(instance, int(stages[stage]))
            return f"{label} holds its dimension to send for {held[stage]} ps, its rails take {arrivals[stage]:.0f}"
    return None


def lag(schedule: Schedule) -> str | None:
    """The result of a stage is ready one lag after it gives the dimension back."""
    waited = schedule.ready - schedule.end
    needed = np.tile(schedule.costs.lag, schedule.num_iterations)
    return _first_wrong(schedule, waited != needed, "has its result after {} ps, must be {}", waited, needed)


def serial_compute(schedule: Schedule) -> str | None:
    """Tasks of a stage run one after the other, in the order of the instance, and after those they wait for."""
    tasks = schedule.instance.tasks
    for chain in schedule.instance.chains:
        members = list(chain)
        start, end = schedule.task_start[:, members].ravel(), schedule.period.task_end[:, members].ravel()
        early = np.flatnonzero(start < np.concatenate([[0], end[:-1]]))
        if len(early):
            row, place = divmod(int(early[0]), len(members))
            return f"iteration {row}: task {tasks[members[place]].name} starts too early"
    for before, task in schedule.instance.waits:
        early = np.flatnonzero(schedule.task_start[:, task] < schedule.period.task_end[:, before])
        if len(early):
            return f"iteration {early[0]}: task {tasks[task].name} starts before {tasks[before].name} ends"
    return None


def release(schedule: Schedule) -> str | None:
    """No stage starts before its release, or before its data are made: by a task, other tensors, or a scatter."""
    instance, plan, known = schedule.instance, schedule.plan, schedule.start >= 0
    allowed = np.tile(plan.releases(instance), schedule.num_iterations)
    early = known & (schedule.start < allowed)
    if early.any():
        return _first_wrong(schedule, early, "starts at {} ps, is released at {}", schedule.start, allowed)
    scattered = {launch.tensors: n for n, launch in enumerate(plan.launches_of(instance)) if launch.part == "scatter"}
    carriers = _carriers(schedule)
    for number, launch in enumerate(plan.launches_of(instance)):
        if launch.part == "gather" and launch.tensors not in scattered:
            return f"{launch.name} gathers what was not scattered"
        allowed = np.zeros(schedule.num_iterations, dtype=np.int64)
        for ready in {instance.exchanges[n].ready_task for n in launch.tensors} - {-1}:
            allowed = np.maximum(allowed, schedule.period.task_end[:, ready])
        if launch.part == "gather":
            allowed = np.maximum(allowed, arrivals(schedule, scattered[launch.tensors]))
        for source in sorted({source for n in launch.tensors for source in instance.exchanges[n].after}):
            allowed = np.maximum(allowed, arrivals(schedule, carriers[source]))
        starts = _rows(schedule, schedule.start)[:, plan.ends_of_chunks[number][0]]
        wrong = np.flatnonzero(((starts >= 0) & (starts < allowed[:, None])).any(axis=1))
        if len(wrong):
            row = wrong[0]
            first = starts[row][starts[row] >= 0].min()
            return f"iteration {row}: {launch.name} starts at {first} ps, its data are ready at {allowed[row]}"
    return None


def precedence(schedule: Schedule) -> str | None:
    """A chunk starts a stage only when the stage before it on the path has its result."""
    start, ready = _rows(schedule, schedule.start), _rows(schedule, schedule.ready)
    available = np.zeros_like(start)
    available[:, 1:] = ready[:, :-1]
    unknown = np.zeros(start.shape, dtype=np.bool_)
    unknown[:, 1:] = start[:, :-1] < 0
    wrong = (schedule.plan.positions > 0) & (start >= 0) & (unknown | (start < available))
    what = "starts at {} ps, its data are ready at {}"
    return _first_wrong(schedule, wrong.ravel(), what, start.ravel(), available.ravel())


def needs(schedule: Schedule) -> str | None:
    """No task starts before what it needs has arrived."""
    exchanges, tasks = schedule.instance.exchanges, schedule.instance.tasks
    for number, launch in enumerate(schedule.plan.launches_of(schedule.instance)):
        needed = {(exchanges[n].needed_task, exchanges[n].needed_later) for n in launch.tensors}
        for task, later in sorted(needed) if launch.part != "scatter" else []:
            if task < 0:
                continue
            used = schedule.task_start[later:, task]
            arrived = arrivals(schedule, number)[: len(used)]
            early = np.flatnonzero(used < arrived)
            if len(early):
                return f"iteration {early[0] + later}: task {tasks[task].name} starts before {launch.name} has arrived"
    return None


def memory(schedule: Schedule) -> str | None:
    """No NPU ever holds more than the instance allows."""
    limit = schedule.instance.memory
    if limit is None:
        return None
    for stage, curve in enumerate(memory_curves(schedule)):
        peak = int(curve.held.argmax())
        if curve.held[peak] > limit:
            where = f"an NPU of stage {stage + 1}" if schedule.instance.num_stages > 1 else "an NPU"
            size, most = format_size(int(curve.held[peak])), format_size(limit)
            return f"{where} holds {size} at {format_short_time(int(curve.time[peak]))}, may hold {most}"
    return None


def no_overlap(schedule: Schedule) -> str | None:
    """A dimension, or a resource that several share, serves one stage at a time, across launches and iterations."""
    for resource in range(schedule.instance.num_resources):
        order = schedule.sequence(resource)
        early = np.flatnonzero(schedule.start[order[1:]] < schedule.end[order[:-1]])
        if len(early):
            one, other = (_label(schedule, *divmod(int(s), schedule.plan.num_stages)) for s in order[early[0] :][:2])
            return f"{other} starts before {one} ends"
    return None


def sequence(schedule: Schedule) -> str | None:
    """Where the plan enforces a sequence, the resource serves its stages in that order, period after period."""
    plan, resources = schedule.plan, schedule.plan.stage_resources(schedule.instance)
    shifts = plan.shifts if len(plan.shifts) else np.zeros(plan.num_stages, dtype=np.int64)
    if shifts.shape != (plan.num_stages,) or (shifts < 0).any():
        return f"must have one shift, 0 or more, for each of {plan.num_stages} stages"
    if len(plan.sequences) not in (0, schedule.instance.num_resources):
        return f"{len(plan.sequences)} sequences for {schedule.instance.num_resources} dimensions"
    for number, enforced in enumerate(plan.sequences):
        if enforced is None:
            continue
        name = schedule.instance.resource_names[number]
        if not np.array_equal(np.sort(enforced), np.flatnonzero(resources == number)):
            return f"the sequence of {name} does not list each of its stages once"
        starts = _rows(schedule, schedule.start)[_served(enforced, shifts, schedule.num_iterations)]
        if (np.diff(starts[starts >= 0]) < 0).any():
            return f"{name} does not serve its stages in the enforced sequence"
    return None


def _served(sequence: IntArray, shifts: IntArray, iterations: int) -> tuple[IntArray, IntArray]:
    """Iterations and stages in the order in which an enforced sequence serves them."""
    iteration = np.arange(iterations)[:, None] + np.zeros_like(sequence)
    period = iteration + shifts[sequence]
    order = np.lexsort((np.tile(np.arange(len(sequence)), iterations), period.ravel()))
    return iteration.ravel()[order], np.tile(sequence, iterations)[order]


def _launched(schedule: Schedule) -> Iterator[tuple[Exchange, Chunks]]:
    """The collective operation of every launch, and its chunks."""
    return zip(schedule.launched, schedule.plan.chunks, strict=True)


def _rows(schedule: Schedule, times: IntArray) -> IntArray:
    """Times with one row per iteration."""
    return times.reshape(schedule.num_iterations, -1)


def _carriers(schedule: Schedule) -> dict[int, int]:
    """For each exchange the launch that brings its result."""
    launches = schedule.plan.launches_of(schedule.instance)
    return {tensor: n for n, launch in enumerate(launches) if launch.part != "scatter" for tensor in launch.tensors}


def _label(schedule: Schedule, row: int, stage: int) -> str:
    """A stage in words, with its iteration where there are several."""
    iteration = f"iteration {row}: " if schedule.has_period else ""
    return iteration + schedule.plan.label(schedule.instance, int(stage))


def _first_wrong(schedule: Schedule, wrong: BoolArray, what: str, actual: IntArray, required: IntArray) -> str | None:
    """The first wrong stage, with what stands there and what the rule requires."""
    if not wrong.any():
        return None
    place = int(np.flatnonzero(wrong)[0])
    return f"{_label(schedule, *divmod(place, schedule.plan.num_stages))} {what.format(actual[place], required[place])}"


VALIDATION_RULES: Mapping[str, ValidationRule] = {
    "shape": shape,
    "coverage": coverage,
    "stages": stages,
    "ag_order": ag_order,
    "sizes": sizes,
    "mirrored_halves": mirrored_halves,
    "complete": complete,
    "duration": duration,
    "rails": rails,
    "lag": lag,
    "serial_compute": serial_compute,
    "release": release,
    "precedence": precedence,
    "needs": needs,
    "memory": memory,
    "no_overlap": no_overlap,
    "sequence": sequence,
}
"""The rules by name, in the order they are checked: later ones rely on earlier ones."""

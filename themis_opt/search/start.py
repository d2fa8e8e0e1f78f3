"""Schedules from which searches start."""

from collections.abc import Callable, Iterable, Iterator
from threading import Thread

from formulations.interruption import is_over
from themis_opt.base.allowance import Allowance
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hourglass.policy import balanced, with_free_sizes
from themis_opt.policies.registry import make_policy
from themis_opt.policies.themis import Themis
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

LAUNCHED_AT_FIRST = ("blocks/baseline", "priority/baseline", "fused/hourglass")
"""From which a search of launches starts: the first is the best where parameters are sharded, the second elsewhere."""

LEAN = tuple(f"{name}:ahead=0/baseline" for name in ("fsdp2", "one_stream", "fused"))
"""What holds less, where memory is short: each gather leaves when it is needed; the last two hold least."""

MAX_DURATIONS = 2**22  # durations in the tables of hourglass, above which it is left out; they take 32 MiB
SECONDS_PER_DURATION = 5e-6  # of hourglass, which looks at each for every candidate and batch of chunks


def starting_schedule(instance: Instance, seconds: float | None = None, *, free_sizes: bool = False) -> Schedule:
    """The best schedule of the fast policies.

    `seconds`: how long hourglass may take, which the first use on a machine compiles; with None it is waited for, so
      that equal instances get equal schedules.
    `free_sizes`: whether those of hourglass may be free.
    """
    schedules = (usual_schedule(instance), *_hourglass_schedules(instance, seconds, free_sizes))
    return min(schedules, key=lambda schedule: schedule.makespan)


def usual_schedule(instance: Instance) -> Schedule:
    """The best schedule of the fixed order and Themis with several dispatch rules."""
    rules = ("fifo", "scf", "longest_remaining")
    policies: list[Callable[[Instance], Plan]] = [Baseline(), *(Themis(dispatch=rule) for rule in rules)]
    return min((simulate(instance, policy(instance)) for policy in policies), key=lambda schedule: schedule.makespan)


def launched_schedule(instance: Instance, allowance: Allowance) -> Schedule:
    """The best schedule of some launching policies, of the first one alone if time is up; the leanest if none fits."""
    names = (name for number, name in enumerate(LAUNCHED_AT_FIRST) if number == 0 or allowance.left > 0)
    fitting = [schedule for schedule in _launched(instance, names) if schedule.fits]
    return min(fitting, key=lambda schedule: schedule.makespan) if fitting else leanest_schedule(instance)


def leanest_schedule(instance: Instance) -> Schedule:
    """The fastest schedule of the policies that hold little, if one fits into memory; else the one that holds least."""
    schedules = list(_launched(instance, LEAN))
    return min(schedules, key=lambda one: (0, one.makespan) if one.fits else (1, one.memory_peak))


def _launched(instance: Instance, names: Iterable[str]) -> Iterator[Schedule]:
    return (simulate(instance, make_policy(name)(instance)) for name in names)


def _hourglass_schedules(instance: Instance, seconds: float | None, free_sizes: bool) -> list[Schedule]:
    """The schedule of hourglass, or none if it takes too much time or memory.

    It is made in a separate thread, because compiling cannot be interrupted.
    """
    schedules: list[Schedule] = []
    hourglass = with_free_sizes if free_sizes else balanced
    widest = max(len(exchange.span) for exchange in instance.exchanges)
    durations = len(instance.exchanges) * 2 * 2**widest * widest
    if durations <= MAX_DURATIONS and (seconds is None or SECONDS_PER_DURATION * durations <= seconds):
        thread = Thread(target=lambda: schedules.append(hourglass(instance)), daemon=True)
        thread.start()
        is_over(thread, seconds)
    return schedules[:1]

"""Schedules from which searches start."""

from dataclasses import replace
from threading import Thread

from formulations.interruption import is_over
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hourglass.policy import balanced, with_free_sizes
from themis_opt.policies.planning import fastest
from themis_opt.policies.themis import Themis
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule

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
    themis = Themis()(instance)
    rules = ("fifo", "scf", "longest_remaining")
    return fastest(instance, [Baseline()(instance), *(replace(themis, dispatch=rule) for rule in rules)])


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

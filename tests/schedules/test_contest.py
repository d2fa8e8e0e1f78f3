"""Policies and steps under one limit of time: none ends the others, and each keeps the best it made."""

from formulations.interruption import count_work
from formulations.limits import Limits
from themis_opt.base.errors import InvalidSchedule
from themis_opt.schedules.contest import Contest


class Numbers(Contest[int]):
    """Schedules are their makespans; 13 is illegal."""

    def measure(self, schedule):
        return schedule

    def check(self, schedule):
        if schedule == 13:
            raise InvalidSchedule("luck", "13")


def numbers(seconds=10.0):
    return Numbers(Limits(seconds=seconds, deterministic=True))


def made(*schedules, work=0.0):
    for schedule in schedules:
        yield schedule
        count_work(work)


def test_the_best_schedule_that_was_made_in_time_stays():
    contest = numbers(seconds=1.0)
    contest.attempt("slow", lambda: made(30, 20, 10, work=0.8))
    assert contest.schedules == {"slow": 20}
    contest.attempt("late", lambda: made(5))
    assert contest.left_out == ["late"]


def test_schedules_stop_where_one_is_enough_or_the_next_one_would_take_too_long():
    contest = numbers()
    contest.attempt("enough", lambda: made(30, 20, 10), enough=25)
    contest.attempt("reserve", lambda: made(9, 8, 7, work=3.0), reserve=3.0)
    assert contest.schedules == {"enough": 20, "reserve": 8}
    assert contest.best == 8


def test_illegal_and_failing_policies_are_refused_by_name():
    contest = numbers()
    contest.attempt_each(["illegal", "dies", "legal"], lambda name: made({"illegal": 13, "legal": 14}[name]))
    assert contest.schedules == {"legal": 14}
    assert contest.refused == {"illegal": "schedule breaks rule 'luck': 13", "dies": "KeyError: 'dies'"}


def test_the_first_policy_has_a_schedule_whatever_the_time():
    contest = numbers(seconds=2.0)

    def make(name):
        count_work(3.5)
        yield len(name)

    contest.attempt_each(["first", "other"], make)
    assert contest.left_out == ["other"]
    assert contest.schedules == {"first": 5}

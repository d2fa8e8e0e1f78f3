"""Tuning: the chunks and the policy under which collectives are fastest, by search with Optuna.

Examples
--------
>>> import themis_opt
>>> from themis_opt.tuning import tune
>>> instance = themis_opt.load("2d-sw_sw.all_reduce.100MiB")
>>> tuned = tune(instance, trials=20, launch_overhead="2 us", packet="4096B/30B", latency="occupy")
>>> tuned.schedule.makespan < tuned.default_schedule.makespan
True
"""

from themis_opt.tuning.outcome import Tuned
from themis_opt.tuning.tuner import tune

__all__ = ["Tuned", "tune"]

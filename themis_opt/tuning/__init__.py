"""Tuning: the chunks and the policy under which a collective or a training iteration is fastest, by search with Optuna.

Examples
--------
>>> import themis_opt
>>> from themis_opt.tuning import tune
>>> instance = themis_opt.load("2d-sw_sw.all_reduce.100MiB")
>>> tuned = tune(instance, trials=20, launch_overhead="2 us", packet="4096B/30B", latency="occupy")
>>> tuned.schedule.makespan < tuned.default_schedule.makespan
True
>>> tuned = tune(themis_opt.load("v100-256.resnet-50"), trials=5, launch_overhead="10 us")
>>> tuned.schedule.makespan <= tuned.default_schedule.makespan
True
"""

from themis_opt.tuning.outcome import Tuned
from themis_opt.tuning.tuner import tune

__all__ = ["Tuned", "tune"]

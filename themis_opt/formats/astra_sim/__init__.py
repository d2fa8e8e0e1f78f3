"""ASTRA-sim 2: schedules as traces of a custom collective, and a small interpreter of the simulator's rules.

:mod:`~themis_opt.formats.astra_sim.collective` makes the messages and their traces,
:mod:`~themis_opt.formats.astra_sim.exporter` the files around them, and
:mod:`~themis_opt.formats.astra_sim.interpreter` times them.
"""

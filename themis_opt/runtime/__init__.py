"""Schedules executed by real processes, one per NPU, with a stopwatch.

``program`` is what all ranks know of a schedule, ``layout`` where the data of a stage lie, ``steps`` what an NPU sends
and receives in it, ``engine`` who goes when, ``movement`` the messages, ``transports`` who carries them; ``reference``
holds the data and the results they must lead to.  ``worker`` is the process of a rank, ``coordinator`` the one that
starts and watches them, ``execution`` the comparison of measured times with the model.
"""

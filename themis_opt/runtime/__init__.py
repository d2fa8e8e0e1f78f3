"""Schedules executed by real ranks, one per NPU.

``program`` is what all ranks know of a schedule, ``layout`` where the data of a stage lie, ``steps`` what an NPU sends
and receives in it, ``engine`` who goes when, ``movement`` the messages, ``transports`` who carries them; ``reference``
holds the data and the results they must lead to.
"""

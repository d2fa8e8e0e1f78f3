"""ASTRA-sim 2: schedules as traces of a custom collective, and a small interpreter of the simulator's rules."""

"""File formats that are read, and those that schedules are written in."""

"""File formats: what is read and what schedules are written as."""

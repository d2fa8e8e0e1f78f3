"""Searches for near-optimal schedules, their limits, and the plans of earlier searches."""

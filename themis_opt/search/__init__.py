"""Searches for near-optimal schedules, their limits, and the plans they found before."""

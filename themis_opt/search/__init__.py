"""Searches for near-optimal schedules, and their limits."""

"""Policies side by side: results, bounds, robustness and the best that is known."""

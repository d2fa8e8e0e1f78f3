"""Batches: experiment files, their runs, who executes them, and the store of their rows."""

"""The run-time policy hourglass: its tables, paths, dispatch and search."""

"""The reports of this repository: each a function of the rows of an experiment, which names it in its file."""

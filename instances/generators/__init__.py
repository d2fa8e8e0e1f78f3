"""The training iterations of ``instances/iterations``, and how their files are made: ``python -m generators``."""

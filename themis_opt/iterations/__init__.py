"""Training iterations: plans of compute and collectives on one clock, their simulation, bounds and policies."""

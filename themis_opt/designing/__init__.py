"""Designing networks: bandwidths from workloads, budgets and constraints, with a proof that none do better."""

"""Pipelines of microbatches: problem, policies, bounds, reference, and what PyTorch runs."""

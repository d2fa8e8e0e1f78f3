"""The problem: a network, what is exchanged on it, and what each stage costs."""

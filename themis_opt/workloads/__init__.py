"""Training iterations of well-known models: layers, ways to share them among NPUs, and the workloads of the paper."""

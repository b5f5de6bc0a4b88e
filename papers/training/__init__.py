"""Training: a step on real GPUs beside the simulated one."""

"""Computes exact gradients of a propagation: `steps` has operators and adjoints, `gradient` all steps."""

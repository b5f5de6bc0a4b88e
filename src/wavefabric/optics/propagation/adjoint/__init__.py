"""Computes exact gradients of a propagation: `steps` has adjoints of single steps, `gradient` of all."""

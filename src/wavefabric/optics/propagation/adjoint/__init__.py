"""Computes exact gradients of a propagation: `steps` has the adjoint of each step, `gradient` chains them."""

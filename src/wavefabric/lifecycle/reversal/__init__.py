"""A run of time steps in reverse, for adjoint gradients: `reversal`, and its `store` of states."""

"""A run of time steps in reverse, for adjoint gradients: `binomial` (the schedule), `reversal`, `store`."""

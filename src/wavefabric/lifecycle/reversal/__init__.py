"""A run of time steps in reverse, for gradients: `binomial` (which states are stored when), `reversal`, `store`."""

"""The adjoint of the time step: its stages transposed, their kernels, and the transpose of the sources."""

"""Takes adjoint time steps: the transposes of the stages and of the sources, and their kernels."""

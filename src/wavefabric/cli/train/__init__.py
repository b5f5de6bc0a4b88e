"""Commands of `wavefabric train`: simulate training iterations, list models, and time operators."""

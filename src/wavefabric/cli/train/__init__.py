"""`wavefabric train`: a model's iteration on a fabric, models by name, and operators measured."""

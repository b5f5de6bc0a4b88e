"""How GPUs share a model: strategies, from words and from files.

Imports the graph of `wavefabric.training.models`.
"""

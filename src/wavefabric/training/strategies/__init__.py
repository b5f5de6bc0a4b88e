"""Strategies: how GPUs divide a model, from words and from files.

Imports the graph of `wavefabric.training.models`.
"""

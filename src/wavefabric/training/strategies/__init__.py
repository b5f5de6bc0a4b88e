"""Define parallelisation strategies (how GPUs divide a model), and parse them from words and files.

Imports only the model graph of `wavefabric.training.models`.
"""

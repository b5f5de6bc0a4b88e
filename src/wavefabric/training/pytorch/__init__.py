"""Modules of PyTorch as layer graphs: `export` traces them and counts what a trace has.

PyTorch is imported when a module is exported, not before. Imports the graph and the operators of models.
"""

from wavefabric.training.pytorch.export import from_torch

__all__ = ["from_torch"]

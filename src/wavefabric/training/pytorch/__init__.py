"""Convert PyTorch modules to layer graphs: `export` traces a module and counts its operations.

PyTorch is imported only when a module is exported. Imports the graph and the operators of models.
"""

from wavefabric.training.pytorch.export import from_torch

__all__ = ["from_torch"]

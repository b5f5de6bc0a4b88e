"""Convert PyTorch modules to layer graphs: `export` traces a module and counts its operations.

PyTorch is imported only when a module is exported; of training, only the package models is imported.
"""

from wavefabric.training.pytorch.export import from_torch

__all__ = ["from_torch"]

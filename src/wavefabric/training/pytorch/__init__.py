"""Convert PyTorch modules to layer graphs: `export` traces a module and counts its operations.

PyTorch is imported only when a module is exported. Of `wavefabric.training` it may import only `models`.
"""

from wavefabric.training.pytorch.export import from_torch

__all__ = ["from_torch"]

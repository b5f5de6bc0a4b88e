"""Provide k-wave-python's functions: change one import in a script, and it runs on Wavefabric.

>>> from wavefabric.kwave import kspaceFirstOrder

replaces ``from kwave.kspaceFirstOrder import kspaceFirstOrder``, or that of an older function. Grids, media,
sources, sensors, transducers and options remain those of k-wave-python.
"""

from wavefabric.acoustics.kwave.drop_in import kspaceFirstOrder
from wavefabric.acoustics.kwave.older import (
    kspace_first_order_2d_gpu,
    kspaceFirstOrder1D,
    kspaceFirstOrder2D,
    kspaceFirstOrder2DC,
    kspaceFirstOrder2DG,
    kspaceFirstOrder3D,
    kspaceFirstOrder3DC,
    kspaceFirstOrder3DG,
    kspaceFirstOrderAS,
    kspaceFirstOrderASC,
)

__all__ = [
    "kspaceFirstOrder",
    "kspaceFirstOrder1D",
    "kspaceFirstOrder2D",
    "kspaceFirstOrder2DC",
    "kspaceFirstOrder2DG",
    "kspaceFirstOrder3D",
    "kspaceFirstOrder3DC",
    "kspaceFirstOrder3DG",
    "kspaceFirstOrderAS",
    "kspaceFirstOrderASC",
    "kspace_first_order_2d_gpu",
]

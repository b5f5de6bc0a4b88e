"""What a k-wave-python script imports for a simulation: one line of the script changes.

>>> from wavefabric.kwave import kspaceFirstOrder

in place of ``from kwave.kspaceFirstOrder import kspaceFirstOrder``, or of an older function. Grids, media,
sources, sensors, transducers and options stay k-wave-python's.
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

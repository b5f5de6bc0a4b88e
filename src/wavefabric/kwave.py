"""What a k-wave-python script imports for a simulation: one line of the script changes.

>>> from wavefabric.kwave import kspaceFirstOrder as kspaceFirstOrder

in place of ``from kwave.kspaceFirstOrder import kspaceFirstOrder``, or of an older function. Grids, media,
sources, sensors, transducers and options stay k-wave-python's.
"""

from wavefabric.acoustics.kwave.drop_in import kspaceFirstOrder as kspaceFirstOrder
from wavefabric.acoustics.kwave.older import (
    kspace_first_order_2d_gpu as kspace_first_order_2d_gpu,
)
from wavefabric.acoustics.kwave.older import (
    kspaceFirstOrder1D as kspaceFirstOrder1D,
)
from wavefabric.acoustics.kwave.older import (
    kspaceFirstOrder2D as kspaceFirstOrder2D,
)
from wavefabric.acoustics.kwave.older import (
    kspaceFirstOrder2DC as kspaceFirstOrder2DC,
)
from wavefabric.acoustics.kwave.older import (
    kspaceFirstOrder2DG as kspaceFirstOrder2DG,
)
from wavefabric.acoustics.kwave.older import (
    kspaceFirstOrder3D as kspaceFirstOrder3D,
)
from wavefabric.acoustics.kwave.older import (
    kspaceFirstOrder3DC as kspaceFirstOrder3DC,
)
from wavefabric.acoustics.kwave.older import (
    kspaceFirstOrder3DG as kspaceFirstOrder3DG,
)
from wavefabric.acoustics.kwave.older import (
    kspaceFirstOrderAS as kspaceFirstOrderAS,
)
from wavefabric.acoustics.kwave.older import (
    kspaceFirstOrderASC as kspaceFirstOrderASC,
)

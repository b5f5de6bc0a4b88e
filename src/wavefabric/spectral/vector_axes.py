"""Transforms of a 3-D real field axis by axis on a CPU, by vector code of our own, for use inside kernels."""

import math
from collections.abc import Sequence

import numpy as np

from wavefabric.device.vector_code import VECTOR_BYTES, Function, kept
from wavefabric.spectral.vector_butterflies import radices
from wavefabric.spectral.vector_columns import ComplexColumns
from wavefabric.spectral.vector_rows import RealRows

#: Rows of `AxisTransforms.addresses`. Those "by" a derivative multiply by it before they transform.
X_FORTH, X_BACK, X_BACK_BY_UP, X_BACK_BY_DOWN = range(4)
Y_FORTH, Y_BACK, Y_BACK_BY_UP, Y_BACK_BY_DOWN = range(4, 8)
Z_FORTH, Z_BACK, Z_BACK_BY_UP, Z_BACK_BY_DOWN = range(8, 12)
#: Length of the longest transform: values between its stages, 128 bytes a point, lie on the thread's stack.
LONGEST = 8192
_LINE_BYTES, _ROW_BYTES, _SLAB_BYTES = 64, 16 * 1024, 600 * 1024


def usable(shape: Sequence[int]) -> bool:
    """Whether a grid can be transformed: sizes of prime factors up to 31, and at most `LONGEST`.

    >>> usable((128, 130, 125)), usable((128, 128, 74)), usable((128, 128, 16384))
    (True, False, False)
    """
    return all(n == 1 or (1 < n <= LONGEST and radices(n)) for n in shape)


def pitch(nx: int, dtype) -> int:
    """Length of a padded row of a half spectrum: whole cache lines."""
    line = _LINE_BYTES // (2 * np.dtype(dtype).itemsize)
    return -(-(nx // 2 + 1) // line) * line


def _compiled(plan: RealRows | ComplexColumns, dtype: np.dtype) -> Function:
    return kept(f"{plan} {dtype}", lambda name: plan.compiled(dtype, name))


class AxisTransforms:
    """The transforms of real fields of ``shape`` (Nz, Ny, Nx), each in the thread that calls it.

    Spectra are (Nz, Ny, `pitch`), operators too. ``up`` and ``down`` are factors along x (Nx//2 + 1 of them,
    or more), y and z: derivatives at points half a step to one or the other side. Backward is unscaled.

    One call takes ``batch`` rows of x, which stay in the first-level cache, or the columns along z of
    ``slab`` rows of the spectrum, which stay in the second-level cache; both divide Ny.
    """

    def __init__(self, shape: tuple[int, int, int], dtype, up: Sequence, down: Sequence):
        dtype = np.dtype(dtype)
        nz, ny, nx = map(int, shape)
        width = pitch(nx, dtype)
        self.batch = _batch(ny, nx * dtype.itemsize, VECTOR_BYTES // dtype.itemsize)
        self.slab = _largest_divisor(ny, 8, _SLAB_BYTES, nz * width * 2 * dtype.itemsize)
        side, plane = self.slab * width, ny * width
        kinds = ((-1, False), (1, False), (1, True))
        x = [RealRows(nx, self.batch, width, sign, by) for sign, by in kinds]
        y = [ComplexColumns(ny, width, width, width, sign, factors=by) for sign, by in kinds]
        z = [
            ComplexColumns(nz, side, plane, side, -1, ahead=True),
            ComplexColumns(nz, side, side, plane, 1, operator=plane),
            ComplexColumns(nz, side, side, plane, 1, operator=plane, factors=True),
        ]
        entries = [nx // 2 + 1, ny, nz]
        made = []
        for axis, (forth, back, back_by) in enumerate((x, y, z)):
            factors = [np.asarray(one[axis]).ravel()[: entries[axis]] for one in (up, down)]
            made += [(forth, None), (back, None), *((back_by, one) for one in factors)]
        #: Kept, since kernels have no more than their addresses.
        self._functions = [_compiled(plan, dtype) for plan, _ in made]
        self._tables = [plan.table(dtype, factors) for plan, factors in made]

    def addresses(self) -> np.ndarray:
        """What kernels take, (12, 2): addresses of a function and of its table.

        Call ``execute(function, table, source, target, operator)``. Along x, ``source`` and ``target`` are
        `batch` rows (Nx) and their half spectra (pitch), along y a plane (Ny, pitch), which may be one;
        Z_FORTH takes `slab` rows of each plane of a spectrum into a block (Nz, slab, pitch) and fetches those
        at ``operator`` into the second-level cache; Z_BACK multiplies the block by those of a real operator
        and takes it to those of a spectrum.
        """
        pairs = zip(self._functions, self._tables, strict=True)
        return np.array([(function.address, table.ctypes.data) for function, table in pairs], np.uintp)


def _batch(ny: int, row_bytes: int, lanes: int) -> int:
    """Rows of a call that divide Ny and leave few lanes of the last vectors empty."""
    most = max(lanes, _ROW_BYTES // row_bytes)
    fitting = [rows for rows in range(1, ny + 1) if ny % rows == 0 and rows <= most]
    return min(fitting, key=lambda rows: (math.ceil(rows / lanes) * lanes / rows, rows))


def _largest_divisor(n: int, most: int, limit: int, nbytes: int) -> int:
    """Largest divisor of ``n`` up to ``most`` of which ``nbytes`` each are within ``limit``; at least 1."""
    return max(r for r in range(1, most + 1) if n % r == 0 and (r == 1 or r * nbytes <= limit))

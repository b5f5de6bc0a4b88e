"""The fused GPU stages of a block with a Fourier basis of its own (`stages_axes`, `stages_local`).

Overlaps travel while planes that lack none are transformed along y. Rows of the overlaps alone are
transformed along x once more when they are filled; where x is cut, every row has overlaps and all are.
"""

from __future__ import annotations

import numpy as np

from wavefabric.acoustics.parallel.decomposition import Decomposition, halo_messages
from wavefabric.acoustics.parallel.stages_local import Halo
from wavefabric.acoustics.solver import axis_passes_cuda
from wavefabric.acoustics.solver.coefficients import Constants, Fields
from wavefabric.acoustics.solver.fused_cuda import AxisStages
from wavefabric.exchange import Communicator


def usable(decomposition: Decomposition, dtype) -> bool:
    """Whether these stages can serve on GPUs: three dimensions, all blocks of sizes made of 2, 3, 5 and 7."""
    three = decomposition.shape[2] > 1
    return three and all(axis_passes_cuda.usable(part.array_shape, dtype) for part in decomposition.parts)


class LocalAxisStages(AxisStages):
    """Same answers as `LocalStages`, to round-off; see there for the arguments."""

    def __init__(
        self, constants: Constants, fields: Fields, comm: Communicator, decomposition: Decomposition
    ):
        c, device = constants, constants.device
        groups = [1, 3] + ([2] if c.disperses else [])
        self.halo = Halo(comm, decomposition, c.shape, c.dtype, groups)
        nz, ny, nx = c.shape
        z, y, x = c.part.owned
        whole_rows, whole_planes = x == slice(0, nx), x == slice(0, nx) and y == slice(0, ny)
        overlap = np.ones((nz, ny), bool)
        if whole_rows:
            overlap[z, y] = False
        self._pairs = device.asarray(np.unique(np.flatnonzero(overlap) // 2).astype(np.int32))
        # A pair of rows may reach from an overlap into the next plane, if planes have an odd number of rows.
        first, last = z.start + z.start * ny % 2, z.stop - z.stop * ny % 2
        self._early = slice(first, last) if whole_planes and first < last else slice(0, 0)
        self._under_way: tuple[list, list] | None = None
        self._fields_stored = None
        if c.lossy and not c.stokes:
            self._fields_stored = self._store(c, fields, comm, decomposition)
        super().__init__(constants, fields)

    def _store(self, constants: Constants, fields: Fields, comm, decomposition) -> tuple:
        """Room for what absorption transforms: p is free until it is known, so one field more at most."""
        c, device = constants, comm.device
        sent = np.zeros(c.shape[:2], np.uint8)
        for message in halo_messages(decomposition):
            if message.src == comm.rank:
                sent[message.src_box[:2]] = 1
        flags = device.asarray(sent.reshape(-1))
        if c.disperses:
            return device.zeros(c.shape, c.dtype), fields.p, flags
        return fields.p, None, flags

    def _stored(self) -> tuple | None:
        return self._fields_stored

    # --- Exchanges -------------------------------------------------------------------------------------

    def left(self, fields: list, spectra: list) -> None:
        self.halo.exchanges[len(fields)].start(fields)
        self._under_way = fields, list(spectra)

    def _fill(self) -> None:
        """What is under way arrives, and its rows are transformed along x."""
        if self._under_way is not None:
            fields, spectra = self._under_way
            self._under_way = None
            self.halo.exchanges[len(fields)].finish(fields, self.halo.weights)
            self._axes.x_forward_pairs(fields, spectra, self._pairs)

    def along_y(self, spectra: list) -> None:
        early = self._early
        if self._under_way is None or early.start == early.stop:
            self._fill()
            self._axes.y_transform(spectra, False)
            return
        self._axes.y_transform([s[early] for s in spectra], False)
        self._fill()
        for planes in (slice(0, early.start), slice(early.stop, spectra[0].shape[0])):
            if planes.start < planes.stop:
                self._axes.y_transform([s[planes] for s in spectra], False)

    def enter(self, fields: list) -> None:
        self._fill()
        self.halo.fill(fields)

    def settle(self) -> None:
        # The last step leaves p under way; what comes later would land in memory that others use by then.
        self._fill()

    def ready(self) -> None:
        self._fill()
        self.halo.fill([self.fields.p])
        super().ready()

    def graph(self, work):
        # A captured step could not wait for other ranks.
        return work

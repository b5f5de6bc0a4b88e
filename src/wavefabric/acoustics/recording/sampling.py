"""What is measured at the sensor, on one device or on several ranks: values of a field, and intensity."""

from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Cuboids, Elements, Interpolation, Recording
from wavefabric.acoustics.recording.delivery import RankParts
from wavefabric.acoustics.solver.stages import Stages

#: Weights of u at −5/2, −3/2, …, +5/2 steps.
WEIGHTS = np.array([3.0, -25.0, 150.0, 150.0, -25.0, 3.0]) / 256.0


def rows_of(where: Any, shape: tuple[int, int, int]) -> Elements:
    """Points, of a grid (Nx, Ny, Nz), and weights of each value that a `Recording` reads, as elements."""
    if isinstance(where, Elements):
        return where
    if isinstance(where, Interpolation):
        rows, ends = where.corners.shape
        return Elements(np.arange(rows + 1) * ends, where.corners.ravel(), where.weights.ravel())
    index = where.indices(shape) if isinstance(where, Cuboids) else where
    index = np.asarray([] if index is None else index, np.int64)
    return Elements(np.arange(index.size + 1), index, np.ones(index.size))


class Sampler:
    """Reads a field at the sensor.

    Of several ranks each samples the grid points that it owns. Points between those of the grid and elements
    belong to rank 0, and every rank adds the share of the points that it owns.
    """

    def __init__(self, stages: Stages, recording: Recording):
        c, where, comm = stages.coefficients, recording.where, stages.layout.comm
        self._device = c.device
        self._parts: RankParts | None = None
        #: Whether values are sums over ranks.
        self.shared = False
        #: Where the points of this rank are among all, with several ranks.
        self.columns: RankParts | None = None
        #: Values that this rank records.
        self.samples = recording.samples
        arrays: tuple[np.ndarray, ...]
        if isinstance(where, Elements):
            self._sample, more = c.kernels.sample_elements, ()
            arrays = self._elements(where, c.subdomain, comm)
        elif isinstance(where, Interpolation):
            self._sample, arrays, more = c.kernels.sample, self._between(where, c.subdomain, comm), (True,)
        else:
            index = rows_of(where, c.subdomain.shape).points
            if comm is not None:
                mask, local = c.subdomain.local_index(index)
                self.columns = RankParts.of_columns(comm, np.flatnonzero(mask), len(index))
                index, self.samples = local, len(local)
            self._sample, arrays, more = c.kernels.sample, (index[:, None], np.zeros((0, 1))), (False,)
        self._where = *map(self._device.asarray, map(np.ascontiguousarray, arrays)), *more

    def _between(self, where: Interpolation, part: Subdomain, comm) -> tuple[np.ndarray, ...]:
        """Corners and weights of the points between those of the grid that this rank reads."""
        corners, weights = where.corners, where.weights
        if comm is not None:
            mask, local = part.local_index(corners)
            index, own = np.zeros(corners.shape, np.int64), np.where(mask, weights, 0.0)
            index[mask] = local
            here: Any = mask.any(axis=1)
            # A corner that is elsewhere has no weight: any point of this one's own serves.
            spare = np.where(mask, index, index.max(axis=1, keepdims=True, where=mask, initial=0))
            corners, weights = spare[here], own[here]
            self._add_parts(here, comm)
        return corners.astype(np.int64, copy=False), weights.astype(np.float64, copy=False)

    def _elements(self, where: Elements, part: Subdomain, comm) -> tuple[np.ndarray, ...]:
        """Bounds, points and weights of the elements that this rank reads."""
        bounds, points, weights = where.bounds, where.points, where.weights
        if comm is not None:
            mask, points = part.local_index(points)
            counts = np.diff(np.concatenate([[0], np.cumsum(mask)])[bounds])
            weights, here = weights[mask], counts > 0
            bounds = np.concatenate([[0], np.cumsum(counts[here])])
            self._add_parts(here, comm)
        return bounds.astype(np.int64), points.astype(np.int64), weights

    def _add_parts(self, here: np.ndarray, comm) -> None:
        """Values of which this rank adds a share to rank 0's."""
        self._parts, self.shared = RankParts.of_columns(comm, np.flatnonzero(here), here.size), True
        self._values: Any = None
        self._shared = int(here.sum())
        if comm.rank:
            self.samples = 0
        self.columns = RankParts.of_columns(comm, np.arange(self.samples), here.size)

    def read(self, target: Any, row: int, field: Any) -> None:
        """``target[row]``, shape (samples,), ← values of ``field``; collective with several ranks."""
        if self._parts is None:
            self._sample(target[row], field, *self._where)
            return
        if self._values is None:
            self._values = self._device.empty((1, self._shared), field.dtype)
        self._sample(self._values[0], field, *self._where)
        values = self._parts.summed(np.asarray(self._device.to_host(self._values[0])))
        if values is not None:
            target[row] = self._device.asarray(values, target.dtype)


class Intensity:
    """Acoustic intensity I = p u at the sensor, and its time average, for the axes ``"xy"`` or ``"xyz"``.

    The velocity lives half a time step before the pressure of the same step. It is brought to the pressure's
    time by six-point Lagrange interpolation, which errs by 2.8·10⁻⁴ at ten steps a period and 5·10⁻⁶ at
    twenty. It needs velocities of later steps, so products lag three steps behind.
    """

    #: Steps by which products lag behind, and steps needed before the first.
    lag = 3
    reach = 2

    def __init__(self, device, axes: str, samples: int, dtype):
        self._device, self._axes = device, axes
        shape = (len(axes), samples)
        self._u = [device.zeros(shape, dtype) for _ in range(6)]
        self._p = [device.zeros(samples, dtype) for _ in range(4)]
        self.sums = device.zeros(shape, np.float64)
        self._weights = [np.dtype(dtype).type(w) for w in WEIGHTS]
        self._recorded = 0

    def pressure(self, values) -> None:
        """Store the pressure of this time step at the sensor, (samples,)."""
        self._p = [*self._p[1:], self._p[0]]
        self._p[-1][...] = values
        self._u = [*self._u[1:], self._u[0]]

    def velocity(self, axis: int, values) -> None:
        """This step's velocity at the pressure's points, half a step earlier."""
        self._u[-1][axis] = values

    def advance(self, recorded: int) -> list:
        """Return in a list the intensity (axes, samples) that row ``recorded`` completes, if any; add to sums."""
        self._recorded = max(recorded, 0)
        return [self._product()] if recorded > self.lag else []

    def flush(self) -> list:
        """The last products: beyond the end the velocity is taken to go on as it was."""
        rows = []
        for late in range(self.lag):
            last = self._u[-1].copy()
            self.pressure(self._p[-1].copy())
            self._u[-1][...] = last
            if late >= self.lag - self._recorded:  # else from before the start of recording
                rows.append(self._product())
        return rows

    def resume(self, recorded: int) -> int:
        """Go on after ``recorded`` steps; the rows of products that were written by then."""
        self._recorded = recorded
        return max(0, recorded - self.lag)

    def averages(self, rows: int) -> dict[str, np.ndarray]:
        """⟨I⟩ over the recording, by name."""
        sums = np.asarray(self._device.to_host(self.sums)) / rows
        dtype = self._p[0].dtype
        return {f"I{axis}_avg": sums[i].astype(dtype) for i, axis in enumerate(self._axes)}

    def state(self) -> dict[str, Any]:
        """Arrays that a checkpoint must hold."""
        velocities = {f"I_u{i}": array for i, array in enumerate(self._u)}
        pressures = {f"I_p{i}": array for i, array in enumerate(self._p)}
        return velocities | pressures | {"I_sums": self.sums}

    def _product(self):
        # p[0] is three steps old; the six velocities surround its time.
        between = sum(w * u for w, u in zip(self._weights, self._u, strict=True))
        product = self._p[0] * between
        self.sums += product
        return product

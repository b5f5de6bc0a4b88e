"""Samples fields at the sensor, on one device or several ranks, and computes the intensity there."""

from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Cuboids, Elements, Interpolation, Recording
from wavefabric.acoustics.recording.delivery import RankParts
from wavefabric.acoustics.solver.stages import Stages

#: Weights of u at −5/2, −3/2, …, +5/2 steps, for interpolation in time.
WEIGHTS = np.array([3.0, -25.0, 150.0, 150.0, -25.0, 3.0]) / 256.0


def rows_of(points: Any, shape: tuple[int, int, int]) -> Elements:
    """Express each value that a sensor records as a weighted sum; return the grid points and weights."""
    if isinstance(points, Elements):
        return points
    if isinstance(points, Interpolation):
        rows, ends = points.corners.shape
        return Elements(np.arange(rows + 1) * ends, points.corners.ravel(), points.weights.ravel())
    index = points.indices(shape) if isinstance(points, Cuboids) else points
    index = np.asarray([] if index is None else index, np.int64)
    return Elements(np.arange(index.size + 1), index, np.ones(index.size))


class Sampler:
    """Reads the values of a field at the sensor.

    With several ranks, each rank reads the grid points that it owns. Values of elements and of points between
    grid points are sums on rank 0, to which every rank adds the part from the grid points that it owns.
    """

    def __init__(self, stages: Stages, recording: Recording):
        c, points, comm = stages.coefficients, recording.where, stages.layout.comm
        self._device = c.device
        self._parts: RankParts | None = None
        #: Whether values are sums over several ranks.
        self.shared = False
        #: Positions of this rank's points among all sensor points; None with one rank.
        self.columns: RankParts | None = None
        #: Number of values that this rank records.
        self.samples = recording.samples
        arrays: tuple[np.ndarray, ...]
        if isinstance(points, Elements):
            self._sample, more = c.kernels.sample_elements, ()
            arrays = self._elements(points, c.subdomain, comm)
        elif isinstance(points, Interpolation):
            self._sample, arrays, more = c.kernels.sample, self._corners(points, c.subdomain, comm), (True,)
        else:
            index = rows_of(points, c.subdomain.shape).points
            if comm is not None:
                mask, local = c.subdomain.local_index(index)
                self.columns = RankParts.of_columns(comm, np.flatnonzero(mask), len(index))
                index, self.samples = local, len(local)
            self._sample, arrays, more = c.kernels.sample, (index[:, None], np.zeros((0, 1))), (False,)
        self._arguments = *map(self._device.asarray, map(np.ascontiguousarray, arrays)), *more

    def _corners(self, points: Interpolation, part: Subdomain, comm) -> tuple[np.ndarray, ...]:
        """Return corner points and weights that interpolate this rank's part of a sensor's values."""
        corners, weights = points.corners, points.weights
        if comm is not None:
            mask, local = part.local_index(corners)
            index, local_weights = np.zeros(corners.shape, np.int64), np.where(mask, weights, 0.0)
            index[mask] = local
            is_local: Any = mask.any(axis=1)
            # A corner on another rank has no weight: any point that this rank owns can replace it.
            filled = np.where(mask, index, index.max(axis=1, keepdims=True, where=mask, initial=0))
            corners, weights = filled[is_local], local_weights[is_local]
            self._add_parts(is_local, comm)
        return corners.astype(np.int64, copy=False), weights.astype(np.float64, copy=False)

    def _elements(self, elements: Elements, part: Subdomain, comm) -> tuple[np.ndarray, ...]:
        """Return bounds, local grid points and weights (see `Elements`) for this rank's part of elements."""
        bounds, points, weights = elements.bounds, elements.points, elements.weights
        if comm is not None:
            mask, points = part.local_index(points)
            counts = np.diff(np.concatenate([[0], np.cumsum(mask)])[bounds])
            weights, here = weights[mask], counts > 0
            bounds = np.concatenate([[0], np.cumsum(counts[here])])
            self._add_parts(here, comm)
        return bounds.astype(np.int64), points.astype(np.int64), weights

    def _add_parts(self, is_local: np.ndarray, comm) -> None:
        """Prepare sums over ranks; ``is_local`` masks the values of which this rank has a part."""
        self._parts, self.shared = RankParts.of_columns(comm, np.flatnonzero(is_local), is_local.size), True
        self._values: Any = None
        self._shared = int(is_local.sum())
        if comm.rank:
            self.samples = 0
        self.columns = RankParts.of_columns(comm, np.arange(self.samples), is_local.size)

    def read(self, target: Any, row: int, field: Any) -> None:
        """Write the values of ``field`` at the sensor to ``target[row]``, (samples,); all ranks call it."""
        if self._parts is None:
            self._sample(target[row], field, *self._arguments)
            return
        if self._values is None:
            self._values = self._device.empty((1, self._shared), field.dtype)
        self._sample(self._values[0], field, *self._arguments)
        values = self._parts.summed(np.asarray(self._device.to_host(self._values[0])))
        if values is not None:
            target[row] = self._device.asarray(values, target.dtype)


class Intensity:
    """Computes acoustic intensity I = p u at the sensor, and its time average.

    ``axes`` are the letters of the components, such as "xyz". Velocities are half a time step earlier than
    the pressure of the same step. Six-point Lagrange interpolation moves them to the pressure's time, with an
    error of 2.8·10⁻⁴ at ten steps per period and 5·10⁻⁶ at twenty. It needs velocities of later steps, so the
    intensity lags three steps behind.
    """

    #: Steps by which the intensity lags behind, and steps needed before the first recorded step.
    lag = 3
    reach = 2

    def __init__(self, device, axes: str, samples: int, dtype):
        self._device, self._axes = device, axes
        shape = (len(axes), samples)
        self._velocities = [device.zeros(shape, dtype) for _ in range(6)]
        self._pressures = [device.zeros(samples, dtype) for _ in range(4)]
        self.sums = device.zeros(shape, np.float64)
        self._weights = [np.dtype(dtype).type(w) for w in WEIGHTS]
        self._recorded = 0

    def pressure(self, values) -> None:
        """Store the pressure of this time step at the sensor, (samples,)."""
        self._pressures = [*self._pressures[1:], self._pressures[0]]
        self._pressures[-1][...] = values
        self._velocities = [*self._velocities[1:], self._velocities[0]]

    def velocity(self, axis: int, values) -> None:
        """Store this step's velocity along ``axis`` at the sensor, half a time step before the pressure."""
        self._velocities[-1][axis] = values

    def advance(self, recorded: int) -> list:
        """Compute the intensity of three steps ago and add it to the sums for the average.

        Return a list of this array (axes, samples), empty for the first three recorded steps. ``recorded``
        is the number of recorded steps, this one included.
        """
        self._recorded = max(recorded, 0)
        return [self._product()] if recorded > self.lag else []

    def flush(self) -> list:
        """Return the intensities of the last three steps, as if p and u kept their last values afterwards."""
        rows = []
        for late in range(self.lag):
            last = self._velocities[-1].copy()
            self.pressure(self._pressures[-1].copy())
            self._velocities[-1][...] = last
            if late >= self.lag - self._recorded:  # else from before the start of recording
                rows.append(self._product())
        return rows

    def resume(self, recorded: int) -> int:
        """Resume after ``recorded`` steps; return the number of steps whose intensity was written by then."""
        self._recorded = recorded
        return max(0, recorded - self.lag)

    def averages(self, rows: int) -> dict[str, np.ndarray]:
        """Return a dictionary from name, such as ``Ix_avg``, to the mean intensity over ``rows`` steps."""
        sums = np.asarray(self._device.to_host(self.sums)) / rows
        dtype = self._pressures[0].dtype
        return {f"I{axis}_avg": sums[i].astype(dtype) for i, axis in enumerate(self._axes)}

    def state(self) -> dict[str, Any]:
        """Return a dictionary from name to device array of all that a checkpoint stores."""
        velocities = {f"I_u{i}": array for i, array in enumerate(self._velocities)}
        pressures = {f"I_p{i}": array for i, array in enumerate(self._pressures)}
        return velocities | pressures | {"I_sums": self.sums}

    def _product(self):
        # The pressure p[0] is three steps old; the six velocities lie around its time.
        between = sum(w * u for w, u in zip(self._weights, self._velocities, strict=True))
        product = self._pressures[0] * between
        self.sums += product
        return product

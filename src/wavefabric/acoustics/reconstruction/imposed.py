"""Finds the grid points at which time reversal imposes recorded pressures, and the region they enclose."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.ndimage import binary_fill_holes, distance_transform_edt
from scipy.sparse import csr_array
from scipy.spatial import KDTree

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.problem import Cuboids, Elements, Interpolation
from wavefabric.acoustics.recording.sampling import rows_of
from wavefabric.acoustics.sensor import Sensor
from wavefabric.base.errors import require

#: A series drives a grid point if its weight there is at least this fraction of its largest weight.
_HEARD = 0.5


@dataclass(frozen=True, eq=False)
class Imposed:
    """A sensor, and the weights with which its recorded pressure series drive a grid.

    A sensor records the series y = W p of the pressure p at the grid points. W has a row for each series and
    a column for each grid point. Time reversal imposes at a point the mean of the series weighted by its
    column: the transpose of recording, scaled so that equal series are imposed unchanged. Weights below half
    of the largest in their row count as 0: tails of elements and far corners of cells.
    """

    sensor: Sensor
    mask: np.ndarray  # grid points that are driven: bool, the grid's shape
    weights: Any  # csr_array (driven points, series)
    enclosed: np.ndarray  # default region of the image: bool, the grid's shape

    @classmethod
    def of(cls, sensor: Any, grid: Grid) -> "Imposed":
        """Build an `Imposed` from a mask, or from a `Sensor` that has a mask, points or elements."""
        if not isinstance(sensor, Sensor):
            sensor = Sensor(grid.mask(sensor, "mask"))
        require(sensor.start == 0, "mask.start", sensor.start, "0, series from t = 0 on")
        sensor = replace(sensor, record="p", frequencies=())
        points = sensor.on(replace(grid, pml_size=0, pml_inside=True)).where
        allowed = "a mask, Sensor.points or Sensor.elements"
        require(not isinstance(points, Cuboids), "mask", "Sensor.boxes", allowed)
        size = int(np.prod(grid.shape))
        rows = rows_of(points, grid.total_shape)
        heard = csr_array((rows.weights, rows.points, rows.bounds), (rows.bounds.size - 1, size))
        limits = _HEARD * heard.max(axis=1).toarray().ravel()
        heard.data[heard.data < np.repeat(limits, np.diff(heard.indptr))] = 0
        heard.eliminate_zeros()
        driven = np.unique(heard.indices)
        mask = np.isin(np.arange(size), driven).reshape(grid.shape, order="F")
        transposed = csr_array(heard[:, driven].T)
        weights = csr_array(transposed / np.asarray(transposed.sum(axis=1)).reshape(-1, 1))
        gap = 0.0
        if isinstance(points, Interpolation | Elements) and len(heard.indptr) > 2 and grid.dimensions > 1:
            positions = np.stack(np.unravel_index(heard.indices, grid.shape, order="F"), 1) * grid.spacing
            fractions = heard.data / np.repeat(heard.sum(axis=1), np.diff(heard.indptr))
            centres = np.add.reduceat(positions * fractions[:, None], heard.indptr[:-1])
            gap = float(KDTree(centres).query(centres, 2)[0][:, 1].max())
        return cls(sensor, mask, weights, _enclosed(mask, gap, grid))


def _enclosed(mask: np.ndarray, gap: float, grid: Grid) -> np.ndarray:
    """Return a mask of the grid points in ``mask`` and those inside; gaps up to ``gap``, m, count as closed.

    If there are no more points inside than in ``mask``, all grid points are in the result.
    """
    # The padding lets the dilation that closes gaps be undone at the grid's edges.
    wide = [math.ceil(gap / step) + 1 for step in grid.spacing]
    padded = np.pad(mask, [(n, n) for n in wide])
    near = np.asarray(distance_transform_edt(~padded, grid.spacing)) <= gap
    filled = np.asarray(binary_fill_holes(near))
    if np.count_nonzero(filled) <= np.count_nonzero(near) + np.count_nonzero(mask):
        return np.ones(grid.shape, bool)
    enclosed = np.asarray(distance_transform_edt(filled, grid.spacing)) > gap
    return enclosed[tuple(slice(n, -n) for n in wide)]

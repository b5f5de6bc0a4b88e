"""Stores the split parts of the density, only inside the perfectly matched layers."""

import math
from typing import Any, NamedTuple

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.formulas import on_axis, pml_factors


class SplitLayers(NamedTuple):
    """Holds the split parts of the density in the PML layers of each axis, and the positions of these layers.

    The density is a sum of one part per axis, due to the flow along this axis. The layers of an axis damp its
    part. So a point stores an axis' part, in addition to the total density, only if it lies in the layers of
    this axis (its PML factor is not 1). Undamped parts all obey one equation, and so does their sum.

    With L_ξ layer points along axis ξ, part ``x`` is (Nz, Ny, L_x), ``y`` (Nz, L_y, Nx), ``z`` (L_z, Ny, Nx).
    ``at_ξ`` maps the index of a point along the axis to its index among the layer points, −1 outside.
    ``pml_ξ`` is the PML factor. ``runs`` is the result of `runs_along` for axis x, on the host.
    """

    x: Any
    y: Any
    z: Any
    at_x: Any
    at_y: Any
    at_z: Any
    pml_x: Any
    pml_y: Any
    pml_z: Any
    runs: np.ndarray

    @property
    def words(self) -> list:
        """Return the members of the C struct ``SplitLayers`` (split_density.cu): nine arrays, four sizes."""
        _, layers_y, nx = self.y.shape
        _, ny, layers_x = self.x.shape
        return [*self[:9], nx, ny, layers_x, layers_y]

    @property
    def parts(self) -> list:
        """Return the parts along x, y and z; a part is empty if its axis has no layers."""
        return [self.x, self.y, self.z]


def positions(factor: np.ndarray) -> np.ndarray:
    """Number the points of an axis that lie in its PML layers, where ``factor`` is not 1; −1 elsewhere."""
    inside = factor != 1
    return np.where(inside, np.cumsum(inside) - 1, -1).astype(np.int32)


def runs_along(positions: np.ndarray) -> np.ndarray:
    """Return the runs of consecutive layer points along an axis, uint64 (runs, 3).

    A row has the first point of a run, the point after its last, and the first one's entry of ``positions``.
    """
    edges = np.flatnonzero(np.diff(positions >= 0, prepend=False, append=False)).reshape(-1, 2)
    # Unsigned: with signed integers compiled loops would check for negative indices.
    return np.array([(first, end, positions[first]) for first, end in edges], np.uint64).reshape(-1, 3)


def _shapes(subdomain: Subdomain, layers: list[int]) -> list[tuple[int, int, int]]:
    """Return the shapes of the parts along x, y and z; ``layers`` are the layer points of each axis."""
    (nx, ny, nz), (x, y, z) = subdomain.size, layers
    return [(nz, ny, x), (nz, y, nx), (z, ny, nx)]


def make_split_layers(device, problem: Problem, subdomain: Subdomain, dtype, pml: list) -> SplitLayers:
    """Return new `SplitLayers` whose parts are all zeros; ``pml``: PML factors along x, y, z, on device."""
    layers = [positions(factor) for factor in pml_factors(problem, False, subdomain)]
    layers += [np.full(n, -1, np.int32) for n in subdomain.size[len(layers) :]]  # of missing axes: none
    shapes = _shapes(subdomain, [int((along >= 0).sum()) for along in layers])
    parts = (device.zeros(shape, dtype) for shape in shapes)
    return SplitLayers._make([*parts, *map(device.asarray, layers), *pml, runs_along(layers[0])])


def split_points(problem: Problem, subdomain: Subdomain) -> int:
    """Return the number of values in all split parts on a rank, from sizes alone: no arrays are read."""
    layers = [0, 0, 0]
    for axis in range(problem.dimensions):
        n, size = subdomain.shape[axis], problem.pml_size[axis] if problem.pml_alpha[axis] else 0
        index = subdomain.indices(axis)
        layers[axis] = int((((index < size) & (not on_axis(problem, axis))) | (index >= n - size)).sum())
    return sum(map(math.prod, _shapes(subdomain, layers)))

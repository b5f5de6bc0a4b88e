"""The split parts of the density, kept inside the perfectly matched layers alone."""

import math
from typing import Any, NamedTuple

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.formulas import on_axis, pml_factors


class SplitLayers(NamedTuple):
    """What the layers of each axis take out of the total density, and where.

    The layers of an axis damp the part of the density that flows along it. A point has this part beside the
    total if it lies in them (its PML factor is not 1), and there alone: outside, parts of all axes obey one
    equation, and so does their sum. With L_ξ points in the layers of axis ξ, ``x`` is (Nz, Ny, L_x), ``y``
    (Nz, L_y, Nx), ``z`` (L_z, Ny, Nx). ``at_ξ`` maps an index along the axis to that along L_ξ, −1 outside;
    ``pml_ξ`` is the factor. ``runs`` are the rows of `runs_along`, on the host.
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
        """Members of the structure ``SplitLayers`` of ``split_density.cu``; whole numbers count points."""
        _, layers_y, nx = self.y.shape
        _, ny, layers_x = self.x.shape
        return [*self[:9], nx, ny, layers_x, layers_y]

    @property
    def parts(self) -> list:
        """The parts along x, y and z; empty where there are no layers."""
        return [self.x, self.y, self.z]


def positions(factor: np.ndarray) -> np.ndarray:
    """Index among the points of the layers of an axis, −1 outside, int32, from its PML factors."""
    inside = factor != 1
    return np.where(inside, np.cumsum(inside) - 1, -1).astype(np.int32)


def runs_along(at: np.ndarray) -> np.ndarray:
    """Stretches of an axis within its layers, uint64: rows of first point, end, and place of the first."""
    edges = np.flatnonzero(np.diff(at >= 0, prepend=False, append=False)).reshape(-1, 2)
    # Unsigned, or compiled loops would look for indices that count from the end.
    return np.array([(first, end, at[first]) for first, end in edges], np.uint64).reshape(-1, 3)


def _shapes(subdomain: Subdomain, layers: list[int]) -> list[tuple[int, int, int]]:
    """Of the parts along x, y and z, with so many points in the layers of each axis."""
    (nx, ny, nz), (x, y, z) = subdomain.size, layers
    return [(nz, ny, x), (nz, y, nx), (z, ny, nx)]


def make_split_layers(device, problem: Problem, subdomain: Subdomain, dtype, pml: list) -> SplitLayers:
    """The parts, all zero, for the PML factors ``pml`` along x, y and z on the device."""
    at = [positions(factor) for factor in pml_factors(problem, False, subdomain)]
    at += [np.full(1, -1, np.int32)] * (3 - len(at))  # nothing is inside along the z of two dimensions
    shapes = _shapes(subdomain, [int((along >= 0).sum()) for along in at])
    parts = (device.zeros(shape, dtype) for shape in shapes)
    return SplitLayers._make([*parts, *map(device.asarray, at), *pml, runs_along(at[0])])


def split_points(problem: Problem, subdomain: Subdomain) -> int:
    """Values of all parts of a rank; nothing but sizes is read, so that a faulty problem can be asked too."""
    layers = [0, 0, 0]
    for axis in range(problem.dimensions):
        n, size = subdomain.shape[axis], problem.pml_size[axis] if problem.pml_alpha[axis] else 0
        index = subdomain.indices(axis)
        layers[axis] = int((((index < size) & (not on_axis(problem, axis))) | (index >= n - size)).sum())
    return sum(map(math.prod, _shapes(subdomain, layers)))

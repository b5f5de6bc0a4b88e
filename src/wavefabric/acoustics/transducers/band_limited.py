"""Points between the grid's, as a Fourier method sees them: sums of band-limited delta functions.

A grid of N points holds no wavenumber above the Nyquist limit. The delta function at x₀ that it can hold is
a periodic sinc, b(x) = sin(πd)/(N tan(πd/N)) with d = (x − x₀)/Δx (N even; sin in place of tan for N odd).
In 2-D and 3-D it is the product over the axes. Its tails are long; they are cut where their envelope
∏ 1/(π|d|) falls below a tolerance, which leaves a star of grid points (Wise, Cox, Jaros & Treeby, J. Acoust.
Soc. Am. 146, 278 (2019), doi:10.1121/1.5116132). Unlike there, the tails that stay are tapered towards it
by a Lanczos window: at three points per wavelength that lowers the error of a bowl's field from 1.3 % to
0.2 %, and that of a disc along the grid from 3.8 % to 1.1 %, with the same points.
"""

from __future__ import annotations

import math

import numpy as np

#: Points spread at a time: keeps the scratch arrays in cache.
CHUNK = 16384


def periodic_sinc(d: np.ndarray, points: int) -> np.ndarray:
    """Band-limited delta function of a periodic grid of N ``points`` at a distance of ``d`` grid steps.

    1 at d = 0 and 0 at all other whole d within a period; 1 everywhere for N = 1. Wise et al. 2019,
    equations 8 and 9.
    """
    d = np.asarray(d, float)
    if points == 1:
        return np.ones_like(d)
    d = d - points * np.round(d / points)  # Within half a period: only d = 0 divides by zero.
    near = np.abs(d) < 1e-9
    angle = np.pi * np.where(near, 0.25, d) / points
    below = np.tan(angle) if points % 2 == 0 else np.sin(angle)
    return np.where(near, 1.0, np.sin(points * angle) / (points * below))


def star(dimensions: int, tolerance: float) -> np.ndarray:
    """Grid offsets (offsets, dimensions) at which the envelope of the sinc reaches a part of its peak."""
    reach = max(1, math.ceil(1 / (math.pi * tolerance)))
    axes = np.meshgrid(*([np.arange(-reach, reach + 1)] * dimensions), indexing="ij")
    offsets = np.stack([axis.ravel() for axis in axes], axis=1)
    # The point may lie half a step nearer than the offset says; a sinc never exceeds 1.
    distance = np.maximum(np.abs(offsets) - 0.5, 1 / math.pi)
    return offsets[np.prod(math.pi * distance, axis=1) <= 1 / tolerance]


def spread(
    positions: np.ndarray, weight: float, shape: tuple[int, ...], tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Sum of equal band-limited delta functions on a grid of this shape, (Nx, Ny) or (Nx, Ny, Nz).

    ``positions`` (points, dimensions) are in grid steps from grid point 0, each within the grid. Tails are
    cut at ``tolerance`` of the peak; 0 keeps them whole. What would stick out of the grid is cut too, rather
    than wrapped around it. Returns flat grid indices (int64, x fastest, ascending) and a weight for each.
    """
    if tolerance == 0:
        return _spread_whole(positions, weight, shape)
    offsets = star(len(shape), tolerance)
    reach = int(offsets.max())
    nearest = np.rint(positions).astype(np.int64)
    # A box around all points, with space for the tails: the scratch array is no larger than it must be.
    low = nearest.min(axis=0) - reach
    size = nearest.max(axis=0) + reach + 1 - low
    strides = np.concatenate([[1], np.cumprod(size)[:-1]])
    total = np.zeros(int(np.prod(size)))
    steps = offsets @ strides
    for first in range(0, len(positions), CHUNK):
        near = nearest[first : first + CHUNK]
        part = positions[first : first + CHUNK] - near
        centre = (near - low) @ strides
        tails = [
            np.stack([_tail(i - part[:, axis], points, reach) for i in range(-reach, reach + 1)])
            for axis, points in enumerate(shape)
        ]
        for offset, step in zip(offsets, steps, strict=True):
            value = tails[0][offset[0] + reach]
            for axis in range(1, len(shape)):
                value = value * tails[axis][offset[axis] + reach]
            lowest = int(centre.min()) + step
            sums = np.bincount(centre + (step - lowest), value)
            total[lowest : lowest + len(sums)] += sums
    used = np.flatnonzero(total)
    points = np.stack(np.unravel_index(used, tuple(size), order="F"), axis=1) + low
    inside = np.all((points >= 0) & (points < shape), axis=1)
    index = np.asarray(np.ravel_multi_index(tuple(points[inside].T), shape, order="F"))
    return index, total[used][inside] * weight


def _tail(d: np.ndarray, points: int, reach: int) -> np.ndarray:
    """Periodic sinc, tapered to nothing a step and a half beyond its reach."""
    return periodic_sinc(d, points) * np.sinc(d / (reach + 1.5))


def _spread_whole(
    positions: np.ndarray, weight: float, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    total = 0.0
    for first in range(0, len(positions), 256):
        part = positions[first : first + 256]
        axes = [periodic_sinc(np.arange(n) - part[:, i, None], n) for i, n in enumerate(shape)]
        plane = (axes[1][:, :, None] * axes[0][:, None, :]).reshape(len(part), -1)
        total = total + (axes[2].T @ plane if len(shape) == 3 else plane.sum(axis=0))
    total = np.asarray(total).ravel() * weight
    index = np.flatnonzero(total)
    return index, total[index]

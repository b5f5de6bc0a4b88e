"""Creates a synthetic CT of a head for examples and tests: scalp, three-layer skull, brain, air around it."""

from collections.abc import Sequence

import numpy as np

from wavefabric.acoustics.transcranial.ct import AIR, CT
from wavefabric.acoustics.transducers.mask import Length, point
from wavefabric.base.arguments import is_whole, positive, real
from wavefabric.base.errors import require

#: HU from outside in: air, scalp, outer table, diploë, inner table, brain.
HOUNSFIELD = (AIR, 40.0, 1700.0, 700.0, 1700.0, 40.0)
_MOST = 10**9  # largest number of voxels
_UNDULATION = 0.01  # largest displacement of the scalp, m per unit of ``variation``


def synthetic_head(
    spacing: Length = 1e-3,
    *,
    semi_axes: Sequence[Length] = (0.078, 0.097, 0.088),
    thickness: Sequence[Length] = (5e-3, 2e-3, 3e-3, 1.6e-3),
    variation: float = 0.3,
    seed: int = 0,
) -> CT:
    """Return a CT in cubic voxels of an ellipsoidal head around the world's origin; reproducible.

    Lengths in m: ``semi_axes`` of the scalp along x (right), y (front), z (top), short ones for tests; mean
    ``thickness`` of scalp, outer table, diploë and inner table. Each thickness varies smoothly with direction
    by up to a fraction ``variation``, from 0 to 0.5, and the scalp undulates by up to that fraction of 10 mm.
    `InputError`: a value is out of range, or the layers leave no brain.

    A voxel that a boundary crosses has a mean of the values on both sides, weighted by the distance of its
    centre from the boundary. Distances are differences of the depth below the scalp: (1 − q)/|∇q| for an
    ellipsoid q(x) = 1, which is exact for a sphere.
    """
    step, variation = positive(spacing, "m", "spacing"), real(variation, "variation")
    axes, layers = point(semi_axes, 3, "semi_axes"), point(thickness, 4, "thickness")
    require(0 <= variation <= 0.5, "variation", variation, "from 0 to 0.5")
    require(is_whole(seed) and seed >= 0, "seed", seed, "a whole number from 0")
    require(layers.min() > 0, "thickness", thickness, "above 0, m")
    least = (1 + variation) * layers.sum() + _UNDULATION * variation
    require(axes.min() > least, "semi_axes", semi_axes, f"above {least:.3g} m, which the layers take")
    reach = axes + _UNDULATION * variation + 2e-3  # 2 mm of air
    points = float(np.prod(2 * reach / step))
    require(points <= _MOST, "spacing", spacing, f"at most {_MOST:.0e} points; these would be {points:.2g}")
    lines = [np.arange(-n, n + 1) * step for n in np.ceil(reach / step).astype(int)]
    x, y = lines[0][:, None] / axes[0], lines[1] / axes[1]
    weights = np.random.default_rng(seed).uniform(-1, 1, (len(layers) + 1, 5))
    weights *= variation / np.abs(weights).sum(axis=1, keepdims=True)
    values = np.empty([len(line) for line in lines], np.float32, order="F")
    for k, z in enumerate(lines[2] / axes[2]):
        q = np.sqrt(x**2 + y**2 + z**2) + 1e-12
        slope = np.sqrt((x / axes[0]) ** 2 + (y / axes[1]) ** 2 + (z / axes[2]) ** 2) / q + 1e-12
        u, v, w = x / q, y / q, z / q
        waves = np.broadcast_arrays(2 * u * v, 2 * v * w, 2 * w * u, 2 * u**2 - 1, 4 * v**3 - 3 * v)
        waves = [np.tensordot(weight, waves, 1) for weight in weights]  # each from −variation to variation
        depth = (1 - q) / slope + _UNDULATION * waves[0]
        ends = [mean * (1 + wave) for mean, wave in zip(layers, waves[1:], strict=True)]
        ends = np.cumsum([0 * depth, *ends], 0)
        parts = np.clip((depth - ends) / step + 0.5, 0, 1)
        values[:, :, k] = HOUNSFIELD[0] + np.tensordot(np.diff(HOUNSFIELD), parts, 1)
    return CT.of(values, step)

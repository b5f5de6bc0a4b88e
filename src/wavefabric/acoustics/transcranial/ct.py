"""CTs: read, written, and brought onto a simulation grid whose x axis is the beam axis of a transducer."""

import gzip
import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.arguments import as_array, check_reals, in_unit, per_axis, positive, require
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.transducers.mask import Length, Point, direction, point
from wavefabric.errors import InputError, MissingExtra
from wavefabric.files.input import check_regular
from wavefabric.files.output import check_output, write_bytes

#: Hounsfield units of air.
AIR = -1000.0
_IN_MM = {"meter": 1e3, "mm": 1.0, "micron": 1e-3, "unknown": 1.0}
_SLAB = 1 << 22  # points resampled at a time


@dataclass(frozen=True, eq=False)
class CT:
    """Hounsfield units [x, y, z], and the (4, 4) ``affine`` from voxel indices to world mm, as in NIfTI."""

    values: np.ndarray
    affine: np.ndarray

    def __post_init__(self) -> None:
        check_reals(self.values, "ct.values")
        shape = self.values.shape
        require(len(shape) == 3 and min(shape), "ct.values.shape", shape, "three axes with points")
        right = self.affine.shape == (4, 4) and 1e-12 < abs(np.linalg.det(self.affine)) < math.inf
        require(right, "ct.affine", self.affine.tolist(), "a (4, 4) matrix that has an inverse")

    @classmethod
    def of(cls, values: Any, spacing: Any) -> "CT":
        """Of an array; ``spacing`` in m, one or one an axis. The world's origin is at point ``N // 2``."""
        values = as_array(values, "ct.values")
        steps = np.array([positive(length, "m", "spacing") * 1e3 for length in per_axis(spacing, 3)])
        require(len(steps) == values.ndim == 3, "spacing", spacing, "one an axis of three, m")
        affine = np.diag([*steps, 1.0])
        affine[:3, 3] = -steps * (np.array(values.shape) // 2)
        return cls(values, affine)

    @property
    def spacing(self) -> tuple[float, ...]:
        """Distance of neighbouring voxels along each axis, m."""
        return tuple((np.linalg.norm(self.affine[:3, :3], axis=0) * 1e-3).tolist())


def read_ct(path: str | Path, spacing: Any = None) -> CT:
    """Read NIfTI (``.nii``, ``.nii.gz``), or ``.npy`` with its ``spacing``, m, as in `CT.of`.

    `InputError`: it cannot be read, or holds no volume. `MissingExtra`: NIfTI without the package nibabel.
    """
    path, array = Path(path), str(path).lower().endswith(".npy")
    require(array == (spacing is not None), "spacing", spacing, "for .npy files, which need it, and no other")
    nibabel = None if array else _nibabel()
    try:
        check_regular(path)
        if nibabel is None:
            values, affine = np.load(path, allow_pickle=False), None
        else:
            image = nibabel.load(path)
            unit = _IN_MM[image.header.get_xyzt_units()[0]]
            affine = np.diag([unit, unit, unit, 1.0]) @ image.affine
            values = np.asarray(image.get_fdata(dtype=np.float32, caching="unchanged"))
    except Exception as error:  # NumPy and nibabel raise whatever they met.
        why = getattr(error, "strerror", None) or error
        raise InputError(f"ct: {path} cannot be read ({why}); allowed: .nii, .nii.gz, .npy") from None
    require(math.prod(values.shape[3:]) == 1, "ct.values.shape", values.shape, "three axes with points")
    values = values.reshape(values.shape[:3])
    return CT.of(values, spacing) if affine is None else CT(values, affine)


def write_ct(ct: CT, path: str | Path, force: bool = False) -> Path:
    """Write NIfTI (``.nii``, ``.nii.gz``) of whole HU. `InputError`, `MissingExtra`: as in `read_ct`."""
    image = _nibabel().Nifti1Image(np.rint(ct.values).astype(np.int16), ct.affine)
    image.header.set_xyzt_units("mm")
    path = check_output(path, force, "ct", endings=(".nii", ".gz"))
    content = image.to_bytes()
    return write_bytes(path, gzip.compress(content) if path.suffix.lower() == ".gz" else content, "ct", force)


def _nibabel() -> Any:
    try:
        import nibabel
    except ImportError:
        raise MissingExtra("NIfTI", "nifti") from None
    return nibabel


@dataclass(frozen=True, eq=False)
class BeamFrame:
    """Where a grid lies in the world: its origin, m; the directions of its x, y, z as rows of ``axes``."""

    origin: np.ndarray
    axes: np.ndarray

    def to_world(self, points: Any) -> np.ndarray:
        """World coordinates, m, of points (…, 3) in the grid's coordinates, m."""
        return self.origin + np.asarray(points) @ self.axes


def along_beam(position: Point, target: Point, at: Length = 0.0) -> BeamFrame:
    """The grid's x axis from a transducer at ``position`` to a ``target``, world coordinates in m.

    The position is (``at``, 0, 0) in the grid's coordinates; y is near the world's axis that is farthest from
    the beam. `InputError`: no two points.
    """
    start = point(position, 3, "position")
    beam = direction(point(target, 3, "target") - start, 3, "target")
    second = np.eye(3)[int(np.argmin(np.abs(beam) + 1e-9 * np.arange(3)))]
    second = second - beam * (second @ beam)
    second /= np.linalg.norm(second)
    return BeamFrame(start - in_unit(at, "m", "at") * beam, np.array([beam, second, np.cross(beam, second)]))


def resample(ct: CT, grid: Grid, frame: BeamFrame, *, outside: float = AIR) -> np.ndarray:
    """Hounsfield units at the points of a grid, float32 [x, y(, z)], x fastest in memory.

    Trilinear in the CT, and ``outside`` beyond it. Where a step of the grid crosses n voxels, n > 1, a point
    is the mean of n samples of its cell along that axis. Beside the result, it takes the memory of two slabs.
    `InputError`: the grid is axisymmetric.
    """
    from scipy.ndimage import affine_transform

    require(not grid.axisymmetric, "grid.axisymmetric", True, "a Cartesian grid")
    shape, spacing = (*grid.shape, 1, 1)[:3], np.array((*grid.spacing, 0.0, 0.0)[:3])
    to_voxel = np.linalg.inv(ct.affine)
    matrix = to_voxel[:3, :3] @ (frame.axes.T * spacing * 1e3)  # voxels a step of the grid
    first = frame.to_world(-spacing * np.array((*grid.origin, 0, 0)[:3]))
    offset = to_voxel[:3, :3] @ first * 1e3 + to_voxel[:3, 3]
    counts = np.maximum(1, np.ceil(np.abs(matrix).max(axis=0) - 1e-6)).astype(int)
    shifts = [matrix @ part for part in itertools.product(*((np.arange(n) + 0.5) / n - 0.5 for n in counts))]
    values = (
        ct.values.astype(np.float32) if ct.values.dtype.char in "eg" else ct.values
    )  # which SciPy has not
    result = np.empty(shape, np.float32, order="F")
    # Continuous at the edge: round-off does not put the last voxels outside.
    how: Any = (np.float32, 1, "grid-constant", outside)  # output, order, mode, cval
    step = max(1, _SLAB // (shape[0] * shape[1]))
    for z in range(0, shape[2], step):
        slab = result[:, :, z : z + step]
        slab[...] = 0
        for shift in shifts:
            start: Any = offset + shift + matrix[:, 2] * z
            slab += affine_transform(values, matrix, start, slab.shape, *how)
        slab /= len(shifts)
    return result.reshape(grid.shape, order="F")

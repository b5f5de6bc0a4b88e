"""Reads, writes and resamples CTs onto a grid whose x axis is the beam axis of a transducer."""

import gzip
import itertools
import math
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.transducers.mask import Length, Point, beam_axes, direction, point
from wavefabric.base.arguments import in_unit, per_axis, positive, real, typed
from wavefabric.base.errors import InputError, MissingExtra, require
from wavefabric.base.files.input import check_regular
from wavefabric.base.files.output import check_output, write_bytes
from wavefabric.runtime.device.user_arrays import as_array, real_array

#: Hounsfield units of air.
AIR = -1000.0
_IN_MM = {"meter": 1e3, "mm": 1.0, "micron": 1e-3, "unknown": 1.0}
_VOXEL = 2e-5, 2e-2  # smallest and largest voxel size that a file may have, m
_TOWARDS = {"R": 1, "L": -1, "A": 2, "P": -2, "S": 3, "I": -3}  # world axis from 1, with its sign
_SLAB = 1 << 22  # number of points resampled at a time


@dataclass(frozen=True, eq=False)
class CT:
    """Holds Hounsfield units [x, y, z], and the (4, 4) ``affine`` from voxel indices to world mm (NIfTI)."""

    values: np.ndarray
    affine: np.ndarray

    def __post_init__(self) -> None:
        shape = real_array(self.values, "ct.values").shape
        require(len(shape) == 3 and min(shape), "ct.values.shape", shape, "three axes with points")
        affine = real_array(self.affine, "ct.affine")
        right = affine.shape == (4, 4) and np.isfinite(affine).all() and abs(np.linalg.det(affine)) > 1e-12
        require(right, "ct.affine", affine.tolist(), "a (4, 4) matrix that has an inverse")
        volume = abs(np.linalg.det(affine[:3, :3])) / np.prod(np.linalg.norm(affine[:3, :3], axis=0))
        allowed = "axes at 30° to each other or more (a gantry is tilted by less)"
        require(volume > 0.5, "ct.affine", "sheared: axes nearly in a plane", allowed)

    @classmethod
    def of(cls, values: Any, spacing: Any, orientation: str = "RAS") -> "CT":
        """Return a CT of the array ``values``, Hounsfield units, with voxels of size ``spacing``, m.

        ``spacing`` is one number or three. The origin of world coordinates is at voxel ``N // 2`` of each
        axis. ``orientation`` says where x, y, z point: to the right or left (R, L) of the patient, the front
        or back (A, P), the top or bottom (S, I), such as ``"LPS"``.
        """
        values = as_array(values, "ct.values")
        steps = np.array([positive(length, "m", "spacing") * 1e3 for length in per_axis(spacing, 3)])
        require(len(steps) == values.ndim == 3, "spacing", spacing, "one an axis of three, m")
        letters = orientation.upper() if isinstance(orientation, str) else ""
        axes = [_TOWARDS.get(letter, 0) for letter in letters]
        right = sorted(map(abs, axes)) == [1, 2, 3]
        require(right, "orientation", orientation, "three letters, R or L, A or P, S or I, such as RAS")
        affine = np.eye(4)
        affine[:3, :3] = np.array([np.sign(axis) * np.eye(3)[abs(axis) - 1] for axis in axes]).T * steps
        affine[:3, 3] = -affine[:3, :3] @ (np.array(values.shape) // 2)
        return cls(values, affine)

    @property
    def spacing(self) -> tuple[float, ...]:
        """Return the distance between neighbouring voxels along each axis, m."""
        return tuple((np.linalg.norm(self.affine[:3, :3], axis=0) * 1e-3).tolist())


def read_ct(path: str | Path, spacing: Any = None, orientation: str | None = None) -> CT:
    """Read a CT from NIfTI (``.nii``, ``.nii.gz``), or from ``.npy`` with ``spacing``, m, as in `CT.of`.

    An ``orientation``, as in `CT.of`, is only for files that have none. NIfTI whose ``sform_code`` and
    ``qform_code`` are 0 requires one; for ``.npy`` the default is RAS. NIfTI has the voxel size in the file.

    `InputError`: the file cannot be read, has no volume, or no Hounsfield units. `MissingExtra`: NIfTI
    without the package nibabel. Warns if sform, qform and voxel size contradict each other.
    """
    require(isinstance(path, str | os.PathLike), "ct", path, ".nii, .nii.gz, .npy")
    path, array = Path(path), str(path).lower().endswith(".npy")
    require(array == (spacing is not None), "spacing", spacing, "for .npy files, which need it, and no other")
    nibabel = None if array else _nibabel()
    try:
        check_regular(path)
        if nibabel is None:
            ct = CT.of(_volume(np.load(path, allow_pickle=False)), spacing, orientation or "RAS")
        else:
            image = nibabel.load(path)
            with nibabel.openers.ImageOpener(path) as file:  # the header as stored: nibabel changes parts
                header = type(image.header).from_fileobj(file, check=False)
            values = _volume(np.asarray(image.get_fdata(dtype=np.float32, caching="unchanged")))
            ct = _in_world(path, values, header, image.affine, orientation)
    except InputError:
        raise
    except Exception as error:  # NumPy and nibabel raise errors of many types.
        why = getattr(error, "strerror", None) or error
        raise InputError(f"ct: {path} cannot be read ({why}); allowed: .nii, .nii.gz, .npy") from None
    low, high = _VOXEL
    require(all(low <= size <= high for size in ct.spacing), "ct.spacing", ct.spacing, f"{low} to {high} m")
    low, high = check_hounsfield(ct.values)
    allowed = "Hounsfield units, below 0 in air and fat; these may be MRI, or HU + 1024"
    require(low < 0 or high < 1000, "ct.values", f"from {low:g} to {high:g}", allowed)
    return ct


def _volume(values: np.ndarray) -> np.ndarray:
    """Return ``values`` with three axes; drop further axes, which must have one point."""
    require(math.prod(values.shape[3:]) == 1, "ct.values.shape", values.shape, "three axes with points")
    return values.reshape(values.shape[:3])


def check_hounsfield(values: np.ndarray) -> tuple[float, float]:
    """Return the smallest and largest value; `InputError`: not finite, or too small for Hounsfield units."""
    low, high = float(values.min()), float(values.max())
    require(math.isfinite(low + high), "ct.values", "not finite somewhere", "Hounsfield units; -1000 outside")
    allowed = "Hounsfield units: air -1000, bone above 300; these may be in 1000 HU"
    require(low == high or max(-low, high) > 20, "ct.values", f"from {low:g} to {high:g}", allowed)
    return low, high


def content_warnings(values: np.ndarray) -> list[str]:
    """Return warnings if ``values`` (HU) lack what a CT of a head should show: air, bone, dense bone."""
    low, high = float(values.min()), float(values.max())
    lines = [f"no air: the lowest value is {low:g} HU, that of air -1000"] if low > -500 else []
    if high < 300:
        lines.append(f"no bone: the highest value is {high:g} HU, that of bone above 300")
    elif high < 1500 and np.count_nonzero(values == values.max()) > max(8, 1e-4 * values.size):
        lines.append(f"clipped: many values are {high:g} HU, the highest, where dense bone has 1500 and more")
    return [f"ct: {line}" for line in lines]


def _in_world(path: Path, values: np.ndarray, header: Any, affine: np.ndarray, orientation: Any) -> CT:
    """Place a volume in the world by its NIfTI header or else ``orientation``; return it as a CT."""
    named = header.get_xyzt_units()[0]
    unit, sizes = np.diag([_IN_MM[named]] * 3 + [1.0]), np.array(header["pixdim"][1:4], float) * _IN_MM[named]
    default, codes = named == "unknown" and (sizes == 1).all(), (header["sform_code"], header["qform_code"])
    if max(codes) <= 0:
        if orientation is None:
            what = "says no orientation (sform_code and qform_code are 0): left and right may be swapped"
            raise InputError(f"ct: {path} {what}; allowed: an orientation of its axes, such as RAS")
        if default or not (np.isfinite(sizes).all() and sizes.min() > 0):
            raise InputError(
                f"ct: {path} says no voxel size; allowed: pixdim and units, or .npy with a spacing"
            )
        return CT.of(values, (sizes * 1e-3).tolist(), orientation)
    require(orientation is None, "orientation", orientation, f"none: {path} says its own")
    ct, lines = CT(values, unit @ affine), []
    if min(codes) > 0:
        corners = np.array([*itertools.product(*((0, n - 1) for n in values.shape), (1,))])
        apart = np.linalg.norm(corners @ (unit @ header.get_qform() - ct.affine)[:3].T, axis=1).max()
        if apart > 500 * min(ct.spacing):  # half a voxel
            lines.append(f"qform and sform differ by up to {apart:.3g} mm; sform is taken")
    if not np.allclose(sizes, np.array(ct.spacing) * 1e3, rtol=0.01):
        said, mapped = (" x ".join(f"{s:.4g}" for s in each) for each in (sizes, np.array(ct.spacing) * 1e3))
        lines.append(f"voxels of {said} mm by pixdim, of {mapped} mm by the affine, which is taken")
    elif default:
        lines.append("units are unknown and voxels have the size 1, as by default; mm are taken")
    for line in lines:
        warnings.warn(f"ct: {path}: {line}", stacklevel=3)
    return ct


@typed
def write_ct(ct: CT, path: str | Path, force: bool = False) -> Path:
    """Write a CT, rounded to whole HU, to a NIfTI file (``.nii``, ``.nii.gz``). For errors see `read_ct`."""
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
    """Holds a grid's position in the world: ``origin``, m; the rows of ``axes`` are directions of x, y, z."""

    origin: np.ndarray
    axes: np.ndarray

    def to_world(self, points: Any) -> np.ndarray:
        """Return world coordinates, m, of points (…, 3) in the grid's coordinates, m."""
        return self.origin + np.asarray(points) @ self.axes


def along_beam(position: Point, target: Point, at: Length = 0.0) -> BeamFrame:
    """Return a grid's frame whose x axis points from ``position`` to ``target``, world coordinates in m.

    In the grid's own coordinates the position is (``at``, 0, 0), m. The y axis is as near as possible to one
    of the world's axes, the one at the largest angle to the beam. `InputError`: the points are equal.
    """
    start = point(position, 3, "position")
    axes = beam_axes(direction(point(target, 3, "target") - start, 3, "target"))
    return BeamFrame(start - in_unit(at, "m", "at") * axes[0], axes)


@typed
def resample(ct: CT, grid: Grid, frame: BeamFrame, *, outside: float = AIR) -> np.ndarray:
    """Return Hounsfield units at the points of a grid, float32 [x, y(, z)], x fastest in memory.

    ``frame`` is the grid's position in the world of the CT. Interpolation is trilinear; values beyond the CT
    are ``outside``. If a grid step along an axis crosses n > 1 voxels, a value is the mean of n samples of
    the point's cell along this axis. `InputError`: the grid is axisymmetric.
    """
    from scipy.ndimage import affine_transform

    require(not grid.axisymmetric, "grid.axisymmetric", True, "a Cartesian grid")
    outside = real(outside, "outside")
    shape, spacing = (*grid.shape, 1, 1)[:3], np.array((*grid.spacing, 0.0, 0.0)[:3])
    to_voxel = np.linalg.inv(ct.affine)
    matrix = to_voxel[:3, :3] @ (frame.axes.T * spacing * 1e3)  # voxels per step of the grid
    first = frame.to_world(-spacing * np.array((*grid.origin, 0, 0)[:3]))
    offset = to_voxel[:3, :3] @ first * 1e3 + to_voxel[:3, 3]
    counts = np.maximum(1, np.ceil(np.abs(matrix).max(axis=0) - 1e-6)).astype(int)
    shifts = [matrix @ part for part in itertools.product(*((np.arange(n) + 0.5) / n - 0.5 for n in counts))]
    # SciPy has neither half nor extended precision.
    values = ct.values.astype(np.float32) if ct.values.dtype.char in "eg" else ct.values
    result = np.empty(shape, np.float32, order="F")
    # The mode is continuous at the edge, so round-off does not put the last voxels outside.
    options: Any = (np.float32, 1, "grid-constant", outside)  # output, order, mode, cval
    step = max(1, _SLAB // (shape[0] * shape[1]))
    for z in range(0, shape[2], step):
        slab = result[:, :, z : z + step]
        slab[...] = 0
        for shift in shifts:
            start: Any = offset + shift + matrix[:, 2] * z
            slab += affine_transform(values, matrix, start, slab.shape, *options)
        slab /= len(shifts)
    return result.reshape(grid.shape, order="F")

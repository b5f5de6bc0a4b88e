"""Reads attributes of k-wave-python's objects as numbers and arrays; errors name the user's attribute."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from wavefabric.acoustics.check.rules import PYTHON_NAMES
from wavefabric.acoustics.grid import Grid
from wavefabric.base.arguments import per_axis
from wavefabric.base.errors import InputError, one_line, require

#: k-wave-python's names for arguments of `Grid`, `Medium`, `Source`, `Sensor`, `simulate`, if they differ.
_KWAVE_NAMES = {
    **{"grid.shape": "kgrid.N", "grid.spacing": "kgrid.spacing", "dt": "kgrid.dt", "steps": "kgrid.Nt"},
    **{f"grid.{name}": name for name in ("pml_size", "pml_alpha", "axisymmetric")},
    **{"k_space": "use_kspace", "staggered": "use_sg"},
    "medium.nonlinearity": "medium.BonA",
    "medium.reference_speed": "medium.sound_speed_ref",
    **dict.fromkeys(("medium.absorption", "medium.dispersion"), "medium.alpha_mode"),
    "sensor.start": "sensor.record_start_index",
    "sensor.points": "sensor.mask",
    "source.transducer.mask": "source.active_elements_mask",
    "source.transducer.delay": "source.delay_mask",
    **dict.fromkeys(("source.transducer.signal", "source.transducer.steps"), "source.input_signal"),
}
#: Names in errors of `check` for each number of a `Problem` read from k-wave-python's objects.
PROBLEM_NAMES = {key: _KWAVE_NAMES.get(name, name) for key, name in PYTHON_NAMES.items()}
PROBLEM_NAMES["dispersion=False"] = "medium.alpha_mode='no_dispersion'"


@dataclass(frozen=True, kw_only=True)
class ObjectOptions:
    """Options for reading k-wave-python's objects: keywords of `from_kwave`."""

    pml_size: Any = None
    pml_alpha: Any = 2.0
    pml_inside: bool = True
    smooth_p0: bool = True
    smooth_c0: bool = False
    smooth_rho0: bool = False
    scale_source_terms: bool = True
    signal_order: Literal["C", "F"] = "C"
    use_sg: bool = True
    use_kspace: bool = True
    axisymmetric: bool = False

    def __post_init__(self) -> None:
        order = self.signal_order
        require(isinstance(order, str) and order in ("C", "F"), "signal_order", order, "'C' or 'F'")
        for key in (each.name for each in fields(self) if isinstance(each.default, bool)):
            require(isinstance(getattr(self, key), bool), key, getattr(self, key), "True or False")


@contextmanager
def kwave_names() -> Iterator[None]:
    """Return a context in which errors name k-wave-python's attributes and options."""
    try:
        yield
    except InputError as error:
        key, colon, rest = str(error).partition(":")
        rest = rest.replace("dispersion=False", PROBLEM_NAMES["dispersion=False"])
        raise type(error)(_KWAVE_NAMES.get(key, key) + colon + rest) from error


def computed(described: Any, name: str, key: str, allowed: str) -> Any:
    """Return the attribute ``name`` of an object of k-wave-python; call it if it is a method.

    `InputError`: the attribute is missing or None, or k-wave-python fails to compute it.
    """
    try:
        value = getattr(described, name, None)
        value = value() if callable(value) else value
    except Exception as error:  # k-wave-python asserts, indexes and converts without a check
        reason = one_line(f"{type(error).__name__} {error}")
        raise InputError(f"{key}: k-wave-python cannot compute it ({reason}); allowed: {allowed}") from error
    require(value is not None, key, None, allowed)
    return value


def grid_shape(kgrid: Any) -> tuple[int, ...]:
    """Return the number of points along each axis of a kWaveGrid."""
    points = real_array(getattr(kgrid, "N", None), "kgrid.N").ravel().tolist()
    right = len(points) in (1, 2, 3) and all(2 <= n < 2**31 and n == n // 1 for n in points)
    require(right, "kgrid.N", kgrid.N, "1 to 3 whole numbers from 2")
    return tuple(map(int, points))


def each_axis(value: Any, dimensions: int, key: str) -> tuple[Any, ...]:
    """Return one value per axis; if there are fewer, the last is repeated, as in k-wave-python."""
    each = per_axis(plain(value), dimensions)
    require(0 < len(each) <= dimensions, key, plain(value), f"one value, or up to {dimensions}, one an axis")
    return each + each[-1:] * (dimensions - len(each))


def plain(value: Any) -> Any:
    """Return a NumPy number or array as Python numbers, and anything else unchanged."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def real_array(value: Any, key: str) -> np.ndarray:
    """Return an array of at least one real number; `InputError` for anything else."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        array = np.zeros(0)
    require(array.dtype.kind in "biuf" and array.size, key, value, "real numbers")
    return array


def real_number(value: Any, key: str) -> float:
    """Return one finite number, which k-wave-python may store alone or in an array."""
    array = real_array(value, key)
    require(array.size == 1 and np.isfinite(array).all(), key, value, "a number")
    return float(array.reshape(-1)[0])


def whole_number(value: Any, key: str) -> int:
    """Return one whole number from 1, alone or in an array."""
    number = real_number(value, key)
    require(number == number // 1 and 1 <= number < 2**53, key, value, "a whole number from 1")
    return int(number)


def grid_values(value: Any, grid: Grid, key: str, allows_number: bool = True) -> Any:
    """Return a value as an array of the grid's shape, or as a float if it may be a number; keep None.

    Arrays flattened in C order are accepted, as by k-wave-python. Other shapes with as many values, which
    k-wave-python reshapes too, are an `InputError` here.
    """
    if value is None:
        return None
    array, points = real_array(value, key), math.prod(grid.shape)
    if array.size == 1 and allows_number:
        return float(array.reshape(-1)[0])
    flat = tuple(n for n in array.shape if n > 1) in ((points,), grid.shape)
    what = f"{grid.shape}, that of the grid, or flattened" + (", or one number" if allows_number else "")
    require(array.shape == grid.shape or flat, key, f"shape {array.shape}", what)
    return array.reshape(grid.shape)


def grid_mask(mask: Any, grid: Grid, key: str) -> np.ndarray:
    """Return a mask as bool; one value applies to all points."""
    mask = grid_values(mask, grid, key)
    return grid.mask(np.full(grid.shape, mask) if isinstance(mask, float) else mask, key)


def fortran_positions(mask: np.ndarray) -> np.ndarray:
    """Return for each point of a mask, in C order, its position in Fortran order."""
    positions = np.zeros(mask.shape, np.int64)
    positions.T[mask.T] = np.arange(np.count_nonzero(mask))
    return positions[mask]

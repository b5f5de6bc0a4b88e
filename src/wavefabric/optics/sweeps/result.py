"""Read the result of a parameter sweep: its axes, means over signals, the best point."""

from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.results.file import Result, read_result


class SweepResult(Result):
    """A `Result` whose quantities have the sweep's axes as first dimensions; InputError without axes."""

    def __init__(self, result: Result):
        super().__init__(result.path, result._keys, result._attrs)
        names = str(self.attrs().get("axes", "")).split()
        #: Values along each dimension, by key in the run file.
        self.axes: dict[str, Any] = {name: self[name] for name in names if name in self}
        if not names or len(self.axes) < len(names) or not all(map(np.ndim, self.axes.values())):
            raise InputError(f"{self.path}: holds no axes of a sweep; allowed: what `wavefabric sweep` wrote")

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of points along each axis."""
        return tuple(len(values) for values in self.axes.values())

    def label(self, name: str, index: int) -> str:
        """Return a value of an axis with its unit, as text."""
        value = self.axes[name][index]
        return f"{value if isinstance(value, str) else f'{value:g}'} {self.attrs(name)['units']}".strip()

    def numbers(self, name: str) -> np.ndarray:
        """Return a quantity as floats; `InputError` if missing, or its first dimensions are not the axes."""
        array = np.asarray(self.get(name, ""))
        if array.dtype.kind not in "fiu" or array.shape[: len(self.shape)] != self.shape:
            quantities = (key for key in self if str(self.attrs(key).get("description")) and "/" not in key)
            raise InputError(f"{self.path}: no quantity {name} by axes; allowed: {', '.join(quantities)}")
        return array.astype(float)

    def at_farthest(self, values: np.ndarray) -> np.ndarray:
        """Return ``values`` (axes, position, …) at each point's farthest receiver position: (axes, …)."""
        far = np.argmax(np.nan_to_num(self.numbers("distance"), nan=-1.0), axis=-1)
        axis = far.ndim
        return np.take_along_axis(values, np.expand_dims(far, tuple(range(axis, values.ndim))), axis).squeeze(
            axis
        )

    def mean_q_squared_db(self) -> np.ndarray:
        """Return for each point the mean Q² of modes and channels, in dB, at the farthest receiver position.

        Q² is averaged in linear units; the array has the axes of the sweep.
        """
        return mean(self.at_farthest(self.numbers("q_squared_db")), (-2, -1), True)

    def best(self) -> tuple[int, ...] | None:
        """Return the index of the point with the largest `mean_q_squared_db`; None if there is no signal."""
        q = np.nan_to_num(self.mean_q_squared_db(), nan=-np.inf)
        return tuple(map(int, np.unravel_index(q.argmax(), q.shape))) if q.max() > -np.inf else None


def mean(values: np.ndarray, axis: tuple[int, ...], decibels: bool = False) -> np.ndarray:
    """Return the mean over ``axis`` of the values that are not NaN; NaN if all are.

    With ``decibels`` values and result are in dB, but averaged in linear units.
    """
    linear = 10 ** (values / 10) if decibels else values
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.nansum(linear, axis) / np.sum(~np.isnan(linear), axis)
        return 10 * np.log10(result) if decibels else result


def read_sweep(path: str | Path) -> SweepResult:
    """Open the result file of a sweep; `InputError` as for `read_result`, or for a single run."""
    return SweepResult(read_result(path))

"""Evaluates objectives, and converts their derivatives to the layout of the recorder."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.problem import Recording
from wavefabric.acoustics.recording.quantities import is_field, is_tone
from wavefabric.acoustics.result import Results
from wavefabric.base.errors import InputError
from wavefabric.base.units import show
from wavefabric.runtime.device.user_arrays import as_array

#: A function of `Results` that returns its value and, by name, its derivatives with respect to results.
Objective = Callable[[Results], tuple[float, Mapping[str, Any]]]
#: Quantities that can be differentiated, besides amplitudes.
DIFFERENTIABLE = ("p", "u", "p_final", "u_final")


def check_recorded(recording: Recording) -> None:
    """Raise `InputError` for a recording with a quantity that cannot be differentiated."""
    for name in (quantity.removesuffix("_raw") for quantity in recording.quantities):
        if name not in DIFFERENTIABLE:
            what = f"{show(name)} has no derivative; allowed: {', '.join(DIFFERENTIABLE)}, p_amp, p_amp_all"
            raise InputError(f"sensor.record: {what}")


def evaluate(objective: Objective, results: Results) -> tuple[float, Mapping[str, Any]]:
    """Call an objective; return its value and derivatives. `InputError` if either has a wrong form."""
    answer = objective(results)
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], Mapping):
        raise InputError("objective: returns something else; allowed: (value, {name: derivative})")
    value, derivatives = answer
    if np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "fiu":
        raise InputError(f"objective: its value is a {type(value).__name__}; allowed: a number")
    value = float(value)
    if not np.isfinite(value):
        raise InputError(f"objective: its value is {value}; allowed: a finite number")
    return value, derivatives


def as_recorded(
    derivatives: Mapping[str, Any], results: Results, tones: Mapping, grid: Grid, recording: Recording
) -> dict[str, np.ndarray]:
    """Convert derivatives with respect to ``results`` to the recorder's names and layout, as float64.

    The recorder's series are (times, points), its fields (Nz, Ny, Nx). Amplitudes and phases, ``tones``, are
    computed from running sums, (points,) or (Nz, Ny, Nx): derivatives with respect to them are converted to
    derivatives with respect to the sums.
    """
    unknown = [name for name in derivatives if name not in results]
    if unknown:
        raise InputError(f"objective: a derivative of {show(unknown[0])}; allowed: {', '.join(results)}")
    arrays = {name: _in_memory(name, each, results[name], grid) for name, each in derivatives.items()}
    # Convert derivatives for amplitudes and phases to derivatives for their running sums.
    for tone in recording.tones:
        names = tone, tone.replace("amp", "phase")
        if not any(name in arrays for name in names):
            continue
        amplitude, angle = (_in_memory(name, tones[name], tones[name], grid) for name in names)
        by_amplitude, by_phase = (arrays.pop(name, 0 * amplitude) for name in names)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_phase = np.where(amplitude > 0, by_phase / amplitude, 0.0)
        # amp = |C − iS|, phase = arg(C − iS)
        cosine = by_amplitude * np.cos(angle) - by_phase * np.sin(angle)
        sine = -by_amplitude * np.sin(angle) - by_phase * np.cos(angle)
        for kind, sums in (("cos", cosine), ("sin", sine)):
            stem = tone.replace("amp", kind)
            arrays |= {f"{stem}_{number}": each for number, each in enumerate(sums)}
    return {name: np.ascontiguousarray(array, np.float64) for name, array in arrays.items()}


def _in_memory(name: str, derivative: Any, values: Any, grid: Grid) -> np.ndarray:
    """Convert a derivative from the layout of the user's results ``values`` to that of the recorder."""
    if is_tone(name):
        return np.stack([_checked_derivative(name, *pair, grid) for pair in _pairs(name, derivative, values)])
    return _checked_derivative(name, derivative, values, grid)


def _checked_derivative(name: str, derivative: Any, values: Any, grid: Grid) -> np.ndarray:
    """Convert the derivative for a quantity, or an amplitude at one frequency, to the recorder's layout."""
    if isinstance(values, list):  # boxes: (Cx[, Cy[, Cz]], …) -> (…, points)
        d, parts = grid.dimensions, [_checked(name, *pair) for pair in _pairs(name, derivative, values)]
        parts = [np.moveaxis(part, range(d), range(-1, -d - 1, -1)) for part in parts]
        return np.concatenate([part.reshape(*part.shape[:-d], -1) for part in parts], axis=-1)
    array = _checked(name, derivative, values)
    if not is_field(name):
        return array.T
    whole = np.zeros(grid.total_shape[::-1])
    grid.from_memory(whole)[...] = array
    return whole


def _pairs(name: str, derivatives: Any, values: Any) -> Iterator[tuple[Any, Any]]:
    """Return pairs of a derivative and recorded values: one per box, or per frequency of an amplitude."""
    try:
        each, count = list(derivatives), str(len(derivatives))
    except TypeError:
        each, count = [], "no list of"
    if len(each) != len(values):
        raise InputError(f"objective: {count} derivatives of {name}; allowed: {len(values)}")
    return zip(each, values, strict=True)


def _checked(name: str, derivative: Any, values: Any) -> np.ndarray:
    key = f"objective: the derivative of {name}"
    array, shape = as_array(derivative, key), np.shape(values)
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise InputError(f"{key} has the shape {array.shape}; allowed: {shape}, real")
    if not np.isfinite(array).all():
        raise InputError(f"{key} is not finite; allowed: finite numbers")
    return array

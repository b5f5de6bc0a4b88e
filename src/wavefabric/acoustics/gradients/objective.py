"""What an objective says: its derivatives with respect to what was recorded, as the recorder keeps it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.quantities import QUANTITIES, components, is_tone, quantity_of
from wavefabric.acoustics.recording.recorder import layout_of
from wavefabric.acoustics.recording.tones import sum_names
from wavefabric.acoustics.result import Results
from wavefabric.errors import InputError
from wavefabric.units import show

#: A function of the `Results` that gives its value and, by name, its derivatives with respect to them.
Objective = Callable[[Results], tuple[float, Mapping[str, Any]]]
#: Quantities that can be differentiated.
DIFFERENTIABLE = ("p_raw", "u_raw", "p_final", "u_final")


def check_recorded(recording: Recording) -> None:
    """Refuse a recording of which something has no derivative here."""
    for name in recording.quantities:
        if name not in DIFFERENTIABLE:
            allowed = ", ".join(name.removesuffix("_raw") for name in DIFFERENTIABLE)
            raise InputError(
                f"sensor.record: {show(name.removesuffix('_raw'))} has no derivative; allowed: {allowed}, "
                "p_amp, p_amp_all"
            )


def evaluate(objective: Objective, results: Results) -> tuple[float, Mapping[str, Any]]:
    """The value of an objective, and its derivatives."""
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
    derivatives: Mapping[str, Any], results: Results, grid: Grid, problem: Problem, recording: Recording
) -> dict[str, np.ndarray]:
    """Derivatives by the names and in the layout of the recorder.

    Series are (rows, samples), running sums of tones (samples,) or (Nz, Ny, Nx), fields (Nz, Ny, Nx).
    """
    unknown = [name for name in derivatives if name not in results]
    if unknown:
        raise InputError(f"objective: a derivative of {show(unknown[0])}; allowed: {', '.join(results)}")
    arrays = {
        name: _in_memory(name, derivative, results[name], grid, recording)
        for name, derivative in derivatives.items()
    }
    return _recorded(arrays, results, grid, problem, recording)


def _in_memory(name: str, derivative: Any, values: Any, grid: Grid, recording: Recording) -> np.ndarray:
    """A derivative like ``results[name]`` as the recorder keeps it: the transpose of `Results`."""
    field = (quantity := quantity_of(name)) is not None and quantity.kind == "field"
    if is_tone(name):
        return np.stack(
            [_one(name, *pair, field, grid, recording) for pair in _pairs(name, derivative, values)]
        )
    return _one(name, derivative, values, field, grid, recording)


def _one(
    name: str, derivative: Any, values: Any, field: bool, grid: Grid, recording: Recording
) -> np.ndarray:
    boxes = isinstance(values, list)
    pairs = _pairs(name, derivative, values) if boxes else [(derivative, values)]
    parts = [_checked(name, *pair) for pair in pairs]
    if field:
        whole = np.zeros(grid.total_shape[::-1])
        grid.from_memory(whole)[...] = parts[0]
        return whole
    if boxes:  # (Cx[, Cy[, Cz]], …) -> (…, points)
        d = grid.dimensions
        parts = [
            np.moveaxis(part, range(d), range(-1, -d - 1, -1)).reshape(*part.shape[d:], -1) for part in parts
        ]
        return np.concatenate(parts, axis=-1)
    return parts[0].T


def _pairs(name: str, derivatives: Any, values: Any) -> Iterator[tuple[Any, Any]]:
    """Each derivative and what it is taken with respect to, of tones or boxes."""
    try:
        each, count = list(derivatives), str(len(derivatives))
    except TypeError:
        each, count = [], "no list of"
    if len(each) != len(values):
        raise InputError(f"objective: {count} derivatives of {name}; allowed: {len(values)}")
    return zip(each, values, strict=True)


def _checked(name: str, derivative: Any, values: Any) -> np.ndarray:
    array = np.asarray(derivative)
    if array.shape != np.shape(values) or array.dtype.kind not in "fiu":
        raise InputError(
            f"objective: the derivative of {name} has the shape {array.shape}; allowed: {np.shape(values)}, "
            "real"
        )
    if not np.isfinite(array).all():
        raise InputError(f"objective: the derivative of {name} is not finite; allowed: finite numbers")
    return array


def _recorded(arrays: dict[str, np.ndarray], results: Results, grid, problem: Problem, recording: Recording):
    """Amplitudes and phases become the running sums that they are made of."""
    derivatives = {name: array for name, array in arrays.items() if not is_tone(name)}
    for tone in recording.tones:
        phase = tone.replace("amp", "phase")
        if tone not in arrays and phase not in arrays:
            continue
        amplitude, angle = (_in_memory(n, results[n], results[n], grid, recording) for n in (tone, phase))
        by_amplitude, by_phase = (arrays.get(name, 0 * amplitude) for name in (tone, phase))
        with np.errstate(divide="ignore", invalid="ignore"):
            by_phase = np.where(amplitude > 0, by_phase / amplitude, 0.0)
        # amp = |C − iS|, phase = arg(C − iS)
        cosine = by_amplitude * np.cos(angle) - by_phase * np.sin(angle)
        sine = -by_amplitude * np.sin(angle) - by_phase * np.cos(angle)
        for name, _, number in sum_names(recording):
            if name.startswith(tone.replace("amp", "cos") + "_") and name[len(tone) + 1 :].isdigit():
                derivatives[name] = cosine[number]
            elif name.startswith(tone.replace("amp", "sin") + "_") and name[len(tone) + 1 :].isdigit():
                derivatives[name] = sine[number]
    dtype = layout_of(problem, recording, np.float64).dtype
    return {name: np.ascontiguousarray(array, dtype) for name, array in derivatives.items()}


def differentiable_names(recording: Recording, dimensions: int) -> list[str]:
    """Names of the recorded arrays that an objective may depend on."""
    names = [each for q in recording.quantities for each in components(q, "xyz"[:dimensions])]
    return names + [name for name, *_ in sum_names(recording)] if QUANTITIES else names

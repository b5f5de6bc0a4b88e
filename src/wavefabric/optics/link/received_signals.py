"""Reads data of received signals from a result file: distances, Q² in dB, expected Q², mode groups."""

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.results.file import Result

#: Above this back-to-back Q² (dB) there was only round-off and no noise: no reference for a penalty.
NOISELESS_DB = 60.0


def received(result: Result) -> list[str]:
    """Return the names of the receiver positions in a result, sorted by distance, ``back_to_back`` first."""
    names = [name for name in result.groups("received") if f"received/{name}/q_squared_db" in result]
    return sorted(names, key=lambda name: (name != "back_to_back", distance(result, name)))


def distance(result: Result, name: str) -> float:
    """Return the distance (m) from the transmitter to the receiver position ``name``."""
    inputs = result.attrs(f"received/{name}").get("distance_m", 0.0)
    if not (isinstance(inputs, (int, float, np.number)) and 0 <= inputs < 1e12):
        raise InputError(f"{result.path}: 'received/{name}' has the distance {inputs}; allowed: from 0 m")
    return float(inputs)


def mean_db(q: np.ndarray) -> np.ndarray:
    """Return the mean over channels of ``q`` (modes, channels) in dB, taken in linear units: dB, (modes,)."""
    with np.errstate(divide="ignore"):  # A lost signal has Q² = 0, -inf dB.
        return 10 * np.log10(np.mean(10 ** (q / 10), axis=1))


def expected_db(result: Result, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the Q² in dB expected from theory, [mode, channel]; None if missing, or of another shape."""
    key = f"theory/{name}/q_squared_db"
    q = np.asarray(result[key]) if key in result else np.zeros(0)
    return q if q.shape == shape and q.dtype.kind == "f" else None


def mode_groups(result: Result, modes: int) -> np.ndarray:
    """Return the mode group of each mode; all 1 if the result does not contain groups."""
    groups = np.asarray(result.get("fibre/groups", []))
    return groups if groups.shape == (modes,) and groups.dtype.kind in "iu" else np.ones(modes, int)


def numbers(result: Result, key: str, dimensions: int) -> np.ndarray:
    """Return the dataset ``key``; `InputError` unless it is numeric and has ``dimensions`` dimensions."""
    values = np.asarray(result[key])
    if values.dtype.kind not in "fiu" or values.ndim != dimensions or not values.size:
        actual = f"has the shape {values.shape} and the type {values.dtype}"
        raise InputError(f"{result.path}: '{key}' {actual}; allowed: numbers of {dimensions} dimensions")
    return values

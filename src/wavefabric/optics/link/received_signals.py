"""Reads data of received signals from a result file: distances, Q² in dB, expected Q², mode groups."""

import re

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import plain_text
from wavefabric.base.results.file import Result

#: Above this back-to-back Q² (dB) there was only round-off and no noise: no reference for a penalty.
NOISELESS_DB = 60.0
#: Larger levels in a file, in dB, are no Q².
_MOST_DB = 1000


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
    """Return the mean over channels of ``q`` (modes, channels) in dB, taken in linear units: dB, (modes,).

    Dark signals, which have NaN, are left out.
    """
    dark = np.isnan(q)
    with np.errstate(divide="ignore", invalid="ignore"):  # A lost signal has Q² = 0, -inf dB.
        return 10 * np.log10(np.where(dark, 0.0, 10 ** (q / 10)).sum(axis=1) / (~dark).sum(axis=1))


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


def q_squared_of(result: Result, name: str) -> np.ndarray:
    """Return Q² at a receiver position, dB, (modes, channels); `InputError` if the values are none."""
    q = numbers(result, key := f"received/{name}/q_squared_db", 2)
    if not np.all((np.abs(q) < _MOST_DB) | ~np.isfinite(q)):  # -inf: a lost signal; NaN: none was sent
        raise InputError(f"{result.path}: '{key}' has values that are no Q² in dB; allowed: below {_MOST_DB}")
    return q


def position_name(result: Result, name: str) -> str:
    """Return the words for a receiver position."""
    return "back to back" if name == "back_to_back" else f"after {distance(result, name) / 1e3:g} km"


def mode_labels(result: Result, modes: int) -> list[str]:
    """Return the names of the modes for figures; numbers if the result has none."""
    # LP0,1 and LP01a read better with the indices as a subscript.
    indices = re.compile(r"^LP(\d+,?\d*)(.*)$")
    results = result.get("fibre/labels", [])
    inputs = [plain_text(label) for label in results] if isinstance(results, list) else []
    shown = [indices.sub(r"LP$_{\\mathrm{\1}}$\2", label) for label in inputs]
    return shown if len(shown) == modes else [f"mode {m + 1}" for m in range(modes)]

"""From the result files of all points to that of the sweep: quantities with the axes as first dimensions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.optics.sweeps.points import SweepGrid
from wavefabric.results import Data, Result, read_result
from wavefabric.results.plots import distance, received

#: Numbers of the solver, and text, that a result has for each point.
_SOLVER = {
    "steps": ("", "steps over all spans"),
    "rejected": ("", "steps that a tolerance rejected"),
    "ffts": ("", "transforms of all rows"),
    "step": ("m", "last step"),
    "resonance_step_m": ("m", "resonance limit of the step"),
    "local_error": ("", "relative error of one step"),
    "energy_drift": ("", "largest relative deviation of the energy of a row"),
    "seconds": ("s", "wall time of the propagation"),
}
_TEXTS = {
    "warnings": "what may make a point less accurate than it seems",
    "fault": "why a point has no result",
    "written_utc": "when a point was finished",
    "fingerprint": "hash of the settings, inputs and versions of a point",
}


def payload(grid: SweepGrid, file: Callable[[str], Path]) -> tuple[dict[str, Any], list[str]]:
    """Content of the result file, from those of the points by fingerprint; and all warnings, each once.

    Points may have different modes, channels and positions: what one has not is NaN.
    """
    texts, told = {name: np.full(grid.shape, "", object) for name in _TEXTS}, []
    results: dict[tuple[int, ...], Result] = {}
    for point in grid.points:
        result = read_result(file(point.fingerprint))
        facts, lines = result.attrs(), result.get("solver/warnings", [])
        facts |= {"fingerprint": point.fingerprint, "warnings": "\n".join(lines)}
        for name, words in texts.items():
            words[point.index] = facts.get(name, "")
        if "fault" in facts:
            told.append(f"{point}: {facts['fault']}")
        else:
            told, results[point.index] = told + lines, result
    where = {name: distance(each, name) for each in results.values() for name in received(each)}
    positions = sorted(where, key=lambda name: (name != "back_to_back", where[name])) or ["none"]
    out, axes = _coordinates(grid, list(results.values()), positions), tuple(axis.name for axis in grid.axes)
    values: dict[str, dict[tuple[int, ...], Any]] = {}
    meanings: dict[str, Any] = {}
    for index, result in results.items():
        for path, position, value, *meaning in _quantities(result, positions):
            values.setdefault(path, {})[index + position], meanings[path] = value, meaning
    for path, each in values.items():
        # By index along the axes, and position if it is longer.
        dims = ("position",) * (len(next(iter(each))) - len(axes))
        dims += ("mode", "channel") * any(np.ndim(value) for value in each.values())
        array = np.full((*grid.shape, *(len(out[name].value) for name in dims)), np.nan)
        for index, value in each.items():
            array[(*index, *map(slice, np.shape(value)))] = value
        out[path] = Data(array, *meanings[path], dims=(*axes, *dims))
    out |= {name: Data(words.astype(str), "", _TEXTS[name], axes) for name, words in texts.items()}
    return out, list(dict.fromkeys(told))


def _coordinates(grid: SweepGrid, results: list[Result], positions: list[str]) -> dict[str, Data]:
    """Swept keys, receiver positions, modes and channels."""

    def common(key: str) -> Any:
        """What is the same in all results; None if it differs, or there are none."""
        values = [each[key] for each in results]
        return values[0] if values and all(np.array_equal(each, values[0]) for each in values) else None

    units, shapes = grid.coordinates(), [each["signal/launch_power"].shape for each in results]
    modes, channels = (np.arange(1, max(sizes) + 1) for sizes in zip((1, 1), *shapes, strict=True))
    labels, groups, frequencies = map(common, ("fibre/labels", "fibre/groups", "signal/frequencies"))
    out = {
        key: Data(*units[key], "key of the run file", (axis.name,)) for axis in grid.axes for key in axis.keys
    }
    out["position"] = Data(positions, "", "where the signal was received", ("position",))
    out["mode"] = Data(modes if labels is None else labels, "", "spatial mode", ("mode",))
    if groups is not None:
        out["mode_group"] = Data(groups, "", "mode group of each spatial mode", ("mode",))
    channel = (channels, "") if frequencies is None else (frequencies, "Hz")
    return out | {"channel": Data(*channel, "WDM channel: optical frequency, or number", ("channel",))}


def _quantities(result: Result, positions: list[str]) -> Iterator[tuple[str, tuple[int, ...], Any, str, str]]:
    """Path in the sweep's file, index of the position or none, value, unit, meaning: of all numbers."""
    power, solver = result["signal/launch_power"], result.attrs("solver")
    yield "launch_power", (), power, "W", "per mode and channel, both polarisations"
    for name, meaning in _SOLVER.items():
        yield name, (), solver.get(name, np.nan), *meaning
    for name in received(result):
        yield "distance", (positions.index(name),), distance(result, name), "m", "from the transmitter"
    for key in result:
        group, name, quantity = key.split("/") if key.count("/") == 2 else ("", "", "")
        if group in ("received", "theory") and name in positions:
            value, attrs = result[key], result.attrs(key)
            if np.shape(value) in ((), power.shape):  # no constellations
                path, position = (quantity, (positions.index(name),)) if group == "received" else (key, ())
                yield path, position, value, attrs["units"], attrs["description"]

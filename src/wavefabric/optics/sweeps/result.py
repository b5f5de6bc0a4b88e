"""From the result files of all points to that of the sweep: quantities with the axes as first dimensions."""

from collections.abc import Callable
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
    """Content of the result file, from those of the points by fingerprint; and all warnings, each once."""
    return _Stack(grid, {each.index: read_result(file(each.fingerprint)) for each in grid.points}).payload()


class _Stack:
    """Arrays of the points, put together along the axes; points may have different modes and positions."""

    def __init__(self, grid: SweepGrid, every: dict[tuple[int, ...], Result]):
        self.grid, self.every = grid, every
        self.results = {index: each for index, each in every.items() if "fault" not in each.attrs()}
        self.axes = tuple(axis.name for axis in grid.axes)
        where = {name: distance(each, name) for each in self.results.values() for name in received(each)}
        self.positions = sorted(where, key=lambda name: (name != "back_to_back", where[name])) or ["none"]
        self.power = {index: each["signal/launch_power"] for index, each in self.results.items()}
        modes, channels = map(max, (1, 1), (1, 1), *(each.shape for each in self.power.values()))
        self.sizes = {"position": len(self.positions), "mode": modes, "channel": channels}

    def payload(self) -> tuple[dict[str, Any], list[str]]:
        out, results = self._coordinates() | self._quantities(), self.results.items()
        for name, (unit, text) in _SOLVER.items():
            values = {index: each.attrs("solver").get(name, np.nan) for index, each in results}
            out[name] = self._data(values, unit, text)
        warnings = {index: each.get("solver/warnings", []) for index, each in results}
        told = [line for lines in warnings.values() for line in lines]
        for name, description in _TEXTS.items():
            words = np.full(self.grid.shape, "", object)
            for point in self.grid.points:
                own = {"fingerprint": point.fingerprint, "warnings": "\n".join(warnings.get(point.index, []))}
                words[point.index] = (self.every[point.index].attrs() | own).get(name, "")
                told += [f"{point}: {words[point.index]}"] * (name == "fault" and bool(words[point.index]))
            out[name] = Data(words.astype(str), "", description, self.axes)
        return out, list(dict.fromkeys(told))

    def _coordinates(self) -> dict[str, Any]:
        """Swept keys, receiver positions, modes and channels."""
        out: dict[str, Any] = {}
        units, modes = self.grid.coordinates(), np.arange(1, self.sizes["mode"] + 1)
        for axis in self.grid.axes:
            out |= {key: Data(*units[key], "key of the run file", (axis.name,)) for key in axis.keys}
        out["position"] = Data(self.positions, "", "where the signal was received", ("position",))
        labels, groups = self._common("fibre/labels"), self._common("fibre/groups")
        out["mode"] = Data(modes if labels is None else labels, "", "spatial mode", ("mode",))
        if groups is not None:
            out["mode_group"] = Data(groups, "", "mode group of each spatial mode", ("mode",))
        frequencies, channels = self._common("signal/frequencies"), np.arange(1, self.sizes["channel"] + 1)
        channel = (channels, "") if frequencies is None else (frequencies, "Hz")
        out["channel"] = Data(*channel, "WDM channel: optical frequency, or number", ("channel",))
        return out

    def _common(self, key: str) -> Any:
        """What is the same in the results of all points; None if it differs, or there are none."""
        values = [each[key] for each in self.results.values()]
        return values[0] if values and all(np.array_equal(each, values[0]) for each in values) else None

    def _quantities(self) -> dict[str, Any]:
        """Power; what was received, by position; theory, where there is any, in groups by position."""
        meaning = ("W", "per mode and channel, both polarisations")
        out: dict[str, Any] = {"launch_power": self._data(self.power, *meaning)}
        values: dict[tuple[str, ...], dict[Any, Any]] = {}
        meanings: dict[tuple[str, ...], tuple[str, str]] = {}
        for index, result in self.results.items():
            for group, name, quantity in (key.split("/") for key in result if key.count("/") == 2):
                if group not in ("received", "theory") or name not in self.positions:
                    continue
                key, value = f"{group}/{name}/{quantity}", result[f"{group}/{name}/{quantity}"]
                if np.shape(value) not in ((), self.power[index].shape):
                    continue  # constellations
                path, position = (quantity,), (self.positions.index(name),)
                if group == "theory":
                    path, position = (group, name, quantity), ()
                values.setdefault(path, {})[index + position] = value
                meanings[path] = result.attrs(key)["units"], result.attrs(key)["description"]
        for path, each in values.items():
            inner = out
            for group in path[:-1]:
                inner = inner.setdefault(group, {})
            inner[path[-1]] = self._data(each, *meanings[path])
        along = {
            (*index, number): distance(result, name)
            for index, result in self.results.items()
            for number, name in enumerate(self.positions)
            if name in received(result)
        }
        return out | {"distance": self._data(along, "m", "from the transmitter")}

    def _data(self, values: dict[Any, Any], unit: str, description: str) -> Data:
        """Values by their index along the axes (and position, if it is longer), NaN where there is none."""
        index, value = next(iter(values.items()), (self.axes, np.nan))
        signals = ("mode", "channel") if any(np.ndim(each) == 2 for each in values.values()) else ()
        dims = (*("position",) * (len(index) - len(self.axes)), *signals)
        array = np.full((*self.grid.shape, *(self.sizes[name] for name in dims)), np.nan)
        for index, value in values.items():
            array[(*index, *map(slice, np.shape(value)))] = value
        return Data(array, unit, description, (*self.axes, *dims))

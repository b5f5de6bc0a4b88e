"""What k-wave-python's ``sensor.record`` asks for: what to record for it, and its names for the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wavefabric.acoustics.sensor import Sensor
from wavefabric.errors import InputError
from wavefabric.units import show

#: k-wave-python 0.6 takes "u" at the pressure's points, and its statistics from that.
_RECORDED = {
    **dict.fromkeys(("u", "u_non_staggered"), "u_non_staggered"),
    "u_staggered": "u",
    **dict.fromkeys(("u_max", "u_min", "u_rms"), "u_non_staggered"),
    **{name: name for name in ("p", "p_max", "p_min", "p_rms", "p_max_all", "p_min_all", "p_final")},
    **{name: name for name in ("u_max_all", "u_min_all", "u_final", "I", "I_avg")},
}
_REDUCE = {
    "max": lambda series: series.max(axis=0),
    "min": lambda series: series.min(axis=0),
    "rms": lambda series: np.sqrt(np.mean(series**2, axis=0)),
}


@dataclass(frozen=True)
class RecordRequest:
    """A sensor that records what is needed, and how its arrays become those that were asked for."""

    sensor: Sensor
    names: tuple[str, ...]
    """Names asked for, one an array: ``p``, ``ux``, ``uy_max`` …"""
    order: np.ndarray | None
    """Places of the points asked for in what is recorded; None if they are in order."""

    @classmethod
    def of(
        cls, record: str | Sequence[str] | None, points: Sensor, order: np.ndarray | None, start: int
    ) -> RecordRequest:
        """Read ``sensor.record``; None is what ``kspaceFirstOrder`` takes it for, ``p`` and ``p_final``."""
        record = ("p", "p_final") if record is None else record
        recorded, names = [], []
        for name in (record,) if isinstance(record, str) else tuple(record):
            stem, axis = name, None
            if len(name) > 1 and name[0] in "uI" and name[1] in "xyz":
                stem, axis = name[0] + name[2:], name[1]
            if stem not in _RECORDED:
                raise InputError(
                    f"sensor.record: {show(name)}; allowed: {', '.join(_RECORDED)}, or one axis of them"
                )
            recorded.append(_RECORDED[stem])
            axes = ("",) if stem[0] == "p" else (axis,) if axis else ("x", "y", "z")
            names += [stem[0] + one + stem[1:] for one in axes]
        sensor = replace(points, record=tuple(dict.fromkeys(recorded)), start=start)
        return cls(sensor, tuple(dict.fromkeys(names)), order)

    def adapt(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays asked for, from those recorded; (…, points) with points in the order asked for."""
        adapted = {}
        for name in self.names:
            stem, _, kind = name.partition("_")
            whole = kind.endswith(("all", "final"))
            recorded = name
            if stem[0] == "u" and not whole:
                recorded = stem if kind == "staggered" else f"{stem}_non_staggered"
            array = arrays.get(recorded)
            if array is None:  # z in 2-D
                continue
            if stem[0] == "u" and kind in _REDUCE:
                array = _REDUCE[kind](array)
            adapted[name] = array if whole or self.order is None else array[..., self.order]
        return adapted

"""What k-wave-python's ``sensor.record`` asks for: what to record for it, and its names for the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wavefabric.acoustics.sensor import Sensor
from wavefabric.errors import InputError
from wavefabric.units import show

#: k-wave-python 0.6 takes "u" at the pressure's points, and its statistics from that.
_RECORDED = {
    "u": "u_non_staggered",
    "u_non_staggered": "u_non_staggered",
    "u_staggered": "u",
    "u_max": "u_non_staggered",
    "u_min": "u_non_staggered",
    "u_rms": "u_non_staggered",
    **{word: word for word in ("p", "p_max", "p_min", "p_rms", "p_max_all", "p_min_all", "p_final")},
    **{word: word for word in ("u_max_all", "u_min_all", "u_final", "I", "I_avg")},
}
_REDUCE = {
    "max": lambda series: series.max(axis=0),
    "min": lambda series: series.min(axis=0),
    "rms": lambda series: np.sqrt(np.mean(series**2, axis=0)),
}


@dataclass(frozen=True)
class Wanted:
    """A sensor that records what is needed, and how its arrays become those that were asked for.

    Parameters
    ----------
    sensor : Sensor
        Where and what to record.
    names : tuple of str
        Names asked for, one an array: ``p``, ``ux``, ``uy_max`` …
    order : ndarray of int or None
        Where the points asked for are found in what is recorded; None if they are in order.
    """

    sensor: Sensor
    names: tuple[str, ...]
    order: np.ndarray | None

    @classmethod
    def of(
        cls, record: str | Sequence[str] | None, place: Sensor, order: np.ndarray | None, start: int
    ) -> Wanted:
        """Read ``sensor.record``; None is what ``kspaceFirstOrder`` takes it for, ``p`` and ``p_final``."""
        given = (
            ("p", "p_final") if record is None else (record,) if isinstance(record, str) else tuple(record)
        )
        words, names = [], []
        for word in given:
            stem, axis = word, None
            if len(word) > 1 and word[0] in "uI" and word[1] in "xyz":
                stem, axis = word[0] + word[2:], word[1]
            if stem not in _RECORDED:
                raise InputError(
                    f"sensor.record: {show(word)}; allowed: {', '.join(_RECORDED)}, or one axis of them"
                )
            words.append(_RECORDED[stem])
            axes = ("",) if stem[0] == "p" else (axis,) if axis else ("x", "y", "z")
            names += [stem[0] + one + stem[1:] for one in axes]
        sensor = replace(place, record=tuple(dict.fromkeys(words)), start=start)
        return cls(sensor, tuple(dict.fromkeys(names)), order)

    def adapt(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays asked for, from those recorded; (…, points) with points in the order asked for."""
        answer = {}
        for name in self.names:
            stem, _, kind = name.partition("_")
            whole = kind.endswith(("all", "final"))
            if stem[0] == "u" and not whole:
                array = arrays.get(stem if kind == "staggered" else f"{stem}_non_staggered")
            else:
                array = arrays.get(name)
            if array is None:  # z in 2-D
                continue
            if stem[0] == "u" and kind in _REDUCE:
                array = _REDUCE[kind](array)
            answer[name] = array if whole or self.order is None else array[..., self.order]
        return answer

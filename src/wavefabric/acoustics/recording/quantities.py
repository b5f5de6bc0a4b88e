"""Table of the quantities that a run can record, for sensors, recorder, result files, pictures and CLI.

Names are k-Wave's, plus the time-averaged acoustic intensity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wavefabric.base.errors import InputError, not_one_of

if TYPE_CHECKING:  # the command line builds its options from this table without loading NumPy
    import numpy as np

#: SI unit and meaning of the first letter of a name.
FIELDS = {"p": ("Pa", "pressure"), "u": ("m/s", "particle velocity"), "I": ("W/m^2", "acoustic intensity")}


@dataclass(frozen=True)
class Statistic:
    """Defines a statistic over the recorded time steps, accumulated in the device array ``kept``.

    ``update(kernels, kept, values)`` combines one step's values into ``kept`` in place. It runs on every
    device. If ``kernels_alone`` is true, it only launches kernels, which a device can replay without Python.
    ``finish(kept, rows)`` computes the result on the host after ``rows`` steps.
    """

    update: Callable[[Any, Any, Any], Any]
    start: float = 0.0  # initial value of ``kept``
    kernels_alone: bool = False
    double: bool = False  # whether ``kept`` has double precision in every run
    finish: Callable[[np.ndarray, int], np.ndarray] = lambda kept, rows: kept


@dataclass(frozen=True)
class RecordedQuantity:
    """Describes a quantity that a run can record.

    A ``"series"`` has a value at each sensor point in each time step, ``"points"`` one value at each sensor
    point, and a ``"field"`` one value at each grid point.
    """

    kind: Literal["series", "points", "field"]
    text: str
    statistic: Statistic | None = None


_MAX = Statistic(lambda kernels, kept, values: kernels.keep_maximum(kept, values), -math.inf, True)
_MIN = Statistic(lambda kernels, kept, values: kernels.keep_minimum(kept, values), math.inf, True)
# Squares are summed in double precision: a long run adds small numbers to large ones.
_RMS = Statistic(
    lambda kernels, kept, values: kernels.add_squares(kept, values),
    kernels_alone=True,
    double=True,
    finish=lambda kept, rows: (kept / rows) ** 0.5,
)

_SERIES = RecordedQuantity("series", "at each time step")
_EVERYWHERE = {
    "max_all": RecordedQuantity("field", "largest over time, whole domain", _MAX),
    "min_all": RecordedQuantity("field", "smallest over time, whole domain", _MIN),
    "final": RecordedQuantity("field", "after the last step, whole domain"),
}
_AT_POINTS = {
    "rms": RecordedQuantity("points", "root mean square over time", _RMS),
    "max": RecordedQuantity("points", "largest over time", _MAX),
    "min": RecordedQuantity("points", "smallest over time", _MIN),
}

#: Of the vectors u and I all components are recorded: ``u_max`` means ``ux_max``, ``uy_max``(, ``uz_max``).
QUANTITIES: dict[str, RecordedQuantity] = {
    "p_raw": _SERIES,
    **{f"p_{kind}": quantity for kind, quantity in (_AT_POINTS | _EVERYWHERE).items()},
    "u_raw": _SERIES,
    "u_non_staggered_raw": RecordedQuantity("series", "at each time step, brought to the pressure's points"),
    **{f"u_{kind}": quantity for kind, quantity in (_AT_POINTS | _EVERYWHERE).items()},
    "I_raw": _SERIES,
    "I_avg": RecordedQuantity("points", "mean over time"),
}
#: Amplitude, Pa, at each frequency of a sensor. The name of the phase, rad, has ``phase`` for ``amp``.
TONES = {
    "p_amp": RecordedQuantity("points", "amplitude at a frequency"),
    "p_amp_all": RecordedQuantity("field", "amplitude at a frequency, whole domain"),
}
#: k-wave-python's ``u_staggered``, which is ``u`` in this package; its ``u`` is at the pressure's points.
_STAGGERED = RecordedQuantity("series", "at each time step, half a spacing and half a step off the pressure")


def is_tone(array: str) -> bool:
    """Return whether an array name stands for an amplitude or a phase at a frequency."""
    return array.partition("/")[0].replace("phase", "amp") in TONES


def is_local(name: str) -> bool:
    """Return whether a quantity is recorded at the sensor points, not in the whole domain."""
    return QUANTITIES[name].kind != "field"


def meaning(name: str) -> str:
    """Return the meaning of a quantity in words, such as ``pressure, largest over time``."""
    return f"{FIELDS[name[0]][1]}, {QUANTITIES[name].text}"


def components(name: str, axes: str) -> list[str]:
    """Return the names of a quantity's arrays, one per component: ``ux``, ``uy`` for ``u_raw``."""
    stem = name.removesuffix("_raw")
    return [stem] if stem[0] == "p" else [stem[0] + axis + stem[1:] for axis in axes]


def vector_of(array: str) -> str:
    """Return an array's name without axis letter and box number: ``u_max`` for ``ux_max/1``."""
    stem = array.partition("/")[0]
    return stem[0] + stem[2:] if stem[:1] in ("u", "I") and stem[1:2] in ("x", "y", "z") else stem


def quantity_of(array: str) -> RecordedQuantity | None:
    """Return the quantity of a recorded array such as ``ux_max`` or ``p/1`` (a box); None if unknown."""
    stem = vector_of(array)
    if stem[:1] != "p" and stem == array.partition("/")[0]:  # a vector has components in files
        return None
    if stem == "u_staggered":
        return _STAGGERED
    return QUANTITIES.get(stem) or QUANTITIES.get(f"{stem}_raw") or TONES.get(stem.replace("phase", "amp"))


def is_field(array: str) -> bool:
    """Return whether an array has one value per point of the whole domain."""
    return (quantity := quantity_of(array)) is not None and quantity.kind == "field"


def describe(array: str) -> tuple[str, str]:
    """Return the SI unit and the meaning of a recorded array."""
    quantity = quantity_of(array)
    unit, field = FIELDS[array[0]]
    if is_tone(array) and "phase" in array and quantity is not None:
        return "rad", f"pressure, phase {quantity.text.removeprefix('amplitude ')}"
    along = f" along {array[1]}" if array[0] != "p" else ""
    return unit, f"{field}{along} {_SERIES.text if quantity is None else quantity.text}"


def record_names() -> dict[str, str]:
    """Return a dictionary from k-Wave's names of quantities, such as ``p``, to those in `QUANTITIES`."""
    return {name.removesuffix("_raw"): name for name in QUANTITIES}


def names_of(record: Any) -> tuple[Any, ...]:
    """Return ``record``, which is a name or several names, as a tuple of names."""
    return (record,) if isinstance(record, str) or not isinstance(record, Iterable) else tuple(record)


def recorded_quantities(record: Any, key: str) -> tuple[str, ...]:
    """Convert the names of quantities that a user gives to names in `QUANTITIES`, in that table's order.

    Raises `InputError`, with a message that begins with ``key``, if a name is unknown or there is no name.
    """
    names, available = names_of(record), record_names()
    if not names:
        raise InputError(f"{key}: []; allowed: {', '.join(available)}")
    for name in names:
        if not isinstance(name, str) or name not in available:
            raise InputError(f"{key}: {not_one_of(name, available)}")
    return tuple(quantity for name, quantity in available.items() if name in names)

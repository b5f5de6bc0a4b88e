"""Quantities at the edges: text such as ``"80 km"`` or ``"-1 dBm"`` in, SI floats out."""

from __future__ import annotations

import math
from functools import lru_cache

from wavefabric.errors import InputError

#: Speed of light in vacuum, m/s (exact, SI).
SPEED_OF_LIGHT = 299_792_458.0
#: Planck's constant, J s (exact, SI).
PLANCK = 6.626_070_15e-34


@lru_cache(maxsize=1)
def _registry():
    # Pint takes 0.3 s to import: only whoever parses units pays.
    import pint

    registry = pint.UnitRegistry(autoconvert_offset_to_baseunit=True, cache_folder=None)
    registry.define("Baud = 1 / second = Bd")
    return registry


def quantity(value: str | float | int, unit: str, key: str = "value") -> float:
    """Convert a quantity to an SI float.

    Parameters
    ----------
    value : str, float or int
        Text with a unit (``"50 GHz"``, ``"0.23 dB/km"``, ``"-1 dBm"``), or a plain number,
        which is taken to be in ``unit`` already.
    unit : str
        The unit wanted, e.g. ``"m"``, ``"Hz"``, ``"W"``, ``"dB"``, ``"1/m"``. Attenuation given in
        dB per length converts to ``"1/m"`` (power). dBm converts to ``"W"``.
    key : str
        Name to put into the error.

    Raises
    ------
    InputError
        If the text is no quantity or has another dimension than ``unit``.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InputError(f"{key}: {value!r} is not a quantity; give text such as \"1 {unit}\"")
    if not isinstance(value, str):
        number = float(value)
    else:
        number = _parse(value, unit, key)
    if not math.isfinite(number):
        raise InputError(f"{key}: {value!r} is not a finite quantity")
    return number


def _parse(text: str, unit: str, key: str) -> float:
    import pint

    words = text.split()
    wanted = f"a quantity in {unit or 'plain numbers'}"
    try:
        if len(words) == 2 and words[1] == "dBm":
            number, found = 1e-3 * 10 ** (float(words[0]) / 10), "W"
        elif len(words) == 2 and words[1].startswith("dB/"):
            number, found = float(words[0]) * math.log(10) / 10, "1/" + words[1][3:]
        elif len(words) == 2 and words[1] == "dB":
            number, found = float(words[0]), "dB"
        else:
            parsed = _registry().Quantity(text)
            number, found = parsed.magnitude, parsed.units
        if "dB" in (unit, found):
            if found != unit:
                raise InputError(f"{key}: {text!r} is not {wanted}")
            return float(number)
        return float(_registry().Quantity(number, found).to(unit or "dimensionless").magnitude)
    except InputError:
        raise
    except (pint.DimensionalityError, pint.UndefinedUnitError):
        raise InputError(f"{key}: {text!r} is not {wanted}") from None
    except Exception:  # Pint's parser raises whatever its tokenizer met.
        raise InputError(f"{key}: {text!r} cannot be read as {wanted}") from None


def watt_from_dbm(dbm: float) -> float:
    """Power in W of a level in dBm."""
    return 1e-3 * 10 ** (dbm / 10)


def db(ratio: float) -> float:
    """Ten times the decimal logarithm of a power ratio."""
    return 10 * math.log10(ratio)

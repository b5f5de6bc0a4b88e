"""Convert quantities: text such as ``"80 km"`` or ``"-1 dBm"`` to SI floats, and numbers to text."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache

from wavefabric.base.errors import InputError, one_value, show

#: Speed of light in vacuum, m/s (exact, SI).
SPEED_OF_LIGHT = 299_792_458.0
#: Planck's constant, J s (exact, SI).
PLANCK = 6.626_070_15e-34

#: Units that an error suggests for each SI unit used in run files.
EXAMPLES = {
    "m": "m, mm, um, nm, km",
    "s": "s, min, ps",
    "Hz": "Hz, GHz, THz, GBaud",
    "W": "W, mW, dBm",
    "dB": "dB",
    "1/m": "dB/km, 1/km",
    "rad": "rad, mrad",
    "s/m": "ps/km",
    "s/sqrt(m)": "ps/sqrt(km)",
    "1/Hz": "dB/THz",
    "1/m/Hz": "dB/km/THz",
    "1/W/m/Hz": "1/W/km/THz",
    "m^2": "um^2, m^2",
    "s^2/m": "ps^2/km",
    "s^3/m": "ps^3/km",
    "s^4/m": "ps^4/km",
    "s/m^2": "ps/nm/km",
    "s/m^3": "ps/nm^2/km",
    "m^2/W": "m^2/W",
    "1/W/m": "1/W/km",
    "B": "B, MB, GB, GiB",
    "B/s": "B/s, GB/s, GiB/s",
    "FLOP/s": "FLOP/s, GFLOP/s, TFLOP/s",
    "": "none (a plain number)",
}

# This pattern reads the number, Pint only the unit: Pint's parser would evaluate any expression.
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?))(.*)", re.I)

# Unit of polarisation-mode dispersion: a time over the square root of a length.
_OVER_ROOT = re.compile(r"(\w+)\s*/\s*(?:sqrt\(\s*(\w+)\s*\)|√(\w+)|(\w+)\^0\.5)")

# A unit: names and whole numbers with small exponents between * and /. Pint evaluates its text, and
# 10**10**10 would never end.
_POWER = r"(?:\^|\*\*)"
_WORD = rf"(?:[^\W\d_]+|\d{{1,9}})(?:\s*{_POWER}\s*[+-]?\d{{1,2}})?"
_UNIT = re.compile(rf"(?:{_WORD}(?:\s*[*/]\s*|\s+|$))*")
_LONGEST = 60
# A product in brackets behind a stroke, as in ps/(nm km).
_BELOW = re.compile(r"/\s*\(([^()/]*)\)")

_BINARY = re.compile(r"([0-9]{1,15})([kmgt]?)(?:i?b)?", re.I)
_BYTES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BYTES |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
#: Factors from common units to SI units, equal to Pint's: a file with only these loads without Pint.
PLAIN = {
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12},
    "m": {"m": 1.0, "km": 1e3, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "nm": 1e-9},
    "B/s": {f"{p}B/s": f for p, f in _BYTES.items()},
    "Hz": {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9, "THz": 1e12, "GBaud": 1e9},
    "1/m": {"1/km": 1e-3, "1/m": 1.0},
    "m^2/W": {"m^2/W": 1.0},
    "s/m": {"ps/km": 1e-15},
    "s^2/m": {"ps^2/km": 9.999999999999999e-28},
    "s^3/m": {"ps^3/km": 1e-39},
    "1/W/m": {"1/W/km": 1e-3},
    "s/m^2": {"ps/nm/km": 9.999999999999997e-07},
    "s/m^3": {"ps/nm^2/km": 999.9999999999999},
    "m^2": {"um^2": 1e-12},
    "m/s": {"m/s": 1.0},
    "kg/m^3": {"kg/m^3": 1.0},
    "Pa": {"Pa": 1.0, "kPa": 1e3, "MPa": 1e6},
    "W": {"W": 1.0, "mW": 1e-3},
    "B": {f"{p}B": f for p, f in _BYTES.items()},
    "FLOP/s": {f"{p}FLOP/s": f for p, f in (("", 1.0), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15))},
}


@lru_cache(maxsize=1)
def _registry():
    # Pint takes 0.3 s to import, so it is imported only when needed.
    import pint

    registry = pint.UnitRegistry(autoconvert_offset_to_baseunit=True, cache_folder=None)
    registry.define("Baud = 1 / second = Bd")
    registry.define("FLOP = [floating_point_operation]")
    return registry


@lru_cache(maxsize=256)
def _factor(actual: str, unit: str) -> float:
    """Return how many ``unit`` one ``actual`` is, such as 1000 for "km" in "m".

    ValueError if ``actual`` is no unit; Pint's errors for another dimension or an unknown unit.
    """
    actual = actual.replace("µ", "u").replace("·", " ")
    actual = _BELOW.sub(lambda match: "/" + "/".join(re.split(r"[\s*]+", match[1].strip())), actual)
    if unit == "s/sqrt(m)" and (over := _OVER_ROOT.fullmatch(actual)):
        return _factor(over[1], "s") / math.sqrt(_factor(over[2] or over[3] or over[4], "m"))
    if actual in PLAIN.get(unit, ()):
        return PLAIN[unit][actual]
    if len(actual) > _LONGEST or not _UNIT.fullmatch(actual):
        raise ValueError(f"{actual} is no unit")
    return _by_pint(actual, unit)


def _by_pint(actual: str, unit: str) -> float:
    registry = _registry()
    source = registry.parse_units(actual) if actual else registry.dimensionless
    return float(registry.Quantity(1.0, source).to(unit or "dimensionless").magnitude)


def quantity(value: str | float | int, unit: str, key: str = "value") -> float:
    """Return a quantity in the SI unit ``unit``, from text such as ``"50 GHz"`` or from a number in ``unit``.

    Text in dB per length gives ``"1/m"`` (of the power), text in dBm gives ``"W"``. `InputError`, which
    begins with ``key``, if ``value`` is not a quantity, is not finite, or has another dimension than
    ``unit``.
    """
    if isinstance(value, (list, tuple)):
        raise InputError(f"{key}: {one_value(value)}")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InputError(f"{key}: {show(value)} is not a quantity; {_allowed(unit)}")
    try:
        number = _parse(value, unit, key) if isinstance(value, str) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{key}: {show(value)} is not finite; {_allowed(unit)}")
    return number


def _allowed(unit: str) -> str:
    return f"allowed: a number with a unit such as {EXAMPLES.get(unit, unit)}"


def _parse(text: str, unit: str, key: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InputError(f"{key}: {show(text)} cannot be read as a quantity; {_allowed(unit)}")
    number, written = float(match[1]), match[2].strip()
    if written == unit == "dB":
        return number
    source = written
    if written == "dBm":
        number, source = watt_from_dbm(number), "W"
    elif written.startswith("dB/"):
        number, source = number * math.log(10) / 10, "1/" + written[3:]
    elif written.startswith("/"):
        source = "1" + written
    try:
        if "dB" in (unit, source):  # Pint would convert a level in dB like a plain ratio
            raise ValueError(f"{source} is no {unit}")
        return number * _factor(source, unit)
    except Exception:  # Pint's tokenizer may raise any error.
        actual = f"has the unit {show(written)}" if written else "has no unit"
        raise InputError(f"{key}: {show(text)} {actual}; {_allowed(unit)}") from None


def watt_from_dbm(dbm: float) -> float:
    """Return the power in W of a level in dBm."""
    return 1e-3 * 10 ** (dbm / 10)


def db(ratio: float) -> float:
    """Return a power ratio in dB."""
    return 10 * math.log10(ratio)


#: Units of texts, largest first.
_TIMES = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
_BINARY_BYTES = {"TiB": 2.0**40, "GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10, "B": 1.0}
_COUNTS = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0}


def significant(value: float, digits: int = 3) -> str:
    """Return a value as text with ``digits`` significant digits, never with an exponent for large values."""
    return f"{value:.{digits}g}" if abs(value) < 10**digits - 0.5 else f"{value:.0f}"


def in_units(value: float, units: Mapping[str, float], digits: int = 3) -> str:
    """Return ``value`` as text in the largest unit of which it rounds to 1 or more, else in the last one.

    ``units``: a dictionary from names, the largest unit first, to sizes.
    """
    least = 1 - 0.5 / 10**digits
    unit = next((name for name, size in units.items() if value >= least * size), [*units][-1])
    return f"{significant(value / units[unit], digits)} {unit}".rstrip()


def time_words(seconds: float) -> str:
    """Return a time in seconds as text with three digits and a unit from days to nanoseconds: 1.5 ms."""
    return in_units(seconds, _TIMES)


def binary_bytes(value: float, digits: int = 4) -> str:
    """Return a number of bytes as text with a binary prefix: 1.25 GiB."""
    return in_units(value, _BINARY_BYTES, digits)


def binary_size(text: str) -> int | None:
    """Return the bytes that text such as ``64M`` or ``4KiB`` means (K = 2^10, …), or None for other text."""
    match = _BINARY.fullmatch(text)
    return int(match[1]) << 10 * " kmgt".index(match[2].lower() or " ") if match else None


def counted(number: int, noun: str) -> str:
    """Return a number and a noun, in the plural unless the number is 1: 1 round, 2 rounds."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def amount(value: float) -> str:
    """Return a count with a decimal prefix as text: 336 M."""
    return in_units(value, _COUNTS)

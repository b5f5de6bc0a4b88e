"""Numbers as the tables of `wavefabric train` show them."""

from __future__ import annotations

from wavefabric.units import amount, three_digits


def rate(value: float) -> str:
    """A number a second: in full up to a million."""
    return three_digits(value) if value < 999_999.5 else amount(value)


def bytes_words(value: float) -> str:
    """Bytes with a binary prefix: 1.25 GiB."""
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if value >= 0.9995 * 2**power:
            return f"{three_digits(value / 2**power)} {unit}"
    return f"{three_digits(value)} B"

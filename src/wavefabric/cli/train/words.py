"""Numbers as the tables of `wavefabric train` show them."""

from __future__ import annotations


def amount(value: float) -> str:
    """A count with a decimal prefix: 336 M."""
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size * 0.9995:  # that is rounded to 1
            return f"{three_digits(value / size)} {prefix}"
    return three_digits(value)


def rate(value: float) -> str:
    """A number a second: in full up to a million."""
    return three_digits(value) if value < 999_999.5 else amount(value)


def bytes_words(value: float) -> str:
    """Bytes with a binary prefix: 1.25 GiB."""
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if value >= 0.9995 * 2**power:
            return f"{three_digits(value / 2**power)} {unit}"
    return f"{three_digits(value)} B"


def three_digits(value: float) -> str:
    """Three digits that matter, or all of a larger number."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"

"""Parse the texts of options that are numbers or lists: ``64M``, ``64K:1G``, ``4x8``, ``a,b``."""

import math
from collections.abc import Collection

from wavefabric.base.errors import InputError
from wavefabric.base.units import binary_size

FACTOR_HELP = "From one size to the next of least:most. [default: 4]"


def parse_list(text: str) -> list[str]:
    """Split ``text`` at commas into words without surrounding spaces; leave out empty words."""
    return [word.strip() for word in text.split(",") if word.strip()]


def parse_shape(text: str, key: str, allowed: str, lengths: Collection[int] = ()) -> tuple[int, ...]:
    """Parse whole numbers from 1 with ``x`` between, such as ``4x8``; ``lengths``: how many are allowed."""
    parts = text.lower().replace(" ", "").split("x")
    good = all(part.isascii() and part.isdigit() and len(part) <= 6 and int(part) for part in parts)
    if not good or (lengths and len(parts) not in lengths):
        raise InputError(f"{key}: {text} given; allowed: {allowed}")
    return tuple(map(int, parts))


def parse_sizes(text: str, key: str = "--bytes", factor: int | None = None) -> list[int]:
    """Parse sizes in bytes: ``64M``, ``64K,1M``, or ``least:most`` in steps of ``factor`` (4 by default)."""
    if factor is not None and factor < 2:
        raise InputError(f"--factor: {factor} given; allowed: 2 or more")
    ends = text.split(":")
    if factor is not None and len(ends) == 1:
        raise InputError(f"--factor: {factor} given with {key} {text}; allowed: with least:most")
    if len(ends) > 2:
        raise InputError(f"{key}: {text} given; allowed: least:most, or sizes with a comma between")
    if len(ends) == 1:
        return [_bytes(word, text, key) for word in text.split(",")]
    least, most = (_bytes(word, text, key) for word in ends)
    if least > most:
        raise InputError(f"{key}: {text} given; allowed: least:most, the least first")
    factor = factor or 4
    sizes = [least * factor**k for k in range(int(math.log(most / least, factor) + 1e-9) + 1)]
    return sizes if sizes[-1] == most else [*sizes, most]


def parse_size(text: str, key: str = "--bytes") -> int:
    """Parse one size in bytes, such as ``64M``."""
    sizes = parse_sizes(text, key)
    if len(sizes) != 1:
        raise InputError(f"{key}: {text} given; allowed: one size, such as 64M")
    return sizes[0]


def optional_sizes(text: str | None, factor: int | None) -> list[int]:
    """Parse ``--sizes`` and ``--factor`` of a measurement; without them return [] for its default sizes."""
    if text is not None:
        return parse_sizes(text, "--sizes", factor)
    if factor is not None:
        raise InputError(f"--factor: {factor} given without --sizes; allowed: with --sizes least:most")
    return []


def _bytes(word: str, text: str, key: str) -> int:
    size = binary_size(word.strip())
    if not size or size >= 1 << 60:
        allowed = "bytes such as 64M, 64K,1M or 64K:1G (K, M, G: 2^10, …)"
        raise InputError(f"{key}: {text} given; allowed: {allowed}")
    return size

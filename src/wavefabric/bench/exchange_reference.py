"""Bandwidths that transports reach where nothing else runs: what a figure of `exchange` is a share of."""

from __future__ import annotations

from typing import NamedTuple

#: Where the figures come from.
SOURCE = "measured on 4 H200, 2026"


class Peak(NamedTuple):
    """Bus bandwidth in GB/s; None: of any transport, or of any number of ranks."""

    pattern: str | None
    transport: str | None
    ranks: int | None
    gb_per_s: float


#: The first that fits counts. Ranks share the memory of their host: host-staged MPI has one for all patterns.
PEAKS = (
    Peak(None, "mpi", 2, 4.6),
    Peak(None, "mpi", 4, 2.6),
    Peak("ping", "mpi-cuda", None, 340.0),
    Peak("ping", None, None, 373.0),
    Peak("ring", None, None, 353.0),
    Peak("halo", None, None, 353.0),
    Peak("all-gather", None, None, 329.0),
    Peak("all-to-all", None, None, 347.0),
)


def peak(pattern: str, transport: str, ranks: int) -> float | None:
    """The figure in GB/s for a pattern, a transport and a number of ranks; None if there is none."""
    for found in PEAKS:
        if found.transport is None and transport == "mpi":
            continue
        if (
            found.pattern in (None, pattern)
            and found.transport in (None, transport)
            and found.ranks in (None, ranks)
        ):
            return found.gb_per_s
    return None

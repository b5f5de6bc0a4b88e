"""Sums over frequencies of four-wave mixing, and over symbols that mix with themselves.

What ``interference.cpp`` and ``correlation.cpp`` of `wavefabric.kernels` take, which explain how they
integrate. Sums run in a fixed order, whatever the number of threads.
"""

from typing import NamedTuple

import numpy as np

from wavefabric.kernels.cpu_launch import call_kernel
from wavefabric.system.machine import usable_threads


class Table(NamedTuple):
    """A response from Δβ = 0 on in steps of ``step`` (1/m)."""

    values: np.ndarray
    once: np.ndarray  # integral of the values, and its integral
    twice: np.ndarray
    step: float
    period: float  # in Δβ, or 0
    tail: float  # without a period |μ|² is tail/Δβ² beyond the table
    negligible: float  # Δβ beyond which no mixing counts


class Row(NamedTuple):
    """A row as the sums see it: β1 … β4, power over symbol rate, phase, delay and β2 by channel (SI)."""

    beta: np.ndarray
    density: np.ndarray
    phases: np.ndarray
    delays: np.ndarray
    curvatures: np.ndarray


class Comb(NamedTuple):
    """Channels in ascending order: ``centres`` (C,) in Hz from the fibre's centre, symbol rate, roll-off."""

    centres: np.ndarray
    rate: float
    rolloff: float


class Nodes(NamedTuple):
    """Frequencies f (F,), Hz, and for each the offsets x = f1 − f (F, X), with all that belongs to them."""

    f: np.ndarray
    weights: np.ndarray  # of f, Hz
    received: np.ndarray  # channel of f
    x: np.ndarray
    weight: np.ndarray  # of f1, Hz, with the spectrum there
    slow: np.ndarray  # the part that is tracked phase
    channel: np.ndarray  # of f1
    alias: float  # light at f + alias (Hz), 0 or a sampling rate off, counts as light at f
    each: int  # nodes f of a channel
    inside: int  # columns of x in the received channel itself


def power(table: Table, mismatch: float) -> tuple[float, ...]:
    """Return |μ|², its integral M from Δβ = 0, and the integral N of M, at a mismatch."""
    out = np.zeros(3)
    call_kernel("power_integrals_double", table, float(mismatch), out)
    return tuple(out.tolist())


def amplitude(table: Table, mismatch: float) -> tuple[complex, ...]:
    """Return μ and its two integrals at a mismatch, complex; none beyond the table."""
    out = np.zeros(3, complex)
    call_kernel("amplitude_integrals_double", table, float(mismatch), out)
    return tuple(out.tolist())


def interference(
    nodes: Nodes, comb: Comb, areas: np.ndarray, rows: tuple[Row, Row], table: Table, out: np.ndarray
) -> None:
    """Add Σ over x of weight P_i(f1) ∫ P_j(f2) P_j(f2 + x) |μ|² df2, and times ``slow``, to ``out`` (2, F).

    ``rows`` are i and j.
    """
    call_kernel("interference_double", nodes, comb, areas, rows, table, out, threads=usable_threads())


def correlation(
    walks: np.ndarray,
    nodes: Nodes,
    comb: Comb,
    roots: np.ndarray,
    curvatures: np.ndarray,
    table: Table,
    out: np.ndarray,
) -> None:
    """Add ∫ over f and f1 of one channel, |∫ √g μ df2|², f2 and f3 in another, less slow phase noise.

    ``walks`` (s/m) are delays of the centre of the one less that of the other, ``out`` has one sum of each;
    ``curvatures`` are their β2. With β2 alone, as over a channel.
    """
    arguments = walks, nodes, comb, roots, curvatures, table, out
    call_kernel("correlation_double", *arguments, threads=usable_threads())


def channel_correlation(
    nodes: Nodes, comb: Comb, roots: np.ndarray, row: Row, table: Table, out: np.ndarray
) -> None:
    """Add Σ over f3 of |∫ √g μ df1|² g(f3), and ∬ √g μ, complex, in the channel of f, to ``out`` (2, F)."""
    call_kernel("channel_correlation_double", nodes, comb, roots, row, table, out, threads=usable_threads())

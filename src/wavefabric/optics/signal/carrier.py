"""Carrier phase of received symbols: known symbols, the fourth power, or a blind search."""

import math

import numpy as np

from wavefabric.errors import InputError
from wavefabric.optics.signal.constellation import Constellation

METHODS = ("auto", "viterbi-viterbi", "blind-search", "data-aided", "none")
#: Test phases of the blind search in a quarter turn, by bits per symbol.
_TEST_PHASES = {2: 32, 4: 32, 6: 64}
#: Weight of a symbol itself in the window of the blind search, against 1 of each neighbour.
BLIND_OWN = 1.0


def check_phase(method: str, format_name: str, key: str = "phase") -> None:
    """Refuse a ``method`` that a modulation format does not allow."""
    wrong = {"blind-search": format_name == "gaussian", "viterbi-viterbi": format_name != "qpsk"}
    if wrong.get(method):
        raise InputError(f"{key}: '{method}' given for {format_name}, auto or data-aided allowed")


def carrier_phase(xp, form: Constellation, method: str, size: int | None, symbols, sent, periodic=True):
    """Phase (rad) of each of ``symbols`` (..., n) over a window of ``size`` of them (None: one for all).

    ``sent`` are the known symbols; the methods are those of `Receiver.phase`. The blind ones leave the
    quarter turn open, and the known symbols decide it at every symbol: there are no cycle slips.
    """
    if method == "none":
        return 0.0
    aided = xp.angle(sliding_sum(xp, symbols * sent.conj(), size, periodic=periodic))
    if method in ("auto", "data-aided"):
        return aided
    if method == "viterbi-viterbi":
        # QPSK to the fourth is −1.
        square = symbols * symbols
        blind = xp.angle(sliding_sum(xp, -square * square, size, periodic=periodic)) / 4
    else:
        along = (symbols * sent.conj() * xp.exp(-1j * aided)).real.sum(axis=-1, keepdims=True)
        energy = (abs(sent) ** 2).sum(axis=-1, keepdims=True)
        blind = blind_phase(xp, form, size, symbols * (energy / xp.where(along > 0, along, 1)), periodic)
    return blind + xp.rint((aided - blind) * (2 / np.pi)) * (np.pi / 2)


def blind_phase(xp, form: Constellation, size: int | None, symbols, periodic: bool = True):
    """Phase, up to quarter turns, at which a window of ``symbols`` lies closest to the constellation, rad.

    The blind phase search of T. Pfau, S. Hoffmann, R. Noé, J. Lightwave Technol. 27 (2009) 989, eqs. (6) to
    (8), doi 10.1109/JLT.2008.2010511, over 32 test phases (64 for 64QAM) and the vertex of the parabola
    through the least distance and its two neighbours. ``symbols`` (..., n) are of mean energy about 1.
    """
    count = _TEST_PHASES[form.bits_per_symbol]

    def distance(k: int):
        turned = symbols * np.exp(-0.5j * np.pi * k / count)
        error = turned - form.map(xp, form.decide(xp, turned))
        return sliding_sum(xp, error.real**2 + error.imag**2, size, own=BLIND_OWN, periodic=periodic)

    first = before = distance(0)
    here = second = distance(1)
    least, vertex = xp.full(first.shape, np.inf), xp.zeros(first.shape)
    # The distance repeats after a quarter turn.
    for k in range(1, count + 1):
        after = {count - 1: first, count: second}.get(k)
        after = distance(k + 1) if after is None else after
        curve = before - 2 * here + after
        shift = xp.where(curve > 0, 0.5 * (before - after) / xp.where(curve > 0, curve, 1), 0)
        better = (here < least) & (here <= before) & (here <= after)
        least, vertex = xp.where(better, here, least), xp.where(better, k + shift, vertex)
        before, here = here, after
    return vertex * (0.5 * np.pi / count)


def sliding_sum(xp, values, size: int | None, own: float | None = None, periodic: bool = True):
    """Sum over the ``size`` neighbours centred on each element of the last axis, about half of itself.

    The angle of the sum estimates the carrier phase of the element in the middle, whose own noise it follows
    by its weight w_k: perpendicular to a symbol of noise e_k the error left is e_k − Σ w_j e_j, of
    (1 − 2w_k + Σ w_j²) times the variance of e_k. All weights equal make errors look too small, w_k = 0 too
    large. With m = n − 1 others, n = ``size``, it is the variance of e_k itself for the weight
    r = m (√(1 + 1/m) − 1) of the element against 1: the mean EVM² is that of noise alone.

    ``own`` is another weight of the element itself. Neighbours are cyclic; with ``periodic`` false there are
    none beyond the ends.
    """
    n = values.shape[-1]
    if size is None or size >= n:
        return values.sum(axis=-1, keepdims=True)
    before, others = size // 2, size - 1
    left, right = values[..., n - before - 1 :], values[..., : size - before - 1]
    if not periodic:
        left, right = xp.zeros_like(left), xp.zeros_like(right)
    sums = xp.cumsum(xp.concatenate([left, values, right], axis=-1), axis=-1)
    if own is None:
        own = others * (math.sqrt(1 + 1 / others) - 1)
    return sums[..., size:] - sums[..., :n] - (1 - own) * values

r"""Compute nonlinear interference of a link by the Gaussian-noise model of many modes, or its enhanced form.

For ∂A_i/∂z = L̂A_i + iγ Σ_j κ_ij P_j A_i, P_j the power of row j, the first order in γ has the power spectrum

.. math::
    S_i(f) = γ^2 \sum_j κ_{ij}^2 (1 + δ_{ij}) \iint G_i(f_1) G_j(f_2) G_j(f_1+f_2-f) |μ_{ij}|^2 \,df_1 df_2

if symbols are Gaussian and rows independent; `wavefabric.optics.theory.response` defines μ. Interference is
the power that passes the matched filter: ∫ S_i times the raised-cosine spectrum of the channel. With one mode
and κ = 8/9 the two polarisations together give the factor 16/27 of P. Poggiolini et al., J. Lightwave
Technol. 32 (2014), doi 10.1109/JLT.2013.2295208. Many modes: C. Antonelli, O. Golani, M. Shtaif, A. Mecozzi,
Opt. Express 25 (2017), doi 10.1364/OE.25.013055.

Enhanced form: symbols b of unit mean energy from a finite set interfere less. If two of the three fields come
from the same symbols, they add Φ4 = E|b|⁴ − 2 times an integral of correlated pairs; if all three do, also
Φ6 = E|b|⁶ − 9E|b|⁴ + 12 (−1 and 4 for QPSK, 0 and 0 for Gaussian symbols). With E the integral over pairs
(f2, f3) in one channel of row j, row i gets Φ4 E from every channel of a row j ≠ i, and 4 Φ4 E from itself,
since either of its two fields may be f1. From its own channel it also gets Φ4 times the integral over pairs
(f1, f2), and Φ6 times that over all three, less the part that a receiver attributes to the signal's gain: the
mean of three fields of one symbol, Φ4 times that symbol. R. Dar, M. Feder, A. Mecozzi, M. Shtaif, Opt.
Express 21 (2013), doi 10.1364/OE.21.025685; A. Carena et al., Opt. Express 22 (2014),
doi 10.1364/OE.22.016335 (their self-channel and cross-channel terms, X1). Omitted: pairs (f1, f2) of another
channel, and three fields of one other channel, which matter for nearly adjacent channels.

Every row of every channel has independent symbols. Mixing inside mode groups between spans changes nothing if
κ is that of groups: the Kerr phase depends on the power of the group, which mixing conserves, and the
receiver's inverse returns the rows as if they had never mixed.
"""

import math
from dataclasses import dataclass, replace
from types import NoneType

import numpy as np
import scipy  # its submodules load when first used

from wavefabric.base.arguments import instance, within
from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.fibre import Array, Fibre
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.theory.line import LinkLine, Spans
from wavefabric.optics.theory.response import Accumulation, Steps, Stretch
from wavefabric.optics.theory.sums import (
    Comb,
    Row,
    RowKind,
    Sums,
    dispersion,
    nodes_of,
    overlap_areas,
    walk_off,
)

#: Number of channels, of many, whose own profile of power counts; between them its effect is interpolated.
_PROFILES = 5


@dataclass(frozen=True)
class Options:
    """Specifies how interference is estimated."""

    modulation: bool = True  # whether to use the actual symbol statistics; otherwise Gaussian
    phase_window: int | None = None  # symbols of the carrier-phase estimate; None for the mean phase only
    symbols: int | None = None  # length of the periodic sequence, None for an endless one
    steps: Steps | None = None  # equal steps of an integrator, with the spurious interference they add
    sample_rate: float | None = None  # Hz: mixing products beyond this band alias into it; None: no limit
    channels: tuple[int, ...] | None = None  # indices to receive, None for all; NaN for the others


def nonlinear_interference(
    fibre: Fibre, transmitter: Transmitter, spans: Spans | LinkLine, options: Options | None = None
) -> Array:
    """Return the power of nonlinear interference after the last span's matched filter, W, (modes, channels).

    ``spans`` are equal spans of ``fibre``, or a `LinkLine` that has its own fibres. The power is summed over
    both polarisations; fibres must be expanded at the grid's centre frequency. A mode without any light gets
    none. The fibres of a line count as if their dispersion and κ were proportional (`LinkLine.compared`), and
    the gain of a part as if it were the same for all channels of a mode. If parts have a ``profile``, gains
    and profiles count for each received channel as if all channels had its own. `InputError` for channels
    that do not exist.
    """
    instance("fibre", fibre, Fibre)
    instance("transmitter", transmitter, Transmitter)
    instance("spans", spans, Spans, LinkLine)
    instance("options", options, Options, NoneType)
    line = spans.line(fibre, transmitter.grid.centre_frequency) if isinstance(spans, Spans) else spans
    for each in dict.fromkeys(line.parts):
        within(float(each.fibre.alpha.max() * each.length), "", "alpha x length", 0, 1000)
    if any(form.direct for form in transmitter.formats):
        raise InputError("transmitter: intensities given; allowed: formats with coherent detection")
    options = options or Options()
    grid = transmitter.grid
    channels = range(grid.channels) if options.channels is None else options.channels
    if bad := [c for c in channels if not 0 <= c < grid.channels]:
        raise InputError(f"channels: {bad[0]} given; allowed: 0 to {grid.channels - 1}")
    mean = _mean_interference(line, transmitter, options)
    if all(each.profile is None for each in line.parts):
        return mean
    order = sorted(channels, key=lambda channel: grid.offsets[channel])
    picked = np.linspace(0, len(order) - 1, min(len(order), _PROFILES))
    some, ratios = [order[k] for k in np.unique(np.rint(picked).astype(int))], []
    for channel in some:
        alone = _mean_interference(line, transmitter, replace(options, channels=(channel,)), channel)
        pair = alone[:, channel], mean[:, channel]
        lit = (pair[0] > 0) & (pair[1] > 0)
        ratios.append(np.log(np.divide(*pair, where=lit, out=np.ones(len(lit)))))
    if len(some) == 1:
        return mean * np.exp(ratios[0])[:, None]
    return mean * np.exp(scipy.interpolate.CubicSpline(grid.offsets[some], ratios)(grid.offsets)).T


def _mean_interference(
    line: LinkLine, transmitter: Transmitter, options: Options, channel: int | None = None
) -> Array:
    """Return interference as if all channels of a mode had their mean gain, or that of one ``channel``."""
    fibre, (parts, repeats) = line.reference, line.repeated
    grid, rate = transmitter.grid, options.sample_rate
    order = np.argsort(grid.offsets)
    rates = grid.symbol_rates[order]
    comb = Comb.of(grid.offsets[order], rates, transmitter.rolloffs[order])
    if fibre.gamma == 0 or not line.length:
        return np.zeros((fibre.modes, grid.channels))
    channels = range(grid.channels) if options.channels is None else options.channels
    received = np.flatnonzero(np.isin(order, channels))
    density = transmitter.powers(fibre.modes) / 2 / grid.symbol_rates
    half_band = float(abs(comb.centres).max() + comb.rates.max())
    alone = np.broadcast_to(np.arange(grid.channels) == channel, density.shape)
    stretches = line.stretches(density if channel is None else alone, half_band)
    kinds = _kinds(fibre, np.ascontiguousarray(density[:, order]), stretches, comb)
    spread, areas = walk_off(kinds, comb), overlap_areas(comb)
    # The phased array resolves mismatches of 1/(n L), which delays turn into frequencies.
    reach = repeats * sum(each.length * abs(each.scale) for each in kinds[0].stretches)
    finest = 1 / (4 * math.pi * reach * max(spread, 1e-18))
    aliases = (0.0, float(rate), -float(rate)) if rate else (0.0,)
    nodes = []
    for kind in np.unique(comb.kinds[received]):
        some, symbol_rate = received[comb.kinds[received] == kind], float(comb.rates[kind])
        symbols = options.symbols and options.symbols * (symbol_rate / grid.lowest_rate)
        fixed = comb, some, min(finest, symbol_rate), options.phase_window, symbols
        nodes += [nodes_of(*fixed, alias) for alias in aliases]
    moments = np.array([form.excess_moments for form in transmitter.formats])[order]
    net = np.ones((fibre.modes, grid.channels))
    for each in parts * repeats:
        net = net * each.gain
    squares = (fibre.gamma * fibre.kappa_rows()) ** 2
    by_row = np.full((fibre.rows, grid.channels), np.nan)
    by_row[:, order[received]] = 0.0
    for j in kinds:
        accumulation = Accumulation(j.stretches, repeats, line.coherent, options.steps)
        for part in nodes:
            sums = Sums(comb, part, j, accumulation, spread, areas)
            excess = moments * bool(options.modulation and not part.alias)
            for i in kinds:
                mixed, channels = _interference(sums, i, squares, excess), order[part.received[:: part.each]]
                by_row[np.ix_(i.rows, channels)] += net[np.ix_(i.rows // 2, channels)] * mixed
    return by_row[0::2] + by_row[1::2]


def _interference(sums: Sums, i: RowKind, squares: np.ndarray, excess: np.ndarray) -> np.ndarray:
    """Return the interference that rows ``sums.j`` cause in the rows of ``i``, W, (rows of i, channels).

    It is without the net gain of the link. ``squares`` (2M, 2M) are (γκ)² between field rows; ``excess``
    (channels, 2) are Φ4 and Φ6 of the formats.
    """
    self_power = np.diagonal(squares)[i.rows] * (i is sums.j)
    other_power = squares[np.ix_(i.rows, sums.j.rows)].sum(axis=1) - self_power
    mixed, slow = sums.gaussian(i)
    # Slow phase noise of a row on itself has two halves: f1 ≈ f, and f2 ≈ f.
    cross, itself = mixed - slow, 2 * (mixed - 2 * slow)
    if excess.any():
        correlated = sums.correlated(i, excess[:, 0])
        cross += correlated
        if i is sums.j:
            pairs, triples, mean = sums.self_correlated()
            fourth, sixth = excess[sums.nodes.received[:: sums.nodes.each]].T
            itself += 4 * correlated + fourth * pairs + sixth * triples - fourth**2 * mean
    return np.outer(other_power, cross) + np.outer(self_power, itself)


def _kinds(
    fibre: Fibre, density: np.ndarray, stretches: list[tuple[Stretch, ...]], comb: Comb
) -> list[RowKind]:
    """Return a `RowKind` for each set of field rows with equal β, ``density`` and ``stretches`` (by mode).

    ``density`` (modes, channels) is the power of a row over the symbol rate, in W/Hz.
    """
    keys = np.column_stack([fibre.beta, density, np.array(stretches).reshape(fibre.modes, -1)])
    _, modes, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    kinds = []
    for k, mode in enumerate(modes):
        beta = np.ascontiguousarray(fibre.beta[mode])
        row = Row(beta, density[mode], *dispersion(beta, comb.centres))
        rows = np.flatnonzero(np.repeat(kind.reshape(-1) == k, 2))
        kinds.append(RowKind(row, stretches[mode], rows))
    return kinds

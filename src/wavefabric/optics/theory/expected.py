"""Predict signal-to-noise ratio and Q² of a link: nonlinear interference, amplifier noise, loaded noise.

Q² is defined as in the simulator's receiver, 1/EVM² of symbols of unit energy: the received signal over all
noise that passes the matched filter. The receiver's least-squares complex gain removes errors proportional to
the signal; its carrier-phase estimate removes slow phase noise, and adds its errors (`added_error`). Omitted:
mixing of noise with the signal, depletion of the signal by interference, and the effects that
`wavefabric.optics.theory.gaussian_noise` omits.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import numpy as np
import scipy  # its submodules load when first used

from wavefabric.base.arguments import instance, whole
from wavefabric.base.errors import InputError, quoted
from wavefabric.optics.fibre.fibre import Array, Fibre
from wavefabric.optics.signal.amplifier import osnr_noise_density
from wavefabric.optics.signal.constellation import Constellation
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.recovery import BLIND_OWN
from wavefabric.optics.signal.transmitter import root_raised_cosine
from wavefabric.optics.theory.changing_channels import changing_interference
from wavefabric.optics.theory.gaussian_noise import Options, nonlinear_interference
from wavefabric.optics.theory.line import LinkLine, Spans
from wavefabric.optics.theory.sums import window_weights

#: Frequencies over two symbol rates at which the shape of filters is known; even.
_BINS = 4096
#: Parts of the noise, attributes of `Expectation`.
PARTS = ("nli", "ase", "loaded", "numerical")
#: Number of channels for which the numerical part is evaluated; it is nearly white, so interpolated between.
SAMPLED = 9
#: Numbers of spans for which interference is computed; between these numbers it is interpolated.
EVALUATED = (1, 2, 3, 4, 5, 6, 8, 11, 15, 20, 27, 37, 50, 70, 100, 150, 220, 330, 500, 750, 1100, 1600, 2400)

#: Variance (rad²) of a phase that is uniform within a quarter turn.
_UNKNOWN = math.pi**2 / 48


@dataclass(frozen=True, eq=False)
class Expectation:
    """Holds powers at a receiver after the matched filter, both polarisations, W, each (modes, channels)."""

    distance: float  # from the transmitter, m
    signal: Array
    nli: Array  # nonlinear interference
    ase: Array  # noise of the amplifiers
    loaded: Array  # noise added for the OSNR
    numerical: Array  # change of ``nli`` due to a run's steps and sampling; may be negative
    #: Noise of carrier-phase recovery and a trained equaliser, and symbols that filters smear without an
    #: equaliser; may be negative.
    recovery: Array | float = 0.0

    @property
    def noise(self) -> Array:
        """Return the total noise, W."""
        return self.nli + self.ase + self.loaded + self.numerical + self.recovery

    @property
    def snr(self) -> Array:
        """Return signal over noise, linear; NaN for a dark signal, infinite without noise."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.signal > 0, self.signal / np.maximum(self.noise, 0), np.nan)

    @property
    def q_squared_db(self) -> Array:
        """Return Q² = 1/EVM² in dB, as ``/received/NAME/q_squared_db`` of a result."""
        return 10 * np.log10(self.snr)

    def arrays(self) -> dict[str, Array]:
        """Return a dictionary from name to array: signal, noise (W) except ``recovery``, SNR and Q² in dB."""
        return {name: getattr(self, name) for name in ("signal", *PARTS, "snr", "q_squared_db")}


def expected_quality(
    fibre: Fibre,
    receiver: Receiver,
    spans: Spans | LinkLine,
    noise_figure_db: float | None = None,
    at: Sequence[int] | None = None,
    options: Options | None = None,
    joint: Sequence[int] | None = None,
) -> dict[str, Expectation]:
    """Return a dictionary from receiver position to the `Expectation` there, for every mode and channel.

    The positions are "back_to_back" and "span_1", "span_2", … as in result files, after the spans ``at``, by
    default all. ``receiver`` provides the transmitter, the OSNR of loaded noise, the carrier-phase recovery
    and the equaliser. ``joint`` lists the numbers of modes in the sets that the equaliser treats together, by
    default one set. ``spans`` describes equal spans of ``fibre``, whose amplifiers have the noise figure
    ``noise_figure_db`` (None: noiseless), or a `LinkLine` with its own fibres and noise. Fibres are expanded
    at the grid's centre frequency. If ``options`` has steps or a sample rate, ``numerical`` is the
    interference that these add; the phase window of ``options`` is replaced by the receiver's.
    """
    instance("fibre", fibre, Fibre)
    instance("receiver", receiver, Receiver)
    instance("spans", spans, Spans, LinkLine)
    instance("options", options, Options, NoneType)
    options = replace(options or Options(), phase_window=receiver.tracked)
    exact = replace(options, steps=None, sample_rate=None)
    transmitter = receiver.transmitter
    grid, powers = transmitter.grid, transmitter.powers(fibre.modes)
    line = spans
    if isinstance(line, Spans):
        line = line.line(fibre, grid.centre_frequency, noise_figure_db)
    numbers = sorted(set(range(1, line.count + 1) if at is None else _counts("at", at, line.count)))
    zero, sizes = np.zeros_like(powers), [fibre.modes]
    if joint is not None and sum(sizes := _counts("joint", joint, fibre.modes)) != fibre.modes:
        raise InputError(f"joint: {quoted(joint)} given; allowed: numbers of modes, {fibre.modes} together")
    link = numbers, fibre, receiver, line
    nli = {0: zero} | interference_after(*link, exact)
    # Channels from the lowest frequency to the highest, all or `SAMPLED` of many.
    order = np.argsort(grid.offsets)
    picked = np.linspace(0, len(order) - 1, min(len(order), SAMPLED))
    some = tuple(order[np.unique(np.rint(picked).astype(int))].tolist())
    some = replace(options, channels=options.channels or some)
    stepped = nli if options == exact else {0: zero} | interference_after(*link, some)
    rows = 2 * np.repeat(sizes, sizes)[:, None]
    positions, distances = [0, *numbers], {}
    levels: dict[int, Any] = {n: np.zeros((6, *powers.shape)) for n in positions}
    numerical = {n: _filled(grid.offsets, stepped[n] - nli[n]) for n in positions}
    for channels, part in transmitter.parts:
        alike = replace(receiver, transmitter=part, frequency_offset=0.0)
        for n, some, budget in channel_budgets(line, alike, channels, positions):
            sent = powers[:, some]
            gain = np.broadcast_to(budget.gain, powers.shape)[:, some]
            ase = np.broadcast_to(budget.ase, powers.shape)[:, some]
            loaded = np.zeros_like(sent)
            if receiver.osnr_db is not None:
                density = osnr_noise_density(receiver.osnr_db, budget.nominal)
                loaded = 2 * part.grid.symbol_rate * density * sent
            signal = sent * gain * budget.signal_fraction
            passed = budget.noise_fraction
            noise = nli[n][:, some] * passed, ase, loaded, numerical[n][:, some] * passed
            error = np.maximum(sum(noise), 0) / np.where(signal > 0, signal, np.inf)
            recovery = signal * added_error(alike, error, rows, abs(budget.dispersion)[:, None])
            if receiver.equaliser is None:
                recovery = recovery + sent * gain * budget.intersymbol_fraction
            levels[n][:, :, some] = signal, *noise, recovery
            distances[n] = budget.distance
    named = [(f"span_{n}" if n else "back_to_back", n) for n in positions]
    return {name: Expectation(distances[n], *list(levels[n])) for name, n in named}


@dataclass(frozen=True, eq=False)
class Budget:
    """Holds gain, noise and dispersion of a signal from its launch to one point, without the Kerr effect.

    Powers are in W, arrays broadcast to (modes, channels).
    """

    distance: float  # from the transmitter, m
    gain: Any  # power gain without that of the filters' shape
    ase: Any  # noise of the amplifiers that passes filters and matched filter, both polarisations
    dispersion: Array  # accumulated β2, s², by mode
    nominal: float  # mean power gain, to which loaded noise refers
    signal_fraction: float = 1.0  # power that the shape of the filters leaves of a matched pulse
    intersymbol_fraction: float = 0.0  # intersymbol interference by filters over the power before them
    noise_fraction: float = 1.0  # power of white noise at the transmitter that passes the filters' shape


def budgets(line: LinkLine, receiver: Receiver, at: Sequence[int]) -> list[Budget]:
    """Return the `Budget` after each number of spans in ``at``, ascending; 0 is the transmitter."""
    grid, rolloff = receiver.transmitter.grid, receiver.transmitter.rolloff
    gain, nominal, distance = 1.0, 1.0, 0.0
    dispersion = np.zeros(line.parts[0].fibre.modes)
    # The raised cosine and the amplitude of all filters so far, over frequencies of ±1 symbol rate.
    u = (np.arange(_BINS) + 0.5) / _BINS * 2 - 1
    pulse, shape = root_raised_cosine(u, rolloff) ** 2, np.ones(_BINS)
    #: Noise densities, W/Hz, each with the amplitude of the filters after it.
    noises: list[tuple[Any, Array]] = []
    wanted, out = {line.ends[n - 1] if n else 0 for n in at}, []
    for number, each in enumerate((None, *line.parts)):
        if each is not None:
            gain, nominal, distance = gain * each.gain, nominal * each.nominal, distance + each.length
            dispersion = dispersion + each.fibre.beta[:, 1] * each.length
            noises = [(noise * each.gain, passed) for noise, passed in noises]
            if each.filtered is not None:
                amplitude = each.filtered(u * grid.symbol_rate)
                shape = shape * amplitude
                noises = [(noise, passed * amplitude) for noise, passed in noises]
            if noises and each.filtered is None:  # no filter since the noise before
                noises[-1] = noises[-1][0] + each.noise, noises[-1][1]
            else:
                noises.append((each.noise, np.ones(_BINS)))
        if number in wanted:
            ase = sum(2 * grid.symbol_rate * noise * _passing(pulse, passed) for noise, passed in noises)
            folded = (pulse * shape).reshape(2, -1).sum(axis=0)
            shaped = (shape != 1).any()
            matched = float(folded.mean() ** 2) if shaped else 1.0
            spread = float((folded**2).mean() - matched) if shaped else 0.0
            fractions = matched, spread, _passing(pulse, shape)
            out.append(Budget(distance, gain, ase, dispersion, nominal, *fractions))
    return out


def channel_budgets(
    line: LinkLine, receiver: Receiver, channels: np.ndarray, at: Sequence[int]
) -> Iterator[tuple[int, np.ndarray, Budget]]:
    """Yield for each group of channels added at one point: number of spans passed, channels, `Budget` since.

    This is done for each number of spans in ``at``, ascending. ``receiver`` is that of ``channels``
    (indices), which share symbol rate and roll-off; absent ones are skipped.
    """
    if not line.changes:
        yield from ((n, channels, each) for n, each in zip(at, budgets(line, receiver, at), strict=True))
        return
    whole = budgets(line, receiver, at)
    for n, before in zip(at, whole, strict=True):
        stop = line.ends[n - 1] if n else 0
        added_after = line.added_after(stop)[channels]
        for start in np.unique(added_after[added_after >= 0]).tolist():
            part, end = (line.between(start, stop), 1) if stop > start else (line, 0)
            (budget,) = budgets(part, receiver, [end * part.count])
            budget = replace(budget, distance=before.distance, nominal=before.nominal)
            yield n, channels[added_after == start], budget


def _passing(pulse: Array, amplitude: Array) -> float:
    """Return the share of white noise behind a matched filter that filters of this amplitude leave."""
    return float(2 * (pulse * amplitude**2).mean()) if (amplitude != 1).any() else 1.0


def _counts(key: str, values: Any, most: int) -> list[int]:
    """Return ``values`` as a list; InputError unless they are whole numbers from 1 to ``most``."""
    each = list(values) if isinstance(values, (list, tuple, range)) else [values]
    for value in each:
        whole(key, value, 1, most)
    return each


def _filled(offsets: Array, values: Array) -> Array:
    """Replace NaN of some channels of ``values`` (modes, channels) by interpolation over frequency."""
    order = np.argsort(offsets)
    finite = order[np.isfinite(values[0, order])]
    if len(finite) in (1, len(order)):
        return values
    nodes = offsets[finite], values[:, finite]
    return scipy.interpolate.PchipInterpolator(*nodes, axis=1, extrapolate=False)(offsets)


def interference_after(
    numbers: Sequence[int],
    fibre: Fibre,
    receiver: Receiver,
    line: LinkLine,
    options: Options,
    interpolate: bool = True,
) -> dict[int, Array]:
    """Return a dictionary from number of spans to nonlinear interference, W, (modes, channels).

    With ``interpolate``, and if there are many ``numbers`` of spans, results of some are interpolated.
    """
    sent = receiver.transmitter
    if line.changes:
        stops = {n: line.ends[n - 1] for n in numbers}
        return {n: changing_interference(fibre, sent, line, stop, options) for n, stop in stops.items()}
    nodes = list(numbers)
    if nodes and interpolate:
        least = max((n for n in EVALUATED if n <= nodes[0]), default=1)
        between = [*(n for n in EVALUATED if least <= n < nodes[-1]), nodes[-1]]
        nodes = min(nodes, between, key=len)
    nli = {n: nonlinear_interference(fibre, sent, line.up_to(n), options) for n in nodes}
    if nodes == list(numbers):
        return nli
    every = sorted({*nodes, *numbers})
    gains = {n: budget.gain for n, budget in zip(every, budgets(line, receiver, every), strict=True)}
    values = [nli[n] / (n * gains[n]) for n in nodes]
    curve = scipy.interpolate.PchipInterpolator(np.log(nodes), values, axis=0)
    return {n: curve(np.log(n)) * n * gains[n] for n in numbers}


def added_error(receiver: Receiver, error: Array, rows: Array, dispersion: Array) -> Array:
    """Return the EVM² that a receiver adds to an input with the noise-to-signal power ratio ``error``.

    ``rows`` is the number of rows equalised together, ``dispersion`` is |β2| z in s²; the arrays broadcast.
    With R the symbol rate and Δν a linewidth: trained taps add ``error`` times the number of coefficients
    over that of training symbols. Local oscillators add (2π)²|β2| z Δν R/6, if dispersion is compensated
    after them. All lasers add 2πΔν n/(12R), if one phase is estimated over n symbols.
    """
    grid, lines = receiver.transmitter.grid, receiver.linewidth + receiver.transmitter.linewidth
    added = error * _training(receiver, rows)
    added = added + (2 * math.pi) ** 2 * dispersion * receiver.linewidth * grid.symbol_rate / 6
    size = receiver.tracked or grid.symbols
    walk = math.expm1(min(2 * math.pi * lines / grid.symbol_rate * (size - 1 / size) / 12, 50.0))
    if receiver.phase in ("viterbi-viterbi", "blind-search") and size < grid.symbols:
        walk = walk + _blind(receiver, size, error + added)
    return added + (1 + error + added) * walk


def _training(receiver: Receiver, rows: Array) -> Array | float:
    """Return the noise that a MIMO equaliser adds by errors of its taps, as a fraction of its input noise.

    The fraction is a mean over symbols.
    """
    options, symbols = receiver.equaliser, receiver.transmitter.grid.symbols
    if options is None:
        return 0.0
    count, free = options.training, rows * options.taps * (1 + receiver.transmitter.rolloff)
    if not (options.decision_directed and receiver.transmitter.format.digital):
        return free / np.maximum(count - free, 1)
    memory = options.memory or symbols
    grown = min(max(memory, count), symbols)
    return free * (math.log(grown / count) + (symbols - grown) / memory) / (symbols - count)


def _blind(receiver: Receiver, size: int, error: Array) -> Array:
    """Return the variance (rad²) of a blind phase estimate from ``size`` symbols, less the noise it removes.

    ``error`` is the noise-to-signal power ratio. With weights w the phase is estimated as the sum of w h/m
    over symbols, where h is a function of a received symbol, with mean 0, and m is its mean change per radian
    of phase. A symbol's own noise, of variance σ², correlates with h/m by σ²/2 for any h (Stein's identity).
    For the fourth power h = Im (1 + e)⁴/4, with Gaussian noise e. A blind search ends where the mean of h =
    Im y d* is 0, with y the received symbol and d the decision for it.
    """
    blind, error = receiver.phase == "blind-search", np.minimum(error, 1e6)
    weights = window_weights(size, BLIND_OWN if blind else None)
    if blind:
        square, slope = np.vectorize(_decisions, excluded=[0])(receiver.transmitter.format, error)
    else:
        square, slope = error / 2 + (9 * error**2 + 12 * error**3 + 3 * error**4) / 4, 1.0
    variance = (weights**2).sum() * square / np.maximum(slope, 1e-3) ** 2
    return _UNKNOWN * np.tanh(variance / _UNKNOWN) - weights[size] * error


def _decisions(form: Constellation, error: float) -> tuple[float, float]:
    """Return the means of h² and of dh/dphase at the noise-to-signal power ratio ``error``.

    Here h = Im y d*, with y a received symbol and d the decision for it: the nearest point of the
    constellation.
    """
    sent, sigma = np.unique(np.imag(form.points)), math.sqrt(max(error, 1e-12) / 2)
    bounds = np.array([-np.inf, *(sent[1:] + sent[:-1]) / 2, np.inf])
    far = (bounds - sent[:, None]) / sigma
    density = np.exp(-(far**2) / 2) / math.sqrt(2 * math.pi)
    chance = np.diff(scipy.special.ndtr(far), axis=1)
    # Means of a d, e d and d² over levels a sent, noise e and decisions d for a + e.
    prior = form.probabilities
    kept = (prior * sent * (chance @ sent)).sum()
    noise = -sigma * (prior * (np.diff(density, axis=1) @ sent)).sum()
    square = 2 * (0.5 + sigma**2) * (prior * (chance @ sent**2)).sum() - 2 * (kept + noise) ** 2
    return square, 2 * kept - noise / sigma**2

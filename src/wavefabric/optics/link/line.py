"""Describe a link's elements for theory, and list what each does to the signal: power, noise, dispersion."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT, db
from wavefabric.optics.fibre.fibre import Array
from wavefabric.optics.link.elements import (
    BandFilter,
    FibrePiece,
    LinkAmplifier,
    LumpedLoss,
)
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.signal.amplifier import REFERENCE_BANDWIDTH
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.theory.expected import Budget, budgets
from wavefabric.optics.theory.gaussian_noise import Options, nonlinear_interference
from wavefabric.optics.theory.line import LinkLine, LinkPart

#: Most elements of a link whose parts are listed: interference is computed after each fibre.
MOST_LISTED = 200
#: Number of stretches of a pumped piece of fibre whose powers theory takes as exponentials; twice as many
#: change interference by 0.05 dB (pumps of 400 mW over 80 km) to 0.14 dB (500 mW over 60 km).
_STRETCHES = 8


def line_of(path: LinkPath, every: bool = False) -> LinkLine:
    """Return the `LinkLine` of a link: a part for each piece of fibre and what follows it, or a span's start.

    With ``every`` each element is a part and ends a span.
    """
    parts: list[LinkPart] = []
    ends: list[int] = []
    shape = path.fibre.modes, path.grid.channels
    same: dict[Any, LinkPart] = {}  # equal parts are one object, so that a repetition is seen
    start, span_ends = 0, set(path.span_ends)
    for number in range(1, len(path.elements) + 1):
        ended = every or number in span_ends
        if ended or isinstance(path.elements[number], FibrePiece):
            part, key = _part(path, start, number, shape)
            parts.append(same.setdefault(key, part))
            start = number
        if ended:
            ends.append(len(parts))
    return LinkLine(tuple(parts), tuple(ends))


def _part(path: LinkPath, start: int, stop: int, shape: tuple[int, int]) -> tuple[LinkPart, Any]:
    """Return elements ``start`` to ``stop`` as a part, and a key that is equal for equal parts."""
    elements = path.elements[start:stop]
    piece = elements[0] if isinstance(elements[0], FibrePiece) else None
    fibre, length = (path.medium(piece).fibre, piece.length) if piece else (path.fibre, 0.0)
    gain, noise, filters, profile = np.exp(-fibre.alpha * length)[:, None], np.zeros(()), [], None
    if piece and piece.pumps:
        channels = path.grid.centre_frequency + path.grid.offsets
        gain = gain * np.exp(path.log_gain(piece, 0.0, length, channels)).T
        noise = path.raman_noise(piece, channels).T
        ends = length * np.arange(1, _STRETCHES + 1) / _STRETCHES
        raman = np.stack([path.log_gain(piece, 0.0, end, channels).T for end in ends], axis=-1)
        profile = np.exp(raman - np.multiply.outer(fibre.alpha, ends)[:, None])
    for each in elements:
        factor, added = np.ones(()), 0.0
        if isinstance(each, LinkAmplifier):
            factor, added = each.amplifier.gain, each.amplifier.noise_density(path.grid.centre_frequency)
        elif isinstance(each, BandFilter):
            factor = each.gain * np.where(each.passed(path.grid), 1.0, 0.0)
            filters.append(each)
        elif isinstance(each, LumpedLoss):
            factor = np.broadcast_to(each.gains[::2, None], shape)
        gain, noise = gain * factor, noise * factor + added
    nominal = math.exp(path.levels[stop] - path.levels[start])
    filtered = partial(_filtered, filters) if filters else None
    part = LinkPart(fibre, length, gain, noise, nominal, filtered, profile)
    forms = tuple(each.table.model_dump_json() for each in filters)
    numbers = length, np.asarray(noise).tobytes(), nominal, gain.tobytes()
    return part, (*numbers, b"" if profile is None else profile.tobytes(), piece and piece.medium, forms)


def _filtered(filters: list[BandFilter], offset: Array) -> Array:
    return math.prod((each.amplitude(offset) for each in filters), start=np.ones(offset.shape))


def element_rows(path: LinkPath, receiver: Receiver) -> list[dict[str, Any]]:
    """Return a dictionary for each element of a link: what it is, and the signal after it, as theory has it.

    Levels are means over modes and channels, ratios to noise are those of the worst signal, in dB; None where
    there is no noise. OSNR and GSNR (with interference) are those in 12.5 GHz. Dispersion is that accumulated
    by the first mode, in s/m. `InputError` for more than `MOST_LISTED` elements.
    """
    if len(path.elements) > MOST_LISTED:
        limit = f"{len(path.elements)} elements given; allowed: up to {MOST_LISTED} to be listed"
        raise InputError(f"link: {limit}")
    line, sent = line_of(path, every=True), receiver.transmitter
    # Noise of amplifiers as channels like the first receive it; in one bandwidth it is that of all channels.
    alike = replace(receiver, transmitter=sent.parts[0][1])
    powers, rate = sent.powers(path.fibre.modes), alike.transmitter.grid.symbol_rate
    reference = 10 * math.log10(rate / REFERENCE_BANDWIDTH)
    rows, relative = [], np.zeros_like(powers)
    options = Options(symbols=sent.grid.symbols, phase_window=receiver.tracked)
    before = powers
    for number, budget in enumerate(budgets(line, alike, range(1, line.count + 1)), start=1):
        element, signal = path.elements[number - 1], powers * budget.gain
        lit = signal > 0
        if isinstance(element, FibrePiece):
            interference = nonlinear_interference(path.fibre, sent, line.up_to(number), options)
            relative = np.divide(interference, signal, where=lit, out=np.zeros_like(signal))
        ase = np.divide(budget.ase + np.zeros_like(signal), signal, where=lit, out=np.zeros_like(signal))
        rows.append(
            {
                "element": path.link.elements[number - 1].kind,
                "distance_m": budget.distance,
                "gain_db": _level(signal.sum() / before.sum()) if before.any() else None,
                "power_dbm": _level(signal[lit].mean() * 1e3) if lit.any() else None,
                "dispersion_s_per_m": _dispersion(path, budget),
                "osnr_db": _worst(ase, lit, reference),
                "snr_nli_db": _worst(relative, lit, 0.0),
                "gsnr_db": _worst(ase + relative * (rate / sent.grid.symbol_rates), lit, reference),
            }
        )
        before = signal
    return rows


def _level(ratio: float) -> float:
    return float(db(ratio))


def _worst(noise: Array, lit: np.ndarray, reference: float) -> float | None:
    """Return the smallest signal over ``noise`` in dB plus ``reference``; None without noise."""
    most = float(noise[lit].max(initial=0.0))
    return reference - _level(most) if most > 0 else None


def _dispersion(path: LinkPath, budget: Budget) -> float:
    """Return the accumulated dispersion D z = −2πc β2 z/λ² of the first mode, s/m."""
    wavelength = SPEED_OF_LIGHT / path.grid.centre_frequency
    return float(-2 * math.pi * SPEED_OF_LIGHT / wavelength**2 * budget.dispersion[0]) + 0.0  # never −0

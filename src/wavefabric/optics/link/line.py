"""Describe a link's elements for theory, and list what each does to the signal: power, noise, dispersion."""

import math
from collections.abc import Sequence
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
from wavefabric.optics.signal.amplifier import REFERENCE_BANDWIDTH, osnr_noise_density
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.theory.expected import budgets, channel_budgets, interference_after
from wavefabric.optics.theory.gaussian_noise import Options
from wavefabric.optics.theory.line import LinkLine, LinkPart
from wavefabric.optics.theory.sums import dispersion

#: Most elements of a link whose parts are listed: interference is computed after each fibre.
MOST_LISTED = 200
#: Number of stretches of a pumped piece of fibre whose powers theory takes as exponentials; twice as many
#: change interference by 0.05 dB (pumps of 400 mW over 80 km) to 0.14 dB (500 mW over 60 km).
_STRETCHES = 8


def line_of(path: LinkPath, every: bool = False) -> LinkLine:
    """Return the `LinkLine` of a link: parts begin at pieces of fibre, spans, and where channels change.

    With ``every`` each element is a part and ends a span.
    """
    parts: list[LinkPart] = []
    ends: list[int] = []
    shape = path.fibre.modes, path.grid.channels
    same: dict[Any, LinkPart] = {}  # equal parts are one object, so that a repetition is seen
    start, span_ends = 0, set(path.span_ends)
    added: dict[int, np.ndarray] = {}
    for number in range(1, len(path.elements) + 1):
        ended = every or number in span_ends
        if ended or number in path.changes or isinstance(path.elements[number], FibrePiece):
            part, key = _part(path, start, number, shape)
            parts.append(same.setdefault(key, part))
            start = number
        if ended:
            ends.append(len(parts))
        if number in path.changes and (mask := path.changes[number].added(path.transmitter.grid)).any():
            added[len(parts)] = mask
    at_start = None if path.present_at_start.all() else path.present_at_start
    return LinkLine(tuple(parts), tuple(ends), added=added, at_start=at_start)


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


def received_levels(path: LinkPath, receiver: Receiver, at: Sequence[int]) -> dict[int, dict[str, Array]]:
    """Return OSNR and accumulated dispersion after each number of spans in ``at``, ascending.

    The result is a dictionary from number of spans to two arrays (modes, channels), NaN for absent signals:
    ``osnr_db``, in 12.5 GHz, of the noise of amplifiers, Raman pumps and receiver, computed from the mean
    gains of the link; ``dispersion``, D z = −2πc β2 z/λ², in s/m.
    """
    line, sent, grid = line_of(path), receiver.transmitter, path.grid
    powers = sent.powers(path.fibre.modes)
    out = {n: {key: np.full(powers.shape, np.nan) for key in ("osnr_db", "dispersion")} for n in at}
    for channels, part in sent.parts:
        alike = replace(receiver, transmitter=part, frequency_offset=0.0)
        for n, some, budget in channel_budgets(line, alike, channels, at):
            launched = powers[:, some]
            signal = launched * np.broadcast_to(budget.gain, powers.shape)[:, some]
            noise = np.broadcast_to(budget.ase, powers.shape)[:, some] / part.grid.symbol_rate
            if receiver.osnr_db is not None:
                noise = noise + 2 * osnr_noise_density(receiver.osnr_db, budget.nominal) * launched
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(signal > 0, signal / (noise * REFERENCE_BANDWIDTH), np.nan)
                out[n]["osnr_db"][:, some] = 10 * np.log10(ratio)
    for n, added_after in ((n, path.added_after(n)) for n in at):
        for start in np.unique(added_after[added_after >= 0]).tolist():
            some, (length, beta) = added_after == start, path.through(n, start)
            if beta is None:  # no fibre
                out[n]["dispersion"][:, some] = 0.0
                continue
            turned = np.array([dispersion(row, grid.offsets[some])[2] * length for row in beta])
            wavelength = SPEED_OF_LIGHT / (grid.centre_frequency + grid.offsets[some])
            out[n]["dispersion"][:, some] = _dispersion(turned, wavelength)
    return out


def element_rows(path: LinkPath, receiver: Receiver) -> list[dict[str, Any]]:
    """Return a list with a dictionary for each element of a link: the signal that theory expects after it.

    Powers are means over modes and channels. OSNR and GSNR, in 12.5 GHz, and the ratio to interference are
    those of the worst signal, in dB; None if there is no noise. Dispersion is that accumulated by the first
    mode since the transmitter, in s/m. `InputError` for more than `MOST_LISTED` elements.
    """
    if len(path.elements) > MOST_LISTED:
        limit = f"{len(path.elements)} elements given; allowed: up to {MOST_LISTED} to be listed"
        raise InputError(f"link: {limit}")
    line, sent = line_of(path, every=True), receiver.transmitter
    # Noise of amplifiers as channels like the first receive it; in one bandwidth it is that of all channels.
    alike = replace(receiver, transmitter=sent.parts[0][1])
    powers, rate = sent.powers(path.fibre.modes), alike.transmitter.grid.symbol_rate
    reference = 10 * math.log10(rate / REFERENCE_BANDWIDTH)
    rows, relative, wavelength = [], np.zeros_like(powers), SPEED_OF_LIGHT / path.grid.centre_frequency
    options = Options(symbols=sent.grid.symbols, phase_window=receiver.tracked)
    before = powers
    at, every = range(1, line.count + 1), np.arange(sent.grid.channels)
    levels = np.zeros((2, line.count + 1, *powers.shape))  # signal and noise
    for number, some, part in channel_budgets(line, alike, every, at):
        levels[:, number][:, :, some] = (powers * part.gain)[:, some], (part.ase + 0 * powers)[:, some]
    fibres = [each.position + 1 for each in path.pieces]
    interference = interference_after(fibres, path.fibre, receiver, line, options, interpolate=False)
    for number, budget in zip(at, budgets(line, alike, at), strict=True):
        element, signal = path.elements[number - 1], levels[0, number]
        lit = signal > 0
        if isinstance(element, FibrePiece):
            relative = np.divide(interference[number], signal, where=lit, out=np.zeros_like(signal))
        relative = np.where(line.added.get(number, False), 0.0, relative)
        ase = np.divide(levels[1, number], signal, where=lit, out=np.zeros_like(signal))
        rows.append(
            {
                "element": path.link.elements[number - 1].kind,
                "distance_m": budget.distance,
                "gain_db": _level(signal.sum() / before.sum()) if before.any() else None,
                "power_dbm": _level(signal[lit].mean() * 1e3) if lit.any() else None,
                "dispersion_s_per_m": float(_dispersion(budget.dispersion[0], wavelength)),
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


def _dispersion(turned: Array, wavelength: Any) -> Array:
    """Return the accumulated dispersion D z = −2πc β2 z/λ², s/m; ``turned`` is β2 z in s²."""
    return -2 * math.pi * SPEED_OF_LIGHT / wavelength**2 * turned + 0.0  # never −0

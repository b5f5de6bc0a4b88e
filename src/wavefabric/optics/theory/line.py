"""Describe a link for theory: stretches of fibre, each followed by lumped gain and noise."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from wavefabric.base.arguments import whole, within
from wavefabric.optics.fibre.beta import phases_of
from wavefabric.optics.fibre.fibre import Array, Fibre
from wavefabric.optics.signal.amplifier import Amplifier, compensating_gain
from wavefabric.optics.theory.response import Stretch

#: Number of frequencies over the band at which the dispersion of two fibres is compared.
_COMPARED = 33


@dataclass(frozen=True, eq=False)
class LinkPart:
    """Describes ``length`` m of a fibre, which may be 0, and the lumped elements up to the next fibre."""

    fibre: Fibre
    length: float
    gain: Any  # power gain of fibre and elements together: broadcasts to (modes, channels)
    noise: Any = 0.0  # noise power density of a row at the end, W/Hz: broadcasts to (modes, channels)
    nominal: float = 1.0  # mean power gain, to which loaded noise refers
    #: Amplitude of the filters among the elements at an offset from a channel's centre (Hz); None without.
    filtered: Callable[[Array], Array] | None = None
    #: Power at the ends of equal stretches of the fibre over that at its start: (modes, channels, stretches).
    #: None if powers fall by the fibre's loss alone.
    profile: Array | None = None


class Presence(NamedTuple):
    """Describes in which parts of a line some ``channels`` (mask) are present."""

    channels: np.ndarray
    start: int  # number of parts before
    stop: int  # number of parts up to the end


@dataclass(frozen=True, eq=False)
class LinkLine:
    """Describes a link as parts in order; ``ends`` are the numbers of parts up to the end of each span.

    Interference of the parts adds up in field if ``coherent``, otherwise in power. ``added`` is a dictionary
    from a number of parts to a mask, (channels,), of the channels that are added after them with their launch
    power. A part whose gain is 0 for a channel drops it. ``at_start`` is the mask of the channels launched at
    the start; None means all.
    """

    parts: tuple[LinkPart, ...]
    ends: tuple[int, ...]
    coherent: bool = True
    added: dict[int, np.ndarray] = field(default_factory=dict)
    at_start: np.ndarray | None = None

    def up_to(self, spans: int) -> "LinkLine":
        """Return the first ``spans`` spans."""
        stop = self.ends[spans - 1]
        added = {at: mask for at, mask in self.added.items() if at <= stop}
        return replace(self, parts=self.parts[:stop], ends=self.ends[:spans], added=added)

    def between(self, start: int, stop: int | None = None) -> "LinkLine":
        """Return the parts from ``start`` to ``stop`` (excluded) as a line without added channels."""
        stop = len(self.parts) if stop is None else stop
        ends = [end - start for end in self.ends if start < end <= stop]
        whole = [] if ends and ends[-1] == stop - start else [stop - start]
        return LinkLine(self.parts[start:stop], (*ends, *whole), self.coherent)

    @cached_property
    def _dropped(self) -> dict[int, np.ndarray]:
        """Return a mask of dropped channels by number of parts, the last of which drops them."""
        gains = ((number, np.atleast_1d(each.gain)) for number, each in enumerate(self.parts, start=1))
        return {number: (gain == 0).all(axis=0) for number, gain in gains if (gain == 0).all(axis=0).any()}

    @property
    def changes(self) -> list[int]:
        """Return the numbers of parts after which channels are added or dropped, ascending."""
        return sorted({*self.added, *self._dropped})

    def _walk(self, parts: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield 0, then each of the `changes` up to ``parts``; with each the `added_after` there."""
        masks = [*self.added.values(), *self._dropped.values()]
        added_after = np.zeros(max(map(len, masks)), int)
        added_after = added_after if self.at_start is None else np.where(self.at_start, 0, -1)
        yield 0, added_after
        for at in (at for at in self.changes if at <= parts):
            added_after = np.where(self._dropped.get(at, False), -1, added_after)
            added_after = np.where(self.added.get(at, False), at, added_after)
            yield at, added_after

    def added_after(self, parts: int) -> np.ndarray:
        """Return the number of parts after which each channel was added, if present, (channels,).

        It is present after ``parts`` parts. −1 means an absent channel; for 0 parts, back to back, no channel
        is absent. Only for lines with `changes`.
        """
        *_, (_, added_after) = self._walk(parts)
        return added_after if parts else np.zeros_like(added_after)

    def presences(self, parts: int) -> list[Presence]:
        """Return a `Presence` for each set of channels added and dropped together in the first ``parts``."""
        masks: dict[tuple[int, int], np.ndarray] = {}
        walk = list(self._walk(parts))
        for (_, before), (at, after) in pairwise([*walk, (parts, np.full_like(walk[0][1], -1))]):
            for start in np.unique(before[(before >= 0) & (after != before)]).tolist():
                mask = (before == start) & (after != before)
                masks[start, at] = masks.get((start, at), False) | mask
        return [Presence(mask, *ends) for ends, mask in masks.items()]

    @property
    def count(self) -> int:
        """Return the number of spans."""
        return len(self.ends)

    @property
    def length(self) -> float:
        """Return the length of all fibre, m."""
        return math.fsum(each.length for each in self.parts)

    @cached_property
    def repeated(self) -> tuple[tuple[LinkPart, ...], int]:
        """Return the parts of which the line is a repetition, and how many times they are repeated."""
        number = len(self.parts)
        for period in (each for each in range(1, number) if number % each == 0):
            if all(a is b for a, b in zip(self.parts[period:], self.parts, strict=False)):
                return self.parts[:period], number // period
        return self.parts, 1

    @property
    def reference(self) -> Fibre:
        """Return the fibre with the strongest Kerr effect, to which others are compared."""
        parts, _ = self.repeated
        return max((each.fibre for each in parts if each.length), key=_kerr, default=parts[0].fibre)

    def stretches(self, powers: Array, half_band: float) -> list[tuple[Stretch, ...]]:
        """Return for each mode what `Accumulation` needs of each repeated part for its rows.

        ``powers`` (modes, channels) weigh gains and profiles of the channels; ``half_band`` is half the band,
        Hz.
        """
        weights = np.where(powers.any(axis=1, keepdims=True), powers, 1.0)
        weights = weights / weights.sum(axis=1, keepdims=True)
        rows: list[list[Stretch]] = [[] for _ in powers]
        for each in self.repeated[0]:
            scale, strength, _ = self.compared(each.fibre, half_band)
            gains = np.broadcast_to(each.gain, powers.shape)
            modes = zip(rows, gains, weights, each.fibre.alpha.tolist(), strict=True)
            for mode, (out, gain, weight, alpha) in enumerate(modes):
                mean = float(gain[0] if np.ptp(gain) == 0 else gain @ weight)
                if each.length == 0 and out:
                    out[-1] = out[-1]._replace(gain=out[-1].gain * mean)
                elif each.profile is not None:
                    levels = np.log(weight @ each.profile[mode])
                    changes = np.diff(levels, prepend=0.0).tolist()
                    count, lumped = len(changes), mean / math.exp(levels[-1])
                    length, kinds = each.length / count, (scale, strength, count)
                    out += [Stretch(length, -x / length, math.exp(x), *kinds) for x in changes]
                    out[-1] = out[-1]._replace(gain=out[-1].gain * lumped)
                else:
                    out.append(Stretch(each.length, alpha, mean, scale, strength))
        return [tuple(row) for row in rows]

    def compared(self, fibre: Fibre, half_band: float) -> tuple[float, float, float]:
        """Return a fibre's dispersion and γκ over those of the reference, and what that leaves of dispersion.

        The ratios are least-squares fits over modes and a band of ± ``half_band`` Hz. What they leave is a
        fraction of the fibre's dispersion, root mean square.
        """
        reference = self.reference
        if fibre is reference:
            return 1.0, 1.0, 0.0
        here, there = _phases(fibre, half_band), _phases(reference, half_band)
        kappa, other = (each.gamma * each.kappa_rows() for each in (fibre, reference))
        strength = float((kappa * other).sum() / (other**2).sum()) if other.any() else 1.0
        scale = float((here * there).sum() / (there**2).sum()) if there.any() else 1.0
        rest = here - scale * there
        return scale, strength, math.sqrt((rest**2).sum() / (here**2).sum()) if here.any() else 0.0


def _kerr(fibre: Fibre) -> float:
    return float(fibre.gamma * np.abs(fibre.kappa).max())


def _phases(fibre: Fibre, half_band: float) -> Array:
    """Return the phases of all modes over a band, rad/m, without what delays all modes alike."""
    w = 2 * math.pi * half_band * np.linspace(-1, 1, _COMPARED)
    phases = phases_of(fibre.beta, w)
    common = np.polynomial.Polynomial.fit(w, phases.mean(axis=0), 1)(w)
    return phases - common


@dataclass(frozen=True)
class Spans:
    """Describes ``count`` equal spans (up to 10 000) of ``length``, m or text, each followed by a flat gain.

    ``gain`` is linear in power, 1e-20 to 1e20, None for the mean loss of a span. ``coherent``: interference
    of the spans adds up in field, otherwise in power.
    """

    length: Any
    count: int = 1
    gain: float | None = None
    coherent: bool = True

    def __post_init__(self):
        object.__setattr__(self, "length", within(self.length, "m", "length", 1e-6, 1e9))
        whole("count", self.count, 1, 10_000)
        if self.gain is not None:
            object.__setattr__(self, "gain", within(self.gain, "", "gain", 1e-20, 1e20))

    def amplifier_gain(self, fibre: Fibre) -> float:
        """Return the power gain of an amplifier, linear."""
        if self.gain is not None:
            return self.gain
        return compensating_gain(float(fibre.alpha.mean() * self.length))

    def line(self, fibre: Fibre, centre: float, noise_figure_db: float | None = None) -> LinkLine:
        """Return the `LinkLine` of these spans of ``fibre``; ``centre`` is the optical frequency in Hz."""
        amplifier, loss = Amplifier(self.amplifier_gain(fibre), noise_figure_db), fibre.alpha * self.length
        net = np.exp(loss.mean() - loss) if self.gain is None else self.gain * np.exp(-loss)
        nominal = 1.0 if self.gain is None else self.gain * math.exp(-loss.mean())
        each = LinkPart(fibre, self.length, net[:, None], amplifier.noise_density(centre), nominal)
        return LinkLine((each,) * self.count, tuple(range(1, self.count + 1)), self.coherent)

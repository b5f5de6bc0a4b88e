"""Compute nonlinear interference of a line on which channels enter and end: pairs of channels add up.

A channel is disturbed by itself all along its way, and by another channel where both are lit. The fields of
each pair add up in phase over this stretch, also with what the other channel has passed before. Mixing of
three channels that enter or end at different places is left out.
"""

from dataclasses import replace

import numpy as np

from wavefabric.optics.fibre.fibre import Array, Fibre
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.theory.gaussian_noise import Options, nonlinear_interference
from wavefabric.optics.theory.line import LinkLine, LinkPart, Stay


def changing_interference(
    fibre: Fibre, transmitter: Transmitter, line: LinkLine, stop: int, options: Options
) -> Array:
    """Return the interference behind ``stop`` parts of a line, W, (modes, channels); 0 for dark channels."""
    out = np.zeros((fibre.modes, transmitter.grid.channels))
    entries, stays = line.entries(stop), line.stays(stop)
    for start in np.unique(entries[(entries >= 0) & (entries < stop)]).tolist():
        received, net = entries == start, np.ones_like(out)
        for each in line.parts[start:stop]:
            net = net * each.gain
        wanted = set(np.flatnonzero(received).tolist()) & set(options.channels or range(len(received)))
        some = replace(options, channels=tuple(sorted(wanted)))
        for stay in stays:
            if max(start, stay.start) >= min(stop, stay.stop):
                continue
            part, gain = _beside(line, Stay(received, start, stop), stay, out.shape)
            lit = transmitter.lit(received | stay.channels)
            power = nonlinear_interference(fibre, lit, part, some)
            if (stay.start, stay.stop) != (start, stop):  # the channel's own part is counted once
                power = power - nonlinear_interference(fibre, transmitter.lit(received), part, some)
            out[:, received] += (power * net / gain)[:, received]
    return out


def _beside(line: LinkLine, received: Stay, other: Stay, shape: tuple[int, int]) -> tuple[LinkLine, Array]:
    """Return the way of ``other`` channels up to the end of ``received`` ones, and its gain, (modes, 1).

    Only where both are lit there is a Kerr effect. Gains are means over the channels that are lit: those of
    ``received``, before these enter those of ``other``.
    """
    parts: list[LinkPart] = []
    total, same = np.ones((shape[0], 1)), {}
    for number in range(other.start, received.stop):
        each = line.parts[number]
        lit = received.channels if number >= received.start else other.channels
        gain = np.broadcast_to(each.gain, shape)[:, lit].mean(axis=1, keepdims=True)
        dark = not max(received.start, other.start) <= number < other.stop
        key = each, dark, gain.tobytes()
        if key not in same:  # equal parts are one object, so that a repetition is seen
            fibre = replace(each.fibre, gamma=0.0) if dark else each.fibre
            same[key] = replace(each, fibre=fibre, gain=gain, noise=0.0, filtered=None)
        parts.append(same[key])
        total = total * gain
    return LinkLine(tuple(parts), (len(parts),), line.coherent), total

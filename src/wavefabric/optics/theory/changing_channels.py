"""Compute nonlinear interference of a line on which channels are added and dropped, from pairs of channels.

A channel is disturbed by itself all along its way, and by another channel where both are present. The fields
of each pair add up in phase over this distance, with the dispersion that each has accumulated. Mixing of
three channels that are added or dropped at different points is left out.
"""

from dataclasses import replace

import numpy as np

from wavefabric.optics.fibre.fibre import Array, Fibre
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.theory.gaussian_noise import Options, nonlinear_interference
from wavefabric.optics.theory.line import LinkLine, LinkPart, Presence


def changing_interference(
    fibre: Fibre, transmitter: Transmitter, line: LinkLine, stop: int, options: Options
) -> Array:
    """Return the interference after ``stop`` parts of a line with adds and drops, W, (modes, channels).

    It is 0 for absent channels.
    """
    out = np.zeros((fibre.modes, transmitter.grid.channels))
    added_after, presences = line.added_after(stop), line.presences(stop)
    for start in np.unique(added_after[(added_after >= 0) & (added_after < stop)]).tolist():
        received, net = added_after == start, np.ones_like(out)
        for each in line.parts[start:stop]:
            net = net * each.gain
        wanted = set(np.flatnonzero(received).tolist()) & set(options.channels or range(len(received)))
        some = replace(options, channels=tuple(sorted(wanted)))
        for presence in presences:
            if max(start, presence.start) >= min(stop, presence.stop):
                continue
            part, gain = _beside(line, Presence(received, start, stop), presence, out.shape)
            present = transmitter.only(received | presence.channels)
            power = nonlinear_interference(fibre, present, part, some)
            if (presence.start, presence.stop) != (start, stop):  # the channel's own part is counted once
                power = power - nonlinear_interference(fibre, transmitter.only(received), part, some)
            out[:, received] += (power * net / gain)[:, received]
    return out


def _beside(
    line: LinkLine, received: Presence, other: Presence, shape: tuple[int, int]
) -> tuple[LinkLine, Array]:
    """Return the parts that ``other`` channels pass until ``received`` ones end, and their gain, (modes, 1).

    There is a Kerr effect only where both are present. The gain of a part is a mean over channels: over the
    ``received`` ones, and before these are added over the ``other`` ones.
    """
    parts: list[LinkPart] = []
    total, same = np.ones((shape[0], 1)), {}
    for number in range(other.start, received.stop):
        each = line.parts[number]
        present = received.channels if number >= received.start else other.channels
        gain = np.broadcast_to(each.gain, shape)[:, present].mean(axis=1, keepdims=True)
        dark = not max(received.start, other.start) <= number < other.stop
        key = each, dark, gain.tobytes()
        if key not in same:  # equal parts are one object, so that a repetition is seen
            fibre = replace(each.fibre, gamma=0.0) if dark else each.fibre
            same[key] = replace(each, fibre=fibre, gain=gain, noise=0.0, filtered=None)
        parts.append(same[key])
        total = total * gain
    return LinkLine(tuple(parts), (len(parts),), line.coherent), total

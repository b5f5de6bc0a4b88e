"""Decide which events of a program of thread blocks come after which, by their causal histories.

The causal history of an event is the set of events that precede it (Schwarz and Mattern 1994, doi
10.1007/BF02277859). Readers of formats say which events each comes directly after; if a wait is not needed to
put two accesses in order, these do so in another way.
"""

from collections.abc import Sequence

import numpy as np

from wavefabric.collectives.sizes import within_groups

#: Bits of causal histories in memory at once.
_BITS = 1 << 30


def unordered(
    order: Sequence[int],
    causes: Sequence[Sequence[int]],
    later: np.ndarray,
    earlier: np.ndarray,
    group: np.ndarray,
) -> np.ndarray:
    """Return whether event ``later[i]`` neither is event ``earlier[i]`` nor comes after it: bool.

    ``order``: all events in an order in which they can occur; ``causes``: for each event those that it comes
    directly after, −1 for none. They are of the same ``group``, an array with a number for each event.
    """
    events, at = np.unique(earlier, return_inverse=True)
    number, time = within_groups(group[events])[at], np.argsort(order)
    result, width = np.ones(later.size, bool), max(1, _BITS // max(1, len(order)))
    for first in range(0, int(number.max(initial=-1)) + 1, width):
        here = np.flatnonzero((number >= first) & (number < first + width))
        then, before = later[here], earlier[here]
        bits, history = ([0] * (len(order) + 1) for _ in range(2))
        for event, bit in zip(before.tolist(), (number[here] - first).tolist(), strict=True):
            bits[event] = 1 << bit
        for event in order[time[before].min() : time[then].max() + 1]:
            known = bits[event]
            for cause in causes[event]:
                known |= history[cause]
            history[event] = known
        pairs = zip(then.tolist(), before.tolist(), strict=True)
        result[here] = [not history[event] & bits[other] for event, other in pairs]
    return result

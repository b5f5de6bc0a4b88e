r"""Symbols from a finite set: the enhanced Gaussian-noise estimate.

Symbols b of unit mean energy with fewer high powers than Gaussian ones interfere less. Two of the three
fields from the same symbols add Φ4 = E|b|⁴ − 2 times an integral of correlated pairs, three of them also Φ6 =
E|b|⁶ − 9E|b|⁴ + 12 (−1 and 4 for QPSK, 0 and 0 for Gaussian symbols). With E the integral over pairs (f2, f3)
in one channel of row j, row i gets

- Φ4 E from a row j ≠ i, of every channel;
- 4 Φ4 E from itself, since either of its two fields may be f1;
- from its own channel also Φ4 times the integral over pairs (f1, f2), and Φ6 times that over all three, less
  what a receiver takes as the signal's gain: the mean of three fields of one symbol, Φ4 times that symbol.

R. Dar, M. Feder, A. Mecozzi, M. Shtaif, Opt. Express 21 (2013), doi 10.1364/OE.21.025685; A. Carena et al.,
Opt. Express 22 (2014), doi 10.1364/OE.22.016335 (their self-channel and cross-channel terms, X1). Left out:
pairs (f1, f2) of another channel, and three fields of one other channel, which matter next to a channel that
nearly touches.

Assumed: every row of every channel has symbols of its own. Mixing inside mode groups between spans changes
nothing of this where κ is that of groups: the Kerr phase follows from the power of the group, which mixing
keeps, and the receiver's inverse returns the rows as if they had never mixed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavefabric.optics.signal.constellation import Constellation
from wavefabric.optics.theory.sums import RowKind, Sums


@dataclass(frozen=True)
class Corrections:
    """What symbols add to the interference of Gaussian ones, as in `Sums`: by another row, by the row
    itself.
    """

    cross: NDArray[np.float64]
    own: NDArray[np.float64]


def excess_moments(form: Constellation) -> tuple[float, float]:
    """Φ4 and Φ6 of a format; 0 and 0 for Gaussian symbols."""
    if not form.digital:
        return 0.0, 0.0
    energy = abs(form.points) ** 2
    fourth, sixth = (energy**2).mean(), (energy**3).mean()
    return float(fourth - 2), float(sixth - 9 * fourth + 12)


def corrections(sums: Sums, i: RowKind, form: Constellation) -> Corrections:
    """For rows i that the rows of ``sums`` act on; ``own`` is 0 if they are others."""
    fourth, sixth = excess_moments(form)
    if fourth == sixth == 0:
        zero = np.zeros(len(sums.nodes.f) // sums.nodes.each)
        return Corrections(zero, zero)
    whole, slow = sums.correlated(i)
    cross = fourth * (whole - slow)
    own = np.zeros_like(cross)
    if i is sums.j:
        pairs, triples, mean = sums.self_correlated()
        own = 4 * cross + fourth * pairs + sixth * triples - fourth**2 * mean
    return Corrections(cross, own)

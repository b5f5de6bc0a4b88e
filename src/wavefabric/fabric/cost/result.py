"""What costing a schedule on a fabric gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Bound:
    """What no schedule for the same operation can beat, under the model it was found for.

    Parameters
    ----------
    latency, transfer : float
        s: of the least number of rounds; of the bytes that must cross the tightest cut.
    seconds : float
        The bound: their sum where rounds follow one another, else the larger.
    why : str
        In words.
    """

    latency: float
    transfer: float
    seconds: float
    why: str


@dataclass(frozen=True)
class RoundCost:
    """One round.

    Parameters
    ----------
    round : int
        Of the schedule. Rounds that stay within ranks cost nothing and are not listed.
    parts : int
        Circuits of one round that do not fit at once are set up one part after the other; else 1.
    seconds, latency, reconfiguration, transfer : float
        s; the first is the sum of the others. Latency includes synchronisation.
    bytes : float
        What all ranks send to others.
    limit : str
        What bounds it, in words: ``"link GPU0 -> GPU1"``, ``"GPU3 sends"``, …
    """

    round: int
    parts: int
    seconds: float
    latency: float
    reconfiguration: float
    transfer: float
    bytes: float
    limit: str


@dataclass(frozen=True)
class Cost:
    """Time of a schedule on a fabric.

    Parameters
    ----------
    schedule, fabric : str
        Names.
    model : str
        ``"alpha-beta"``, ``"flow"`` or ``"photonic"``.
    seconds : float
    rounds : tuple of RoundCost
        Empty for ``"flow"``, where rounds overlap.
    bound : Bound
    times : ndarray or None
        Shape (transfers, 2): when each transfer begins and ends, s; None where the model has rounds alone.
    busiest : str
        The resource that was used longest, in words.
    """

    schedule: str
    fabric: str
    model: str
    seconds: float
    rounds: tuple[RoundCost, ...]
    bound: Bound
    times: np.ndarray | None = field(default=None, repr=False, compare=False)
    busiest: str = ""

"""What a cost model returns, and what every model takes and checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.errors import InputError
from wavefabric.fabric.bounds.bound import LowerBound

if TYPE_CHECKING:
    from wavefabric.fabric.electrical.fabric import Fabric
    from wavefabric.fabric.photonic.fabric import PhotonicFabric


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
    bound : LowerBound
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
    bound: LowerBound
    times: np.ndarray | None = field(default=None, repr=False, compare=False)
    busiest: str = ""


def check_sizes(schedule: Schedule, fabric: Fabric | PhotonicFabric, element_bytes: float) -> None:
    """Refuse more ranks than GPUs, and element sizes that are no positive number."""
    if schedule.ranks > fabric.ranks:
        given = f"{schedule.ranks} in {schedule.name}"
        raise InputError(f"ranks: {given}; allowed: at most the {fabric.ranks} GPUs of {fabric.name}")
    number = isinstance(element_bytes, int | float) or hasattr(element_bytes, "__float__")
    if isinstance(element_bytes, bool | str) or not number or not 0 < float(element_bytes) < 1e18:
        raise InputError(f"element_bytes: {element_bytes!r} given; allowed: above 0 and below 1e18")

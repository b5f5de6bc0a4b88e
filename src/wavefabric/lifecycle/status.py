"""What ranks decide together between time steps: whether to stop, to save, and how the field is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from wavefabric.exchange import Communicator


class Status(NamedTuple):
    """The status of one rank, or of all together."""

    #: Ctrl-C or SIGTERM came; on any rank.
    interrupted: bool = False
    #: A checkpoint is due by the clock; by that of rank 0.
    save_due: bool = False
    #: Largest magnitude of the field, 0 if not computed, NaN if the field is lost; the largest of all ranks.
    peak: float = 0.0
    #: 0 if not computed; the sum over ranks.
    energy: float = 0.0
    #: Wall time of a step; that of rank 0.
    seconds_per_step: float = 0.0


def combine(comm: Communicator, status: Status) -> Status:
    """The status of all ranks, the same on each of them; collective."""
    if comm.size == 1:
        return status
    ranks = [Status(*each) for each in comm.control.all_gather(tuple(status))]
    return Status(
        any(rank.interrupted for rank in ranks),
        ranks[0].save_due,
        float(np.max([rank.peak for rank in ranks])),
        sum(rank.energy for rank in ranks),
        ranks[0].seconds_per_step,
    )

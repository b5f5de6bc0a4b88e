"""How ranks talk: communicators, transports, schedules that run on them, and how ranks are started.

May import ``device``, ``collectives``, ``results``, ``files``, ``system`` and ``errors``; alone imports MPI
and NCCL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavefabric.lazy import lazy

if TYPE_CHECKING:
    from wavefabric.exchange.communicator import Communicator, solo, world
    from wavefabric.exchange.transports import TRANSPORTS
    from wavefabric.exchange.transports.base import Exchange

__all__ = ["TRANSPORTS", "Communicator", "Exchange", "solo", "world"]

#: Late: every command asks `environment` whether it is a rank, and most need nothing heavier.
_EXPORTS = {
    "TRANSPORTS": "transports",
    "Communicator": "communicator",
    "Exchange": "transports.base",
    "solo": "communicator",
    "world": "communicator",
}

__getattr__, __dir__ = lazy(__name__, _EXPORTS)

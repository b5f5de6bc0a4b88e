"""How ranks talk: communicators, transports, schedules that run on them, and how ranks are started.

May import ``device``, ``collectives``, ``results``, ``files``, ``system`` and ``errors``; alone imports MPI
and NCCL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wavefabric.exchange.communicator import Communicator, solo, world
    from wavefabric.exchange.transports import TRANSPORTS
    from wavefabric.exchange.transports.base import Exchange

__all__ = ["TRANSPORTS", "Communicator", "Exchange", "solo", "world"]


def __getattr__(name: str) -> Any:
    # Late: every command asks `environment` whether it is a rank, and most need nothing heavier.
    if name in __all__:
        from wavefabric.exchange import communicator

        return getattr(communicator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

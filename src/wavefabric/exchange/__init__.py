"""How ranks talk: communicators, transports, and schedules that run on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wavefabric.exchange.communicator import TRANSPORTS, Communicator, Exchange, solo, world

__all__ = ["TRANSPORTS", "Communicator", "Exchange", "solo", "world"]


def __getattr__(name: str) -> Any:
    # Late: every command asks `environment` whether it is a rank, and most need nothing heavier.
    if name in __all__:
        from wavefabric.exchange import communicator

        return getattr(communicator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

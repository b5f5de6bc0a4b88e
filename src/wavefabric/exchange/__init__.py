"""How ranks talk: communicators, transports, and schedules that run on them."""

from wavefabric.exchange.communicator import TRANSPORTS, Communicator, Exchange, solo, world

__all__ = ["TRANSPORTS", "Communicator", "Exchange", "solo", "world"]

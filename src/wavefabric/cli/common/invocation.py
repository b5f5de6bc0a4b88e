"""What belongs to one call of the command, handed to those who start ranks or open their communicator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavefabric.exchange.communicator import Communicator


@dataclass
class Invocation:
    """The words after the command's name, for ranks that it starts; their communicator once it is open."""

    words: list[str] = field(default_factory=list)
    comm: Communicator | None = None

"""Communication of a training iteration: which GPUs exchange how many bytes, and why."""

from dataclasses import dataclass
from functools import cached_property

from wavefabric.training.strategies.strategy import LongTuple

#: What a call may be. ``messages`` are arbitrary transfers, listed one by one.
COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "messages")
#: Why there is communication. Layers wait for all but the first.
PURPOSES = ("gradients", "parameters", "layer-to-layer", "tensor", "experts")


@dataclass(frozen=True)
class Call:
    """One collective operation in each of several disjoint groups of GPUs that call it together.

    Parameters
    ----------
    collective : str
        Of `COLLECTIVES`.
    groups : tuple of tuple of int
        Numbers of GPUs, from 0; groups of one size, except of ``messages``, where there is one group.
    bytes : float
        B. ``all-reduce``, ``reduce-scatter``, ``all-gather``: the whole array of a group. ``all-to-all``:
        what each GPU sends, its own part included. ``messages``: of a message whose size is 1.
    purpose : str
        Of `PURPOSES`.
    messages : tuple of (int, int, float)
        Source and destination, GPUs, and size; of ``messages`` alone.
    """

    collective: str
    groups: tuple[tuple[int, ...], ...]
    bytes: float
    purpose: str
    messages: tuple[tuple[int, int, float], ...] = ()

    def __post_init__(self):
        for key in ("groups", "messages"):
            object.__setattr__(self, key, LongTuple.of(getattr(self, key)))

    @cached_property
    def gpus(self) -> frozenset[int]:
        """All GPUs that take part."""
        return frozenset(gpu for group in self.groups for gpu in group)

    @cached_property
    def moved(self) -> float:
        """B: `bytes`, of messages those of all together."""
        return self.bytes * (sum(size for *_, size in self.messages) if self.messages else 1)

    @property
    def moves_nothing(self) -> bool:
        """Whether nothing goes from one GPU to another, however many bytes."""
        if self.collective == "messages":
            return not self.groups or not any(size > 0 and a != b for a, b, size in self.messages)
        return not self.groups or len(self.groups[0]) < 2

    @property
    def blocking(self) -> bool:
        """Whether a later layer waits for it; such calls go before gradients (LUMORPH, appendix C)."""
        return self.purpose != "gradients"

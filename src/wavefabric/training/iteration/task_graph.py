"""Define the tasks of an iteration with their dependencies, and communication calls between GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from wavefabric.training.strategies.strategy import LongTuple

#: Kinds of communication calls. ``messages`` are arbitrary transfers, listed one by one.
COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "messages")
#: Purposes of communication calls. Layers wait for all calls except calls for gradients.
PURPOSES = ("gradients", "parameters", "layer-to-layer", "tensor", "experts", "context")


@dataclass(frozen=True)
class Call:
    """A collective operation, executed at the same time in several disjoint groups of GPUs, or messages.

    Parameters
    ----------
    collective : str
        One of `COLLECTIVES`.
    groups : tuple of tuple of int
        GPU numbers, from 0. All groups have one size; ``messages`` have exactly one group.
    bytes : float
        Size in B. For ``all-reduce``, ``reduce-scatter`` and ``all-gather``, the size of the whole array of a
        group. For ``all-to-all``, the size of the data that each GPU sends, including to itself. For
        ``messages``, the unit of the sizes in ``messages``.
    purpose : str
        One of `PURPOSES`.
    messages : tuple of (int, int, float)
        Source GPU, destination GPU and size of each message, in units of ``bytes``; only for ``messages``.
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
        """Return all GPUs that take part in this call."""
        return frozenset(gpu for group in self.groups for gpu in group)

    @cached_property
    def moved(self) -> float:
        """Return the size of this call in B: `bytes`, or for ``messages`` the sum over all messages."""
        return self.bytes * (sum(size for *_, size in self.messages) if self.messages else 1)

    @property
    def moves_nothing(self) -> bool:
        """Return whether no GPU sends anything to another GPU, whatever `bytes` is."""
        if self.collective == "messages":
            return not self.groups or not any(size > 0 and a != b for a, b, size in self.messages)
        return not self.groups or len(self.groups[0]) < 2

    @property
    def blocking(self) -> bool:
        """Return whether a layer waits for this call; such calls precede gradient calls (LUMORPH, app. C)."""
        return self.purpose != "gradients"


#: Kinds of tasks.
KINDS = ("forward", "backward", "update", "call")
#: Value of `TaskGraph.operations` for a task whose FLOPs and bytes are unknown.
NO_OPERATIONS = (0.0, 0.0)


@dataclass
class TaskGraph:
    """The tasks of an iteration, stored in lists with one entry per task.

    A compute task runs on one worker, after the previous task in the worker's program. A worker represents
    GPUs that do the same at the same time, such as the GPUs of a pipeline stage.
    """

    workers: int
    #: Factor by which computation slows down while a worker's GPUs are in a call (`overlap_slowdown`).
    slowdown: float = 1.0
    kind: list[str] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # time of a compute task; 0 for a call
    worker: list[int] = field(default_factory=list)  # -1 for a call
    call: list[Call | None] = field(default_factory=list)
    ports: list[tuple[int, ...]] = field(default_factory=list)  # workers whose GPUs take part in a call
    microbatch: list[int] = field(default_factory=list)  # -1: task of all microbatches
    waits: list[list[int]] = field(default_factory=list)  # earlier tasks that must have ended
    #: FLOPs, and B read and written, of each task on one GPU; zeros if unknown.
    operations: list[tuple[float, float]] = field(default_factory=list, compare=False)
    #: Compute tasks of each worker, in the order in which the worker runs them.
    program: list[list[int]] = field(default_factory=list)
    #: GPUs of each worker, if known (from a trace; () for a CPU); empty list: equal parts, in order.
    gpus: list[tuple[int, ...]] = field(default_factory=list)

    def compute(
        self, kind: str, name: str, worker: int, seconds: float, waits: Sequence[int], microbatch: int = -1
    ) -> int:
        """Add a compute task and return its number; the caller must add it to the worker's program."""
        return self._add(kind, name, seconds, worker, None, (), waits, microbatch)

    def communicate(
        self, name: str, call: Call, ports: tuple[int, ...], waits: Sequence[int], microbatch: int = -1
    ) -> int:
        """Add a call and return its task number; ``ports``: workers whose GPUs take part."""
        return self._add("call", name, 0.0, -1, call, ports, waits, microbatch)

    def append(self, other: "TaskGraph", microbatch: int) -> int:
        """Append copies of all tasks of ``other`` for ``microbatch``; return the number of the first copy."""
        offset = len(self)
        for key in ("kind", "name", "seconds", "worker", "call", "ports", "operations"):
            getattr(self, key).extend(getattr(other, key))
        self.microbatch += [microbatch] * len(other)
        self.waits += [[offset + task for task in waits] for waits in other.waits]
        return offset

    def _add(self, kind, name, seconds, worker, call, ports, waits, microbatch) -> int:
        self.kind.append(kind)
        self.name.append(name)
        self.seconds.append(seconds)
        self.worker.append(worker)
        self.call.append(call)
        self.ports.append(ports)
        self.microbatch.append(microbatch)
        self.waits.append(list(dict.fromkeys(waits)))
        self.operations.append(NO_OPERATIONS)
        return len(self.kind) - 1

    def call_of(self, task: int) -> Call:
        """Return the communication call of ``task``, which must not be a compute task."""
        call = self.call[task]
        assert call is not None
        return call

    def __len__(self) -> int:
        return len(self.kind)

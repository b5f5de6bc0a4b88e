"""Tasks of an iteration and what each waits for; calls: which GPUs exchange how many bytes, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field
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
        """Return whether nothing goes from one GPU to another, however many bytes."""
        if self.collective == "messages":
            return not self.groups or not any(size > 0 and a != b for a, b, size in self.messages)
        return not self.groups or len(self.groups[0]) < 2

    @property
    def blocking(self) -> bool:
        """Whether a later layer waits for it; such calls go before gradients (LUMORPH, appendix C)."""
        return self.purpose != "gradients"


#: Kinds of tasks.
KINDS = ("forward", "backward", "update", "call")
#: Operations of a task of which they are not known.
NO_OPERATIONS = (0.0, 0.0)


@dataclass
class TaskGraph:
    """Tasks by number, in lists, since there are hundreds of thousands.

    A compute task runs on one worker, after the one before it in the worker's program.
    A worker stands for GPUs that do the same at the same time: those of a pipeline stage.
    """

    workers: int
    #: How many times as long a worker computes while its GPUs are in a call (`DeviceModel.overlap_slowdown`).
    slowdown: float = 1.0
    kind: list[str] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of a compute task; 0 of a call
    worker: list[int] = field(default_factory=list)  # -1 of a call
    call: list[Call | None] = field(default_factory=list)
    ports: list[tuple[int, ...]] = field(default_factory=list)  # workers whose GPUs take part in a call
    microbatch: list[int] = field(default_factory=list)  # -1: of all
    waits: list[list[int]] = field(default_factory=list)  # earlier tasks that must have ended
    #: FLOPs, and B read and written, of each task on one GPU; zeros where they are not known.
    operations: list[tuple[float, float]] = field(default_factory=list, compare=False)
    #: Compute tasks of each worker, in the order in which it runs them.
    program: list[list[int]] = field(default_factory=list)
    #: GPUs of each worker, where they are known (of a trace; none of a CPU); empty: equal shares in order.
    gpus: list[tuple[int, ...]] = field(default_factory=list)

    def compute(
        self, kind: str, name: str, worker: int, seconds: float, waits: Sequence[int], microbatch: int = -1
    ) -> int:
        """Add a compute task; its place in the program is set by whoever orders phases."""
        return self._add(kind, name, seconds, worker, None, (), waits, microbatch)

    def communicate(
        self, name: str, call: Call, ports: tuple[int, ...], waits: Sequence[int], microbatch: int = -1
    ) -> int:
        """Add a call."""
        return self._add("call", name, 0.0, -1, call, ports, waits, microbatch)

    def append(self, other: "TaskGraph", microbatch: int) -> int:
        """Add a copy of all tasks of another graph, of this microbatch; what to add to their numbers."""
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
        """The call of a task that is one."""
        call = self.call[task]
        assert call is not None
        return call

    def __len__(self) -> int:
        return len(self.kind)

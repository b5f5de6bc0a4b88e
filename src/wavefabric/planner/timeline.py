"""A step as one rank lives through it: work of its GPU, and exchanges that go on beside the work."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True)
class StepTimes:
    """Where the time of one step goes, s.

    ``step`` = ``compute`` + ``pack`` + ``exposed``: the time in which the GPU waits for data, or for its
    host. ``exchange``: for which something is on its way, whether hidden under work or not.
    """

    step: Annotated[float, Field(gt=0)]
    compute: float
    pack: float
    exchange: float
    exposed: float


class StepTimeline:
    """Work of a GPU in order, and exchanges, one after another, that begin where they are started."""

    def __init__(self, host: float = 0.0):
        #: s that the host takes to launch a kernel; 0: it launches whole steps.
        self._host = host
        self._now = self._wire = self._launched = 0.0
        #: s that work still has to wait for the memory, which exchanges read and write too.
        self._memory = 0.0
        self._done: dict[str, float] = {}
        self._spent: defaultdict[str, float] = defaultdict(float)

    def work(self, seconds: float, kind: str = "compute", launches: int = 1) -> None:
        """The GPU computes, or packs and unpacks (``"pack"``), in so many kernels."""
        if seconds > 0:
            self._launched += launches * self._host
            waits, slowed = max(0.0, self._launched - self._now), min(self._memory, seconds)
            self._memory -= slowed
            self._spent["exposed"] += waits + slowed
            self._now += waits + seconds + slowed
            self._spent[kind] += seconds

    def start(self, name: str, seconds: float, memory: float = 0.0) -> None:
        """An exchange begins when the data are there and the one before it has ended.

        ``memory``: s of the GPU's memory for what it sends and receives, which work beside it waits for.
        """
        self._memory += memory
        self._wire = max(self._now, self._wire) + seconds
        self._done[name] = self._wire
        self._spent["exchange"] += seconds

    def finish(self, name: str, overhead: float = 0.0) -> None:
        """The GPU waits for an exchange, and ``overhead`` more where its host does; nothing if none began."""
        done = self._done.pop(name, None)
        if done is not None:
            waits = max(0.0, done - self._now) + overhead
            self._memory = max(0.0, self._memory - waits)
            self._now += waits
            self._spent["exposed"] += waits
            if overhead:
                self._launched = max(self._launched, self._now)

    def beside(self, exchange: float, work: float = 0.0) -> None:
        """An exchange that takes so many seconds goes on beside work of a kernel, which waits for its end."""
        self.start("beside", exchange)
        self.work(work)
        self.finish("beside")

    def spent(self) -> StepTimes:
        """All that there has been."""
        each = (self._spent[key] for key in ("compute", "pack", "exchange", "exposed"))
        return StepTimes(self._now, *each)


def steady_step(step: Callable[[StepTimeline], None], host: float = 0.0) -> StepTimes:
    """The times of a step among others: what an exchange leaves under way is waited for in the next."""
    timeline = StepTimeline(host)
    for _ in range(3):
        step(timeline)
    before = timeline.spent()
    for _ in range(2):
        step(timeline)
    after = timeline.spent()
    return StepTimes(*((vars(after)[key] - vars(before)[key]) / 2 for key in vars(after)))

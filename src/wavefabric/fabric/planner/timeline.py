"""Models one time step on one rank: work of its GPU, and exchanges that overlap this work."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True)
class StepTimes:
    """Holds the duration of one step and its parts, in s.

    ``step`` = ``compute`` + ``pack`` + ``exposed``, where ``exposed`` is the time in which the GPU waits for
    data or for its host. ``exchange`` is the total duration of the exchanges, hidden under work or not.
    """

    step: Annotated[float, Field(gt=0)]
    compute: float
    pack: float
    exchange: float
    exposed: float


class StepTimeline:
    """Adds up the work of a GPU in order; exchanges run one after another and overlap the work."""

    def __init__(self, host: float = 0.0, seconds: Callable[[float], float] = float):
        #: Seconds that the host needs to launch a kernel; 0 if it launches whole steps.
        self._host = host
        #: Returns the seconds of the step's exchange, given its size (`exchange`).
        self._seconds = seconds
        self._now = self._wire = self._launched = 0.0
        #: Seconds by which pending exchanges still slow down the work, as both use the GPU's memory.
        self._memory = 0.0
        self._done: dict[str, float] = {}
        self._spent: defaultdict[str, float] = defaultdict(float)

    def work(self, seconds: float, kind: str = "compute", launches: int = 1) -> None:
        """Add ``seconds`` of computing, or of packing (kind ``"pack"``), in ``launches`` kernels."""
        if seconds > 0:
            self._launched += launches * self._host
            waits, slowed = max(0.0, self._launched - self._now), min(self._memory, seconds)
            self._memory -= slowed
            self._spent["exposed"] += waits + slowed
            self._now += waits + seconds + slowed
            self._spent[kind] += seconds

    def exchange(self, name: str, size: float, memory: float = 0.0) -> None:
        """Start the exchange that the step repeats, of ``size`` fields or samples; see `start`."""
        self.start(name, self._seconds(size), memory)

    def start(self, name: str, seconds: float, memory: float = 0.0) -> None:
        """Start an exchange, whose transfer begins once its data are ready and the previous one has ended.

        ``memory``: seconds of GPU memory access for the data sent and received, which delay concurrent work.
        """
        self._memory += memory
        self._wire = max(self._now, self._wire) + seconds
        self._done[name] = self._wire
        self._spent["exchange"] += seconds

    def finish(self, name: str, overhead: float = 0.0) -> None:
        """Let the GPU wait for the end of the exchange ``name``, if it was started, and for its host.

        ``overhead`` is the time, s, that the host takes for this exchange while the GPU is idle.
        """
        done = self._done.pop(name, None)
        if done is not None:
            waits = max(0.0, done - self._now) + overhead
            self._memory = max(0.0, self._memory - waits)
            self._now += waits
            self._spent["exposed"] += waits
            if overhead:
                self._launched = max(self._launched, self._now)

    def beside(self, exchange: float, work: float = 0.0) -> None:
        """Add a kernel of ``work`` seconds that overlaps an exchange and waits for its end."""
        self.start("beside", exchange)
        self.work(work)
        self.finish("beside")

    def spent(self) -> StepTimes:
        """Return the total times of all work and exchanges added so far."""
        each = (self._spent[key] for key in ("compute", "pack", "exchange", "exposed"))
        return StepTimes(self._now, *each)


class StepEvents(StepTimeline):
    """Records in order what begins or ends in a step, its name, and its seconds or its size."""

    def __init__(self) -> None:
        #: ("work", kind of work, seconds), ("exchange", name, size) or ("finish", name, 0).
        self.events: list[tuple[str, str, float]] = []

    def work(self, seconds: float, kind: str = "compute", launches: int = 1) -> None:
        if seconds > 0:
            self.events.append(("work", kind, seconds))

    def exchange(self, name: str, size: float, memory: float = 0.0) -> None:
        self.events.append(("exchange", name, size))

    def finish(self, name: str, overhead: float = 0.0) -> None:
        self.events.append(("finish", name, 0.0))


def steady_step(
    step: Callable[[StepTimeline], None], host: float = 0.0, seconds: Callable[[float], float] = float
) -> StepTimes:
    """Return the times of one step in a long run, in which exchanges may extend into the next step.

    ``step`` adds its work to a timeline; ``host``: seconds that the host needs to launch a kernel;
    ``seconds``: returns the seconds of `StepTimeline.exchange`, given its size.
    """
    timeline = StepTimeline(host, cache(seconds))
    for _ in range(3):
        step(timeline)
    before = timeline.spent()
    for _ in range(2):
        step(timeline)
    after = timeline.spent()
    return StepTimes(*((vars(after)[key] - vars(before)[key]) / 2 for key in vars(after)))

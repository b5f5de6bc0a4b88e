"""One progress over all points of a sweep, whichever rank runs them."""

import re
import time
from collections.abc import Callable, Collection, Iterable

from wavefabric.optics.sweeps.points import Point
from wavefabric.system.progress import Progress

#: Seconds between looks at what is finished.
_LOOK = 0.5
_SPAN = re.compile(r"span (\d+)/(\d+), ")


class SweepProgress(Progress):
    """The progress of the run of one point after another, shown as steps (or metres) of all points.

    ``finished`` gives the fingerprints of points that are done, by any rank.
    """

    def __init__(self, shown: Progress, points: Iterable[Point], finished: Callable[[], Collection[str]]):
        self._shown, self._finished, self._begun, self._looked = shown, finished, False, 0.0
        self._steps = {each.fingerprint: each.steps for each in points}
        self.begin(None)

    def begin(self, point: Point | None) -> None:
        """From now on it is the progress of this point."""
        self._point, self._inside, self._span = point, 0.0, (0.0, 0.0)

    def start(self, total_steps: float | None, label: str) -> None:
        self._span = (self._inside, 0.0)  # what is no span neither ends nor begins one
        if match := _SPAN.match(label):
            number, spans = int(match[1]), int(match[2])
            self._span = (number - 1) / spans, 1 / spans / (total_steps or 1)
        self.update(0)

    def update(self, done: float, message: str = "") -> None:
        self._inside = self._span[0] + done * self._span[1]
        if (now := time.monotonic()) - self._looked < _LOOK:
            return
        self._looked, ready = now, self._steps.keys() & set(self._finished())
        if not self._begun:
            self._shown.start(sum(self._steps.values()), "sweep, steps")
        self._begun, steps = True, sum(self._steps[each] for each in ready)
        if self._point is not None and self._point.fingerprint not in ready:
            steps += self._inside * self._point.steps
        self._shown.update(steps, f"{len(ready)}/{len(self._steps)} points")

    def finish(self) -> None:
        self._shown.finish()
        self._begun = False

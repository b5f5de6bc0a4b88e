"""Record the exchanges that ranks start during one time step as one schedule."""

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.files.output import check_output
from wavefabric.base.system.progress import warn
from wavefabric.base.units import counted
from wavefabric.collectives import Schedule, in_sequence, save, to_json, verify
from wavefabric.collectives.schedule import scaled
from wavefabric.runtime.exchange.control import Control, check_agreement, on_first_rank


class StepRecorder:
    """Records the exchanges of one time step; see `Communicator.recording`. All ranks call the same methods.

    After `build_schedule`, ``schedule`` has the exchanges in the order of their starts, each in separate
    rounds. Its element size in bytes is the greatest common divisor of those of the exchanges.
    """

    def __init__(self, control: Control, path: str | Path | None = None, force: bool = False):
        if control.size == 1:
            raise InputError("recording: one rank exchanges nothing; allowed: two ranks or more")
        self._control, self._path, self._force = control, path, force
        self.schedule: Schedule | None = None
        #: Schedules in the order of their starts, with bytes per element.
        self._starts: list[tuple[Schedule, int]] = []
        self._watching = self._active = self._in_start = self._complete = False
        if path is not None:
            on_first_rank(control, lambda: check_output(path, force, "recording"))

    def note_starts(
        self, owner: Any, method: str, schedule: Schedule, dtype, count: Callable[..., int] = lambda *_: 1
    ) -> None:
        """Make later calls of ``owner.method`` count as starts of ``schedule``, whose data are of ``dtype``.

        A call counts as ``count(*arguments)`` starts, by default one. Calls inside a counted call do not
        count.
        """
        call, start = getattr(owner, method), (schedule, np.dtype(dtype).itemsize)

        def noted(*arguments):
            if not self._active or self._in_start:
                return call(*arguments)
            self._starts += [start] * count(*arguments)
            self._in_start = True
            result = call(*arguments)
            self._in_start = False
            return result

        setattr(owner, method, noted)

    def watch(self, owner: Any, *methods: str) -> None:
        """Record the second time step of ``owner``, where each call of one of ``methods`` is one step.

        Only the first ``owner`` that is watched is recorded.
        """
        if self._watching or self._complete:
            return
        self._watching, count, inside = True, 0, False

        def recorded(call: Callable, *arguments, **named):
            nonlocal count, inside
            if inside:  # one of the methods calls another
                return call(*arguments, **named)
            count, inside = count + 1, True
            with self.step() if count == 2 else nullcontext():
                result = call(*arguments, **named)
            inside = False
            for name in methods if count == 2 else ():
                delattr(owner, name)  # restores the class's method
            return result

        for method in methods:
            setattr(owner, method, partial(recorded, getattr(owner, method)))

    @contextmanager
    def step(self) -> Iterator[None]:
        """Record the exchanges started inside the block. `InputError` if a step was already recorded."""
        if self._complete:
            raise InputError("recording: a second step; allowed: one for each recording")
        self._active = True
        try:
            yield
        finally:
            self._active = False
        self._complete = True

    def check_steps(self, steps: int | None) -> None:
        """Raise `InputError` if a run has fewer than two steps; None means that the number is unknown."""
        if steps is not None and steps < 2:
            raise InputError(f"recording: a run of {steps} step; allowed: two steps or more")

    def build_schedule(self) -> None:
        """Build and write the schedule if a step was recorded; not while a CUDA graph is captured.

        All ranks make this call. `InputError` on all ranks if ranks started different exchanges, or the file
        cannot be written.
        """
        if not self._complete or self.schedule is not None or not self._starts:
            return
        size = math.gcd(*(item for _, item in self._starts))
        parts = [scaled(schedule, item // size) for schedule, item in self._starts]
        count = counted(len(parts), "exchange")
        schedule = in_sequence(f"recorded step, {count}", parts, size)
        digest = hashlib.sha256(to_json(schedule).encode()).hexdigest()
        check_agreement(self._control, {"recorded step": f"{count}, {digest[:16]}"})
        verify(schedule)
        self.schedule, path = schedule, self._path
        if path is not None:
            on_first_rank(self._control, lambda: save(path, schedule, self._force))

    def tell_missing(self) -> None:
        """Print one line on stderr, from rank 0, if no schedule was recorded."""
        if self.schedule is None and self._control.rank == 0:
            why = "no exchange was started in the step" if self._complete else "no second step was taken"
            warn(f"recording: {why}" + (f"; {self._path} was not written" if self._path else ""))

"""What a transport does for a program: begin a level, wait for a peer, complete a level."""

from __future__ import annotations

from typing import Any, Protocol

from wavefabric.exchange.program import Level, Program, Span


class Bound:
    """A program with its buffers on one transport.

    A subclass moves one level: ``_begin``, ``_wait`` for what comes from one peer, ``_complete``. What is to
    be added arrives in scratch and is added in the schedule's order, so that sums do not depend on arrival.

    Parameters
    ----------
    program : Program
    buffers : list of 1-D arrays
        One a buffer of the schedule.
    scratch : 1-D array
        At least ``program.scratch`` elements.
    """

    def __init__(self, program: Program, buffers: list, scratch):
        self._program, self._buffers, self._scratch = program, buffers, scratch
        self._running = False
        # Parts of arrays once: cutting them costs a host as much as a launch.
        self._sums = [
            [(span.of(buffers), part) for span, part in self._incoming(level) if span.reduce]
            for level in program.levels
        ]
        self._local = [
            [(source.of(buffers), target.of(buffers), target.reduce) for source, target in level.local]
            for level in program.levels
        ]

    def start(self) -> None:
        """Begin. What was enqueued before is in the source buffers."""
        if self._running:
            raise RuntimeError("an exchange was started again before it was finished")
        self._running = True
        if self._program.levels:
            self._enter(0)

    def arrived(self, peer: int | None) -> None:
        """Later work may read what comes from ``peer``, or (None) from all."""
        if len(self._program.levels) == 1 and self._running:
            self._wait(0, peer)
        else:
            self.finish()

    def finish(self) -> None:
        """Everything has arrived, and source buffers may be written again."""
        if not self._running:
            return
        for number, sums in enumerate(self._sums):
            if number:
                self._enter(number)
            self._complete(number)
            for target, part in sums:
                target += part
        self._running = False

    def _enter(self, number: int) -> None:
        self._begin(number)
        # Copies within the rank run beside those between ranks: transfers of a level are independent.
        for source, target, reduce in self._local[number]:
            if reduce:
                target += source
            else:
                target[...] = source

    def _incoming(self, level: Level) -> list[tuple[Span, Any]]:
        """Where each receive of a level goes: its place in a buffer, or scratch."""
        found, at = [], 0
        for span in level.receives:
            if span.reduce:
                found.append((span, self._scratch[at : at + span.size]))
                at += span.size
            else:
                found.append((span, span.of(self._buffers)))
        return found

    def _begin(self, number: int) -> None: ...

    def _wait(self, number: int, peer: int | None) -> None: ...

    def _complete(self, number: int) -> None: ...


class Transport(Protocol):
    """Moves data between ranks."""

    name: str

    def allocate(self, shape, dtype) -> Any:
        """An array that peers may reach."""
        ...

    def bind(self, program: Program, buffers: list, scratch) -> Bound:
        """Make ready what repeats; collective."""
        ...

    def describe(self) -> dict:
        """Facts for reports."""
        ...


class Solo:
    """One rank: only copies within it."""

    name = "solo"

    def __init__(self, device):
        self._device = device

    def allocate(self, shape, dtype):
        return self._device.empty(shape, dtype)

    def bind(self, program, buffers, scratch) -> Bound:
        return Bound(program, buffers, scratch)

    def describe(self) -> dict:
        return {}

"""The states of a run from the last to the first, from few that are stored and steps that are taken again."""

from typing import Any, Protocol

from wavefabric.lifecycle.reversal.store import StateStore, split


class Reversible(Protocol):
    """A system that steps in time; state k is that after k steps."""

    def arrays(self) -> dict[str, Any]:
        """The working state by names: arrays of the device, always the same ones."""
        ...

    def begin(self) -> None:
        """Make state 0 in the working arrays."""

    def restored(self, step: int) -> None:
        """The working arrays have just been overwritten by state ``step``."""

    def advance(self, step: int) -> None:
        """Take step ``step``, from state ``step`` to the next."""


class Reversal:
    """Brings back the states of a run of ``steps`` steps, from the last to state 0.

    The forward run calls `after` after each step; then `bring` is called for falling numbers. Steps are the
    fewest for the states of ``store``: `advances` of one more, as `Reversible.begin` makes state 0
    anew. With ``store_start`` state 0, now in the working arrays, is stored, and `begin` is never called.

    ``at``: the forward run is resumed there, so states before it are not stored; call `after` for it too.
    After an error of `Reversible.advance` the object is of no more use.
    """

    def __init__(self, system: Reversible, steps: int, store: StateStore, at=0, store_start=False):
        if store_start and (at or not store.states):
            raise ValueError("store_start: state 0 cannot be stored; allowed: at 0, with a state or more")
        self.steps = steps
        #: Steps that `bring` has taken.
        self.advanced = 0
        self._system, self._store, self._last = system, store, steps
        #: Numbers of the stored states; each lies in the store at its position in this list.
        self._stored: list[int] = []
        if store_start:
            self._push(0)
        # The cost is convex in the first state stored: the first that the run still comes by is best.
        self._next = max(at, self._following(0, steps))

    def after(self, step: int) -> None:
        """The working arrays of the forward run hold state ``step``; it is stored if it is due."""
        if self._next <= step < self.steps and len(self._stored) < self._store.states:
            self._push(step)
            self._next = self._following(step, self.steps)

    def bring(self, step: int) -> None:
        """Make state ``step`` in the working arrays; stored states above it are dropped.

        ValueError if it is above the last one brought, or below 0.
        """
        if not 0 <= step <= self._last:
            raise ValueError(f"step: {step} given; allowed: 0 to {self._last}, the last one brought")
        self._last, position = step, 0
        while self._stored and self._stored[-1] > step:
            self._stored.pop()
        if self._stored:
            position = self._stored[-1]
            self._store.read(len(self._stored) - 1, self._system.arrays())
            self._system.restored(position)
        else:
            self._system.begin()
        due = self._following(position, step)
        while position < step:
            self._system.advance(position)
            self.advanced += 1
            position += 1
            if position == due < step:
                self._push(position)
                due = self._following(position, step)

    def peek(self, step: int) -> dict[str, Any] | None:
        """Arrays of state ``step`` where it is stored on the device, to be read until the next `bring`."""
        return self._store.peek(self._stored.index(step)) if step in self._stored else None

    def _push(self, step: int) -> None:
        self._store.write(len(self._stored), self._system.arrays())
        self._stored.append(step)

    def _following(self, step: int, end: int) -> int:
        """The state to store next after ``step``, stored or made anew, on the way to ``end``, or that."""
        return step + split(end - step, self._store.states - len(self._stored) + 1)

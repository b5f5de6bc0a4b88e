"""What all ranks must decide at the same time step: Ctrl-C, a lost field, a checkpoint that is due."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

#: Ranks look at one another's interrupts about so often, in seconds.
_PAUSE = 0.5


class Word(NamedTuple):
    """What one rank has to say, or what all have agreed on.

    Parameters
    ----------
    asked : bool
        Ctrl-C was pressed.
    late : bool
        A checkpoint is due by the clock; that of rank 0 counts.
    peak : float
        Largest |p|, Pa; 0 if nobody looked, NaN if it is lost.
    energy : float
        Of the field (`energy.Energy`); 0 if nobody looked. Agreed on is the sum.
    """

    asked: bool
    late: bool
    peak: float
    energy: float = 0.0


class Lockstep:
    """Agrees at every look at the fields, and in between about twice a second, counted in steps.

    Parameters
    ----------
    comm : Communicator
    look : int
        Steps between looks.
    first : int
        Steps done before.
    """

    def __init__(self, comm, look: int, first: int):
        self._comm, self._look = comm, look
        self._then, self._at, self._next = time.perf_counter(), first, first + 1

    def due(self, done: int) -> bool:
        """Whether ranks agree after ``done`` steps, besides the looks; the same on all of them."""
        return self._comm.size == 1 or done >= self._next

    def agree(self, done: int, word: Word) -> Word:
        """The same answer on all ranks; collective."""
        if self._comm.size == 1:
            return word
        now = time.perf_counter()
        a_step = max((now - self._then) / max(1, done - self._at), 1e-9)
        told = self._comm.control.all_gather((*word, a_step))
        self._then, self._at = now, done
        # Steps, not seconds: clocks differ.
        self._next = done + max(1, min(self._look, int(_PAUSE / told[0][-1])))
        words = [Word(*one) for *one, _ in told]
        return Word(
            any(word.asked for word in words),
            words[0].late,
            float(np.max([word.peak for word in words])),
            sum(word.energy for word in words),
        )

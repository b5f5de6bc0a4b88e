"""What mpiexec itself says when ranks end badly, taken out of what they print."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Death:
    """What mpiexec's banners told: each None if they did not."""

    rank: int | None = None
    pid: int | None = None
    signal: int | None = None


_LINES = (
    re.compile(r"={60,}$"),
    re.compile(r"=   (BAD TERMINATION|PID|EXIT CODE|CLEANING UP|YOU CAN IGNORE|KILLED|RANK)"),
    re.compile(r"YOUR APPLICATION TERMINATED WITH THE EXIT STRING"),
    re.compile(r"This typically refers to a problem with your application"),
    re.compile(r"Please see the FAQ page for debugging suggestions"),
    re.compile(r"Abort\(-?\d+\).* on node \d+ .*application called MPI_Abort"),
    re.compile(r"application called MPI_Abort\("),
    re.compile(r"\[(mpiexec|proxy:[\d:]+)@[^]]*\] "),
    re.compile(r"\[[^]]*:\d+\] PMIX ERROR: "),
)
_OPEN_MPI = (
    "noticed that process rank",
    "exited with non-zero status",
    "exited with a non-zero exit code",
    "MPI_ABORT was invoked",
    "has exited due to process rank",
    "Primary job terminated",
    "mpirun has exited",
)
_RULE = re.compile(r"-{60,}$")
_LONGEST = 40  # lines of a block of Open MPI

_RANK = re.compile(r"noticed that process rank (\d+) with PID (\d+)")
_SIGNAL = re.compile(r"(?:exited on )?signal (\d+) \(|\(signal (\d+)\)")
_PID = re.compile(r"=   PID (\d+) RUNNING AT")
_OURS = re.compile(r"wavefabric: (?:rank \d+ of \d+: )?(.*)")


class Sieve:
    """Passes on what ranks print, without banners and without lines of ours that were there before.

    Parameters
    ----------
    write : callable of bytes
    death : Death
        Filled in from the banners.
    said : set of str
        Messages of ours so far; shared between the streams.
    """

    def __init__(self, write: Callable[[bytes], object], death: Death, said: set[str]):
        self._write, self._death, self._said = write, death, said
        self._partial = b""
        self._blanks: list[bytes] = []
        self._block: list[bytes] | None = None
        self._lock = threading.Lock()
        #: What was taken out, in case nothing else explains a failure.
        self.taken: list[str] = []

    def feed(self, data: bytes) -> None:
        """Take what has arrived."""
        with self._lock:
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                self._line(line + b"\n")
            if b"\x1b" in self._partial or b"\r" in self._partial:
                self._release()  # a progress bar, which ends no line

    def close(self) -> None:
        """Pass on what was held back."""
        with self._lock:
            if self._partial:
                self._line(self._partial)
            self._partial = b""
            self._release()

    def _release(self) -> None:
        held = [*self._blanks, *(self._block or []), self._partial]
        self._blanks, self._block, self._partial = [], None, b""
        if any(held):
            self._write(b"".join(held))

    def _line(self, line: bytes) -> None:
        if line.startswith(b"\0"):
            line = line.lstrip(b"\0")  # PRRTE sends the end of its own text with it
            if not line:
                return
        text = line.decode(errors="replace").rstrip()
        if self._block is not None:
            self._block.append(line)
            if _RULE.match(text):
                self._end_block()
            elif len(self._block) > _LONGEST:
                self._pass_block()
        elif _RULE.match(text):
            self._block = [line]
        elif not text:
            self._blanks.append(line)  # perhaps the one before a banner
        elif any(pattern.match(text) for pattern in _LINES):
            self._take(text)
            self._blanks = []
        elif not self._repeated(text):
            self._write(b"".join([*self._blanks, line]))
            self._blanks = []

    def _end_block(self) -> None:
        text = " ".join(b"".join(self._block or []).decode(errors="replace").split())
        if any(key in text for key in _OPEN_MPI):
            self._take(text)
            self._block, self._blanks = None, []
        else:
            self._pass_block()

    def _pass_block(self) -> None:
        self._write(b"".join([*self._blanks, *(self._block or [])]))
        self._block, self._blanks = None, []

    def _repeated(self, text: str) -> bool:
        ours = _OURS.fullmatch(text)
        if ours is None:
            return False
        if ours[1] in self._said:
            return True
        self._said.add(ours[1])
        return False

    def _take(self, text: str) -> None:
        self.taken.append(text)
        death = self._death
        if match := _RANK.search(text):
            death.rank, death.pid = int(match[1]), int(match[2])
        if match := _PID.match(text):
            death.pid = int(match[1])
        if match := _SIGNAL.search(text):
            death.signal = int(match[1] or match[2])

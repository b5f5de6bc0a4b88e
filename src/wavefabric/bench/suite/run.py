"""Parts run one after the other, within a budget; what is done is kept, and not run again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wavefabric.bench.suite import record
from wavefabric.bench.suite.parts import Part, command_line, filled
from wavefabric.bench.suite.process import PROGRAM, Ended, run_command
from wavefabric.bench.suite.record import DONE, FAILED, INTERRUPTED, PartRecord
from wavefabric.errors import InputError, cut, visible
from wavefabric.results.provenance import stamp
from wavefabric.system.interrupt import exit_code
from wavefabric.system.progress import Progress

#: Seconds of a part unless said otherwise.
TIME_LIMIT = 600.0
_LAST_LINES = 12
#: Variables of the environment that change how ranks talk.
_SETTINGS = ("NCCL_", "UCX_", "CUDA_VISIBLE_", "WAVEFABRIC_", "MPIR_CVAR_", "OMPI_MCA_")


class Outcome(NamedTuple):
    """What became of a part in this run; `seconds` is None where it was not run."""

    part: Part
    #: done, failed, done before, kept, left out, or not begun.
    word: str
    seconds: float | None = None
    why: str = ""


@dataclass
class Suite:
    """The folder of a suite, the machine, and how long parts may take, in s."""

    root: Path
    machine: dict[str, Any]
    small: bool
    time_limit: float = TIME_LIMIT
    #: Of all parts together.
    budget: float = float("inf")
    #: Whether results of another version, command or machine are measured again.
    force: bool = False
    program: Sequence[str] = PROGRAM

    @property
    def parts_folder(self) -> Path:
        """Where parts write."""
        return self.root / "parts"

    def run(
        self,
        parts: Sequence[Part],
        progress: Progress,
        say: Callable[[Outcome], object],
        report: Callable[[], object],
    ) -> list[Outcome]:
        """Run what is not done yet; ``say`` hears of each part, ``report`` is called after each that was run.

        A part that fails or runs past its limit is recorded as such, and the next one goes on. Ctrl-C or
        SIGTERM ends the part that runs, which is recorded as interrupted, and is raised again.
        """
        self.parts_folder.mkdir(parents=True, exist_ok=True)
        begun, done, outcomes = time.monotonic(), 0.0, []
        open_parts = {part.name for part in parts if self._settled(part) is None}
        progress.start(sum(self.expected(part) for part in parts if part.name in open_parts), "suite, s")
        try:
            for part in parts:
                outcome = self._settled(part)
                expected = self.expected(part)
                left = self.budget - (time.monotonic() - begun)
                if outcome is None and expected > left:
                    why = f"{expected:.0f} s expected, {max(left, 0):.0f} s of the budget left"
                    outcome = Outcome(part, "not begun", None, why)
                if outcome is None:

                    def tick(seconds: float, part=part, expected=expected, done=done) -> None:
                        progress.update(done + min(seconds, expected), part.name)

                    try:
                        outcome = self._run(part, min(self.time_limit, left), tick)
                    finally:
                        report()
                outcomes.append(outcome)
                say(outcome)
                if part.name in open_parts:
                    done += expected
                    progress.update(done)
        finally:
            progress.finish()
        return outcomes

    def expected(self, part: Part) -> float:
        """Seconds that a part should take: what it took, or an estimate."""
        before = record.read_record(self.parts_folder, part.name)
        known = part.seconds if before is None or before.state != DONE else before.seconds
        return min(known, self.time_limit)

    def _settled(self, part: Part) -> Outcome | None:
        """The outcome of a part that is not to be run."""
        if part.left_out:
            return Outcome(part, "left out", None, part.left_out)
        before = record.read_record(self.parts_folder, part.name)
        if before is None or before.state != DONE:
            return None
        if not (other := before.differs(part, self.parts_folder, self.machine)):
            return Outcome(part, "done before", before.seconds)
        if self.force:
            return None
        return Outcome(part, "kept", before.seconds, f"of {other}; --force measures it again")

    def _run(self, part: Part, limit: float, tick: Callable[[float], object]) -> Outcome:
        parts, here = self.parts_folder, self.parts_folder / f".{part.name}.partial"
        log = parts / f"{part.name}.log"
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        words, started = part.words(parts), stamp()
        output = here / part.prints if part.prints else None
        clock, ended = time.monotonic(), None
        try:
            ended = run_command(
                filled(words, here, parts, self.small), log, output, limit, tick, self.program, part.settings
            )
        finally:
            state, why = _verdict(ended, limit)
            found = PartRecord(
                part.name,
                list(words),
                command_line(part, parts, self.small),
                state,
                exit_code() if ended is None else ended.code,
                round(time.monotonic() - clock if ended is None else ended.seconds, 2),
                started,
                record.program_version(),
                self.machine,
                why,
                [] if state == DONE else _last_lines(log),
            )
            if state == DONE:
                record.keep(parts, here, found)
            else:
                self._note(found)
                shutil.rmtree(here, ignore_errors=True)
        return Outcome(part, state, found.seconds, ": ".join(filter(None, [why, *found.said[-1:]])))

    def _note(self, found: PartRecord) -> None:
        """The record of a part without results; former ones stay until there are new ones."""
        before = record.read_record(self.parts_folder, found.name)
        if before is None or before.state != DONE:
            record.write_record(self.parts_folder, found)


def _verdict(ended: Ended | None, limit: float) -> tuple[str, str]:
    if ended is None:
        return INTERRUPTED, "interrupted"
    if ended.late:
        return FAILED, f"ran past its limit of {limit:.0f} s"
    if ended.code == 0:
        return DONE, ""
    if ended.code < 0:
        return FAILED, f"ended by {signal.strsignal(-ended.code) or f'signal {-ended.code}'}"
    return FAILED, f"exit code {ended.code}"


def _last_lines(log: Path) -> list[str]:
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - 20_000))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return [cut(visible(line.rstrip()), 300) for line in lines if line.strip()][-_LAST_LINES:]


def describe_machine(program: Sequence[str] = PROGRAM) -> dict[str, Any]:
    """What `wavefabric info` says, asked in a process of its own, and settings of the environment.

    This process opens no GPU.

    Raises
    ------
    InputError
        If it says nothing.
    """
    words = [*program, "info", "--json"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        found = json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        raise InputError("machine: wavefabric info failed; allowed: a machine on which it works") from None
    settings = {name: text for name, text in sorted(os.environ.items()) if name.startswith(_SETTINGS)}
    return {key: found[key] for key in record.MACHINE} | {"environment": settings}

"""Parts run one after the other, each a process of its own; what is done is kept, and not run again."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import wavefabric
from benchmarks.parts import Part, filled
from wavefabric.base.errors import InputError, cut, visible
from wavefabric.base.files.input import read_bytes
from wavefabric.base.files.output import replacing, sync_folder
from wavefabric.base.results.provenance import stamp
from wavefabric.base.system.deferred_interrupt import exit_code
from wavefabric.base.system.processes import follow_parent

DONE, FAILED, INTERRUPTED = "done", "failed", "interrupted"
#: `wavefabric` of this Python, with the benchmarks of this folder.
PROGRAM = (sys.executable, str(Path(__file__).parent))
#: Signals that end a command, and the seconds that it has after each. `wavefabric` with ``--ranks`` hands the
#: first to its ranks, and kills them all at the third.
ENDING = [(signal.SIGINT, 15.0), (signal.SIGINT, 0.5), (signal.SIGINT, 5.0), (signal.SIGTERM, 3.0)]
#: Variables of the environment that change how ranks talk.
_VARIABLES = ("NCCL_", "UCX_", "CUDA_VISIBLE_", "WAVEFABRIC_", "MPIR_CVAR_", "OMPI_MCA_")


class Outcome(NamedTuple):
    """What became of a part: done, failed, done before, kept, left out, or not begun."""

    name: str
    word: str
    #: None where it was not run.
    seconds: float | None = None
    why: str = ""


@dataclass
class Runner:
    """The folder of parts, the machine, and how long one part and all of them may take, in s."""

    folder: Path
    machine: dict[str, Any]
    time_limit: float = 600.0
    budget: float = float("inf")
    #: Whether results of another version, command or machine are measured again.
    force: bool = False
    program: Sequence[str] = PROGRAM

    def run(self, parts: Sequence[Part], begins: Callable[[str], object]) -> Iterator[Outcome]:
        """Run what is not done yet; ``begins`` is told the name of each part that starts.

        A part that fails or runs past its limit is recorded as such, and the next one goes on. Ctrl-C or
        SIGTERM ends the part that runs, which is recorded as interrupted, and is raised again.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        for part in parts:
            outcome, left = self._settled(part), self.budget - (time.monotonic() - begun)
            if outcome is None and (expected := self.expected(part)) > left:
                why = f"{expected:.0f} s expected, {max(left, 0):.0f} s of the budget left"
                outcome = Outcome(part.name, "not begun", None, why)
            if outcome is None:
                begins(part.name)
                outcome = self._measure(part, min(self.time_limit, left))
            yield outcome

    def expected(self, part: Part) -> float:
        """Seconds that a part should take: what it took, or an estimate."""
        record = read_record(self.folder, part.name)
        known = record["seconds"] if record and record["state"] == DONE else part.seconds
        return min(known, self.time_limit)

    def _settled(self, part: Part) -> Outcome | None:
        """The outcome of a part that is not to be run."""
        if part.left_out:
            return Outcome(part.name, "left out", None, part.left_out)
        record = read_record(self.folder, part.name)
        if not record or record["state"] != DONE:
            return None
        same = {
            "command": record["arguments"] == list(part.now(self.folder)),
            "version": record["program"] == program_version(),
            "kind of device": devices(record["machine"]) == devices(self.machine),
        }
        other = " and ".join(f"another {what}" for what, alike in same.items() if not alike)
        if other and self.force:
            return None
        why = f"of {other}; --force measures it again" if other else ""
        return Outcome(part.name, "kept" if other else "done before", record["seconds"], why)

    def _measure(self, part: Part, limit: float) -> Outcome:
        """Run a part in a folder that takes the place of the former one, and record it."""
        here, log = self.folder / f".{part.name}.partial", self.folder / f"{part.name}.log"
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        words, line, started = part.now(self.folder), part.line(self.folder), stamp()
        output = here / part.prints if part.prints else log
        state, why, code, clock = INTERRUPTED, INTERRUPTED, None, time.monotonic()
        try:
            code, late = run_command(filled(words, here, self.folder, self.program), log, output, limit)
            why = f"ran past its limit of {limit:.0f} s" if late else _fault(code)
            state = FAILED if why else DONE
        finally:
            seconds = round(time.monotonic() - clock, 2)
            said = [] if state == DONE else _last_lines(log)
            code = exit_code() if code is None else code
            record = {"name": part.name, "arguments": list(words), "command": line, "state": state}
            record |= {
                "exit_code": code,
                "seconds": seconds,
                "started_utc": started,
                "why": why,
                "said": said,
            }
            self._keep(here, record | {"program": program_version(), "machine": self.machine})
        return Outcome(part.name, state, seconds, ": ".join(filter(None, [why, *said[-1:]])))

    def _keep(self, here: Path, record: dict[str, Any]) -> None:
        """Results with their record; whenever this is killed, no record is beside results of another run."""
        path = self.folder / f"{record['name']}.json"
        before = read_record(self.folder, record["name"])
        if record["state"] == DONE:
            path.unlink(missing_ok=True)
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            here.rename(path.with_suffix(""))
            sync_folder(self.folder)
            write_json(path, record)
        else:
            shutil.rmtree(here, ignore_errors=True)
            if not before or before["state"] != DONE:  # former results stay until there are new ones
                write_json(path, record)


def _fault(code: int) -> str:
    if code < 0:
        return f"ended by {signal.strsignal(-code) or f'signal {-code}'}"
    return f"exit code {code}" if code else ""


def _last_lines(log: Path) -> list[str]:
    lines = log.read_bytes()[-20_000:].decode("utf-8", "replace").splitlines()
    return [cut(visible(line.rstrip()), 300) for line in lines if line.strip()][-12:]


def run_command(words: Sequence[str], log: Path, output: Path, limit: float) -> tuple[int, bool]:
    """Run a command for at most `limit` s; gives its exit code (minus a signal), and whether that ended it.

    Variables of the environment stand first. It prints to the files ``output`` (stdout) and ``log``.
    Whatever ends the wait, Ctrl-C too, ends the command and all that it has started.
    """
    with open(log, "wb") as said, open(output, "ab") as shown:
        process = subprocess.Popen(
            ["env", *words],
            stdin=subprocess.DEVNULL,
            stdout=shown if output != log else said,
            stderr=said,
            start_new_session=True,
            preexec_fn=functools.partial(follow_parent, os.getpid()),
        )
    late = False
    try:
        process.wait(limit if limit < 1e9 else None)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        code = _end(process)
    return code, late


def _end(process: subprocess.Popen[bytes]) -> int:
    """End it and what is left of its session; the exit code. A second Ctrl-C would leave it running."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number, timeout in ENDING:
            if process.poll() is None:
                process.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@functools.cache
def program_version() -> str:
    """Version and a hash of all sources but those of the command line."""
    root, total = Path(wavefabric.__file__).parent, hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".cu", ".toml")):
        name = path.relative_to(root).as_posix()
        if not name.startswith("cli/"):
            total.update(f"{name}\0".encode() + path.read_bytes())
    return f"{wavefabric.__version__} {total.hexdigest()[:16]}"


def devices(machine: dict[str, Any]) -> list[str]:
    """Models of the GPUs, each once; without any, of the processor."""
    return sorted({gpu["model"] for gpu in machine["gpus"]}) or [machine["cpu"]["model"]]


def describe_machine(program: Sequence[str] = PROGRAM) -> dict[str, Any]:
    """What `wavefabric info` says in a process of its own, so that this one opens no GPU; and settings."""
    words = [*program, "info", "--json"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        result = json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        raise InputError("machine: wavefabric info failed; allowed: a machine on which it works") from None
    settings = {name: text for name, text in sorted(os.environ.items()) if name.startswith(_VARIABLES)}
    return result | {"environment": settings}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is none."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        result = json.loads(read_bytes(path))
        return result if isinstance(result, dict) else {}
    return {}


def read_record(folder: Path, name: str) -> dict[str, Any] | None:
    """How a part ended, if that is known; one that is done has its results."""
    result = read_json(folder / f"{name}.json")
    whole = result.keys() >= {"arguments", "command", "state", "seconds", "program", "machine", "why", "said"}
    return result if whole and (result["state"] != DONE or (folder / name).is_dir()) else None


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

"""Run `wavefabric run --ranks K`: start mpiexec, watch it and, if necessary, stop it."""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from wavefabric.base.errors import InputError
from wavefabric.base.system.deferred_interrupt import INTERRUPTED, TERMINATING
from wavefabric.base.system.machine import usable_threads
from wavefabric.base.system.processes import abandoned, follow_parent
from wavefabric.runtime.exchange.launch import dev_shm, environment, mpiexec_command, rank_status

#: Signals that end a faulty program.
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGBUS)
#: Seconds that ranks have to save after the parent of this launcher has ended.
_ORPHANED = 60
#: Seconds between checks of mpiexec and of the parent of this launcher.
_POLL_SECONDS = 0.1
#: Variables for the threads of libraries; the solvers set theirs separately.
_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass
class LaunchOptions:
    """Describes what to start: a program with arguments, on ``ranks`` ranks."""

    arguments: list[str]
    ranks: int
    transport: str = "auto"
    #: GPU of each rank; empty to choose by rank number.
    placement: list[int] = field(default_factory=list)
    #: CPU threads per rank.
    threads: int = 1
    #: Path of the ranks' checkpoint, for the message if one is killed.
    checkpoint: Path | None = None
    program: Sequence[str] = (sys.executable, "-m", "wavefabric")
    #: JSON of the plan that the ranks follow; empty for none.
    plan: str = ""


def launch(options: LaunchOptions) -> int:
    """Start ranks, pass on their output, wait until they end, and return the exit code.

    Ctrl-C reaches each rank once, sent by this launcher: mpiexec is detached from the terminal, since some
    versions kill their ranks at once. A third Ctrl-C kills all. SIGTERM, SIGUSR1 and SIGHUP reach the ranks
    as SIGTERM, which they also get if the parent process ends and nobody else reads the output. The result is
    the ranks' exit code, 128 + signal if one was killed, 130 after Ctrl-C, 143 after SIGTERM.
    """
    if environment.RANKS in os.environ or environment.ranks() > 1:
        # A rank that started ranks would start ever more.
        raise InputError("--ranks: given to a process that is one of several ranks already; allowed: once")
    with tempfile.TemporaryDirectory(prefix="wavefabric-") as name:
        folder = Path(name)
        rank_status.create(folder)
        variables = _environment(options, folder)
        command, variables = mpiexec_command.command(options.ranks, options.transport, variables)
        if mpiexec_command.library().family == "MPICH":
            dev_shm.check_space(options.ranks)
        process = subprocess.Popen(
            [*command, *options.program, *options.arguments],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=partial(follow_parent, os.getpid()),
        )
        return _Supervisor(options, process, folder).wait()


def _environment(options: LaunchOptions, folder: Path) -> dict[str, str]:
    defaults: dict[str, str] = dict.fromkeys(_THREADED, str(options.threads))
    if options.ranks > usable_threads():
        # A waiting rank yields its core to the others at once.
        defaults["MPIR_CVAR_POLLS_BEFORE_YIELD"] = "0"
    variables = defaults | environment.without_ranks(dict(os.environ))
    variables |= {
        environment.RANKS: str(options.ranks),
        environment.THREADS: str(options.threads),
        environment.FOLDER: str(folder),
        environment.PLACEMENT: " ".join(map(str, options.placement)),
        environment.PLAN: options.plan,
        # nvidia-smi numbers GPUs by bus address; CUDA must do so too, for a placement to mean the same.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if sys.stderr is not None and sys.stderr.isatty():
        with contextlib.suppress(OSError):
            variables[environment.TERMINAL] = str(os.get_terminal_size(sys.stderr.fileno()).columns or 80)
    return variables


class _Supervisor:
    """Supervises one launch: output and status of its ranks, and signals for them."""

    def __init__(self, options: LaunchOptions, process: subprocess.Popen[bytes], folder: Path):
        self._options, self._process, self._folder = options, process, folder
        self._interrupts = 0
        self._terminated = 0  # the signal that ended this launcher
        self._mpiexec_said: list[bytes] = []

    def wait(self) -> int:
        """Pass on the ranks' output until all have ended; return the exit code."""
        seen: set[bytes] = set()
        outputs = [_Output(stream, seen) for stream in (sys.stdout, sys.stderr)]
        handlers = {signal.SIGINT: self._interrupt}
        handlers |= dict.fromkeys((*TERMINATING, signal.SIGHUP), self._terminate)
        with selectors.DefaultSelector() as selector, contextlib.ExitStack() as undo:
            for number, handler in handlers.items():
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                    undo.callback(signal.signal, number, signal.signal(number, handler))
            for name, output in zip(rank_status.STREAMS, outputs, strict=True):
                # Open for writing too, or the pipe would be at its end before the first rank opens it.
                pipe = os.open(self._folder / name, os.O_RDWR | os.O_NONBLOCK)
                undo.callback(os.close, pipe)
                selector.register(pipe, selectors.EVENT_READ, output.write)
            assert self._process.stdout is not None
            selector.register(self._process.stdout, selectors.EVENT_READ, self._mpiexec_said.append)
            self._pass_on(selector)
        for output in outputs:
            output.close()
        status = rank_status.read(self._folder)
        dev_shm.remove(status.shared)
        return self._verdict(status, self._process.returncode)

    def _pass_on(self, selector: selectors.BaseSelector) -> None:
        parent, killed_at = os.getppid(), float("inf")
        while self._process.poll() is None:
            _read(selector, _POLL_SECONDS)
            if not self._terminated and abandoned(parent):
                self._terminate(signal.SIGTERM)
                killed_at = time.monotonic() + _ORPHANED
            if time.monotonic() > killed_at:
                self._kill()
        while _read(selector, 0):
            pass

    # --- signals ----------------------------------------------------------------------------------------

    def _interrupt(self, *_) -> None:
        self._interrupts += 1
        if self._interrupts > 2:
            self._kill()
        else:
            self._signal_ranks(signal.SIGINT)

    def _terminate(self, number: int, *_) -> None:
        # A second signal, as batch systems send, is ignored: ranks may be saving.
        if not self._terminated:
            self._terminated = signal.SIGTERM if number in TERMINATING else number
            self._signal_ranks(signal.SIGTERM)

    def _kill(self) -> None:
        self._signal_ranks(signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _signal_ranks(self, number: int) -> None:
        """Send the signal ``number`` to every rank; if some have not started, end mpiexec with all ranks."""
        processes = rank_status.read(self._folder).processes
        if len(processes) < self._options.ranks:
            self._process.terminate()
            return
        for process in processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    # --- the end ----------------------------------------------------------------------------------------

    def _verdict(self, status: rank_status.RankStatus, code: int) -> int:
        """Print why the ranks ended, unless a rank has printed it, and return the exit code."""
        complete = len(status.processes) == self._options.ranks
        if self._terminated and code:
            if not complete:
                self._say("terminated")
            return 128 + self._terminated
        if self._interrupts and (code or self._interrupts > 2):
            if self._interrupts > 2 or not complete:
                self._say("interrupted")
            return INTERRUPTED
        if code == 0:
            if not complete:  # ranks on other hosts print through mpiexec
                self._pass_on_mpiexec(sys.stdout)
            return 0
        if status.lost:
            self._say(f"{status.lost}; all ranks ended")
            return 1
        if status.first_dead is not None:
            rank, ended = status.first_dead
            self._say(f"rank {rank} {_cause(ended)}; all ranks stopped")
            return 128 - ended if ended < 0 else max(ended, 1)
        if status.code:
            return status.code  # one rank has printed why and stopped the others
        self._pass_on_mpiexec(sys.stderr)
        if not status.processes:
            print("wavefabric: error: mpiexec could not start the ranks", file=sys.stderr)
        return code if code > 0 else 128 - code

    def _pass_on_mpiexec(self, stream) -> None:
        stream.write(b"".join(self._mpiexec_said).decode(errors="replace"))

    def _say(self, message: str) -> None:
        checkpoint = self._options.checkpoint
        if checkpoint is not None:
            exists = checkpoint.exists()
            message += f"; the same command resumes from {checkpoint}" if exists else "; no checkpoint yet"
        print(f"wavefabric: {message}", file=sys.stderr, flush=True)


def _cause(ended: int) -> str:
    """Return a text that says how a rank died; ``ended`` is its exit code, or minus its signal."""
    if ended >= 0:
        return f"ended without a word (exit code {ended})"
    if -ended not in _CRASHES:
        return f"was killed (signal {-ended})"
    name = signal.strsignal(-ended) or f"signal {-ended}"
    full = -ended == signal.SIGBUS and (dev_shm.free_bytes() or 4e6) < 4e6
    advice = f"; /dev/shm is full: {dev_shm.ADVICE}" if full else ""
    return f"crashed ({name[0].lower()}{name[1:]}{advice})"


def _read(selector: selectors.BaseSelector, seconds: float) -> bool:
    """Wait up to ``seconds`` for output and pass it to its reader; return whether there was any."""
    ready = selector.select(seconds)
    for key, _ in ready:
        if data := os.read(key.fd, 1 << 16):
            key.data(data)
        else:
            selector.unregister(key.fileobj)  # the end of mpiexec's output
    return bool(ready)


class _Output:
    """Passes on ranks' output, without messages of wavefabric that another rank has already printed."""

    _MESSAGE = re.compile(rb"wavefabric: (?:rank \d+ of \d+: )?(.*)")

    def __init__(self, stream, printed_lines: set[bytes]):
        self._stream, self._printed_lines = stream, printed_lines
        self._partial = b""

    def write(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        new = []
        for line in lines:
            message = self._MESSAGE.fullmatch(line.rstrip())
            if message is None or message[1] not in self._printed_lines:
                new.append(line + b"\n")
            if message is not None:
                self._printed_lines.add(message[1])
        self._pass_on(b"".join(new))
        if b"\x1b" in self._partial or b"\r" in self._partial:
            self.close()  # a progress bar, which has no line end

    def close(self) -> None:
        """Pass on the text that is left, a line that has not ended."""
        self._pass_on(self._partial)
        self._partial = b""

    def _pass_on(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._stream.flush()
            self._stream.buffer.write(data)
            self._stream.flush()

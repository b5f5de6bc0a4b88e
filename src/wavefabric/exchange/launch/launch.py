"""`wavefabric run --ranks K`: mpiexec started, watched and, if need be, stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from wavefabric.errors import InputError
from wavefabric.exchange.launch import environment, mpiexec, shared_files
from wavefabric.exchange.launch.banners import Death, Sieve
from wavefabric.exchange.launch.rank_status import Muster
from wavefabric.system.interrupt import INTERRUPTED
from wavefabric.system.machine import usable_threads
from wavefabric.system.processes import abandoned

#: Signals of what Python says of a crash.
_FAULTS = {
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Floating-point exception": signal.SIGFPE,
    "Floating point exception": signal.SIGFPE,
    "Illegal instruction": signal.SIGILL,
    "Bus error": getattr(signal, "SIGBUS", signal.SIGSEGV),
}
#: Seconds that ranks have to save when nobody waits for them any more.
_ORPHANED = 60
#: Libraries that start threads of their own; the solvers bring their own number.
_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: mpiexec goes when its launcher is gone, even if that was killed.
_LEASH = """\
import ctypes, os, signal, sys
for name in ("SIGINT", "SIGQUIT", "SIGTERM"):  # ignored by what runs in the background of a script
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
if sys.platform.startswith("linux"):
    ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(143)
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass
class Job:
    """What to start.

    Parameters
    ----------
    arguments : list of str
        Of ``python -m wavefabric``, without ``--ranks``; or of the Python named in ``program``.
    ranks : int
    transport : str
    placement : list of int
        GPU of each rank; empty: not said.
    threads : int
        CPU threads of a rank.
    checkpoint : Path, optional
        Where the ranks save, for the message if one is killed.
    program : list of str
        Command that the arguments belong to.
    """

    arguments: list[str]
    ranks: int
    transport: str = "auto"
    placement: list[int] = field(default_factory=list)
    threads: int = 1
    checkpoint: Path | None = None
    program: list[str] = field(default_factory=lambda: [sys.executable, "-m", "wavefabric"])


def launch(job: Job) -> int:
    """Start ranks, wait for them, and pass on what they print.

    Ctrl-C goes to each rank once, by its own process: mpiexec is kept apart from the terminal, since some
    kill their ranks at once. A third Ctrl-C kills all. SIGTERM and SIGHUP reach the ranks as SIGTERM, and so
    does the end of the process that started this one and read what it prints.

    Returns
    -------
    int
        Their exit code; 128 + signal if one was killed, 130 after Ctrl-C, 143 after SIGTERM.

    Raises
    ------
    MissingExtra
        Without mpi4py or mpiexec.
    InputError
        If mpiexec and mpi4py belong to different MPIs, if this process is a rank itself, or if shared
        memory is full.
    """
    if environment.RANKS in os.environ or environment.ranks() > 1:
        # A rank that started ranks would fill the machine.
        raise InputError("--ranks: given to a process that is one of several ranks already; allowed: once")
    wanted = mpiexec.library()
    program = mpiexec.find(wanted)
    if wanted.family == "MPICH":
        shared_files.check_room(job.ranks)
    with tempfile.TemporaryDirectory(prefix="wavefabric-") as folder:
        words, variables = mpiexec.command(
            program, wanted.family, job.ranks, job.transport, _environment(job, folder)
        )
        muster = Muster(Path(folder), job.ranks)
        leash = [sys.executable, "-ISc", _LEASH, str(os.getpid())]
        process = subprocess.Popen(
            [*leash, *words, *job.program, *job.arguments],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return _Watch(job, process, muster).wait()


def _environment(job: Job, folder: str) -> dict[str, str]:
    found = environment.without_ranks(dict(os.environ))
    found |= {
        environment.RANKS: str(job.ranks),
        environment.TRANSPORT: job.transport,
        environment.THREADS: str(job.threads),
        environment.RECORDS: folder,
        # nvidia-smi counts GPUs by their bus; CUDA must count alike for a placement to mean the same.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    found.pop(environment.PLACEMENT, None)
    if job.placement:
        found[environment.PLACEMENT] = " ".join(str(gpu) for gpu in job.placement)
    for name in _THREADED:
        found.setdefault(name, str(job.threads))
    if job.ranks > usable_threads():
        # A rank that waits leaves its core to the others at once.
        found.setdefault("MPIR_CVAR_POLLS_BEFORE_YIELD", "0")
    if sys.stderr is not None and sys.stderr.isatty():
        with contextlib.suppress(OSError):
            found[environment.TERMINAL] = str(os.get_terminal_size(sys.stderr.fileno()).columns or 80)
    return found


class _Watch:
    def __init__(self, job: Job, process: subprocess.Popen[bytes], muster: Muster):
        self._job, self._process, self._muster = job, process, muster
        self._interrupts = 0
        self._stopped = 0  # signal that this launcher was ended with
        self._parent = os.getppid()
        self._death = Death()
        said: set[str] = set()
        self._out = Sieve(_writer(sys.stdout), self._death, said)
        self._err = Sieve(_writer(sys.stderr), self._death, said)

    def wait(self) -> int:
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        pumps = [
            threading.Thread(target=_pump, args=(process.stdout, self._out), daemon=True),
            threading.Thread(target=_pump, args=(process.stderr, self._err), daemon=True),
        ]
        handlers: dict[int, object] = {signal.SIGINT: self._interrupt, signal.SIGTERM: self._end}
        if hasattr(signal, "SIGHUP"):
            handlers[signal.SIGHUP] = self._end
        with _Signals(handlers):
            self._muster.watch()
            for pump in pumps:
                pump.start()
            code = self._ended()
            for pump in pumps:
                # A grandchild may hold the pipe open; what it says no longer matters.
                pump.join(5)
            self._muster.close()
        self._out.close()
        self._err.close()
        return self._verdict(code)

    def _ended(self) -> int:
        # Not one long wait: the kernel may give a signal to another thread, and Python's handler runs in this
        # one, when it comes back from where it waits.
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(0.5)
            if not self._stopped and abandoned(self._parent):
                self._end(signal.SIGTERM)
                timer = threading.Timer(_ORPHANED, self._kill)
                timer.daemon = True
                timer.start()

    # --- signals ----------------------------------------------------------------------------------------

    def _interrupt(self, *_) -> None:
        self._interrupts += 1
        if self._interrupts > 2:
            self._kill()
        elif not self._muster.complete():
            self._process.terminate()  # nothing has begun
        elif not self._muster.send(signal.SIGINT):
            self._process.send_signal(signal.SIGINT)

    def _end(self, number: int, *_) -> None:
        # Another one, as batch systems send, changes nothing: ranks may be saving.
        if not self._stopped:
            self._stopped = number
            if not self._muster.send(signal.SIGTERM):
                self._process.terminate()  # mpiexec hands it on

    def _kill(self) -> None:
        self._muster.send(signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    # --- the end ----------------------------------------------------------------------------------------

    def _verdict(self, code: int) -> int:
        if self._stopped and code:
            if not self._muster.complete():
                self._say("terminated")
            return 128 + self._stopped
        if self._interrupts and (code or self._interrupts > 2):
            if self._interrupts > 2 or not self._muster.complete():
                self._say("interrupted")
            return INTERRUPTED
        if code == 0:
            return 0
        if lost := self._muster.lost():
            self._say(f"{lost}; all ranks ended")
            return 1
        if self._muster.explained() and self._death.signal is None:
            return code  # one rank has spoken and stopped the others
        dead = self._muster.first_dead()
        if dead is None and self._death.signal is not None and self._death.rank is not None:
            dead = self._death.rank  # of another host
        if dead is not None:
            self._say(f"{self._how(dead, code)}; all ranks stopped")
            status = self._muster.status(dead)
            number = self._signal(dead, code) or (self._death.signal if status is None else 0)
            return 128 + number if number else max(code if status is None else status, 1)
        if self._death.signal is not None and not self._muster.explained():
            known = self._death.signal == signal.SIGKILL
            self._say(f"a rank was killed{' (signal 9)' if known else ''}; all ranks stopped")
            return 128 + signal.SIGKILL
        if not self._muster.records():
            # mpiexec could not start them; it has said why.
            for line in self._err.taken + self._out.taken:
                print(line, file=sys.stderr)
            print("wavefabric: error: mpiexec could not start the ranks", file=sys.stderr)
        return self._muster.code() or (code if code > 0 else 128 - code)

    def _signal(self, dead: int, code: int) -> int:
        """Signal that ended a rank, 0 if it is not known."""
        death = self._death
        records = self._muster.records()
        fault = _FAULTS.get(self._muster.fault(dead))
        if fault is not None:
            return fault
        status = self._muster.status(dead)
        if status is not None:
            return max(0, -status)
        if death.signal is None:
            return 0
        if death.rank == dead:
            return death.signal
        # MPICH joins the statuses of all processes with "or"; the others were killed with 9.
        if death.signal == signal.SIGKILL or (
            self._job.ranks == 1 and dead in records and records[dead].pid == death.pid
        ):
            return death.signal
        return 0

    def _how(self, dead: int, code: int) -> str:
        fault = self._muster.fault(dead)
        if fault:
            free = shared_files.free_bytes()
            full = fault == "Bus error" and free is not None and free < 4e6
            why = f"; /dev/shm is full: {shared_files.ADVICE}" if full else ""
            return f"rank {dead} crashed ({fault[0].lower()}{fault[1:]}{why})"
        number = self._signal(dead, code)
        if number:
            return f"rank {dead} was killed (signal {number})"
        status = self._muster.status(dead)
        if self._death.signal is not None and status is None:
            return f"rank {dead} was killed"
        return f"rank {dead} ended without a word (exit code {code if status is None else status})"

    def _say(self, what: str) -> None:
        saved = self._job.checkpoint
        if saved is not None:
            there = saved.exists()
            what += f"; the same command goes on from {saved}" if there else "; no checkpoint yet"
        print(f"wavefabric: {what}", file=sys.stderr, flush=True)


class _Signals:
    """Handlers while inside, the ones before afterwards. Only the main thread may have any."""

    def __init__(self, handlers: dict[int, object]):
        self._handlers = handlers if threading.current_thread() is threading.main_thread() else {}
        self._before: dict[int, object] = {}

    def __enter__(self) -> None:
        for number, handler in self._handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                self._before[number] = signal.signal(number, handler)  # type: ignore[arg-type]

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _pump(pipe: IO[bytes], sieve: Sieve) -> None:
    while data := os.read(pipe.fileno(), 1 << 16):
        sieve.feed(data)


def _writer(stream):
    """Bytes to a text stream, at once."""

    def write(data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):
            raw = getattr(stream, "buffer", None)
            if raw is None:  # a stream that takes only text, such as a test's
                stream.write(data.decode(errors="replace"))
            else:
                stream.flush()
                raw.write(data)
            stream.flush()

    return write

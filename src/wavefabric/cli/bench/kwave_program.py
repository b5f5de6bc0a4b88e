"""Run k-Wave's compiled program on the problems of the ultrasound benchmarks."""

import errno
import math
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from wavefabric.acoustics.kwave.format import Reader
from wavefabric.acoustics.kwave.input import write_input
from wavefabric.base.errors import InputError
from wavefabric.cli.bench.ultrasound_cases import points, problem
from wavefabric.fabric.execution import timing
from wavefabric.runtime.device import Device

_SIMULATION, _MEMORY = "simulation_phase_execution_time", "total_memory_in_use"
_RUNS = 3
#: k-Wave reports its ``ru_maxrss``, which on Linux includes the peak of the process that called exec: of this
#: whole process, if it called exec. So a small shell (2 MB) starts the program in a child process. The
#: `exit` keeps this shell from replacing itself with the program.
_LAUNCHER = ("/bin/sh", "-c", '"$@"; exit $?', "sh") if os.name == "posix" else ()
_SECONDS = 2.0  # k-Wave reports time to 10 ms


class KWaveProgram:
    """Runs kspaceFirstOrder-OMP or -CUDA by its command line in single precision, the only one it has."""

    def __init__(self, path: str | Path, device: Device, precision: str):
        self.path = Path(path)
        if not self.path.is_file():
            raise InputError(f"--peer: {path} is not a file; allowed: kspaceFirstOrder-OMP or -CUDA")
        if precision != "single":
            raise InputError(f"--precision: {precision} with --peer; allowed: single, as k-Wave computes")
        self._device = device
        self._options = ["-t", str(device.threads)]
        if device.name != "cpu":
            self._options = ["-g", device.name.partition(":")[2]]

    def compare(
        self, medium: str, shape: tuple[int, int, int], step: Callable[[], None]
    ) -> dict[str, float | str]:
        """Return k-Wave's ``ms`` per step, the ``ratio`` of this time to ours, and its ``memory_bytes``.

        ``step`` takes one of our steps. The ratio is the median over pairs of runs, one of each program.
        """
        ours = timing.milliseconds(self._device, step, 1)[0]
        steps = min(2000, max(20, math.ceil(_SECONDS * 1e3 / ours)))
        with tempfile.TemporaryDirectory() as folder:
            actual = Path(folder) / "in.h5"
            write_input(actual, problem(medium, shape, steps), points(shape))
            times, ratios, memory = [], [], 0
            for _ in range(_RUNS):
                mine = timing.milliseconds(self._device, step, 1, max(1, steps // 4))[0]
                theirs, memory = self._timed_run(actual, steps)
                times.append(theirs)
                ratios.append(theirs / mine)
        return {
            "program": self.path.name,
            "steps": steps,
            "ms": statistics.median(times),
            "ratio": statistics.median(ratios),
            "memory_bytes": memory,
        }

    def job(self, inputs: Path, out: Path) -> float:
        """Return the wall time in s of the program on a file, from start to end."""
        begun = time.perf_counter()
        self._run(inputs, out)
        return time.perf_counter() - begun

    def _timed_run(self, inputs: Path, steps: int) -> tuple[float, int]:
        """Run the program once; return its ms per step, and its memory in bytes."""
        out = inputs.with_name("out.h5")
        self._run(inputs, out, "--benchmark", str(steps))
        return self._read(out, steps)

    def _run(self, inputs: Path, out: Path, *options: str) -> None:
        out.unlink(missing_ok=True)
        words = [str(self.path.resolve()), "-i", str(inputs), "-o", str(out), "-p", *options]
        if not os.access(self.path, os.X_OK):
            raise InputError(f"--peer: {self.path} cannot be run ({os.strerror(errno.EACCES)})")
        command = [*_LAUNCHER, *words, *self._options]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            code = f"failed with the exit code {done.returncode}"
            raise InputError(f"--peer: {self.path} {code}: {said[-1] if said else ''}")

    def _read(self, out: Path, steps: int) -> tuple[float, int]:
        try:
            with Reader(out) as file:
                attributes = file.attributes()
            took = float(attributes[_SIMULATION].strip().removesuffix("s"))
            memory = int(attributes[_MEMORY].strip().removesuffix("MB")) << 20
        except (InputError, KeyError, ValueError):
            says = f"wrote no output that says how long it took ({_SIMULATION}, {_MEMORY})"
            raise InputError(f"--peer: {self.path} {says}") from None
        if took <= 0:
            raise InputError(f"--peer: {self.path} says that {steps} steps took {took:g} s")
        return took * 1e3 / steps, memory

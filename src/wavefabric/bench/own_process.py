"""What ``ultrasound-step`` measures in processes of their own: bare 3-D transforms, and memory.

This package lets OpenMP threads sleep between kernels, since other threads are at work then; FFTW alone is up
to a tenth faster if its threads spin for a while, and the yardstick is FFTW at its best.
"""

import contextlib
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.bench.common import Triple
from wavefabric.device import Device, get_device
from wavefabric.errors import InputError
from wavefabric.execution import timing
from wavefabric.execution.report import shape_words
from wavefabric.system.machine import peak_memory

_SAMPLE_MS = 40.0
#: Between the smallest and the largest value; unscaled transforms grow by N a pair.
_DECADES = 40
#: GNU OpenMP's own choice where nothing is said about waiting: some milliseconds.
_SPIN = {"GOMP_SPINCOUNT": "300000"}
_REST = 0.05  # s, until those threads sleep
#: Of the runs whose memory is measured.
_STEPS, _TINY = 4, (16, 16, 16)


class Bare:
    """Transforms in this process: FFTW with all threads, planned by measurement, or cuFFT."""

    def __init__(self, device: Device, shape: Triple, dtype):
        nx, ny, nz = shape
        self._device = device
        self._plan = device.real_fft((nz, ny, nx), dtype)
        self.real = device.empty((nz, ny, nx), dtype)
        self._spectrum = device.empty((nz, ny, nx // 2 + 1), np.result_type(dtype, np.complex64))
        self._waves = [device.asarray(np.cos(np.arange(n) ** 2).astype(dtype)) for n in shape]
        self._each = 1
        self.milliseconds()
        largest = max(1, int(_DECADES / math.log10(math.prod(shape))))
        self._each = min(largest, math.ceil(_SAMPLE_MS / (2 * self.milliseconds())))

    def milliseconds(self) -> float:
        """Of one transform: the mean of as many forward and backward."""
        return timing.milliseconds(self._device, self._pair, 1, self._each, self._begin)[0] / 2

    def _begin(self) -> None:
        """Small numbers again, before the unscaled transforms have made them large."""
        x, y, z = self._waves
        self.real[...] = x * x.dtype.type(1e-20)
        self.real *= y[:, None]
        self.real *= z[:, None, None]

    def _pair(self) -> None:
        self._plan.forward(self.real, self._spectrum)
        self._plan.backward(self._spectrum, self.real)


@contextlib.contextmanager
def bare_transforms(device: Device, shape: Triple, dtype: np.dtype) -> Iterator[Callable[[], float]]:
    """A function that times one bare transform of a device on demand, in ms; see `Bare`."""
    if device.name != "cpu":
        yield Bare(device, shape, dtype).milliseconds
        return
    words = _command("transforms", shape_words(shape), dtype, device.threads)
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=_SPIN | os.environ)

    def ask() -> float:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write("\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise InputError(f"size: bare transforms ended with the exit code {process.wait()}")
        time.sleep(_REST)
        return float(answer)

    try:
        yield ask
    finally:
        process.kill()
        process.communicate()


def memory(medium: str, shape: Triple, precision: str, device: Device) -> dict[str, float]:
    """Bytes that a run adds at its peak, in a process that has done such a run on a tiny grid before.

    On a CPU the resident size; on a GPU what CuPy's pool holds, work areas of transforms in it.
    """
    size = shape_words(shape)
    words = _command("memory", medium, size, precision, device.name, device.threads)
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise InputError(f"size: {size}, {medium}, did not run: {said[-1]}")
    base, peak = map(int, done.stdout.splitlines()[-1].split())
    added, number = max(0, peak - base), 4 if precision == "single" else 8
    return {"bytes": added, "floats_per_point": added / number / math.prod(shape), "base_bytes": base}


def _command(*words: Any) -> list[str]:
    """Of a process that calls a function of this module."""
    return [sys.executable, "-m", __name__, *map(str, words)]


def _answer_times(size: str, dtype: str, threads: str) -> None:
    """Answer each line of the standard input with the time of a transform in ms."""
    x, y, z = map(int, size.split("x"))
    transforms = Bare(get_device("cpu", int(threads)), (x, y, z), np.dtype(dtype))
    for _ in sys.stdin:
        print(transforms.milliseconds(), flush=True)


def _print_memory(medium: str, size: str, precision: str, device: str, threads: str) -> None:
    """Run in this process, and print bytes before and at the peak."""
    from wavefabric.acoustics.problem import Recording
    from wavefabric.acoustics.recording.sinks import MemorySink
    from wavefabric.acoustics.run import run
    from wavefabric.acoustics.run_settings import RunSettings
    from wavefabric.bench.ultrasound_cases import points, problem

    chip = get_device(device, int(threads))

    def whole_run(shape) -> None:
        inputs, recording = problem(medium, shape, _STEPS, precision, chip), Recording(where=points(shape))
        run(inputs, recording, MemorySink(), RunSettings(device=chip, precision=precision))

    whole_run(_TINY)
    with contextlib.suppress(OSError):  # else a peak of the tiny run may hide a smaller one
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    base = _held(chip)
    whole_run(tuple(map(int, size.split("x"))))
    print(base, peak_memory() if chip.name == "cpu" else _held(chip))


def _held(device: Device) -> int:
    """Bytes of this process: resident on a CPU (0 if unknown), in CuPy's pool on a GPU."""
    if device.name != "cpu":
        return device.xp.get_default_memory_pool().total_bytes()  # also what the pool keeps for later
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


if __name__ == "__main__":
    try:
        {"transforms": _answer_times, "memory": _print_memory}[sys.argv[1]](*sys.argv[2:])
    except (InputError, MemoryError) as error:
        sys.exit(str(error) or "not enough memory")

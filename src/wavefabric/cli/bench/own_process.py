"""Measure bare Fourier transforms of a grid, as a reference, and the memory of a run in its own process."""

import contextlib
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.system.machine import peak_memory
from wavefabric.cli.bench.common import Triple, calls
from wavefabric.fabric.execution import timing
from wavefabric.fabric.execution.report import shape_words
from wavefabric.runtime.device import Device, get_device

_SAMPLE_MS = 40.0
#: Decades between the smallest and the largest value; unscaled transforms grow by N per pair.
_DECADES = 40
#: Steps of runs whose memory is measured, and the tiny grid of the run before the measured one.
_STEPS, _TINY = 4, (16, 16, 16)


class Bare:
    """Fourier transforms of a whole real grid, forward and back: our kernels on all threads, or cuFFT."""

    def __init__(self, device: Device, shape: Triple, dtype):
        nx, ny, nz = shape
        self._device = device
        self._plan = device.real_fft((nz, ny, nx), dtype)
        self.real = device.empty((nz, ny, nx), dtype)
        self._spectrum = device.empty((nz, ny, nx // 2 + 1), np.result_type(dtype, np.complex64))
        self._waves = [device.asarray(np.cos(np.arange(n) ** 2).astype(dtype)) for n in shape]
        self._begin()
        largest = max(1, int(_DECADES / math.log10(math.prod(shape))))
        self._each = min(largest, calls(device, self._pair, _SAMPLE_MS))

    def milliseconds(self) -> float:
        """Return ms per transform: the mean of equally many forward and backward ones."""
        return timing.milliseconds(self._device, self._pair, 1, self._each, self._begin)[0] / 2

    def _begin(self) -> None:
        """Set the field to small numbers, so that repeated unscaled transforms do not overflow."""
        x, y, z = self._waves
        self.real[...] = x * x.dtype.type(1e-20)
        self.real *= y[:, None]
        self.real *= z[:, None, None]

    def _pair(self) -> None:
        self._plan.forward(self.real, self._spectrum)
        self._plan.backward(self._spectrum, self.real)


def memory(medium: str, shape: Triple, precision: str, device: Device) -> dict[str, float]:
    """Return the memory that a run adds to a process that has done the same run on a tiny grid before.

    It is the peak, in bytes and in floating-point numbers per grid point. On a CPU it is resident memory; on
    a GPU it is CuPy's pool, which includes work areas of transforms.
    """
    size = shape_words(shape)
    words = medium, size, precision, device.name, device.threads
    done = subprocess.run([sys.executable, "-m", __name__, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise InputError(f"size: {size}, {medium}, did not run: {said[-1]}")
    base, peak = map(int, done.stdout.splitlines()[-1].split())
    added, number = max(0, peak - base), 4 if precision == "single" else 8
    return {"bytes": added, "floats_per_point": added / number / math.prod(shape), "base_bytes": base}


def _print_memory(medium: str, size: str, precision: str, device: str, threads: str) -> None:
    """Run a tiny and then the whole grid in this process; print the bytes in between, and at the peak."""
    from wavefabric.acoustics.problem import Recording
    from wavefabric.acoustics.recording.sinks import MemorySink
    from wavefabric.acoustics.run import run
    from wavefabric.acoustics.run_settings import RunSettings
    from wavefabric.cli.bench.ultrasound_cases import points, problem

    chip = get_device(device, int(threads))

    def whole_run(shape) -> None:
        inputs, recording = problem(medium, shape, _STEPS, precision, chip), Recording(where=points(shape))
        run(inputs, recording, MemorySink(), RunSettings(device=chip, precision=precision))

    whole_run(_TINY)
    with contextlib.suppress(OSError):  # else the peak of the tiny run may hide a smaller one
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    base = _device_bytes(chip)
    whole_run(tuple(map(int, size.split("x"))))
    print(base, peak_memory() if chip.name == "cpu" else _device_bytes(chip))


def _device_bytes(device: Device) -> int:
    """Return the bytes of this process: resident on a CPU (0 if unknown), in CuPy's pool on a GPU."""
    if device.name != "cpu":
        return device.xp.get_default_memory_pool().total_bytes()  # includes unused memory of the pool
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


if __name__ == "__main__":
    try:
        _print_memory(*sys.argv[1:])
    except (InputError, MemoryError) as error:
        sys.exit(str(error) or "not enough memory")

"""Bare real 3-D transforms, the yardstick of ``ultrasound-step``.

On a CPU they run in a process of their own. This package lets OpenMP threads sleep between kernels, since
other threads are at work then; FFTW alone is up to a tenth faster if its threads spin for a while, and the
yardstick is FFTW at its best. ``python -m wavefabric.bench.bare_transforms NXxNYxNZ DTYPE THREADS`` prints
the time of a transform for each line that it reads.
"""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from wavefabric.device import Device, get_device
from wavefabric.errors import InputError
from wavefabric.execution import measure
from wavefabric.execution.report import shape_words

_SAMPLE_MS = 40.0
#: Between the smallest and the largest value; unscaled transforms grow by N a pair.
_DECADES = 40
#: GNU OpenMP's own choice where nothing is said about waiting: some milliseconds.
_SPIN = {"GOMP_SPINCOUNT": "300000"}
_REST = 0.05  # s, until those threads sleep


class Bare:
    """Transforms in this process: FFTW with all threads, planned by measurement, or cuFFT."""

    def __init__(self, device: Device, shape: tuple[int, int, int], dtype):
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
        return measure.milliseconds(self._device, self._pair, 1, self._each, self._begin)[0] / 2

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
def bare_transforms(
    device: Device, shape: tuple[int, int, int], dtype: np.dtype
) -> Iterator[Callable[[], float]]:
    """A function that times one bare transform of a device on demand, in ms; see `Bare`."""
    if device.name != "cpu":
        yield Bare(device, shape, dtype).milliseconds
        return
    words = [sys.executable, "-m", __name__, shape_words(shape), str(dtype), str(device.threads)]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_SPIN | os.environ
    )
    try:
        yield lambda: _ask(process)
    finally:
        process.kill()
        process.communicate()


def _ask(process: subprocess.Popen) -> float:
    """The same in another process."""
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


def main(words: list[str]) -> None:
    """Answer each line of the standard input with a time in ms."""
    size, dtype, threads = words
    x, y, z = map(int, size.split("x"))
    transforms = Bare(get_device("cpu", int(threads)), (x, y, z), np.dtype(dtype))
    for _ in sys.stdin:
        print(transforms.milliseconds(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

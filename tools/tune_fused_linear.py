"""Times of the three fused kernels of the fibre's linear propagation on a GPU, for other splits of a row.

    python tools/tune_fused_linear.py complex64 512,16,32 1024,16,32 1024,8,32      # after the split in use
    python tools/tune_fused_linear.py complex128 512,8,32 1024,4,32

A split is the length of the columns' transforms, columns of a block, values that a thread holds (16 or 32,
also the largest radix). Fields of 30 rows × 2^21 samples; the error is that of one propagation of a row,
relative L2, against cuFFT in double precision.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace

import numpy as np

from wavefabric.optics.propagation.kernels.fused_linear_cuda import FusedSteps
from wavefabric.optics.propagation.kernels.fused_plan import FusedPlan, Transforms, fused_plan, transfers
from wavefabric.runtime.device import get_device

_ROWS, _SAMPLES, _RATE, _LENGTH, _REPEATS = 30, 1 << 21, 3e12, 1e4, 20
_FIBRE = np.array([[5e-5, 1e-12, -2e-26, 1e-40, 0.0]])


def plans(dtype, splits: list[str]) -> list[FusedPlan]:
    """The one in use, and those of the command line."""
    now = fused_plan(_SAMPLES, dtype)
    assert now is not None
    result = [now]
    for split in splits:
        points, side, held = map(int, split.split(","))
        columns = Transforms(points, side, now.columns.item, held)
        result.append(replace(now, columns=columns, rows=replace(now.rows, points=_SAMPLES // points)))
    return result


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dtype", choices=("complex64", "complex128"))
    parser.add_argument("splits", nargs="*")
    inputs = parser.parse_args()
    import cupy

    device, dtype = get_device("cuda"), np.dtype(inputs.dtype)
    random = cupy.random.default_rng(0)
    parts = [random.standard_normal((_ROWS, _SAMPLES), dtype=np.float32) for _ in range(2)]
    field = (parts[0] + 1j * parts[1]).astype(dtype)
    del parts
    first = field[0].astype(np.complex128)
    phases, size = np.split(transfers(_FIBRE, _RATE, _LENGTH, _SAMPLES)[0], [4])
    x = cupy.fft.fftfreq(_SAMPLES)
    turns = x * (phases[0] + x * (phases[1] + x * (phases[2] + x * phases[3])))
    exact = cupy.fft.ifft(cupy.fft.fft(first) * cupy.exp(1j * np.pi * turns) * size[0] * _SAMPLES)
    launch, events = FusedSteps._launch, {}

    def timed(self, name, *arguments):
        pair = cupy.cuda.Event(), cupy.cuda.Event()
        pair[0].record()
        launch(self, name, *arguments)
        pair[1].record()
        events.setdefault(name, []).append(pair)

    for plan in plans(dtype, inputs.splits):
        table_row = np.arange(_ROWS, dtype=np.int32) // 2
        kernels = FusedSteps(device, plan, np.repeat(_FIBRE, _ROWS // 2, 0), table_row, _RATE)
        field[0] = first.astype(dtype)
        kernels.propagate(field, _LENGTH)
        error = cupy.linalg.norm(field[0].astype(np.complex128) - exact) / cupy.linalg.norm(exact)
        events.clear()
        FusedSteps._launch = timed
        try:
            for _ in range(_REPEATS):
                kernels.propagate(field, _LENGTH)
        finally:
            FusedSteps._launch = launch
        device.synchronize()
        result = {
            name: round(statistics.median(cupy.cuda.get_elapsed_time(*pair) for pair in pairs), 4)
            for name, pairs in events.items()
        }
        shape = f"{plan.columns.radices} x {plan.columns.side}, rows {plan.rows.radices}"
        print(
            f"{dtype} {shape}: {sum(result.values()):.3f} ms, error {float(error):.2g}, {result}", flush=True
        )


if __name__ == "__main__":
    main()

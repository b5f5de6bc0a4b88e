"""Times of every pass of the fused ultrasound step on a GPU, by what `axis_blocks._work` says.

    python tools/tune_axis_kernels.py SIZE [--medium homogeneous] [--choices tools/choices.json] [--steps 10]
    python tools/tune_axis_kernels.py SIZE --registers     # nvcc's registers and spills instead, without a
    GPU

Choices are a JSON list of objects: "name"; by axis (X, Y, Z, G: the gradient along z) [values a thread
holds, largest radix, threads that share a multiprocessor's registers]; "threads", by axis, most threads of a
block; "shared", most bytes of shared memory of a block.

The first line of each choice is the time of a step as a CUDA graph, ms; then the median of each kernel's
time, one number for each of its launches in a step.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.fused import axis_blocks
from wavefabric.acoustics.fused import axis_kernels_cuda as kernels
from wavefabric.acoustics.materials.find import AT_POINTS
from wavefabric.acoustics.solver.step import Step
from wavefabric.cli.bench.ultrasound_cases import light_problem
from wavefabric.runtime.device import get_device
from wavefabric.runtime.kernels.cuda_text import cuda_text

_OF_A_KERNEL = r"entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) reg"
_MEDIA = ("homogeneous", "heterogeneous", "tissues")


@contextmanager
def chosen(choice: dict):
    """The module's settings as a choice says."""
    kept = axis_blocks._work, dict(axis_blocks._THREADS), axis_blocks._SHARED
    axes = {axis: axis_blocks._Work(*choice[axis]) for axis in "XYZG" if axis in choice}
    axis_blocks._work = lambda name, *grid: axes.get(name) or kept[0](name, *grid)
    axis_blocks._THREADS.update(choice.get("threads", {}))
    axis_blocks._SHARED = choice.get("shared", kept[2])
    try:
        yield
    finally:
        axis_blocks._work, axis_blocks._SHARED = kept[0], kept[2]
        axis_blocks._THREADS.update(kept[1])


def times(size: int, medium: str, choices: list[dict], steps: int) -> None:
    """Print times of a step and of its kernels for each choice."""
    import cupy

    device, problem = get_device("cuda"), light_problem(medium, (size,) * 3)
    launch, events = kernels.AxisKernels._launch, {}

    def timed(self, name, grid, *arguments):
        pair = cupy.cuda.Event(), cupy.cuda.Event()
        pair[0].record()
        launch(self, name, grid, *arguments)
        pair[1].record()
        events.setdefault(name, []).append(pair)

    for choice in choices:
        with chosen(choice):
            stages = make_stages(device, problem, np.float32)
            step = Step(stages)
            for number in range(4):
                step.take(number)
            rounds = []
            for _ in range(3):
                first, last = cupy.cuda.Event(), cupy.cuda.Event()
                first.record()
                for number in range(steps):
                    step.take(4 + number)
                last.record()
                last.synchronize()
                rounds.append(cupy.cuda.get_elapsed_time(first, last) / steps)
            events.clear()
            kernels.AxisKernels._launch = timed
            try:
                for _ in range(steps):
                    step.advance(stages.sources.active(100))
            finally:
                kernels.AxisKernels._launch = launch
            device.synchronize()
            result = {}
            for name, pairs in events.items():
                each = [cupy.cuda.get_elapsed_time(*pair) for pair in pairs]
                count = len(each) // steps
                result[name] = [round(statistics.median(each[i::count]), 3) for i in range(count)]
            total = sum(map(sum, result.values()))
            step_time = statistics.median(rounds)
            print(f"{size} {medium} {choice['name']}: step {step_time:.3f}, kernels {total:.3f}")
            print(f"  {result}", flush=True)
            del stages, step
            cupy.get_default_memory_pool().free_all_blocks()


def registers(size: int, medium: str, choices: list[dict]) -> None:
    """Print nvcc's registers and spills of each kernel for each choice."""
    mixed = medium != "homogeneous"
    forms = dict.fromkeys((*AT_POINTS, "staggered"), "full" if mixed else "uniform")
    layers = np.array([[0, 10, 0], [size - 10, size, 10]], np.uint64)
    text = cuda_text(*kernels.SOURCES)
    for choice in choices:
        with chosen(choice), tempfile.TemporaryDirectory() as folder:
            series = kernels.sinc_series(1.2, np.float32)
            kind = kernels.MediumKind(mixed, "power_law" if mixed else "none", forms, mixed)
            source = Path(folder) / "fused.cu"
            defined = kernels.prelude((size,) * 3, np.float32, kind, "XYZG", series, layers)
            source.write_text(defined + text, "utf-8")
            options = ["-arch=sm_90", "--std=c++17", "-Xptxas", "-v", "-cubin", "-o", "/dev/null"]
            command = ["nvcc", *options, source]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
            print(f"{size} {medium} {choice['name']}")
            for name, writes, loads, used in re.findall(_OF_A_KERNEL, said, re.DOTALL):
                print(f"  {name}: {used} registers, spills {writes} / {loads} bytes")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("size", type=int)
    parser.add_argument("--medium", default="homogeneous", choices=_MEDIA)
    parser.add_argument("--choices", type=Path)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--registers", action="store_true")
    inputs = parser.parse_args()
    choices = json.loads(inputs.choices.read_text("utf-8")) if inputs.choices else [{"name": "now"}]
    if inputs.registers:
        registers(inputs.size, inputs.medium, choices)
    else:
        times(inputs.size, inputs.medium, choices, inputs.steps)


if __name__ == "__main__":
    main()

"""What an ultrasound run takes of the memory, measured in a process of its own.

``python -m wavefabric.bench.ultrasound_memory MEDIUM NXxNYxNZ PRECISION DEVICE THREADS`` prints bytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from wavefabric.device import Device, get_device
from wavefabric.errors import InputError
from wavefabric.execution.report import shape_words

_STEPS = 4
_TINY = (16, 16, 16)


def measure(medium: str, shape: tuple[int, int, int], precision: str, device: Device) -> tuple[int, int]:
    """Bytes before and at the peak of a run, in a process that has done such a run on a tiny grid before.

    On a CPU the resident size; on a GPU what CuPy's pool holds, work areas of transforms in it.
    """
    size = shape_words(shape)
    words = [sys.executable, "-m", __name__, medium, size, precision, device.name, str(device.threads)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise InputError(f"size: {size}, {medium}, did not run: {said[-1]}")
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def main(words: list[str]) -> None:
    """Run in this process, and print what `measure` returns."""
    from wavefabric.acoustics.problem import Recording
    from wavefabric.acoustics.recording.sinks import MemorySink
    from wavefabric.acoustics.run import run
    from wavefabric.bench.ultrasound_cases import problem, sensor

    medium, size, precision, device, threads = words
    chip = get_device(device, int(threads))

    def whole_run(shape) -> None:
        given = problem(medium, shape, _STEPS, precision)
        run(given, Recording(where=sensor(shape)), MemorySink(), device=chip, precision=precision)

    whole_run(_TINY)
    if chip.name == "cpu":
        _forget_peak()
        base = _resident("VmRSS")
        whole_run(tuple(map(int, size.split("x"))))
        peak = _resident("VmHWM")
    else:
        base = chip.used_memory()
        whole_run(tuple(map(int, size.split("x"))))
        peak = chip.used_memory()
    print(json.dumps([base, peak]))


def _resident(key: str) -> int:
    """VmRSS (now) or VmHWM (largest) of this process, bytes; where Linux does not say, the largest."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    from wavefabric.system.machine import peak_memory

    return peak_memory()


def _forget_peak() -> None:
    """Set VmHWM to VmRSS; without that, a peak of the tiny run may hide a smaller one."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (InputError, MemoryError) as error:
        sys.exit(str(error) or "not enough memory")

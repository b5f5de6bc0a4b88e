"""What a process says of itself."""

import subprocess
import sys

import numpy as np
import pytest

from wavefabric.base.system import machine

WORDS = """\
import numpy as np
from wavefabric.base.system.machine import peak_memory
x = np.ones({})
print(peak_memory())
"""


def started(numbers):
    done = subprocess.run([sys.executable, "-c", WORDS.format(numbers)], capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
def test_peak_memory_is_not_that_of_the_starter():
    fat = np.ones(400 << 20, np.uint8)
    small = started(1)
    assert 1 << 20 < small < 200 << 20
    large = started(16 << 20)  # 128 MiB
    assert abs(large - small - (128 << 20)) < 16 << 20
    assert fat.all()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 24 22:51:20 UTC 2024\n",
            "535.161.08",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC 13\n",
            "580.65.06",
        ),
        ("something else\n", ""),
    ],
)
def test_nvidia_driver(monkeypatch, text, version):
    monkeypatch.setattr(machine.Path, "read_text", lambda self, **_: text)
    assert machine.nvidia_driver() == version

"""A word before kernels are compiled, and none if they come from Numba's cache."""

import os
import subprocess
import sys

import pytest

KERNELS = """\
from numba import njit

@njit(cache=True)
def double(x):
    return 2 * x

@njit(cache=True)
def half(x):
    return x / 2
"""

SCRIPT = """\
from wavefabric.device import compiling, get_device

compiling.before_first(lambda: print("compiling"))
kernels = get_device("cpu", 1).kernels("tiny")
print("before")
kernels.double({0})
kernels.half({0})
print("after")
"""


def said(folder, number):
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "NUMBA_CACHE_DIR": str(folder / "numba")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(number)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_once_before_the_first_compilation_and_never_with_a_warm_cache(tmp_path):
    (tmp_path / "tiny.py").write_text(KERNELS)
    assert said(tmp_path, "3") == ["before", "compiling", "after"]
    assert said(tmp_path, "3") == ["before", "after"]
    assert said(tmp_path, "3.0") == ["before", "compiling", "after"]  # another type: a part is not there

"""Kernels on all threads of a CPU: every iteration runs once, and sees the arguments of the call."""

import subprocess
import sys
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.device.parallel_kernels import Thread, parallel_kernel, thread_range

THREADS = range(1, min(4, numba.config.NUMBA_NUM_THREADS) + 1)  # pyright: ignore


class Pair(NamedTuple):
    """Arrays by name, one within another tuple."""

    first: Any
    rest: Any


@parallel_kernel
def scale_rows(thread, out, source, factors, add):
    """out = first · rest · source [+ 1]; the row's thread in the last column."""
    for r in thread_range(thread, out.shape[0]):
        for i in range(source.shape[1]):
            out[r, i] = factors.first[r] * factors.rest[0] * source[r, i] + (1 if add else 0)
        out[r, source.shape[1]] = thread.number


@parallel_kernel
def count_threads(thread, out):
    """Each thread's count at its number."""
    out[thread.number] += thread.count


@pytest.fixture(params=THREADS)
def threads(request):
    """So many threads of Numba."""
    before = numba.get_num_threads()
    numba.set_num_threads(request.param)
    yield request.param
    numba.set_num_threads(before)


@given(st.integers(0, 10**12), st.integers(1, 300))
def test_threads_divide_a_range(n, count):
    parts = [thread_range.py_func(Thread(number, count), n) for number in range(count)]
    assert (parts[0].start, parts[-1].stop) == (0, n)
    assert all(before.stop == after.start for before, after in pairwise(parts))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("layout", ["rows", "columns", "parts"])
def test_every_thread_sees_the_arguments(threads, dtype, rows, layout):
    rng = np.random.default_rng(rows)
    source = rng.standard_normal((rows, 5)).astype(dtype)
    if layout == "columns":
        source = np.asfortranarray(source)
    elif layout == "parts":
        source = np.repeat(source, 2, axis=1)[:, ::2]
    first, out = rng.standard_normal(rows).astype(dtype), np.full((rows, 6), np.nan, dtype)
    before = [sys.getrefcount(array) for array in (source, first, out)]
    for add in (False, True):
        scale_rows(out, source, Pair(first, (dtype(0.5), np.zeros(0))), add)
        np.testing.assert_array_equal(out[:, :5], first[:, None] * dtype(0.5) * source + dtype(add))
        assert set(out[:, 5]) <= set(range(threads))
    assert [sys.getrefcount(array) for array in (source, first, out)] == before


def test_it_runs_once_a_thread(threads):
    out = np.zeros(8, np.int64)
    for calls in range(1, 4):
        count_threads(out)
        assert out.tolist() == [calls * threads] * threads + [0] * (8 - threads)


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="too many positional arguments"):
        count_threads(np.zeros(1), 2)
    with pytest.raises(TypeError, match="missing a required argument: 'out'"):
        count_threads()


KERNEL = """
from wavefabric.device.parallel_kernels import parallel_kernel

@parallel_kernel
def count(thread, out):
    out[thread.number] += 1
"""
PROGRAM = """
import numpy as np
from numba.core import event
import kernel
with event.install_recorder("numba:compile") as compiled:
    kernel.count(np.zeros(64))
print(len(compiled.buffer) > 0)
"""


def test_a_later_process_compiles_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "kernel.py").write_text(KERNEL)
    for compiles in (True, False):
        words = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
        assert done.stdout == f"{compiles}\n", done.stderr

"""Calls of what `wavefabric.device.vector_code` has compiled, and arrays whose surroundings are watched."""

import ctypes
import faulthandler
import math
import mmap
import os
from functools import cache

import numpy as np
import pytest
from llvmlite import binding

from wavefabric.device import vector_code

_PAGE = mmap.PAGESIZE


def call(function, table=None, source=None, target=None, operator=None):
    """Call through ctypes; what is None is a null pointer."""
    arrays = (table, source, target, operator)
    addresses = [None if one is None else one.ctypes.data for one in arrays]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(function.address)(*addresses)


def complex_noise(rng, shape, dtype):
    """Complex normal numbers of the precision of a real type."""
    values = rng.standard_normal((*shape, 2)) @ [1, 1j]
    return values.astype(np.result_type(dtype, np.complex64))


def oldest_processor(monkeypatch):
    """From now on code is compiled for the first x86-64: vectors of 16 bytes, no fused multiply-add."""
    if not binding.get_process_triple().startswith("x86_64"):
        pytest.skip("the oldest processor is that of x86-64")
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: "x86-64")
    monkeypatch.setattr(binding, "get_host_cpu_features", binding.FeatureMap)
    monkeypatch.setattr(vector_code, "_compiler", cache(vector_code._compiler.__wrapped__))


def bits(array):
    """Bytes, so that NaN and the sign of 0 count."""
    return np.ascontiguousarray(array).tobytes()


def survives(work):
    """Whether ``work()``, in a process of its own, comes to its end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            faulthandler.disable()
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


class Guarded:
    """An array between two pages that cannot be touched, at the very end or the very beginning of its own.

    A read or a write outside ends the process: call in `survives`.
    """

    def __init__(self, values, at_end: bool):
        values = np.ascontiguousarray(values)
        space = -(-max(values.nbytes, 1) // _PAGE) * _PAGE
        self._memory = mmap.mmap(-1, space + 2 * _PAGE)
        whole = np.frombuffer(self._memory, np.uint8)
        first = _PAGE + (space - values.nbytes if at_end else 0)
        self.array = whole[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
        self.array[...] = values
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for offset in (0, _PAGE + space):
            assert protect(whole.ctypes.data + offset, _PAGE, 0) == 0


def relative_error(got, wanted):
    """In the L2 norm."""
    return float(np.linalg.norm((got - wanted).ravel()) / np.linalg.norm(wanted.ravel()))


def allowed(points, dtype):
    """Relative error of a transform of so many points: errors of its stages add up like a random walk."""
    return 0.5 * np.finfo(dtype).eps * math.sqrt(1 + math.log2(points))

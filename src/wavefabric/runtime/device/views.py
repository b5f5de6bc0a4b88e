"""View arrays of other libraries as NumPy arrays, without a copy if they are in host memory."""

from typing import Any

import numpy as np

from wavefabric.runtime.device.bfloat16 import viewed

#: DLPack's numbers of GPU memory and of managed memory.
DLPACK_CUDA = (2, 13)


class _Memory:
    """A memory region with an array interface for NumPy; the object ``keep`` stays alive with it."""

    def __init__(self, array: np.ndarray, shape: tuple[int, ...], strides=None, keep: Any = None):
        self.__array_interface__ = {
            "version": 3,
            "data": (address(array), False),
            "shape": shape,
            "strides": strides,
            "typestr": array.dtype.str,
        }
        self._keep = keep


def address(array: np.ndarray, /) -> int:
    """Return the start address of an array in memory, whatever its strides."""
    return array.__array_interface__["data"][0]


def view(array: Any, /, write: bool = False) -> np.ndarray | None:
    """Return an array of any library as a NumPy array in the same memory; None if not in host memory."""
    return viewed(array, lambda each: _view(each, write))


def _view(array: Any, write: bool) -> np.ndarray | None:
    if isinstance(array, np.generic):  # NumPy's scalars: their interface refers to a copy
        result = np.asarray(array)
        result.flags.writeable = False
    elif isinstance(array, np.ndarray) or hasattr(array, "__array_interface__"):
        result = np.asarray(array)
    elif hasattr(array, "__dlpack__"):
        result = _from_dlpack(array)
    else:
        return None
    if write and not result.flags.writeable:
        raise ValueError("read-only")
    return result


def _from_dlpack(array: Any) -> np.ndarray:
    result = np.from_dlpack(array)
    if result.flags.writeable:
        return result
    try:
        array.__dlpack__(max_version=(1, 0))
    except TypeError:
        # DLPack before 1.0 is for writable memory, but NumPy returns a read-only array.
        return np.asarray(_Memory(result, result.shape, result.strides, keep=result))
    return result


def borrow(array: np.ndarray, /) -> np.ndarray:
    """Return a 1-D view of a contiguous array; the view does not keep the memory alive."""
    # For a type that NumPy lacks, the interface has the width, but not the type.
    return np.asarray(_Memory(array, (array.size,))).view(array.dtype)

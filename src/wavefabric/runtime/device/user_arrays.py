"""Convert arrays of users, also GPU arrays of other libraries, to NumPy arrays; errors name the argument."""

from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, ensure, one_line
from wavefabric.runtime.device.views import DLPACK_CUDA


def host_array(array: Any, /) -> Any:
    """Return a host copy of an array on a GPU (of CuPy, PyTorch, JAX); any other object unchanged."""
    shared = hasattr(array, "__cuda_array_interface__")
    if not shared and not (
        hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] in DLPACK_CUDA
    ):
        return array
    import cupy

    return cupy.asnumpy(cupy.asarray(array) if shared else cupy.from_dlpack(array))


def as_array(values: Any, key: str) -> np.ndarray:
    """Return ``values`` as an array in host memory; arrays on a GPU are copied.

    `InputError` names ``key`` if ``values`` cannot be converted.
    """
    try:
        return np.asarray(host_array(values))
    except ValueError:
        raise InputError(f"{key}: lists of different lengths given; allowed: an array") from None
    except (TypeError, RuntimeError, BufferError, ImportError) as error:  # tensors that need gradients
        raise InputError(f"{key}: {one_line(str(error))}; allowed: an array") from None


def shared_array(values: Any, key: str, device: Any) -> Any:
    """Return ``values`` as an array on ``device`` if they are there, without a copy; else in host memory.

    `InputError` names ``key`` if ``values`` cannot be converted.
    """
    try:
        view = device.view(values)
    except (TypeError, RuntimeError, BufferError, ValueError):  # `as_array` says what is wrong
        view = None
    return as_array(values, key) if view is None else view


def real_array(values: Any, key: str) -> np.ndarray:
    """Return ``values`` as an array in host memory; `InputError` unless they are real numbers."""
    array = as_array(values, key)
    ensure(array.dtype.kind in "fiu", key, f"is of type {array.dtype}", "real numbers")
    return array

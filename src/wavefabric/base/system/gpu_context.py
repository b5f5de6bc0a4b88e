"""Create the CUDA context of this process on a thread, while Python imports CuPy, which needs it."""

import ctypes
from functools import cache
from threading import Thread


@cache
def begin_context(index: int) -> Thread | None:
    """Create the CUDA context of GPU ``index`` on a thread; return the thread, or None without a CUDA driver.

    The context is the primary context of the GPU, which the CUDA runtime and CuPy use. Creation takes 0.4 s,
    about as long as the import of CuPy. Errors are ignored here: CuPy meets the same errors and reports them.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    thread = Thread(target=_make, args=(driver, index), name="CUDA context")
    thread.start()
    return thread


def _make(driver: ctypes.CDLL, index: int) -> None:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), index) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)

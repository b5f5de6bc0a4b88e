"""Begins the CUDA context of a process on a thread, while Python imports the libraries that use it."""

import ctypes
from threading import Thread


def begin_context(index: int) -> Thread | None:
    """Start the driver on a thread and make the context of a GPU there; None where there is no driver.

    CUDA's runtime, and with it CuPy, uses this context, the primary one of the GPU; to make it takes 0.4 s,
    about as long as to import CuPy. Errors are left to CuPy, which meets them again and names them.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    thread = Thread(target=_make, args=(driver, index), name="CUDA context", daemon=True)
    thread.start()
    return thread


def _make(driver: ctypes.CDLL, index: int) -> None:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), index) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)

"""Allocate memory that NVSwitches multicast to and sum: CUDA multicast objects shared by ranks of a host.

CuPy does not wrap these calls, so ctypes calls the driver. CUDA driver API, sections 6.14 and 6.15
(virtual memory, multicast objects): https://docs.nvidia.com/cuda/cuda-driver-api/.
"""

import ctypes
import os
import socket
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

import cupy

from wavefabric.base.errors import InputError

#: NCCL's environment variable for the same hardware: 0 forbids it.
SWITCH = "NCCL_NVLS_ENABLE"
_SUPPORTED = 132  # CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
_FD = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_PINNED, _DEVICE, _READ_WRITE, _MINIMUM = 1, 1, 3, 0
#: Seconds that ranks wait for one another when they exchange descriptors.
_TIMEOUT = 60.0
_T = TypeVar("_T")


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Memory(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Multicast(ctypes.Structure):  # CUmulticastObjectProp
    _fields_ = (
        ("devices", ctypes.c_uint),
        ("size", ctypes.c_size_t),
        ("handle_types", ctypes.c_ulonglong),
        ("flags", ctypes.c_ulonglong),
    )


class _Access(ctypes.Structure):  # CUmemAccessDesc
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Driver:
    """Calls the CUDA driver for multicast memory, with integer handles; `InputError` names a failed call."""

    def __init__(self):
        self._cuda = ctypes.CDLL("libcuda.so.1")

    def _call(self, name: str, *arguments) -> None:
        if code := getattr(self._cuda, name)(*arguments):
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(code, ctypes.byref(text))
            why = (text.value or b"").decode() or str(code)
            raise InputError(f"transport: {name} failed ({why}); allowed: GPUs on NVSwitches that multicast")

    def supported(self, device: int) -> bool:
        """Return whether a GPU supports multicast objects."""
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), _SUPPORTED, device)
        return bool(value.value)

    def rounded(self, devices: int, nbytes: int) -> int:
        """Round ``nbytes`` up to a size that a multicast object for ``devices`` GPUs may have."""
        grain, wanted = ctypes.c_size_t(), _Multicast(devices, nbytes, _FD, 0)
        self._call("cuMulticastGetGranularity", ctypes.byref(grain), ctypes.byref(wanted), _MINIMUM)
        return -(-nbytes // grain.value) * grain.value

    def create(self, devices: int, nbytes: int) -> int:
        """Create a multicast object for ``devices`` GPUs; every rank then adds its GPU. Return its handle."""
        handle, wanted = ctypes.c_ulonglong(), _Multicast(devices, nbytes, _FD, 0)
        self._call("cuMulticastCreate", ctypes.byref(handle), ctypes.byref(wanted))
        return handle.value

    def export(self, handle: int) -> int:
        """Export the object ``handle`` as a file descriptor that other processes can import."""
        fd = ctypes.c_int()
        number = ctypes.c_ulonglong(handle)
        self._call("cuMemExportToShareableHandle", ctypes.byref(fd), number, _FD, ctypes.c_ulonglong(0))
        return fd.value

    def import_(self, fd: int) -> int:
        """Import the object that another process exported as the descriptor ``fd``; return its handle."""
        handle = ctypes.c_ulonglong()
        self._call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), _FD)
        return handle.value

    def add(self, handle: int, device: int) -> None:
        """Add a GPU to the multicast object ``handle``."""
        self._call("cuMulticastAddDevice", ctypes.c_ulonglong(handle), device)

    def memory(self, device: int, nbytes: int) -> int:
        """Allocate memory of a GPU without mapping it; return its handle."""
        handle, wanted = ctypes.c_ulonglong(), _Memory(_PINNED, _FD, _Location(_DEVICE, device))
        size = ctypes.c_size_t(nbytes)
        self._call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(wanted), ctypes.c_ulonglong(0))
        return handle.value

    def bind(self, handle: int, memory: int, nbytes: int) -> None:
        """Bind memory of this rank's GPU to the multicast object ``handle``, as this GPU's copy."""
        numbers = (handle, 0, memory, 0, nbytes, 0)
        self._call("cuMulticastBindMem", *map(ctypes.c_ulonglong, numbers))

    def map(self, handle: int, device: int, nbytes: int) -> int:
        """Map a multicast object, or memory of a GPU, for reading and writing; return the address."""
        at, size, none = ctypes.c_ulonglong(), ctypes.c_size_t(nbytes), ctypes.c_ulonglong(0)
        self._call("cuMemAddressReserve", ctypes.byref(at), size, ctypes.c_size_t(0), none, none)
        self._call("cuMemMap", at, size, ctypes.c_size_t(0), ctypes.c_ulonglong(handle), none)
        access = _Access(_Location(_DEVICE, device), _READ_WRITE)
        self._call("cuMemSetAccess", at, size, ctypes.byref(access), ctypes.c_size_t(1))
        return at.value


driver: Callable[[], Driver] = cache(Driver)


@dataclass(frozen=True)
class MulticastMemory:
    """Memory of which each rank has a copy; an NVSwitch writes to all copies, or adds them, in one operation.

    ``own`` is the address of this rank's copy, ``everywhere`` the multicast address of all copies.
    """

    own: int
    everywhere: int
    nbytes: int

    def array(self, offset: int, size: int, dtype) -> Any:
        """Return an array of ``size`` elements in this rank's copy, which begins at byte ``offset``."""
        memory = cupy.cuda.UnownedMemory(self.own, self.nbytes, self)
        return cupy.ndarray((size,), dtype, cupy.cuda.MemoryPointer(memory, offset))


def check_multicast(transport) -> None:
    """Raise `InputError` on all ranks, which call this together, if their GPUs cannot multicast."""
    transport.multiprocessors()  # raises unless ranks are on one host, each with its GPU
    off = os.environ.get(SWITCH) == "0"
    able = not off and driver().supported(cupy.cuda.Device().id)
    told = transport.control.all_gather((off, able))
    if any(off for off, _ in told):
        raise InputError(f"{SWITCH}: 0 given for a schedule of multicasts; allowed: 1, or other algorithms")
    if not all(able for _, able in told):
        rank = [able for _, able in told].index(False)
        raise InputError(
            f"schedule: the GPU of rank {rank} has no multicast; allowed: GPUs on NVSwitches (H100)"
        )


class MulticastPool:
    """Manages a transport's multicast memory: allocated when first needed, reused, never freed."""

    def __init__(self, transport):
        self._transport = transport
        self._made: list[MulticastMemory] = []
        self._free: set[int] = set()

    def take(self, nbytes: int, owner: Any) -> MulticastMemory:
        """Return multicast memory of ``nbytes`` or more until ``owner`` is deleted; all ranks call this."""
        mine = {number for number in self._free if self._made[number].nbytes >= nbytes}
        fitting = set.intersection(*self._transport.control.all_gather(mine))
        number = min(fitting, key=lambda n: (self._made[n].nbytes, n), default=len(self._made))
        if number == len(self._made):
            self._made.append(_shared_memory(self._transport.control, nbytes))
        else:
            # Work of the previous owner may still read or write this memory.
            cupy.cuda.runtime.deviceSynchronize()
        self._free.discard(number)
        weakref.finalize(owner, self._free.add, number)
        return self._made[number]


def _shared_memory(control, nbytes: int) -> MulticastMemory:
    calls, device = driver(), cupy.cuda.Device().id
    size = calls.rounded(control.size, nbytes)
    handle = _shared_handle(control, size)

    def bound() -> MulticastMemory:
        memory = calls.memory(device, size)
        own = calls.map(memory, device, size)
        calls.bind(handle, memory, size)
        return MulticastMemory(own, calls.map(handle, device, size), size)

    # All GPUs are added before a rank binds memory, all memory is bound before a rank writes.
    _on_all(control, lambda: calls.add(handle, device))
    return _on_all(control, bound)


def _on_all(control, call: Callable[[], _T]) -> _T:
    """Run ``call`` on all ranks and return its result; if it fails on one rank, all raise `InputError`."""
    result, fault = None, ""
    try:
        result = call()
    except (InputError, OSError) as error:
        fault = str(error)
    for rank, each in enumerate(control.all_gather(fault)):
        if each:
            raise InputError(f"{each} (rank {rank})")
    return cast("_T", result)


def _shared_handle(control, nbytes: int) -> int:
    """Return a handle of the multicast object that rank 0 creates and shares through a local socket."""
    calls, fds = driver(), []

    def create() -> int:
        end.bind(name)
        end.listen(control.size)
        handle = calls.create(control.size, nbytes)
        fds.append(calls.export(handle))
        return handle

    def hand_over() -> int:
        if control.rank:
            end.connect(name)
            fds.extend(socket.recv_fds(end, 1, 1)[1])
            if not fds:
                raise OSError("multicast: no descriptor came from rank 0")
            return calls.import_(fds[0])
        for _ in range(control.size - 1):
            client, _ = end.accept()
            with client:
                socket.send_fds(client, [b"x"], fds)
        return handle

    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(_TIMEOUT)
        # A name in Linux's abstract namespace, which leaves no file behind.
        name = control.bcast(f"\0wavefabric-{os.getpid()}-{id(end)}")
        try:
            handle = _on_all(control, create if control.rank == 0 else int)
            return _on_all(control, hand_over)
        finally:
            for fd in fds:
                os.close(fd)

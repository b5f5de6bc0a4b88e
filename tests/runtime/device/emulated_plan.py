"""Ranks whose kernels (`plan.cu`) run at once: on the emulator, on memory between guards, or on one GPU."""

import ctypes
from functools import cache
from importlib.resources import files
from itertools import pairwise

import numpy as np
from emulated_cuda import Module, empty

from wavefabric.runtime.exchange.transports.plan_code import (
    MOST_BLOCKS,
    RankMemory,
    StagingLayout,
    check_switched,
    element_type,
    encode,
    has_sums,
)

#: As good as for ever on the emulator, whose clock ticks once a look, and half a minute on a GPU.
PATIENT = 1 << 35


def plan_source() -> str:
    """The kernel, with what goes before it."""
    folder = files("wavefabric.runtime.exchange.transports")
    return "\n".join(
        folder.joinpath(name).read_text(encoding="utf-8") for name in ("signals.cu", "multimem.cu", "plan.cu")
    )


class _Multicast(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_void_p), ("copies", ctypes.c_void_p * 16), ("size", ctypes.c_size_t))


def set_multicast(library, everywhere, copies):
    """Let addresses of an array stand for those of several, which begin at these addresses."""
    table = _Multicast.in_dll(library, "emulated_multicast")
    table.begin, table.size = everywhere.ctypes.data, everywhere.nbytes
    table.copies[: len(copies) + 1] = [*copies, None]


class OnTheCpu:
    """The emulator's arrays and launches."""

    def __init__(self, source, element):
        module = Module(source, (f"-DELEMENT={element}",))
        self._kernel, self._library = module.kernel("run_plan"), module.library

    def array(self, values):
        out = empty(values.shape, values.dtype)
        out[...] = values
        return out

    inputs, fetch = staticmethod(np.asarray), staticmethod(np.array)

    def multicast(self, everywhere, copies):
        set_multicast(self._library, everywhere, [copy.data.ptr for copy in copies])

    def launch(self, launches, seed, shared):
        self._kernel.together(launches, shared, seed)


@cache
def _stream(rank):
    import cupy

    return cupy.cuda.Stream(non_blocking=True)


class OnOneGpu:
    """Kernels of all ranks on streams of their own; few blocks, which are resident together.

    Streams are made and the module is loaded before the first kernel waits: both wait for kernels that run.
    """

    def __init__(self, source, element):
        import cupy

        options = ("--std=c++17", f"-DELEMENT={element}")
        self._kernel = cupy.RawModule(code=source, options=options).get_function("run_plan")
        self._cupy, self.array, self.inputs, self.fetch = cupy, cupy.array, cupy.asarray, cupy.asnumpy

    def launch(self, launches, seed, shared):
        streams = [_stream(rank) for rank in range(len(launches))]
        self._cupy.cuda.runtime.deviceSynchronize()
        for stream, (grid, block, arguments) in zip(streams, launches, strict=True):
            with stream:
                self._kernel(grid, block, arguments, shared_mem=shared)
        self._cupy.cuda.runtime.deviceSynchronize()


class Ranks:
    """All ranks of a plan.

    ``shifts``: elements before the buffers of each rank. ``element``: type in C, if not that of ``dtype``.
    ``before``: calls that there have been. ``keep``: whether blocks keep the program in shared memory.
    ``staging``: bytes of each rank, all slots.
    """

    def __init__(
        self,
        plan,
        dtype,
        blocks=1,
        threads=32,
        shifts=(0,),
        timeout=PATIENT,
        element=None,
        before=0,
        backend=OnTheCpu,
        keep=True,
    ):
        schedule, self._sizes = plan.schedule, (blocks, threads)
        self._shifts = [shifts[rank % len(shifts)] for rank in range(schedule.ranks)]
        element = element or element_type(dtype, has_sums(plan))[0]
        self._backend = backend(plan_source(), element)
        self._whole = [
            [self._filled(int(sizes[rank].sum()) + shift, dtype) for sizes in schedule.sizes]
            for rank, shift in enumerate(self._shifts)
        ]
        ranks, itemsize = range(schedule.ranks), np.dtype(dtype).itemsize
        multicast = self._in_multicast_memory(plan, dtype) if check_switched(plan, dtype) else ()
        slots = [StagingLayout(plan, rank, itemsize).nbytes * plan.slots for rank in ranks]
        # Flags of calls long ago.
        self.staging = [self._filled(max(16, nbytes), np.uint8, 0x55 if before else 0) for nbytes in slots]
        self._counters = [self._filled(schedule.ranks * MOST_BLOCKS, np.uint32) for _ in ranks]
        for (sender, receiver), each in plan.signals.items():
            here = self._counters[receiver][sender * MOST_BLOCKS : (sender + 1) * MOST_BLOCKS]
            here[...] = before * each % 2**32
        self.late = [self._filled(1, np.uint32) for _ in ranks]
        self.calls = [self._filled(blocks, np.uint32, before) for _ in ranks]
        memory = [
            RankMemory([b.data.ptr for b in buffers], staging.data.ptr, counters.data.ptr, multicast)
            for buffers, staging, counters in zip(self.buffers, self.staging, self._counters, strict=True)
        ]
        self._arguments, self._shared = [], 0
        for rank in ranks:
            code = encode(plan, rank, dtype, memory)
            program = self._backend.array(code.program())
            self._shared = max(self._shared, program.nbytes if keep else 0)
            limits = np.uint32(plan.slots), self.late[rank], np.uint64(timeout)
            parts = code.arguments(program, program.nbytes if keep else 0)
            self._arguments.append((*parts, self.calls[rank], *limits))

    def _in_multicast_memory(self, plan, dtype):
        """Buffers of each rank one after the other, and the addresses that stand for those of all ranks."""
        sizes = [int(each.sum(axis=1).max()) for each in plan.schedule.sizes]
        first = np.cumsum([0, *sizes])
        copies = [self._filled(int(first[-1]), dtype) for _ in self._whole]
        self._whole = [[copy[a:b] for a, b in pairwise(first.tolist())] for copy in copies]
        self._everywhere = self._filled(int(first[-1]), dtype)  # nothing is ever written there
        self._backend.multicast(self._everywhere, copies)
        return [self._everywhere.data.ptr + int(at) * np.dtype(dtype).itemsize for at in first[:-1]]

    def _filled(self, size, dtype, value=0):
        return self._backend.array(np.full(size, value, dtype))

    @property
    def buffers(self):
        """For each rank one array a buffer."""
        return [
            [array[shift:] for array in arrays]
            for arrays, shift in zip(self._whole, self._shifts, strict=True)
        ]

    def run(self, inputs, seed=0, ranks=None):
        """One call of some ranks (of all) on new data: copies of what is in all buffers then."""
        for own, new in zip(self.buffers, inputs, strict=True):
            for array, values in zip(own, new, strict=True):
                array[...] = self._backend.inputs(np.asarray(values, array.dtype))
        (blocks, threads), ranks = self._sizes, range(len(inputs)) if ranks is None else ranks
        launches = [((blocks,), (threads,), self._arguments[rank]) for rank in ranks]
        self._backend.launch(launches, seed, self._shared)
        for arrays, shift in zip(self._whole, self._shifts, strict=True):
            assert not any(array[:shift].any() for array in arrays)
        return [[self._backend.fetch(array) for array in own] for own in self.buffers]

    def wrong_after(self, calls, wrong, inputs, seed=0):
        """What ``wrong(found, given)`` finds in each of several calls, on ``given(call)``."""
        out = []
        for call in range(calls):
            data = inputs(call)
            out += [(call, *each) for each in wrong(self.run(data, seed + call), data)]
        assert not any(late[0] for late in self.late)
        return out

"""Kernels that run on all threads of a CPU, quickly compiled.

`numba.njit(parallel=True)` hands the arrays of a loop to its threads one by one, and to compile that takes
longer than the loop itself: 5 of 7 s for a kernel of eleven arrays. Here one record holds all arguments, and
each thread calls the kernel, an ordinary function, with the address of that record.
"""

import hashlib
from collections.abc import Callable
from functools import cache, update_wrapper
from inspect import signature
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from wavefabric.system.numba_cache import njit

_OPTIONS: dict[str, Any] = dict(nogil=True, error_model="numpy")
_INDEX = ir.IntType(64)
# What is called by its address.
_FUNCTION = ir.FunctionType(ir.VoidType(), [_INDEX] * 3)
_SIGNATURE = (types.intp,) * 3
# Its functions are called without the first parameter.
_intrinsic: Any = intrinsic


class Thread(NamedTuple):
    """Which of so many threads runs a kernel: a number from 0 to ``count`` − 1."""

    number: int
    count: int


@njit(inline="always", **_OPTIONS)
def thread_range(thread, n):
    """What this thread does of a loop over range(n): neighbouring iterations, as many as other threads."""
    return range(n * thread.number // thread.count, n * (thread.number + 1) // thread.count)


class ParallelKernel:
    """A function of a `Thread` and more; called without the `Thread`, it runs on all threads of Numba.

    Arguments are arrays, numbers, and tuples of them, named or not. Kernels raise nothing: an exception would
    be printed on stderr, and the kernel go on with its other threads.
    """

    def __init__(self, function: Callable) -> None:
        update_wrapper(self, function)
        self._function = function
        self._call = njit(part_of=function, kinds="call", **_OPTIONS)(_call)
        self._entries = np.empty((0, 2), np.int64)  # key of types, address of what is compiled for them
        self._compiled = []  # what is at these addresses

    def __call__(self, *arguments: Any) -> None:
        if not self._call(_launcher(), self._entries, *arguments):
            self._compile(types.Tuple([*map(numba.typeof, arguments)]))
            launched = self._call(_launcher(), self._entries, *arguments)
            assert launched, f"{self._function.__name__}: Numba gives an argument two types"

    def _compile(self, kinds: types.BaseTuple) -> None:
        """For arguments of these types: a function of a record and the thread's number and count."""
        names = [f"a{i}" for i in range(len(kinds))]
        signature(self._function).bind(None, *names)
        body = numba.njit(inline="always", **_OPTIONS)(self._function)
        space = {"body": body, "unpack": _unpack(kinds), "Thread": Thread, "__name__": __name__}
        names = ", ".join(names)
        code = f"({names},) = unpack(record)\n    body(Thread(number, count), {names})"
        exec(f"def entry(record, number, count):\n    {code}", space)
        kept = njit(part_of=self._function, kinds=kinds, no_cpython_wrapper=True, **_OPTIONS)
        entry = kept(space["entry"])
        self._compiled.append(entry)
        self._entries = np.vstack([self._entries, [[_key(kinds), _address(entry)]]])


def parallel_kernel(function: Callable) -> Any:
    """A `ParallelKernel`, as a decorator. Kept between runs, as what `numba_cache.njit` makes."""
    return ParallelKernel(function)


def _address(function: Any) -> int:
    function.compile(_SIGNATURE)
    compiled = function.overloads[_SIGNATURE]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)


def _key(kinds: types.BaseTuple) -> int:
    """Of the types of all arguments: the same in every process, since it is compiled in."""
    return int.from_bytes(hashlib.sha256(str(kinds).encode()).digest()[:8], "little", signed=True)


# --- In compiled code -----------------------------------------------------------------------------------


def _call(launcher, entries, *arguments):
    """Launch what is compiled for these arguments; False if nothing is."""
    key = _key_of(arguments)
    for i in range(entries.shape[0]):
        if entries[i, 0] == key:
            _pack(launcher, entries[i, 1], arguments)
            return True
    return False


@cache
def _launcher() -> int:
    """Address of `_launch`."""
    numba.get_num_threads()  # starts them
    return _address(_launch)


@njit(no_cpython_wrapper=True, **_OPTIONS)
def _launch(entry, record, _):
    """Call a kernel with its record on all threads; of three numbers, as a kernel is."""
    count = _threads()
    if count == 1:
        _run(entry, record, 0, 1)
    else:
        _launch_threads(entry, record, count)


@njit(parallel=True, **_OPTIONS)
def _launch_threads(entry, record, count):
    for number in prange(count):
        _run(entry, record, number, count)


@_intrinsic
def _threads(typing):
    """Numba's number of threads, by the function that its own loops ask; get_num_threads cannot be kept."""

    def generate(context, builder, signature, values):
        kind = ir.FunctionType(_INDEX, [])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "get_num_threads"), [])

    return types.intp(), generate


@_intrinsic
def _run(typing, entry, record, number, count):
    def generate(context, builder, signature, values):
        builder.call(builder.inttoptr(values[0], _FUNCTION.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


@_intrinsic
def _key_of(typing, arguments):
    def generate(context, builder, signature, values):
        return _INDEX(_key(arguments))

    return types.int64(arguments), generate


@_intrinsic
def _pack(typing, launcher, entry, arguments):
    """Put all arguments into a record, and launch a kernel."""

    def generate(context, builder, signature, values):
        record = cgutils.alloca_once(builder, context.get_value_type(arguments))
        builder.store(_borrowed(context, builder, arguments, values[2]), record)
        launch = builder.inttoptr(values[0], _FUNCTION.as_pointer())
        builder.call(launch, [values[1], builder.ptrtoint(record, _INDEX), _INDEX(0)])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, arguments), generate


def _borrowed(context, builder, kind: Any, value):
    """A value whose arrays have no owner: threads would count who uses each, one after the other."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        members = enumerate(kind)  # pyright: ignore
        values = [_borrowed(context, builder, k, builder.extract_value(value, i)) for i, k in members]
        return context.make_tuple(builder, kind, values)
    return value


def _unpack(kinds: types.BaseTuple) -> Any:
    """The tuple in the record at an address."""

    @_intrinsic
    def unpack(typing, record):
        def generate(context, builder, signature, values):
            return builder.load(builder.inttoptr(values[0], context.get_value_type(kinds).as_pointer()))

        return kinds(types.intp), generate

    return unpack

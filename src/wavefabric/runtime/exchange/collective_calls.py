"""Call collective operations on arrays of NumPy, CuPy, PyTorch and others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, one_line, quoted
from wavefabric.runtime.device import Device, bfloat16
from wavefabric.runtime.exchange.control import Control, on_first_rank

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.collectives.tuning import Tuning
    from wavefabric.runtime.exchange.prepared_calls import PreparedCalls, ProgramOf

#: Element types of arrays, besides bfloat16.
_NUMBERS = ("float16", "float32", "float64", "int32", "int64", "complex64", "complex128")
DTYPES = tuple(map(np.dtype, _NUMBERS))
_IN_PLACE = ("all-reduce", "broadcast")


class CallOptions(TypedDict, total=False):
    """Holds the keyword arguments that choose the algorithm of a collective call, see `CollectiveCalls`."""

    algorithm: str | Schedule
    radix: int | None
    pieces: int


class CollectiveCalls:
    """Provides collective operations on arrays; all ranks call the same operations in the same order.

    **Arrays** have the same shape and dtype (float16, 32, 64; int32, 64; complex64, 128; bfloat16, if
    ml_dtypes is installed) on all ranks. They are on the communicator's device: for CPUs arrays of NumPy or
    with ``__array_interface__`` or ``__dlpack__`` (PyTorch tensors), for GPUs arrays of CuPy or with
    ``__cuda_array_interface__`` or ``__dlpack__``. GPU work is enqueued on CuPy's current stream. Results are
    written to the caller's memory.

    **Algorithms.** ``algorithm`` is a name in `wavefabric.collectives.registry.ALGORITHMS` (``radix`` and
    ``pieces`` are its parameters), a `Schedule` that performs the operation, or ``"auto"``. A schedule is
    verified once and scaled to the array's size. ``"auto"`` is the algorithm, and if possible the protocol,
    that was fastest in the communicator's tuning; without a tuning it is
    `wavefabric.collectives.tuning.default_choice`. Sums are computed in the order of the schedule, so all
    ranks, runs and protocols give the same bits; only a switch (``nvls``) adds in an order of its own.

    **Memory.** Contiguous arrays are used in place. Other arrays are copied to buffers of the communicator.
    The transport ``p2p`` also copies arrays that are not from `allocate` (or views of such arrays), since
    peers map memory. All calls share these buffers, see docs/collectives.md.

    **Calls** of the same operation, shape, dtype and algorithm are prepared once: ranks then compare their
    arguments, and if these differ all raise the same `InputError`. With ``p2p`` a call is also prepared for
    each new array from `allocate`: if one rank passes a new array, all must, or the ranks wait for ever.

    **Errors.** `InputError`, in one line, for arrays, algorithms and roots that are not allowed. In the first
    call of an operation invalid arguments of one rank raise the error on all ranks; in later calls only that
    rank raises it, and an uncaught error ends all ranks.
    """

    control: Control
    device: Device
    rank: int
    size: int
    program: ProgramOf

    @property
    def _prepared(self) -> PreparedCalls: ...

    def all_reduce(self, array, **algorithm: Unpack[CallOptions]):
        """Replace ``array`` by its sum over all ranks, and return it; all ranks make this call."""
        return self._call("all-reduce", array, array, **algorithm)

    def all_gather(self, part, out=None, **algorithm: Unpack[CallOptions]):
        """Gather ``part`` of all ranks; return an array whose entry r is the part of rank r.

        The result is in ``out`` or a new array. All ranks make this call.
        """
        return self._call("all-gather", part, out, **algorithm)

    def reduce_scatter(self, array, out=None, **algorithm: Unpack[CallOptions]):
        """Sum ``array`` over all ranks; return entry r of the sum on rank r.

        ``array`` is (ranks, ...). The result is in ``out`` or a new array. All ranks make this call.
        """
        return self._call("reduce-scatter", array, out, **algorithm)

    def all_to_all(self, array, out=None, **algorithm: Unpack[CallOptions]):
        """Send ``array[r]`` to each rank r; return an array whose entry r was sent by rank r.

        Both are (ranks, ...). The result is in ``out`` or a new array. All ranks make this call.
        """
        return self._call("all-to-all", array, out, **algorithm)

    def broadcast(self, array, root: int = 0, **algorithm: Unpack[CallOptions]):
        """Copy ``array`` of rank ``root`` to ``array`` of all other ranks; return it. All ranks call this."""
        return self._call("broadcast", array, array, root, **algorithm)

    def _call(
        self, collective: str, array, out, root=0, *, algorithm: str | Schedule = "auto", radix=None, pieces=1
    ):
        from wavefabric.runtime.exchange.prepared_calls import Choice, Request, Schedule

        try:
            choice = Choice(_checked_algorithm(algorithm, radix, pieces), radix, pieces)
            root = whole("root", root, 0, self.size - 1)
            source, target = self._arrays(collective, array, out, root)
        except InputError as error:
            self._prepared.refuse(collective, error)
        own = algorithm if isinstance(algorithm, Schedule) else None
        request = Request(collective, source.shape, source.dtype, root, choice)
        self._prepared.run(self.program, request, own, source, target)
        return target if out is None else out

    def _arrays(self, collective: str, array, out, root: int) -> tuple[Any, Any]:
        """Return the array that an operation reads and the one that it writes; in place they are the same."""
        key = "part" if collective == "all-gather" else "array"
        in_place = collective in _IN_PLACE
        source = self._view(key, array, in_place and not (collective == "broadcast" and self.rank == root))
        if source.dtype not in DTYPES and source.dtype.name != bfloat16.NAME:
            names = *map(str, DTYPES), bfloat16.NAME
            raise InputError(f"{key}: {source.dtype} given; allowed: {', '.join(names)}")
        if in_place:
            return source, source
        shape = source.shape
        if collective == "all-gather":
            shape = (self.size, *shape)
        elif not shape or shape[0] != self.size:
            raise InputError(f"{key}: shape {shape} given; allowed: ({self.size}, ...), an entry a rank")
        if collective == "reduce-scatter":
            shape = shape[1:]
        if out is None:
            return source, self.device.empty(shape, source.dtype)
        target = self._view("out", out, True)
        if (target.shape, target.dtype) != (shape, source.dtype):
            actual = f"{target.dtype} of shape {target.shape}"
            raise InputError(f"out: {actual} given; allowed: {source.dtype} of shape {shape}")
        if self.device.xp.may_share_memory(source, target):
            source = source.copy()
        return source, target

    def _view(self, key: str, array, write: bool):
        why = ""
        try:
            if (view := self.device.view(array, write)) is not None:
                return view
        except (ArithmeticError, AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            why = f" ({one_line(str(error))})"  # all that the code of ``array`` may raise
        kind = f"{type(array).__module__}.{type(array).__qualname__}".removeprefix("builtins.")
        allowed = f"arrays on {self.device.name}{' that may be written' if write else ''}"
        raise InputError(f"{key}: a {kind}{why} given; allowed: {allowed}")


def _checked_algorithm(algorithm: str | Schedule, radix: int | None, pieces: int) -> str:
    """Check the options of a call; return the algorithm's name, or a digest that identifies a schedule."""
    from wavefabric.runtime.exchange.prepared_calls import Schedule, schedule_digest

    whole("pieces", pieces, 1)
    if radix is not None:
        whole("radix", radix, 2)
    if not isinstance(algorithm, str | Schedule):
        raise InputError(f"algorithm: {quoted(algorithm)} given; allowed: auto, a name, a Schedule")
    if algorithm == "auto" or isinstance(algorithm, Schedule):
        for key, value, default in (("radix", radix, None), ("pieces", pieces, 1)):
            if value != default:
                raise InputError(f"{key}: {value} given; allowed: none, but with the name of an algorithm")
    return algorithm if isinstance(algorithm, str) else schedule_digest(algorithm)


def checked_tuning(control: Control, tuning: str | Path | Tuning | None) -> Tuning | None:
    """Return ``tuning`` as a `Tuning`; if it is a path, rank 0 reads the file for all ranks.

    All ranks make this call. None stays None. `InputError` for a tuning of another number of ranks.
    """
    if tuning is None:
        return None
    from wavefabric.collectives.tuning import Tuning, load_tuning

    known = tuning if isinstance(tuning, Tuning) else on_first_rank(control, lambda: load_tuning(tuning))
    if known.ranks != control.size:
        raise InputError(f"tuning: for {known.ranks} ranks; allowed here: {control.size}")
    return known

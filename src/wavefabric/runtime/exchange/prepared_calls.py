"""Prepare collective operations: agree on them between ranks once, bind them to memory, cache them."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives import ALGORITHMS, Schedule, build, verify
from wavefabric.collectives.candidates import Choice
from wavefabric.collectives.conditions import CUT_BY_RANK, operation
from wavefabric.collectives.plans.plan import PROTOCOLS
from wavefabric.collectives.schedule import Holdings, cached, scaled
from wavefabric.collectives.tuning import Tuning, default_choice
from wavefabric.runtime.device import Device
from wavefabric.runtime.exchange.control import Control, compare
from wavefabric.runtime.exchange.transports import plan_code
from wavefabric.runtime.exchange.transports.base import Exchange, Program, Transport

#: Returns this rank's program for a schedule.
ProgramOf = Callable[[Schedule], Program]
#: Maximum operations, and bindings of operations to memory, to cache; the least recently used are dropped.
MOST_PREPARED, MOST_BOUND = 64, 128
#: A buffer that must grow becomes at least this many times larger.
_GROWTH = 1.5
#: `verify`, run once per schedule.
_prove = cached(verify)


@cached
def schedule_digest(schedule: Schedule) -> str:
    """Return the schedule's name and a short hash of its contents: equal for equal schedules."""
    digest = hashlib.sha256(repr((schedule.ranks, schedule.buffers)).encode())
    for part in (*(np.ascontiguousarray(sizes) for sizes in schedule.sizes), schedule.transfers):
        digest.update(repr(part.shape).encode() + part.tobytes())
    digest.update(repr((sorted(schedule.pre.items()), sorted(schedule.post.items()))).encode())
    return f"{schedule.name} ({digest.hexdigest()[:12]})"


class Request(NamedTuple):
    """A collective operation as ranks request it; the algorithm may be "auto" or the digest of a schedule."""

    collective: str
    shape: tuple[int, ...]
    dtype: np.dtype
    root: int
    choice: Choice


class PreparedCall:
    """A collective operation ready to run: ``buffers`` are the numbers of those of its input and result."""

    def __init__(self, program: Program, request: Request, buffers: tuple[int, int], protocol: str):
        self.request, self.protocol = request, protocol
        self.input_buffer, self.result_buffer = first, last = buffers
        self.program, schedule = program, program.schedule
        self.source_part = _local_part(program, schedule.pre, first)
        self.target_part = _local_part(program, schedule.post, last)
        # A caller's array can serve as a buffer if it fills the buffer, and a source is not overwritten.
        self.binds_target = self.target_part == slice(0, program.sizes[last])
        written = (schedule.transfers["dst_buffer"] == first).any()
        fills = self.source_part == slice(0, program.sizes[first])
        self.binds_source = first != last and fills and not written
        #: Whether this rank holds the result from the start (the root of a broadcast).
        self.is_broadcast_root = request.collective == "broadcast" and self.source_part is not None


def _local_part(program: Program, holdings: Holdings, buffer: int) -> slice | None:
    """Return the slice of buffer number ``buffer`` that ``holdings`` give to this rank, or None."""
    chunks = [chunk for owner, b, chunk in holdings if (owner, b) == (program.rank, buffer)]
    if not chunks:
        return None
    offsets = program.schedule.offsets(buffer, program.rank)
    return slice(int(offsets[min(chunks)]), int(offsets[max(chunks) + 1]))


class PreparedCalls:
    """Runs the collective operations of a communicator, prepares new ones and caches them.

    Ranks make the same calls in the same order, so either all find an operation in the cache or none does.
    A rank may bind an operation to new memory without the other ranks, except by a transport whose `bind`
    communicates (`talks_in_bind`).
    """

    def __init__(self, control: Control, device: Device, transport: Transport, tuning: Tuning | None):
        self._control, self._device, self._transport, self._tuning = control, device, transport, tuning
        tables = () if tuning is None else tuning.tables
        chosen = [c.choice.algorithm for t in tables for size in t.sizes for c in size.candidates]
        #: Whether the tuning has algorithms that need switches, and switches multicast and add here.
        self._switches = any(ALGORITHMS[name].switched for name in chosen) and not transport.why_no_switch()
        self._prepared: OrderedDict[Request, PreparedCall | None] = OrderedDict()
        #: Exchange, buffer to copy the source to (or None), buffer to copy the target from (or None).
        self._bound: OrderedDict[tuple, tuple[Exchange, Any, Any]] = OrderedDict()
        #: Buffers that all calls share, by purpose; each has the largest size that any call needed.
        self._buffers: dict[Hashable, Any] = {}
        self._agreed: set[str] = set()
        self._calls = 0

    def refuse(self, collective: str, error: InputError) -> NoReturn:
        """Raise ``error``, which this rank has found in its arguments of a call.

        In the first call of an operation all ranks raise it, since they compare their arguments then.
        """
        if collective not in self._agreed:
            self._calls += 1
            self._gather({}, str(error))
        raise error

    def run(self, program_of: ProgramOf, request: Request, custom: Schedule | None, source, target) -> None:
        """Perform a collective operation that reads the device array ``source`` and writes ``target``.

        In place both are the same array. ``custom`` is the caller's schedule, if any. ``program_of`` returns
        this rank's program for a schedule (it is not stored: the reference would be circular).
        """
        self._calls += 1
        prepare = partial(self._prepare, program_of, request, custom)
        call = _cached(self._prepared, MOST_PREPARED, request, prepare)
        if call is None:
            return
        addresses = self._addresses(call, source, target)
        key = (call, *addresses)
        bind = partial(self._bind, call, source, target, *addresses)
        exchange, input_copy, result_copy = _cached(self._bound, MOST_BOUND, key, bind)
        if input_copy is not None:
            input_copy.reshape(source.shape)[...] = source
        exchange.run()
        if result_copy is not None:
            target[...] = result_copy.reshape(target.shape)

    # --- the first time ---------------------------------------------------------------------------------

    def _gather(self, facts: dict[str, str], error: str = "", payload: Any = None) -> tuple:
        """Check that ``facts`` are equal on all ranks; return a tuple of ``payload`` of all ranks.

        All ranks make this call. If facts differ, or a rank has an ``error``, all raise the same
        `InputError`.
        """
        gathered = self._control.all_gather((facts, error, payload))
        all_facts, errors, rest = zip(*gathered, strict=True)
        if any(errors):
            rank = next(rank for rank, each in enumerate(errors) if each)
            raise InputError(errors[rank] + ("" if all(errors) else f" (rank {rank})")) from None
        compare(all_facts)
        return rest

    def _prepare(self, program_of: ProgramOf, request: Request, custom: Any) -> PreparedCall | None:
        """Check that all ranks request the same operation; build its schedule, or None for empty arrays."""
        ranks = self._control.size
        elements = int(np.prod(request.shape, dtype=np.int64))
        elements *= ranks if request.collective == "all-gather" else 1
        choice = self._choose(request, ranks, elements * request.dtype.itemsize)
        wanted = {key: str(getattr(request, key)) for key in ("collective", "shape", "dtype", "root")}
        self._gather({"calls so far": str(self._calls), **wanted, "algorithm": str(choice)})
        self._agreed.add(request.collective)
        if custom is not None:
            schedule, buffers = _scaled_schedule(custom, request, ranks, elements)
        else:
            schedule = _built(choice, request, ranks, elements)
            buffers = 0, int(request.collective == "all-to-all")
        if not elements:
            return None
        transport, protocol = self._transport, choice.protocol
        if protocol not in transport.protocols or transport.why_refused(protocol) is not None:
            protocol = "auto"
        protocol = transport.protocol_for(schedule, protocol, request.dtype)
        return PreparedCall(program_of(schedule), request, buffers, protocol)

    def _choose(self, request: Request, ranks: int, nbytes: int) -> Choice:
        if request.choice.algorithm != "auto":
            return request.choice
        collective, tuning = request.collective, self._tuning
        if tuning is not None and any(table.collective == collective for table in tuning.tables):

            def usable(choice: Choice) -> bool:
                if not ALGORITHMS[choice.algorithm].switched:
                    return True
                schedule = _built(choice, request, ranks, nbytes // request.dtype.itemsize)
                return self._switches and plan_code.switches_take(schedule, request.dtype)

            return tuning.choose(collective, nbytes, self._transport.name, usable)
        return default_choice(collective, ranks, nbytes)

    # --- memory -----------------------------------------------------------------------------------------

    def _addresses(self, call: PreparedCall, source, target) -> tuple[Hashable, Hashable]:
        """Return the addresses of ``source`` and ``target``; None for one that must be copied to a buffer."""
        flags = target.flags
        binds = call.binds_target and flags.c_contiguous and getattr(flags, "writeable", True)
        target_address = self._transport.address(target) if binds else None
        # In place the source would be overwritten before it is read.
        binds = call.binds_source and source is not target and source.flags.c_contiguous
        return self._transport.address(source) if binds else None, target_address

    def _bind(self, call: PreparedCall, source, target, *addresses) -> tuple[Exchange, Any, Any]:
        program, dtype, (source_address, target_address) = call.program, call.request.dtype, addresses
        buffers = call.input_buffer, call.result_buffer
        device = self._device
        # The arrays are not kept alive: the caller owns the memory and may free it.
        bindings = zip(buffers, addresses, (source, target), strict=True)
        arrays: dict[Hashable, Any] = {n: device.borrow(a) for n, where, a in bindings if where is not None}
        kernel = call.protocol in PROTOCOLS  # kernels receive data to add in their own staging memory
        buffer_sizes = [*enumerate(program.sizes), *([] if kernel else [("scratch", program.scratch)])]
        # Not empty: an empty array has no address.
        sizes: dict[Hashable, int] = {key: max(1, size) for key, size in buffer_sizes if key not in arrays}
        needs: dict[Hashable, int] = {purpose: size * dtype.itemsize for purpose, size in sizes.items()}
        if self._transport.talks_in_bind:
            facts = {"calls so far": str(self._calls), "collective": call.request.collective}
            gathered = self._gather(facts, payload=needs)
            needs = {key: max(each.get(key, 0) for each in gathered) for key in chain(*gathered)}
        self._reserve(needs)
        for purpose, size in sizes.items():
            arrays[purpose] = self._buffers[purpose][: size * dtype.itemsize].view(dtype)
        in_order = [arrays[number] for number in range(len(program.sizes))]
        if kernel:
            exchange = self._transport.bind_plan(program, in_order, call.protocol, None)
        else:
            exchange = self._transport.bind(program, in_order, arrays["scratch"])
        shares_memory = buffers[0] == buffers[1] and source is target and target_address is not None
        copied_in = call.source_part is not None and source_address is None and not shares_memory
        copied_out = target_address is None and not call.is_broadcast_root
        input_copy = arrays[buffers[0]][call.source_part] if copied_in else None
        return exchange, input_copy, arrays[buffers[1]][call.target_part] if copied_out else None

    def _reserve(self, needs: dict[Hashable, int]) -> None:
        """Enlarge shared buffers to ``needs[purpose]`` bytes; if one must grow, drop all bound exchanges."""
        sizes = {purpose: buffer.size for purpose, buffer in self._buffers.items()}
        if any(needs.get(purpose, 0) > size for purpose, size in sizes.items()):
            self._device.synchronize()  # buffers are in use until the exchanges' work is done
            self._bound.clear()
        for purpose, size in needs.items():
            if size > (current_size := sizes.get(purpose, 0)):
                self._buffers.pop(purpose, None)  # freed before the larger one is allocated
                larger = max(size, int(_GROWTH * current_size))
                self._buffers[purpose] = self._transport.allocate((larger,), np.uint8)


def _cached(cache: OrderedDict, most: int, key: Hashable, make: Callable[[], Any]) -> Any:
    """Return ``cache[key]``; if it is missing, first set it to ``make()``.

    A cache that then has more than ``most`` entries loses those that were not used for the longest time.
    """
    if key not in cache:
        cache[key] = make()
        while len(cache) > most:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return cache[key]


def _built(choice: Choice, request: Request, ranks: int, elements: int) -> Schedule:
    return build(choice.algorithm, request.collective, ranks, elements, root=request.root, **choice.options)


def _scaled_schedule(schedule: Schedule, request: Request, ranks: int, elements: int):
    """Verify a schedule of the caller; return it scaled to ``elements``, and two buffer numbers.

    These are the buffers of its input and its result. `InputError` if it does not perform the request.
    """
    name, collective = schedule.name, request.collective
    if schedule.ranks != ranks:
        raise InputError(f"algorithm: {name} is for {schedule.ranks} ranks; allowed here: {ranks}")
    _prove(schedule)
    performed = operation(schedule)
    # On one rank all operations are the same.
    if ranks > 1 and (performed.collective, performed.root or 0) != (collective, request.root):
        root = "" if performed.root is None else f" from rank {performed.root}"
        wanted = collective + (f" from rank {request.root}" if performed.root is not None else "")
        raise InputError(f"algorithm: {name} does {performed.collective}{root}; allowed: {wanted}")
    counts = performed.counts
    parts = counts.reshape(ranks, -1).sum(axis=1) if collective in CUT_BY_RANK else counts[:1]
    if (parts != parts[0]).any():
        actual = ", ".join(map(str, parts.tolist()))
        raise InputError(f"algorithm: {name} has shares of {actual} elements; allowed: equal ones")
    least = int(counts.sum())
    if not least or elements % least:
        raise InputError(f"algorithm: {name} for {elements} elements; allowed: a multiple of its {least}")
    return scaled(schedule, elements // least), (performed.before, performed.after)

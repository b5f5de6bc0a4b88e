"""Check that the MSCCL runtime accepts an algorithm and finishes it: rules, cyclic waits, races.

A connection's buffer has a fixed number of slots (NCCL_STEPS), and a message takes one or several of them
however small it is. A step that moves ``cnt`` chunks puts as many of them in a message as fit, so the same
algorithm needs more slots for a larger array. Sources: github.com/microsoft/msccl, src/enqueue.cc
(`mscclMaxAllowedCount`), src/collectives/device/msccl_interpreter.h, prims_simple.h, prims_ll.h.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.formats.buffers import buffer_map
from wavefabric.collectives.formats.msccl import format as fmt
from wavefabric.collectives.levels import hazards
from wavefabric.collectives.sizes import ragged

#: Steps of a cycle that an error names, and entries of clocks in memory at once.
_NAMED, _AT_ONCE = 6, 50_000_000


def check_msccl(text: str, *, slots: int = fmt.SLOTS) -> int | None:
    """Refuse an MSCCL algorithm (XML) that the runtime would refuse, that hangs, or that has a race.

    Returns the size in bytes of the largest array with which the algorithm runs, None if it runs with any. It
    is refused if it does not run with all sizes that its `minBytes` and `maxBytes` allow; without `maxBytes`
    only the smallest counts. Sizes are for connections with NCCL's default buffers (NCCL_BUFFSIZE,
    NCCL_LL_BUFFSIZE, NCCL_LL128_BUFFSIZE) of ``slots`` slots (NCCL_STEPS).

    `InputError`, in one line: a broken rule of the format; sends and receives that do not match; steps that
    wait for one another in a cycle, with an array of a size that the algorithm is for; or two unordered steps
    on a GPU that access a chunk, one of them writing.
    """
    return check_algorithm(fmt.read_algorithm(text), slots)


def check_algorithm(a: fmt.MscclAlgorithm, slots: int = fmt.SLOTS) -> int | None:
    """Check an algorithm that is already read, as `check_msccl` does."""
    _check_chunks(a)
    _check_blocks(a)
    _check_steps(a)
    _check_waits(a)
    most = check_deadlock(a, slots)
    check_races(a)
    return most


def _first(wrong: np.ndarray) -> int | None:
    return int(np.argmax(wrong)) if wrong.any() else None


def _check_chunks(a: fmt.MscclAlgorithm) -> None:
    for column, coll in enumerate(("allgather", "reduce_scatter")):
        times = a.gpus if a.coll == coll else 1
        sizes = a.arrays.sizes[:, column]
        if (gpu := _first((sizes > 0) & (sizes * times != a.arrays.chunks))) is not None:
            actual = f"{sizes[gpu]} with nchunksperloop {a.arrays.chunks} and coll {a.coll}"
            allowed = "0" if a.arrays.chunks % times else f"0 or {a.arrays.chunks // times}"
            raise InputError(f"gpu {gpu} {fmt.BUFFERS[column]}_chunks: {actual}; allowed: {allowed}")


def _check_blocks(a: fmt.MscclAlgorithm) -> None:
    blocks = a.blocks
    names = [f"gpu {gpu} tb {number}" for gpu, number, *_ in blocks.tolist()]
    for name, chan in zip(names, blocks["chan"].tolist(), strict=True):
        ensure(chan < a.channels, f"{name} chan", chan, f"below nchannels, {a.channels}")
    for direction in ("send", "recv"):
        seen: dict[tuple[int, int, int], int] = {}
        number: Counter[tuple[int, int]] = Counter()
        for row in np.flatnonzero(blocks[direction] >= 0).tolist():
            gpu, peer, chan = key = blocks[row][["gpu", direction, "chan"]].tolist()
            there = f"gpu {peer} on channel {chan}, as tb {seen.get(key)}"
            ensure(key not in seen, f"{names[row]} {direction}", there, "one block for each")
            seen[key] = blocks["id"][row]
            number[gpu, chan] += 1
            actual = f"more than {fmt.PER_CHANNEL} blocks on channel {chan}"
            ensure(number[gpu, chan] <= fmt.PER_CHANNEL, f"gpu {gpu} {direction}", actual, fmt.PER_CHANNEL)


def _check_steps(a: fmt.MscclAlgorithm) -> None:
    steps = a.steps
    kind, blocks = steps["type"], a.blocks[steps["block"]]
    for direction, needs in (("send", fmt.SENDS), ("recv", fmt.RECEIVES)):
        if (row := _first(needs[kind] & (blocks[direction] < 0))) is not None:
            raise InputError(f"{a.step_name(row)}: its block has {direction} -1; allowed: a GPU")
    for side, used in (("src", fmt.READS), ("dst", fmt.WRITES)):
        size = a.arrays.sizes[blocks["gpu"], steps[f"{side}buf"]]
        first = steps[f"{side}off"].astype(np.int64)
        if (row := _first(used[kind] & ((first < 0) | (first + steps["cnt"] > size)))) is not None:
            actual = f"{first[row]} with cnt {steps['cnt'][row]}"
            allowed = f"within the {size[row]} chunks of {fmt.BUFFERS[steps[f'{side}buf'][row]]}"
            raise InputError(f"{a.step_name(row)} {side}off: {actual}; allowed: {allowed}")
    apart = np.abs(steps["srcoff"].astype(np.int64) - steps["dstoff"])
    overlap = (steps["srcbuf"] == steps["dstbuf"]) & (apart < steps["cnt"])
    # A sum may replace one of its terms; nothing else may overlap.
    overlap &= np.isin(kind, (fmt.CPY, fmt.RE)) | np.isin(kind, (fmt.RRC, fmt.RRCS)) & (apart > 0)
    if (row := _first(overlap)) is not None:
        raise InputError(f"{a.step_name(row)}: source and destination overlap; allowed: apart")


def _check_waits(a: fmt.MscclAlgorithm) -> None:
    steps, depid, deps = a.steps, a.steps["depid"], a.steps["deps"]
    waits, own = depid >= 0, a.blocks["id"][steps["block"]]

    def refuse(wrong: np.ndarray, text: Callable[[int], str]) -> None:
        if (row := _first(waits & wrong)) is not None:
            raise InputError(f"{a.step_name(row)}{text(row)}")

    count = np.bincount(a.blocks["gpu"], minlength=a.gpus)
    refuse(depid >= count[a.gpu], lambda row: f" depid: {depid[row]}; allowed: a tb of the GPU, or -1")
    allowed = f"to {fmt.WAITED_BLOCK}, the runtime keeps it in 8 bits"
    refuse(depid > fmt.WAITED_BLOCK, lambda row: f" depid: {depid[row]}; allowed: {allowed}")
    lengths = np.bincount(steps["block"], minlength=len(a.blocks))
    first_block = np.searchsorted(a.blocks["gpu"], np.arange(a.gpus))
    there = lengths[np.where(waits, first_block[a.gpu] + depid, 0)]
    refuse(
        (deps < 0) | (deps >= there),
        lambda row: f" deps: {deps[row]}; allowed: a step of tb {depid[row]}, which has {there[row]}",
    )
    itself = (depid == own) & (deps >= steps["s"])
    refuse(itself, lambda row: f" deps: {deps[row]} of its own tb; allowed: an earlier one")
    target = steps[a.waited]
    refuse(
        (target["hasdep"] == 0) | (target["type"] == fmt.NOP),
        lambda row: f" waits for {a.step_name(a.waited[row])}; allowed: steps with hasdep 1 that are no nop",
    )
    # The runtime adds what nops wait for to the next step, and counts steps by that.
    goes_on = np.append((steps["block"][1:] == steps["block"][:-1]) & waits[1:], False)[: steps.size]
    if (row := _first((steps["type"] == fmt.NOP) & ~(waits & goes_on))) is not None:
        allowed = "one that waits, before a step that waits too"
        raise InputError(f"{a.step_name(row)}: a nop; allowed: {allowed}")


def touches(steps: np.ndarray, first: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all accesses to chunks in three arrays: row of the step, number of the chunk, whether it writes.

    Reads come before writes. ``first``: the first chunk that each step reads, and that it writes (arrays).
    """
    columns = []
    for used, number, write in ((fmt.READS, first[0], False), (fmt.WRITES, first[1], True)):
        row = np.flatnonzero(used[steps["type"]])
        at, within = ragged(steps["cnt"][row].astype(np.int64))
        columns.append((row[at], number[row][at] + within, np.full(at.size, write)))
    row, chunk, writes = (np.concatenate(column) for column in zip(*columns, strict=True))
    return row, chunk, writes


def run_order(a: fmt.MscclAlgorithm) -> list[int]:
    """Return the steps of an algorithm, as row numbers, in an order in which they can run.

    The algorithm must be free of deadlock. Receives come as soon after their sends as possible.
    """
    following: list[list[int]] = [[] for _ in range(a.steps.size)]
    left = np.zeros(a.steps.size, np.int64)
    same_block = np.flatnonzero(np.diff(a.steps["block"]) == 0)
    edges = [(same_block, same_block + 1)]
    edges += [(b[b >= 0], np.flatnonzero(b >= 0)) for b in (a.waited, a.senders)]
    for before, after in edges:
        np.add.at(left, after, 1)
        for one, other in zip(before.tolist(), after.tolist(), strict=True):
            following[one].append(other)
    urgency = np.where(a.senders >= 0, 0, np.where(fmt.SENDS[a.steps["type"]], 1, 2)).tolist()
    ready: tuple[list[int], ...] = ([], [], [])
    for row in np.flatnonzero(left == 0)[::-1].tolist():
        ready[urgency[row]].append(row)
    missing = left.tolist()
    order: list[int] = []
    while any(ready):
        row = next(rows for rows in ready if rows).pop()
        order.append(row)
        for other in following[row]:
            missing[other] -= 1
            if not missing[other]:
                ready[urgency[other]].append(other)
    return order


def check_deadlock(a: fmt.MscclAlgorithm, slots: int) -> int | None:
    """Refuse an algorithm that hangs with an allowed array size; return the largest that runs, in bytes.

    None if it runs with any size. ``slots``: those of the buffer of a connection.
    """
    proto, low, each = a.proto, a.min_bytes, fmt.SLOTS_PER_MESSAGE[a.proto]
    ensure(slots >= each, "slots", slots, f"from {each}, what a message takes under {proto}")
    most = runs_up_to(a, slots)
    # Without maxBytes an algorithm need not run with more than its smallest size.
    top = a.max_bytes if a.declared else max(1, low)
    if most is None or (top is not None and top <= most):
        return most
    chunk = -(-max(low, most + 1) // max(1, a.arrays.chunks))
    rows = find_circle(a, slots, max(1, min(fmt.COUNT, fmt.MESSAGE_BYTES[proto] // chunk)))
    named = " → ".join(a.step_name(row) for row in rows[:_NAMED])
    more = f" → {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    capacity, allowed = f"{slots} slots a connection, {each} a message under {proto}", "no such circle"
    if most:
        sizes = f"{low} to {top}" if a.declared else f"{top} and more"
        capacity += f", above {most} bytes of the {'any size' if top is None else sizes} that it is for"
        allowed += f", or maxBytes to {most}" if most >= low else ""
    raise InputError(f"deadlock with {capacity}: {named}{more} → back to the first; allowed: {allowed}")


def runs_up_to(a: fmt.MscclAlgorithm, slots: int) -> int | None:
    """Return the bytes of the largest array with which no steps wait in a cycle; None: any size; 0: no size.

    With fewer chunks per message a step needs at least as many messages. So an algorithm that hangs with n
    chunks per message hangs with fewer, and bisection finds the smallest number that runs.
    """
    if not find_circle(a, slots, 1):
        return None
    most = int(a.steps["cnt"].max(initial=1))
    if most == 1 or find_circle(a, slots, most):
        return 0
    runs = 2 + bisect(range(2, most), False, key=lambda n: not find_circle(a, slots, n))
    return max(1, a.arrays.chunks) * (fmt.MESSAGE_BYTES[a.proto] // runs)


def find_circle(a: fmt.MscclAlgorithm, slots: int, together: int) -> list[int]:
    """Return the steps, as row numbers, that wait for one another in a cycle; empty if none do.

    ``together``: chunks per message. The graph has a node for each message of a step that sends or receives,
    and one for each other step. A node comes after the previous node of its block, and after the last node of
    the step that it waits for. A receive also comes after its send. If n messages fit the buffer of a
    connection, a send also comes after the receive of n messages before.
    """
    steps, depth = a.steps, slots // fmt.SLOTS_PER_MESSAGE[a.proto]
    if not steps.size:
        return []
    count = -(-steps["cnt"].astype(np.int64) // together)
    messages = np.where((fmt.SENDS | fmt.RECEIVES)[steps["type"]], count, 1)
    first = np.concatenate(([0], np.cumsum(messages)))

    def nodes_of(rows: np.ndarray) -> np.ndarray:
        row, within = ragged(messages[rows])
        return first[rows][row] + within

    block = np.repeat(steps["block"], messages)
    follows = np.flatnonzero(block[1:] == block[:-1])
    waits = np.flatnonzero(a.waited >= 0)
    # Messages in the order of their connections: the n-th sent is the n-th received.
    received, connection = a.on_connections("recv")
    take, give = nodes_of(received), nodes_of(a.senders[received])
    line = np.repeat(connection, messages[received])
    late = np.flatnonzero(line[depth:] == line[:-depth]) if line.size > depth else np.zeros(0, np.int64)
    before = np.concatenate((follows, first[a.waited[waits] + 1] - 1, give, take[late]))
    after = np.concatenate((follows + 1, first[waits], take, give[late + depth]))
    nodes = int(first[-1])
    graph = csr_array((np.ones(before.size, np.int8), (before, after)), (nodes, nodes))
    _, part = connected_components(graph, connection="strong")
    inside = part[before] == part[after]
    if not inside.any():
        return []
    circle = _shortest_circle(graph, int(before[inside].min()))
    return list(dict.fromkeys(np.repeat(np.arange(steps.size), messages)[circle].tolist()))


def _shortest_circle(graph: csr_array, start: int) -> list[int]:
    """Return a shortest cycle of nodes through ``start``, which is on a cycle."""
    order, previous = breadth_first_order(graph, start)
    leads_back = np.isin(order, graph[:, [start]].nonzero()[0])
    path = [int(order[leads_back][0])]
    while path[-1] != start:
        path.append(int(previous[path[-1]]))
    return path[::-1]


def check_races(a: fmt.MscclAlgorithm) -> None:
    """Refuse two unordered steps that access the same chunk, one of them writing.

    A step comes after the previous step of its block, the step that it waits for and, if it receives, the
    send; and after all steps before those (vector clocks: Fidge 1988, Mattern 1989).
    """
    block, number, order = a.steps["block"], a.steps["s"], run_order(a)
    buffers = buffer_map(a.arrays)
    base = np.concatenate(([0], np.cumsum([table.shape[1] for table in buffers.present])))
    first = []
    for side in ("src", "dst"):
        letter = a.steps[f"{side}buf"]
        chunk = base[buffers.buffer[letter]] + buffers.shift[a.gpu, letter] + a.steps[f"{side}off"]
        first.append(a.gpu * base[-1] + chunk)
    row, chunk, writes = touches(a.steps, first)
    pairs = np.unique(row[np.stack(hazards(chunk, np.argsort(order)[row], writes))], axis=1)
    later, earlier = pairs[:, block[pairs[0]] != block[pairs[1]]]
    unknown = ~_waited_for(a, later, earlier)
    later, earlier = later[unknown], earlier[unknown]
    columns = np.unique(block[earlier])
    width = max(1, _AT_ONCE // max(1, a.steps.size))
    for part in (columns[n : n + width] for n in range(0, columns.size, width)):
        clocks, here = _clocks(a, order, part), np.isin(block[earlier], part)
        after, before = later[here], earlier[here]
        racing = clocks[after, np.searchsorted(part, block[before])] < number[before]
        if racing.any():
            one, other = (a.step_name(int(rows[np.argmax(racing)])) for rows in (before, after))
            raise InputError(
                f"{one} and {other} touch the same chunk in any order; allowed: one after the other"
            )


def _waited_for(a: fmt.MscclAlgorithm, later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    """Return whether the block of step ``later[i]`` has, up to this step, waited for ``earlier[i]``: bool.

    A wait for a later step of the same block as ``earlier[i]`` counts too. Steps are numbers of rows.
    """
    span = a.steps.size + 1

    def pair(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        block = a.steps["block"].astype(np.int64)
        return (block[one] * len(a.blocks) + block[other]) * span

    waits = np.flatnonzero(a.waited >= 0)
    key = pair(waits, a.waited[waits])
    order = np.argsort(key, kind="stable")
    # The last step waited for so far; it restarts with each pair of blocks, as keys grow from pair to pair.
    last = np.append(np.maximum.accumulate((key + a.waited[waits])[order]), -1)
    at = np.searchsorted((key + waits)[order], pair(later, earlier) + later, side="right") - 1
    return last[at] >= pair(later, earlier) + earlier


def _clocks(a: fmt.MscclAlgorithm, order: list[int], blocks: np.ndarray) -> np.ndarray:
    """Return the last step of each of ``blocks`` that precedes each step, −1 for none: shape (steps, blocks).

    Steps are numbered in their blocks. ``order``: all steps, as rows, in an order in which they can run.
    """
    clocks = np.full((a.steps.size, blocks.size), -1, np.int16)
    column = np.full(len(a.blocks), -1)
    column[blocks] = np.arange(blocks.size)
    own, number = column[a.steps["block"]].tolist(), a.steps["s"].tolist()
    before = np.where(a.steps["s"] > 0, np.arange(a.steps.size) - 1, -1)
    befores = np.stack((before, a.waited, a.senders), axis=1).tolist()
    for row in order:
        clock = clocks[row]
        for other in befores[row]:
            if other >= 0:
                np.maximum(clock, clocks[other], out=clock)
                if own[other] >= 0:
                    clock[own[other]] = max(clock[own[other]], number[other])
    return clocks

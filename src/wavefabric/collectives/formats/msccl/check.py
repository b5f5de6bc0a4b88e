"""Check that the MSCCL runtime accepts an algorithm and finishes it: rules, cyclic waits, races.

A connection's buffer has a fixed number of slots (NCCL_STEPS), and a message takes one or several of them
however small it is. A step that moves ``cnt`` chunks puts as many of them in a message as fit, so the same
algorithm needs more slots for a larger array. Sources: github.com/microsoft/msccl, src/enqueue.cc
(`mscclMaxAllowedCount`), src/collectives/device/msccl_interpreter.h, prims_simple.h, prims_ll.h.
"""

from bisect import bisect

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.formats.buffers import CollectiveArrays, buffer_map
from wavefabric.collectives.formats.msccl import format as fmt
from wavefabric.collectives.levels import hazards
from wavefabric.collectives.plans.races import unordered
from wavefabric.collectives.sizes import ragged, within_groups

#: Steps of a cycle that an error names.
_NAMED = 6


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


def _refuse(a: fmt.MscclAlgorithm, wrong: np.ndarray, text: str, *columns: np.ndarray) -> None:
    """Raise `InputError` for the first step that is ``wrong``, with its values of ``columns`` in ``text``."""
    if (row := _first(wrong)) is not None:
        raise InputError(a.step_name(row) + text.format(*(column[row] for column in columns)))


def _check_chunks(a: fmt.MscclAlgorithm) -> None:
    for column, coll in enumerate(("allgather", "reduce_scatter")):
        times = a.gpus if a.coll == coll else 1
        sizes = a.arrays.sizes[:, column]
        if (gpu := _first((sizes > 0) & (sizes * times != a.arrays.chunks))) is not None:
            actual = f"{sizes[gpu]} with nchunksperloop {a.arrays.chunks} and coll {a.coll}"
            allowed = "0" if a.arrays.chunks % times else f"0 or {a.arrays.chunks // times}"
            raise InputError(f"gpu {gpu} {fmt.BUFFERS[column]}_chunks: {actual}; allowed: {allowed}")


def _check_blocks(a: fmt.MscclAlgorithm) -> None:
    if (row := _first(a.blocks["chan"] >= a.channels)) is not None:
        gpu, number, *_, chan = a.blocks[row]
        raise InputError(f"gpu {gpu} tb {number} chan: {chan}; allowed: below nchannels, {a.channels}")
    for direction in ("send", "recv"):
        blocks = a.blocks[a.blocks[direction] >= 0]
        channel = blocks["gpu"].astype(np.int64) * fmt.CHANNELS + blocks["chan"]
        connection = channel * a.gpus + blocks[direction]
        again = within_groups(connection) > 0
        if (row := _first(again | (within_groups(channel) >= fmt.PER_CHANNEL))) is not None:
            gpu, number, *_, chan = blocks[row]
            there = f"gpu {blocks[direction][row]} on channel {chan}, as tb"
            first = blocks["id"][np.argmax(connection == connection[row])]
            where = f"gpu {gpu} tb {number} {direction}"
            ensure(not again[row], where, f"{there} {first}", "one block for each")
            actual = f"more than {fmt.PER_CHANNEL} blocks on channel {chan}"
            raise InputError(f"gpu {gpu} {direction}: {actual}; allowed: {fmt.PER_CHANNEL}")


def _check_steps(a: fmt.MscclAlgorithm) -> None:
    steps = a.steps
    kind, blocks = steps["type"], a.blocks[steps["block"]]
    for direction, needs in (("send", fmt.SENDS), ("recv", fmt.RECEIVES)):
        _refuse(a, needs[kind] & (blocks[direction] < 0), f": its block has {direction} -1; allowed: a GPU")
    for side, used in (("src", fmt.READS), ("dst", fmt.WRITES)):
        size, buffer = a.arrays.sizes[blocks["gpu"], steps[f"{side}buf"]], np.array(fmt.BUFFERS)
        first = steps[f"{side}off"].astype(np.int64)
        wrong = used[kind] & ((first < 0) | (first + steps["cnt"] > size))
        text = f" {side}off: {{}} with cnt {{}}; allowed: within the {{}} chunks of {{}}"
        _refuse(a, wrong, text, first, steps["cnt"], size, buffer[steps[f"{side}buf"]])
    apart = np.abs(steps["srcoff"].astype(np.int64) - steps["dstoff"])
    overlap = (steps["srcbuf"] == steps["dstbuf"]) & (apart < steps["cnt"])
    # A sum may replace one of its terms; nothing else may overlap.
    overlap &= np.isin(kind, (fmt.CPY, fmt.RE)) | np.isin(kind, (fmt.RRC, fmt.RRCS)) & (apart > 0)
    _refuse(a, overlap, ": source and destination overlap; allowed: apart")


def _check_waits(a: fmt.MscclAlgorithm) -> None:
    steps, depid, deps = a.steps, a.steps["depid"], a.steps["deps"]
    waits, blocks = depid >= 0, np.bincount(a.blocks["gpu"], minlength=a.gpus)
    _refuse(a, depid >= blocks[a.gpu], " depid: {}; allowed: a tb of the GPU, or -1", depid)
    allowed = f"to {fmt.WAITED_BLOCK}, the runtime keeps it in 8 bits"
    _refuse(a, depid > fmt.WAITED_BLOCK, f" depid: {{}}; allowed: {allowed}", depid)
    lengths = np.bincount(steps["block"], minlength=len(a.blocks))
    first_block = np.searchsorted(a.blocks["gpu"], np.arange(a.gpus))
    there = lengths[np.where(waits, first_block[a.gpu] + depid, 0)]
    text = " deps: {}; allowed: a step of tb {}, which has {}"
    _refuse(a, waits & ((deps < 0) | (deps >= there)), text, deps, depid, there)
    itself = (depid == a.blocks["id"][steps["block"]]) & (deps >= steps["s"])
    _refuse(a, itself, " deps: {} of its own tb; allowed: an earlier one", deps)
    target = steps[a.waited]
    if (row := _first(waits & ((target["hasdep"] == 0) | (target["type"] == fmt.NOP)))) is not None:
        allowed = "steps with hasdep 1 that are no nop"
        raise InputError(f"{a.step_name(row)} waits for {a.step_name(a.waited[row])}; allowed: {allowed}")
    # The runtime adds what nops wait for to the next step, and counts steps by that.
    goes_on = np.append((steps["block"][1:] == steps["block"][:-1]) & waits[1:], False)[: steps.size]
    allowed = "one that waits, before a step that waits too"
    _refuse(a, (steps["type"] == fmt.NOP) & ~(waits & goes_on), f": a nop; allowed: {allowed}")


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
    send; and after all steps before those.
    """
    later, earlier = conflicts(a.arrays, a.steps, a.gpu, np.argsort(a.order))
    # Most orders follow from waits within a GPU alone.
    for causes, group in ((a.causes[:, :2], a.gpu), (a.causes, None)):
        if not later.size:
            return
        racing = unordered(a.order, causes.tolist(), later, earlier, group)
        later, earlier = later[racing], earlier[racing]
    if later.size:
        pair = f"{a.step_name(earlier[0])} and {a.step_name(later[0])}"
        raise InputError(f"{pair} touch the same chunk in any order; allowed: one after the other")


def conflicts(
    arrays: CollectiveArrays, steps: np.ndarray, gpu: np.ndarray, time: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays: ``later[i]`` accesses a chunk after step ``earlier[i]`` of another block did.

    At least one of the two steps writes it. Pairs are sorted, and left out if their order follows from that
    of others. ``gpu`` and ``time``: the GPU of each step, and its position in the order of all steps.
    """
    buffers, accesses = buffer_map(arrays), []
    base = np.cumsum([0, *(table.shape[1] for table in buffers.present)])
    for side, used in (("src", fmt.READS), ("dst", fmt.WRITES)):
        row = np.flatnonzero(used[steps["type"]])
        letter, on = steps[f"{side}buf"][row], gpu[row]
        first = on * base[-1] + base[buffers.buffer[letter]] + buffers.shift[on, letter]
        at, within = ragged(steps["cnt"][row].astype(np.int64))
        chunk = (first + steps[f"{side}off"][row])[at] + within
        accesses.append((row[at], chunk, np.full(at.size, side == "dst")))
    row, chunk, writes = (np.concatenate(column) for column in zip(*accesses, strict=True))
    later, earlier = (row[at] for at in hazards(chunk, time[row], writes))
    apart = steps["block"][later] != steps["block"][earlier]
    return np.divmod(np.unique(later[apart] * steps.size + earlier[apart]), max(1, steps.size))

"""Whether the MSCCL runtime takes an algorithm, and whether it ends: rules, deadlocks, races."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from wavefabric.collectives.formats.msccl import format as fmt
from wavefabric.collectives.formats.msccl.order import check_deadlock, check_races
from wavefabric.errors import InputError


def check_msccl(text: str, *, slots: int = fmt.SLOTS) -> int | None:
    """Refuse an MSCCL algorithm (XML) that the runtime refuses, that hangs, or whose answer is luck.

    Returns the bytes of the largest array that it runs with, None if it runs with any; it is refused where
    that is less than its `minBytes` and `maxBytes` allow. Sizes are for connections with NCCL's default
    buffers (NCCL_BUFFSIZE, NCCL_LL_BUFFSIZE, NCCL_LL128_BUFFSIZE) of so many `slots` (NCCL_STEPS).

    `InputError`, in one line: a rule of the format that is broken; sends and receives that do not match;
    steps that wait for one another in a circle, with an array of a size that the algorithm is for; or two
    steps on a GPU that touch a chunk, one of them writing, of which nothing says which comes first.
    """
    return check_algorithm(fmt.read_algorithm(text), slots)


def check_algorithm(a: fmt.MscclAlgorithm, slots: int = fmt.SLOTS) -> int | None:
    """The same of an algorithm that is read already."""
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

    def refuse(row: int, key: str, actual: object, allowed: str):
        raise InputError(
            f"gpu {blocks['gpu'][row]} tb {blocks['id'][row]} {key}: {actual}; allowed: {allowed}"
        )

    if (row := _first(blocks["chan"] >= a.channels)) is not None:
        refuse(row, "chan", blocks["chan"][row], f"below nchannels, {a.channels}")
    for direction in ("send", "recv"):
        seen: dict[tuple[int, int, int], int] = {}
        number: Counter[tuple[int, int]] = Counter()
        for row in np.flatnonzero(blocks[direction] >= 0).tolist():
            gpu, peer, chan = key = blocks[row][["gpu", direction, "chan"]].tolist()
            if key in seen:
                refuse(
                    row, direction, f"gpu {peer} on channel {chan}, as tb {seen[key]}", "one block for each"
                )
            seen[key] = blocks["id"][row]
            number[gpu, chan] += 1
            if number[gpu, chan] > fmt.PER_CHANNEL:
                actual = f"more than {fmt.PER_CHANNEL} blocks on channel {chan}"
                raise InputError(f"gpu {gpu} {direction}: {actual}; allowed: {fmt.PER_CHANNEL}")


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
    # A sum may replace what it was made from; nothing else may overlap.
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

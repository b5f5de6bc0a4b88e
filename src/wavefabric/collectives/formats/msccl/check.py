"""Whether the MSCCL runtime takes an algorithm, and whether it ends: rules, deadlocks, races."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.formats.msccl.deadlock import check_deadlock
from wavefabric.collectives.formats.msccl.format import (
    BUFFERS,
    CPY,
    NOP,
    PER_CHANNEL,
    RE,
    READS,
    RECEIVES,
    RRC,
    RRCS,
    SENDS,
    SLOTS,
    WAITED_BLOCK,
    WRITES,
    Algorithm,
    read_algorithm,
)
from wavefabric.collectives.formats.msccl.graph import match, waited
from wavefabric.collectives.formats.msccl.races import check_races
from wavefabric.errors import InputError


def check_msccl(text: str, *, slots: int = SLOTS) -> int | None:
    """Refuse an MSCCL algorithm that the runtime would refuse, or that would hang, or whose answer is luck.

    Parameters
    ----------
    text : str
        XML.
    slots : int
        Of a connection's buffer (NCCL_STEPS).

    Returns
    -------
    int or None
        Bytes of the largest array that it runs with, None if it runs with any. Where it is less than all that
        its `minBytes` and `maxBytes` allow, the algorithm is refused.

    Raises
    ------
    InputError
        In one line. A rule of the format that is broken; sends and receives that do not match; steps that
        wait for one another in a circle, with an array of a size that the algorithm is for; or two steps on a
        GPU that touch the same chunk, one of them writing, of which nothing says which comes first.

    Notes
    -----
    Sizes are for NCCL's default buffers (NCCL_BUFFSIZE, NCCL_LL_BUFFSIZE, NCCL_LL128_BUFFSIZE).
    """
    return check_algorithm(read_algorithm(text), slots)[1]


def check_algorithm(algorithm: Algorithm, slots: int = SLOTS) -> tuple[np.ndarray, int | None]:
    """The same of an algorithm that is read already; what `match` finds, and the size."""
    _check_chunks(algorithm)
    _check_blocks(algorithm)
    _check_steps(algorithm)
    _check_waits(algorithm)
    senders = match(algorithm)
    most = check_deadlock(algorithm, senders, slots)
    check_races(algorithm, senders)
    return senders, most


def _first(wrong: np.ndarray) -> int | None:
    return int(np.argmax(wrong)) if wrong.any() else None


def _check_chunks(a: Algorithm) -> None:
    for column, times in (
        (0, a.gpus if a.coll == "allgather" else 1),
        (1, a.gpus if a.coll == "reduce_scatter" else 1),
    ):
        sizes = a.sizes[:, column]
        gpu = _first((sizes > 0) & (sizes * times != a.chunks))
        if gpu is not None:
            rest = a.chunks % times
            right = f"0 or {a.chunks // times}" if not rest else "0"
            given = f"{sizes[gpu]} with nchunksperloop {a.chunks} and coll {a.coll}"
            raise InputError(f"gpu {gpu} {BUFFERS[column]}_chunks: {given}; allowed: {right}")


def _check_blocks(a: Algorithm) -> None:
    blocks = a.blocks
    row = _first(blocks["chan"] >= a.channels)
    if row is not None:
        allowed = f"below nchannels, {a.channels}"
        raise InputError(f"{_block_name(a, row)} chan: {blocks['chan'][row]}; allowed: {allowed}")
    for way in ("send", "recv"):
        used = np.flatnonzero(blocks[way] >= 0)
        seen: dict[tuple[int, int, int], int] = {}
        number: dict[tuple[int, int], int] = {}
        for row, (gpu, peer, chan) in zip(
            used.tolist(), blocks[used][["gpu", way, "chan"]].tolist(), strict=True
        ):
            if (gpu, peer, chan) in seen:
                other = blocks["id"][seen[gpu, peer, chan]]
                given = f"gpu {peer} on channel {chan}, as tb {other}"
                raise InputError(f"{_block_name(a, row)} {way}: {given}; allowed: one block for each")
            seen[gpu, peer, chan] = row
            number[gpu, chan] = number.get((gpu, chan), 0) + 1
            if number[gpu, chan] > PER_CHANNEL:
                given = f"more than {PER_CHANNEL} blocks on channel {chan}"
                raise InputError(f"gpu {gpu} {way}: {given}; allowed: {PER_CHANNEL}")


def _block_name(a: Algorithm, row: int) -> str:
    return f"gpu {a.blocks['gpu'][row]} tb {a.blocks['id'][row]}"


def _check_steps(a: Algorithm) -> None:
    steps = a.steps
    kind, blocks = steps["type"], a.blocks[steps["block"]]
    for way, needs in (("send", SENDS), ("recv", RECEIVES)):
        row = _first(needs[kind] & (blocks[way] < 0))
        if row is not None:
            raise InputError(f"{a.step_name(row)}: its block has {way} -1; allowed: a GPU")
    for side, used in (("src", READS), ("dst", WRITES)):
        size = a.sizes[blocks["gpu"], steps[f"{side}buf"]]
        first = steps[f"{side}off"].astype(np.int64)
        row = _first(used[kind] & ((first < 0) | (first + steps["cnt"] > size)))
        if row is not None:
            given = f"{first[row]} with cnt {steps['cnt'][row]}"
            letter = BUFFERS[steps[f"{side}buf"][row]]
            raise InputError(
                f"{a.step_name(row)} {side}off: {given}; allowed: within the {size[row]} chunks of {letter}"
            )
    apart = np.abs(steps["srcoff"].astype(np.int64) - steps["dstoff"])
    overlap = (steps["srcbuf"] == steps["dstbuf"]) & (apart < steps["cnt"])
    # A sum may replace what it was made from; nothing else may overlap.
    row = _first(overlap & (np.isin(kind, (CPY, RE)) | np.isin(kind, (RRC, RRCS)) & (apart > 0)))
    if row is not None:
        raise InputError(f"{a.step_name(row)}: source and destination overlap; allowed: apart")


def _check_waits(a: Algorithm) -> None:
    steps, waits = a.steps, a.steps["depid"] >= 0
    blocks = a.blocks[steps["block"]]
    count = np.bincount(a.blocks["gpu"], minlength=a.gpus)
    row = _first(waits & (steps["depid"] >= count[blocks["gpu"]]))
    if row is not None:
        raise InputError(f"{a.step_name(row)} depid: {steps['depid'][row]}; allowed: a tb of the GPU, or -1")
    row = _first(steps["depid"] > WAITED_BLOCK)
    if row is not None:
        why = "the runtime keeps it in 8 bits"
        raise InputError(
            f"{a.step_name(row)} depid: {steps['depid'][row]}; allowed: to {WAITED_BLOCK}, {why}"
        )
    lengths = np.bincount(steps["block"], minlength=len(a.blocks))
    first_block = np.searchsorted(a.blocks["gpu"], np.arange(a.gpus))
    there = np.where(waits, first_block[blocks["gpu"]] + steps["depid"], 0)
    row = _first(waits & ((steps["deps"] < 0) | (steps["deps"] >= lengths[there])))
    if row is not None:
        allowed = f"a step of tb {steps['depid'][row]}, which has {lengths[there[row]]}"
        raise InputError(f"{a.step_name(row)} deps: {steps['deps'][row]}; allowed: {allowed}")
    own = waits & (steps["depid"] == blocks["id"])
    row = _first(own & (steps["deps"] >= steps["s"]))
    if row is not None:
        raise InputError(
            f"{a.step_name(row)} deps: {steps['deps'][row]} of its own tb; allowed: an earlier one"
        )
    target = waited(a)
    row = _first(waits & ((steps["hasdep"][target] == 0) | (steps["type"][target] == NOP)))
    if row is not None:
        other = a.step_name(int(target[row]))
        raise InputError(
            f"{a.step_name(row)} waits for {other}; allowed: steps with hasdep 1 that are no nop"
        )
    # The runtime adds what nops wait for to the next step, and counts steps by that.
    nop = steps["type"] == NOP
    last = np.ones(steps.size, bool)
    last[:-1] = steps["block"][1:] != steps["block"][:-1]
    next_waits = np.append(waits[1:], False) & ~last
    row = _first(nop & (~waits | ~next_waits))
    if row is not None:
        raise InputError(f"{a.step_name(row)}: a nop; allowed: one that waits, before a step that waits too")

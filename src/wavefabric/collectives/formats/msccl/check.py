"""Whether the MSCCL runtime takes an algorithm, and whether it ends: rules, deadlocks, races."""

from __future__ import annotations

from collections import Counter

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
    MscclAlgorithm,
    read_algorithm,
)
from wavefabric.collectives.formats.msccl.graph import match, waited_steps
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


def check_algorithm(algorithm: MscclAlgorithm, slots: int = SLOTS) -> tuple[np.ndarray, int | None]:
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


def _check_chunks(a: MscclAlgorithm) -> None:
    for column, coll in enumerate(("allgather", "reduce_scatter")):
        times = a.gpus if a.coll == coll else 1
        sizes = a.sizes[:, column]
        if (gpu := _first((sizes > 0) & (sizes * times != a.chunks))) is not None:
            given = f"{sizes[gpu]} with nchunksperloop {a.chunks} and coll {a.coll}"
            allowed = "0" if a.chunks % times else f"0 or {a.chunks // times}"
            raise InputError(f"gpu {gpu} {BUFFERS[column]}_chunks: {given}; allowed: {allowed}")


def _check_blocks(a: MscclAlgorithm) -> None:
    blocks = a.blocks

    def refuse(row: int, key: str, given: object, allowed: str):
        raise InputError(
            f"gpu {blocks['gpu'][row]} tb {blocks['id'][row]} {key}: {given}; allowed: {allowed}"
        )

    if (row := _first(blocks["chan"] >= a.channels)) is not None:
        refuse(row, "chan", blocks["chan"][row], f"below nchannels, {a.channels}")
    for way in ("send", "recv"):
        seen: dict[tuple[int, int, int], int] = {}
        number: Counter[tuple[int, int]] = Counter()
        for row in np.flatnonzero(blocks[way] >= 0).tolist():
            gpu, peer, chan = blocks[row][["gpu", way, "chan"]].tolist()
            if (gpu, peer, chan) in seen:
                other = blocks["id"][seen[gpu, peer, chan]]
                refuse(row, way, f"gpu {peer} on channel {chan}, as tb {other}", "one block for each")
            seen[gpu, peer, chan] = row
            number[gpu, chan] += 1
            if number[gpu, chan] > PER_CHANNEL:
                given = f"more than {PER_CHANNEL} blocks on channel {chan}"
                raise InputError(f"gpu {gpu} {way}: {given}; allowed: {PER_CHANNEL}")


def _check_steps(a: MscclAlgorithm) -> None:
    steps = a.steps
    kind, blocks = steps["type"], a.blocks[steps["block"]]
    for way, needs in (("send", SENDS), ("recv", RECEIVES)):
        if (row := _first(needs[kind] & (blocks[way] < 0))) is not None:
            raise InputError(f"{a.step_name(row)}: its block has {way} -1; allowed: a GPU")
    for side, used in (("src", READS), ("dst", WRITES)):
        size = a.sizes[blocks["gpu"], steps[f"{side}buf"]]
        first = steps[f"{side}off"].astype(np.int64)
        if (row := _first(used[kind] & ((first < 0) | (first + steps["cnt"] > size)))) is not None:
            given = f"{first[row]} with cnt {steps['cnt'][row]}"
            allowed = f"within the {size[row]} chunks of {BUFFERS[steps[f'{side}buf'][row]]}"
            raise InputError(f"{a.step_name(row)} {side}off: {given}; allowed: {allowed}")
    apart = np.abs(steps["srcoff"].astype(np.int64) - steps["dstoff"])
    overlap = (steps["srcbuf"] == steps["dstbuf"]) & (apart < steps["cnt"])
    # A sum may replace what it was made from; nothing else may overlap.
    overlap &= np.isin(kind, (CPY, RE)) | np.isin(kind, (RRC, RRCS)) & (apart > 0)
    if (row := _first(overlap)) is not None:
        raise InputError(f"{a.step_name(row)}: source and destination overlap; allowed: apart")


def _check_waits(a: MscclAlgorithm) -> None:
    steps, depid, deps = a.steps, a.steps["depid"], a.steps["deps"]
    waits = depid >= 0
    blocks = a.blocks[steps["block"]]

    def refuse(row: int, text: str):
        raise InputError(f"{a.step_name(row)}{text}")

    count = np.bincount(a.blocks["gpu"], minlength=a.gpus)
    if (row := _first(waits & (depid >= count[blocks["gpu"]]))) is not None:
        refuse(row, f" depid: {depid[row]}; allowed: a tb of the GPU, or -1")
    if (row := _first(depid > WAITED_BLOCK)) is not None:
        refuse(row, f" depid: {depid[row]}; allowed: to {WAITED_BLOCK}, the runtime keeps it in 8 bits")
    lengths = np.bincount(steps["block"], minlength=len(a.blocks))
    first_block = np.searchsorted(a.blocks["gpu"], np.arange(a.gpus))
    there = np.where(waits, first_block[blocks["gpu"]] + depid, 0)
    if (row := _first(waits & ((deps < 0) | (deps >= lengths[there])))) is not None:
        allowed = f"a step of tb {depid[row]}, which has {lengths[there[row]]}"
        refuse(row, f" deps: {deps[row]}; allowed: {allowed}")
    if (row := _first(waits & (depid == blocks["id"]) & (deps >= steps["s"]))) is not None:
        refuse(row, f" deps: {deps[row]} of its own tb; allowed: an earlier one")
    target = waited_steps(a)
    if (row := _first(waits & ((steps["hasdep"][target] == 0) | (steps["type"][target] == NOP)))) is not None:
        other = a.step_name(int(target[row]))
        refuse(row, f" waits for {other}; allowed: steps with hasdep 1 that are no nop")
    # The runtime adds what nops wait for to the next step, and counts steps by that.
    last = np.ones(steps.size, bool)
    last[:-1] = steps["block"][1:] != steps["block"][:-1]
    next_waits = np.append(waits[1:], False) & ~last
    if (row := _first((steps["type"] == NOP) & (~waits | ~next_waits))) is not None:
        refuse(row, ": a nop; allowed: one that waits, before a step that waits too")

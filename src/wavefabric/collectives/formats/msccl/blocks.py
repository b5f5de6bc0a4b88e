"""Assign transfers in rounds to steps of thread blocks, and compute what each step waits for."""

from dataclasses import dataclass

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives.formats.msccl import format as fmt
from wavefabric.collectives.formats.msccl.check import touches
from wavefabric.collectives.levels import hazards
from wavefabric.collectives.sizes import ragged, within_groups


class MscclLimitExceeded(Exception):
    """Raised for an exceeded limit that more channels or fewer blocks might satisfy; the message names it."""


class TooManySteps(MscclLimitExceeded):
    """Raised if a thread block has more steps than MSCCL allows: shorter lanes might help."""


@dataclass(frozen=True, eq=False)
class ThreadBlockLanes:
    """Groups transfers into lanes: a lane is a thread block at each of two GPUs, or one block that copies.

    ``of``: the lane of each transfer. ``ends``, shape (lanes, 2): sending and receiving GPU; twice the same
    GPU for transfers within it. If a block both sends and receives, the two GPUs are in ascending order.
    ``channel``: the channel of each lane.
    """

    of: np.ndarray
    ends: np.ndarray
    channel: np.ndarray


def build_blocks(moves: np.ndarray, gpus: int, shared: bool | None) -> tuple[np.ndarray, np.ndarray]:
    """Distribute transfers to thread blocks; return the tables of blocks (`BLOCK`) and their steps (`STEP`).

    ``shared``: whether one block both sends to a peer and receives from it; None: only if two would be too
    many. `InputError` names the limit of the runtime that is exceeded.
    """
    why = ""
    for joint in (False, True) if shared is None else (shared,):
        longest = fmt.STEPS
        while longest >= 4:
            try:
                return _thread_blocks(moves, _lanes(moves, gpus, joint, longest), gpus)
            except MscclLimitExceeded as error:
                why, longest = str(error), longest // 2 if isinstance(error, TooManySteps) else 0
    limits = f"{fmt.BLOCKS} thread blocks per GPU, {fmt.WAITED_BLOCK + 1} of them waited for"
    raise InputError(f"MSCCL: {why}; allowed: {limits}, {fmt.CHANNELS} channels")


def _lanes(moves: np.ndarray, gpus: int, shared: bool, longest: int) -> ThreadBlockLanes:
    """Group the transfers of each pair of GPUs into lanes of at most ``longest`` transfers.

    A lane is a thread block at each of the two GPUs. Each direction has lanes of its own, unless blocks are
    ``shared`` by both; so has each instance of divided chunks.
    """
    one, other = moves["src"], moves["dst"]
    if shared:
        one, other = np.minimum(one, other), np.maximum(one, other)
    pair = (one * gpus + other) * (int(moves["instance"].max(initial=0)) + 1) + moves["instance"]
    parts = within_groups(pair) // longest
    key = pair * (int(parts.max(initial=0)) + 1) + parts
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    ends = np.stack((one[first], other[first]), axis=1)
    return ThreadBlockLanes(of.ravel(), ends, _channels(ends.tolist(), gpus))


def _channels(ends: list[list[int]], gpus: int) -> np.ndarray:
    """Return the channel of each lane; lanes between the same two GPUs have different channels.

    ``ends``: the two GPUs of each lane, which has a thread block at both.
    """
    used = np.zeros((gpus, fmt.CHANNELS), np.int64)
    taken: dict[tuple[int, int], int] = {}
    chosen = np.zeros(len(ends), np.int64)
    # Copies first: they belong to no pair.
    for lane in sorted(range(len(ends)), key=lambda n: ends[n][0] != ends[n][1]):
        a, b = ends[lane]
        full = (used[a] >= fmt.PER_CHANNEL) | (used[b] >= fmt.PER_CHANNEL)
        mask = taken.get((a, b), 0) if a != b else 0
        channel = next((c for c in range(fmt.CHANNELS) if not full[c] and not mask >> c & 1), None)
        if channel is None:
            raise MscclLimitExceeded(f"GPU {a}: more than {fmt.CHANNELS} channels")
        taken[a, b] = mask | 1 << channel
        used[list({a, b}), channel] += 1
        chosen[lane] = channel
    return chosen


def _thread_blocks(moves: np.ndarray, lanes: ThreadBlockLanes, gpus: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the tables of the thread blocks (`BLOCK`) and of their steps (`STEP`) of all GPUs."""
    # The ends of lane n are blocks 2 n and 2 n + 1; a copy within a GPU has only the first.
    gpu = lanes.ends.ravel()
    number = np.bincount(lanes.ends[:, 0], minlength=gpus)
    number += np.bincount(lanes.ends[lanes.ends[:, 0] != lanes.ends[:, 1], 1], minlength=gpus)
    if number.max(initial=0) > fmt.BLOCKS:
        raise MscclLimitExceeded(
            f"GPU {int(number.argmax())}: {int(number.max())} thread blocks, of {fmt.BLOCKS}"
        )
    owner, work = _work(moves, lanes)
    order = np.lexsort((np.arange(owner.size), owner))  # by block, otherwise unchanged
    owner, work = owner[order], work[order]
    later, earlier = _waits(work, owner, gpu, order)
    return _number(work, owner, gpu, later, earlier, lanes)


def _work(moves: np.ndarray, lanes: ThreadBlockLanes) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps of all transfers: the thread block of each step, and its row of `STEP`.

    A transfer between GPUs is two steps, a send and a receive; a transfer within a GPU is one.
    """
    turn, second = ragged(np.where(moves["src"] != moves["dst"], 2, 1))
    m, lane = moves[turn], lanes.of[turn]
    away, reduce = m["src"] != m["dst"], m["reduce"]
    on = np.where(second, m["dst"], m["src"])
    owner = 2 * lane + (on != lanes.ends[lane, 0])
    work = np.zeros(turn.size, fmt.STEP)
    received, local = np.where(reduce, fmt.RRC, fmt.R), np.where(reduce, fmt.RE, fmt.CPY)
    work["type"] = np.where(away, np.where(second, received, fmt.S), local)
    # Sends and receives name both ends, as msccl-tools does: checkers compare them, the runtime takes one.
    for side in ("src", "dst"):
        work[f"{side}buf"], work[f"{side}off"] = m[f"{side}_buffer"], m[f"{side}_chunk"]
    # A sum that is received is added where it stays.
    rrc = work["type"] == fmt.RRC
    work["srcbuf"][rrc], work["srcoff"][rrc] = m["dst_buffer"][rrc], m["dst_chunk"][rrc]
    work["cnt"] = m["count"]
    work["depid"] = work["deps"] = -1
    return owner, work


def _waits(work, owner, gpu, time) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays of steps: step ``later[i]`` must wait for step ``earlier[i]`` of another block.

    Both are on one GPU and access the same chunk. Waits are left out if the later step's block has already
    waited for the same or a following step of that other block. ``owner``: the block of each step; ``gpu``:
    the GPU of each block; ``time``: the order of steps in the schedule.
    """
    highest = [work[key].max(initial=0) for key in ("srcoff", "dstoff", "cnt")]
    width = 1 + int(max(highest[:2])) + int(highest[2])
    at = gpu[owner].astype(np.int64)
    first = [(at * 3 + work[f"{side}buf"]) * width + work[f"{side}off"] for side in ("src", "dst")]
    touched, chunk, writes = touches(work, first)
    later, earlier = (touched[at] for at in hazards(chunk, time[touched], writes))
    apart = owner[later] != owner[earlier]
    later, earlier = later[apart], earlier[apart]
    pair = owner[later].astype(np.int64) * (gpu.size + 1) + owner[earlier]
    order = np.lexsort((-earlier, later, pair))
    later, earlier = later[order], earlier[order]
    # Drop waits covered by an earlier wait of the block: a running maximum per pair of blocks.
    lifted = pair[order] * (work.size + 1) + earlier
    new = lifted > np.concatenate(([-1], np.maximum.accumulate(lifted)))[: lifted.size]
    return later[new], earlier[new]


def _number(work, owner, gpu, later, earlier, lanes: ThreadBlockLanes) -> tuple[np.ndarray, np.ndarray]:
    """Return the tables of blocks and of numbered steps, in which a step waits for at most one other step.

    ``work`` has a row per step, ``owner`` the block of each step, ``gpu`` the GPU of each block. A step
    ``later[i]`` waits for ``earlier[i]``. If it waits for several, an empty step (nop) before it takes each
    further wait. On each GPU the blocks that others wait for come first.
    """
    order = np.argsort(later, kind="stable")
    later, earlier = later[order], earlier[order]
    length = np.maximum(np.bincount(later, minlength=work.size), 1)
    end = np.cumsum(length)  # row after each step, nops before it
    numbers = within_groups(np.repeat(owner, length))
    number = numbers[end - 1]
    if number.max(initial=0) >= fmt.STEPS:
        worst = int(number.argmax())
        raise TooManySteps(f"GPU {int(gpu[owner[worst]])}: more than {fmt.STEPS} steps in a thread block")
    present = np.unique(owner)
    rank, ids = _block_order(gpu[present], np.isin(present, owner[earlier]))
    position = np.empty(present.size, np.int64)
    position[rank] = np.arange(present.size)
    steps = np.zeros(numbers.size, fmt.STEP)
    steps["type"], steps["dstbuf"], steps["srcoff"], steps["dstoff"] = fmt.NOP, 1, -1, -1
    steps["depid"] = steps["deps"] = -1
    steps[end - 1] = work
    block = np.searchsorted(present, owner)
    steps["block"] = position[np.repeat(block, length)]
    steps["s"] = numbers
    row = (end - length)[later] + within_groups(later)
    steps["depid"][row], steps["deps"][row] = ids[block[earlier]], number[earlier]
    steps["hasdep"][end[earlier] - 1] = 1
    steps = steps[np.argsort(steps["block"], kind="stable")]
    _keep_sums_apart(steps)
    return _block_table(work, owner, present, ids, lanes)[rank], steps


def _block_order(gpu: np.ndarray, waited_for: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the thread blocks of each GPU from 0, those that others wait for first.

    Return the order of all blocks by GPU and number, and the number of each block. ``gpu``: the GPU of each
    block; ``waited_for``: whether others wait for it.
    """
    rank = np.lexsort((np.arange(gpu.size), ~waited_for, gpu))
    ids = np.empty(gpu.size, np.int64)
    ids[rank] = np.arange(gpu.size) - np.searchsorted(gpu[rank], gpu[rank])
    if waited_for.any() and ids[waited_for].max() > fmt.WAITED_BLOCK:
        at = int(gpu[waited_for][ids[waited_for].argmax()])
        raise MscclLimitExceeded(
            f"GPU {at}: more than {fmt.WAITED_BLOCK + 1} thread blocks that others wait for"
        )
    return rank, ids


def _block_table(work, owner, present: np.ndarray, ids: np.ndarray, lanes: ThreadBlockLanes) -> np.ndarray:
    """Return the table (`BLOCK`) of the thread blocks ``present``: GPU, number, peers and channel.

    Blocks 2 n and 2 n + 1 are at the two ends of lane n. ``ids``: the number of each block on its GPU.
    """
    lane, second = present // 2, present % 2
    blocks = np.zeros(present.size, fmt.BLOCK)
    blocks["gpu"], blocks["id"], blocks["chan"] = lanes.ends[lane, second], ids, lanes.channel[lane]
    for key, types in (("send", (fmt.S,)), ("recv", (fmt.R, fmt.RRC))):
        uses = np.isin(present, owner[np.isin(work["type"], types)])
        blocks[key] = np.where(uses, lanes.ends[lane, 1 - second], -1)
    return blocks


def _keep_sums_apart(steps: np.ndarray) -> None:
    """Mark local sums that the runtime would merge with the next, which changes the order of additions.

    The runtime merges reduces to the same address if no step waits for the first and the second does not
    wait: it adds all sources, and then the value at the address. A mark (as if a step waited) keeps the order
    of the schedule, and with it the same bits on all GPUs.
    """
    a, b = steps[:-1], steps[1:]
    joined = (a["type"] == fmt.RE) & (b["type"] == fmt.RE) & (a["block"] == b["block"]) & (b["depid"] == -1)
    for key in ("dstbuf", "dstoff", "srcbuf"):
        joined &= a[key] == b[key]
    steps["hasdep"][:-1][joined] = 1

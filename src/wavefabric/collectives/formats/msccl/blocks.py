"""Assign transfers in rounds to steps of thread blocks, and compute what each step waits for."""

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives.formats.buffers import CollectiveArrays
from wavefabric.collectives.formats.moves import LimitExceeded
from wavefabric.collectives.formats.msccl import format as fmt
from wavefabric.collectives.formats.msccl.check import conflicts
from wavefabric.collectives.sizes import ragged, within_groups


class TooManySteps(LimitExceeded):
    """Raised if a thread block has more steps than MSCCL allows: shorter lanes might help."""


def build_blocks(
    moves: np.ndarray, arrays: CollectiveArrays, shared: bool | None
) -> tuple[np.ndarray, np.ndarray]:
    """Distribute transfers to thread blocks; return the tables of blocks (`BLOCK`) and their steps (`STEP`).

    ``shared``: whether one block both sends to a peer and receives from it; None: only if two would be too
    many. `InputError` names the limit of the runtime that is exceeded.
    """
    why = ""
    for joint in (False, True) if shared is None else (shared,):
        longest = fmt.STEPS
        while longest >= 4:
            try:
                return _thread_blocks(moves, arrays, *_lanes(moves, arrays.gpus, joint, longest))
            except LimitExceeded as error:
                why, longest = str(error), longest // 2 if isinstance(error, TooManySteps) else 0
    limits = f"{fmt.BLOCKS} thread blocks per GPU, {fmt.WAITED_BLOCK + 1} of them waited for"
    raise InputError(f"MSCCL: {why}; allowed: {limits}, {fmt.CHANNELS} channels")


def _lanes(moves: np.ndarray, gpus: int, shared: bool, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Group the transfers of each pair of GPUs into lanes of at most ``longest`` transfers.

    Return the lane of each transfer, and the two GPUs of each lane: the sender and the receiver, or if blocks
    are ``shared`` by both directions, the lower and the higher; twice the same GPU for transfers within it.
    A lane is a thread block at each of its GPUs. Each instance of divided chunks has lanes of its own.
    """
    one, other = moves["src"], moves["dst"]
    if shared:
        one, other = np.minimum(one, other), np.maximum(one, other)
    pair = (one * gpus + other) * (int(moves["instance"].max(initial=0)) + 1) + moves["instance"]
    parts = within_groups(pair) // longest
    key = pair * (int(parts.max(initial=0)) + 1) + parts
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    return of.ravel(), np.stack((one[first], other[first]), axis=1)


def _channels(ends: list[list[int]], gpus: int) -> np.ndarray:
    """Return the channel of each lane, of which ``ends`` has the two GPUs.

    Lanes between the same two GPUs have different channels.
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
            raise LimitExceeded(f"GPU {a}: more than {fmt.CHANNELS} channels")
        taken[a, b] = mask | 1 << channel
        used[list({a, b}), channel] += 1
        chosen[lane] = channel
    return chosen


def _thread_blocks(
    moves: np.ndarray, arrays: CollectiveArrays, lane: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tables of the thread blocks (`BLOCK`) and of their steps (`STEP`) of all GPUs.

    ``lane``: that of each transfer; ``ends``: the two GPUs of each lane. On each GPU the blocks that others
    wait for come first. A step waits for at most one other step. If it must wait for several, an empty step
    (nop) before it takes each further wait.
    """
    channels, gpu = _channels(ends.tolist(), arrays.gpus), ends.ravel()
    work = _work(moves, lane, ends)
    time = np.argsort(work["block"], kind="stable")
    work, owner = work[time], work["block"][time].astype(np.int64)
    present, block = np.unique(owner, return_inverse=True)
    number = np.bincount(gpu[present], minlength=arrays.gpus)
    if (most := number.max(initial=0)) > fmt.BLOCKS:
        raise LimitExceeded(f"GPU {number.argmax()}: {most} thread blocks, of {fmt.BLOCKS}")
    later, earlier = _waits(work, *conflicts(arrays, work, gpu[owner], time))
    length = np.maximum(np.bincount(later, minlength=work.size), 1)
    end = np.cumsum(length)  # row after each step, nops before it
    numbers = within_groups(np.repeat(owner, length))
    number = numbers[end - 1]
    if number.max(initial=0) >= fmt.STEPS:
        on = gpu[owner[number.argmax()]]
        raise TooManySteps(f"GPU {on}: more than {fmt.STEPS} steps in a thread block")
    rank, ids = _block_order(gpu[present], np.isin(present, owner[earlier]))
    steps = np.zeros(numbers.size, fmt.STEP)
    steps["type"], steps["dstbuf"], steps["srcoff"], steps["dstoff"] = fmt.NOP, 1, -1, -1
    steps["depid"] = steps["deps"] = -1
    steps[end - 1] = work
    steps["block"], steps["s"] = np.argsort(rank)[np.repeat(block, length)], numbers
    row = (end - length)[later] + within_groups(later)
    steps["depid"][row], steps["deps"][row] = ids[block[earlier]], number[earlier]
    steps["hasdep"][end[earlier] - 1] = 1
    steps = steps[np.argsort(steps["block"], kind="stable")]
    _keep_sums_apart(steps)
    blocks = np.zeros(present.size, fmt.BLOCK)
    blocks["gpu"], blocks["id"], blocks["chan"] = gpu[present], ids, channels[present // 2]
    for key, types in (("send", (fmt.S,)), ("recv", (fmt.R, fmt.RRC))):
        uses = np.isin(present, owner[np.isin(work["type"], types)])
        blocks[key] = np.where(uses, gpu[present ^ 1], -1)
    return blocks[rank], steps


def _work(moves: np.ndarray, lane: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the steps (`STEP`) of all transfers, in their order; arguments are as for `_thread_blocks`.

    A transfer between GPUs is two steps, a send and a receive; a transfer within a GPU is one. ``block`` is
    2 n or 2 n + 1 for the thread block at the first or second end of lane n.
    """
    turn, second = ragged(np.where(moves["src"] != moves["dst"], 2, 1))
    m, lane = moves[turn], lane[turn]
    work = np.zeros(turn.size, fmt.STEP)
    work["block"] = 2 * lane + (np.where(second, m["dst"], m["src"]) != ends[lane, 0])
    received, local = np.where(m["reduce"], fmt.RRC, fmt.R), np.where(m["reduce"], fmt.RE, fmt.CPY)
    work["type"] = np.where(m["src"] != m["dst"], np.where(second, received, fmt.S), local)
    # Sends and receives name both ends, as msccl-tools does: checkers compare them, the runtime takes one.
    for side in ("src", "dst"):
        work[f"{side}buf"], work[f"{side}off"] = m[f"{side}_buffer"], m[f"{side}_chunk"]
    # A sum that is received is added where it stays.
    rrc = work["type"] == fmt.RRC
    work["srcbuf"][rrc], work["srcoff"][rrc] = m["dst_buffer"][rrc], m["dst_chunk"][rrc]
    work["cnt"] = m["count"]
    work["depid"] = work["deps"] = -1
    return work


def _waits(work: np.ndarray, later: np.ndarray, earlier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the waits of steps ``later`` for steps ``earlier`` that are needed, by step ``later``.

    Waits are left out if the later step's block has already waited for the same or a following step of the
    earlier step's block.
    """
    owner = work["block"].astype(np.int64)
    pair = owner[later] * (int(owner.max(initial=0)) + 2) + owner[earlier]
    order = np.lexsort((-earlier, later, pair))
    later, earlier = later[order], earlier[order]
    # A running maximum for each pair of blocks.
    lifted = pair[order] * (work.size + 1) + earlier
    new = lifted > np.concatenate(([-1], np.maximum.accumulate(lifted)))[: lifted.size]
    order = np.argsort(later[new], kind="stable")
    return later[new][order], earlier[new][order]


def _block_order(gpu: np.ndarray, waited_for: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the thread blocks of each GPU from 0, those that others wait for first.

    Return the order of all blocks by GPU and number, and the number of each block. ``gpu``: the GPU of each
    block; ``waited_for``: whether others wait for it.
    """
    rank = np.lexsort((np.arange(gpu.size), ~waited_for, gpu))
    ids = np.empty(gpu.size, np.int64)
    ids[rank] = within_groups(gpu[rank])
    if waited_for.any() and ids[waited_for].max() > fmt.WAITED_BLOCK:
        at = gpu[waited_for][ids[waited_for].argmax()]
        raise LimitExceeded(f"GPU {at}: more than {fmt.WAITED_BLOCK + 1} thread blocks that others wait for")
    return rank, ids


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

"""What GPUs send one another when the next layer shares samples and features among them otherwise."""

from __future__ import annotations

from functools import lru_cache

from wavefabric.training.calls import Call
from wavefabric.training.strategy import Layout

Messages = tuple[tuple[int, int, float], ...]


def redistribution(
    source: Layout,
    first: int,
    shared: bool,
    target: Layout,
    target_first: int,
    wanted_shared: bool,
    nbytes: float,
) -> Call | None:
    """The call that brings a layer's output to where the next layer takes it; None if it is there.

    Parameters
    ----------
    source, first, shared
        Layout of the layer that made it, first GPU of its stage, and whether each of its ``tensor`` GPUs has
        a share of the features; else each has all.
    target, target_first, wanted_shared
        The same of the layer that takes it.
    nbytes : float
        B of the whole output, of all samples of the microbatch.

    Notes
    -----
    The backward pass sends gradients the other way (`reversed_call`).
    """
    here = first == target_first
    if here and source == target and shared == wanted_shared:
        return None
    if here and shared and source == target:
        groups = source.tensor_groups(first)
        return (
            Call("all-gather", groups, nbytes / source.data, "layer-to-layer") if source.tensor > 1 else None
        )
    if here and shared and target.tensor == 1 and source.tensor > 1:
        # Each GPU has all samples of its group and 1/tensor of the features, and then the other way round.
        return Call("all-to-all", source.tensor_groups(first), nbytes / source.gpus, "layer-to-layer")
    if here and wanted_shared and source.tensor == 1 and target.tensor > 1:
        return Call("all-to-all", target.tensor_groups(first), nbytes / source.gpus, "layer-to-layer")
    messages = _messages(source, first, shared, target, target_first, wanted_shared)
    if not messages:
        return None
    groups = (tuple(sorted({end for message in messages for end in message[:2]})),)
    return Call("messages", groups, nbytes, "layer-to-layer", messages)


def reversed_call(call: Call) -> Call | None:
    """What brings gradients back; the backward of gathering features is that each GPU takes its own."""
    if call.collective == "all-gather":
        return None
    if call.collective != "messages":
        return call
    return Call(call.collective, call.groups, call.bytes, call.purpose, _reversed(call.messages))


@lru_cache(maxsize=256)
def _reversed(messages: Messages) -> Messages:
    return tuple((dst, src, size) for src, dst, size in messages)


@lru_cache(maxsize=256)
def _messages(
    source: Layout, first: int, shared: bool, target: Layout, target_first: int, wanted_shared: bool
) -> Messages:
    """Source, destination and share of the whole output. Of GPUs that have the same, the taker itself or the
    one whose place among them is the taker's place among its own sends."""
    messages = []
    for taker in range(target.gpus):
        i, j = divmod(taker, target.tensor)
        parts = target.tensor if wanted_shared else 1
        for k, samples in _overlaps(i, target.data, source.data):
            for share, features in _overlaps(j % parts, parts, source.tensor if shared else 1):
                column = share if shared else _replica(taker, k, source, target_first == first, j)
                giver = first + k * source.tensor + column
                if giver != target_first + taker:
                    messages.append((giver, target_first + taker, samples * features))
    return tuple(messages)


def _replica(taker: int, row: int, source: Layout, same_stage: bool, place: int) -> int:
    """Which of the GPUs with equal outputs sends."""
    own_row, own_column = divmod(taker, source.tensor)
    return own_column if same_stage and own_row == row else place % source.tensor


def _overlaps(part: int, parts: int, others: int) -> list[tuple[int, float]]:
    """Of [0, 1] cut into `others`: intervals that meet number `part` of `parts`, and the common lengths."""
    scale = parts * others
    begin, end = part * others, (part + 1) * others  # in units of 1 / scale
    found = []
    for k in range(begin // parts, -(-end // parts)):
        common = min(end, (k + 1) * parts) - max(begin, k * parts)
        found.append((k, common / scale))
    return found

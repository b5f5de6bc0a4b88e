"""What GPUs send one another when the next layer shares samples and features among them otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from wavefabric.training.iteration.calls import Call
from wavefabric.training.strategies.strategy import Groups, LayerLayout

Messages = tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class BlockPlacement:
    """Which block of an array of samples × features each of ``data × tensor`` GPUs has.

    GPU ``first + i · tensor + j`` has block i of the samples; of the features block j if they are
    ``shared``, else all.
    """

    first: int
    data: int
    tensor: int
    shared: bool

    @property
    def parts(self) -> int:
        """Blocks into which the features are cut."""
        return self.tensor if self.shared else 1

    @property
    def groups(self) -> Groups:
        """GPUs with the same samples."""
        return LayerLayout(self.data, self.tensor).groups(self.first, "tensor")


def redistribution(source: BlockPlacement, target: BlockPlacement, nbytes: float) -> Call | None:
    """The call that brings an array from one placement to another; None if all is where it is needed.

    The whole array has so many bytes. Its gradient goes the other way: ``redistribution(target, source,
    nbytes)``.
    """
    if source == target:
        return None
    collective = _collective(source, target)
    if collective is not None:
        kind, groups = collective
        part = source.data * source.tensor if kind == "all-to-all" else target.data
        return Call(kind, groups, nbytes / part, "layer-to-layer")
    messages = _messages(source, target)
    return Call("messages", _ends(messages), nbytes, "layer-to-layer", messages) if messages else None


def _collective(source: BlockPlacement, target: BlockPlacement) -> tuple[str, Groups] | None:
    """The collective that moves what messages would, and its groups."""
    if source.first != target.first or source.parts == target.parts:
        whole = source.first == target.first and source.parts == target.parts == 1
        # Each of `tensor` GPUs has its samples and needs those of all.
        return ("all-gather", target.groups) if whole and source.tensor == 1 < target.tensor else None
    if source.shared and (source.data, source.tensor) == (target.data, target.tensor):
        return "all-gather", source.groups
    # All samples of a group and one block of the features, and a block of the samples and all features.
    if source.shared and target.tensor == 1:
        return "all-to-all", source.groups
    if target.shared and source.tensor == 1:
        return "all-to-all", target.groups
    return None


@lru_cache(maxsize=256)
def _messages(source: BlockPlacement, target: BlockPlacement) -> Messages:
    """Source, destination and share of the array.

    Of several GPUs that have the same block one sends it: those that need it ask them by turns, which of a
    GPU that has it is that GPU itself.
    """
    messages = []
    for taker in range(target.data * target.tensor):
        i, j = divmod(taker, target.tensor)
        for row, samples in _overlaps(i, target.data, source.data):
            for column, features in _overlaps(j % target.parts, target.parts, source.parts):
                if not source.shared:
                    column = taker % source.tensor
                giver = source.first + row * source.tensor + column
                if giver != target.first + taker:
                    messages.append((giver, target.first + taker, samples * features))
    return tuple(messages)


@lru_cache(maxsize=256)
def _ends(messages: Messages) -> Groups:
    return (tuple(sorted({end for message in messages for end in message[:2]})),)


def _overlaps(part: int, parts: int, others: int) -> list[tuple[int, float]]:
    """Of [0, 1] cut into `others`: intervals that meet number `part` of `parts`, and the common lengths."""
    scale = parts * others
    begin, end = part * others, (part + 1) * others  # in units of 1 / scale
    result = []
    for k in range(begin // parts, -(-end // parts)):
        common = min(end, (k + 1) * parts) - max(begin, k * parts)
        result.append((k, common / scale))
    return result

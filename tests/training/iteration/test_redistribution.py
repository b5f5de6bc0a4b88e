"""After its messages every GPU has exactly the block that it needs, checked cell by cell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.layer_calls import (
    BlockPlacement,
    ModelCalls,
    _collective,
    _messages,
    redistribution,
)
from wavefabric.training.models.graph import Layer, ModelGraph
from wavefabric.training.strategies.strategy import LayerLayout, uniform

GPUS = 12
SIDE = 24  # samples, and features: each number of blocks divides it
BYTES = 4.0 * SIDE * SIDE


def placement(layout, first, shared):
    """Of an array that a layer makes or takes; features on one GPU are not shared."""
    return BlockPlacement(first, layout.data, layout.tensor, shared and layout.tensor > 1)


def placements(first):
    degrees = st.sampled_from([(data, GPUS // data) for data in (1, 2, 3, 4, 6, 12)])
    return st.builds(lambda d, shared: placement(LayerLayout(*d), first, shared), degrees, st.booleans())


pairs = st.tuples(placements(0), st.sampled_from((0, 2 * GPUS)).flatmap(placements))


def blocks(position):
    """Cells that each GPU has, shape (samples, features)."""
    result = {}
    for gpu in range(GPUS):
        i, j = divmod(gpu, position.tensor)
        cells = np.zeros((SIDE, SIDE), bool)
        rows = slice(i * SIDE // position.data, (i + 1) * SIDE // position.data)
        some = slice(j * SIDE // position.tensor, (j + 1) * SIDE // position.tensor)
        cells[rows, some if position.shared else slice(None)] = True
        result[position.first + gpu] = cells
    return result


def moved_bytes(call):
    """B that leave all GPUs together."""
    if call.collective == "messages":
        return call.bytes * sum(size for *_, size in call.messages)
    size = len(call.groups[0])
    each = {"all-gather": (size - 1) / size * size, "all-to-all": (size - 1) / size * size}
    return call.bytes * each[call.collective] * len(call.groups)


@pytest.mark.slow
@settings(max_examples=80)
@given(pairs)
def test_messages_bring_each_gpu_what_it_lacks(pair):
    source, target = pair
    has, needs = blocks(source), blocks(target)
    got = {gpu: np.zeros((SIDE, SIDE), int) for gpu in needs}
    for giver, taker, size in _messages(source, target):
        assert giver != taker
        sent = has[giver] & needs[taker]
        # The message is all that the giver has and the taker needs: no more and no less.
        assert size * SIDE * SIDE == pytest.approx(sent.sum(), abs=1e-9)
        got[taker] += sent
    for gpu, cells in needs.items():
        own = has.get(gpu, np.zeros((SIDE, SIDE), bool)) & cells
        assert np.array_equal(own + got[gpu], cells.astype(int))  # every cell once, kept or received


@settings(max_examples=80)
@given(pairs)
def test_a_collective_moves_as_much_as_messages_would(pair):
    source, target = pair
    call = redistribution(source, target, BYTES)
    messages = _messages(source, target)
    assert (call is None) == (not messages)
    if call is None:
        return
    assert call.purpose == "layer-to-layer"
    assert moved_bytes(call) == pytest.approx(BYTES * sum(size for *_, size in messages))
    # Only GPUs of the same group send to each other, and each that does is in one.
    group_of = {gpu: number for number, group in enumerate(call.groups) for gpu in group}
    assert all(group_of[giver] == group_of[taker] for giver, taker, _ in messages)
    assert call.gpus == {end for message in messages for end in message[:2]}
    assert len(call.gpus) == sum(map(len, call.groups))


@settings(max_examples=80)
@given(pairs)
def test_gradients_go_back_the_same_way_where_nothing_is_held_twice(pair):
    source, target = pair
    if all(position.shared or position.tensor == 1 for position in pair):
        back = sorted((taker, giver, size) for giver, taker, size in _messages(source, target))
        assert sorted(_messages(target, source)) == back


@settings(max_examples=80)
@given(pairs)
def test_gpus_with_the_same_block_share_the_sending(pair):
    source, target = pair
    if source.first == target.first:
        return
    sends = {gpu: 0.0 for gpu in blocks(source)}
    for giver, _, size in _messages(source, target):
        sends[giver] += size
    most, mean = max(sends.values()), sum(sends.values()) / GPUS
    # Takers are given to those that have the block by turns: at most one more than the others.
    takers = max(size for *_, size in _messages(source, target))
    assert most <= mean + takers + 1e-12


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (BlockPlacement(0, 4, 3, True), BlockPlacement(0, 4, 3, False), ("all-gather", BYTES / 4, 3)),
        (BlockPlacement(0, 4, 3, True), BlockPlacement(0, 12, 1, False), ("all-to-all", BYTES / 12, 3)),
        (BlockPlacement(0, 12, 1, False), BlockPlacement(0, 4, 3, True), ("all-to-all", BYTES / 12, 3)),
        (BlockPlacement(0, 12, 1, False), BlockPlacement(0, 4, 3, False), ("all-gather", BYTES / 4, 3)),
        (BlockPlacement(0, 1, 12, True), BlockPlacement(0, 12, 1, False), ("all-to-all", BYTES / 12, 12)),
        (BlockPlacement(0, 4, 3, True), BlockPlacement(0, 6, 2, True), ("messages", BYTES, 12)),
        (BlockPlacement(0, 12, 1, False), BlockPlacement(12, 12, 1, False), ("messages", BYTES, 24)),
    ],
)
def test_what_is_a_collective(source, target, expected):
    call = redistribution(source, target, BYTES)
    assert call is not None
    assert (call.collective, call.bytes, len(call.groups[0])) == expected


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (BlockPlacement(0, 4, 3, False), BlockPlacement(0, 4, 3, True)),  # each takes its part of what it has
        (BlockPlacement(0, 4, 3, False), BlockPlacement(0, 12, 1, False)),
        (BlockPlacement(0, 4, 3, True), BlockPlacement(0, 4, 3, True)),
        (BlockPlacement(0, 1, 12, False), BlockPlacement(0, 6, 2, True)),
    ],
)
def test_what_is_there_is_not_sent(source, target):
    assert redistribution(source, target, BYTES) is None


def test_features_on_one_gpu_are_not_shared():
    layers = Layer("a", "matmul", split="column"), Layer("b", "matmul", ("a",), split="row")
    model = ModelGraph("two", layers)
    calls = ModelCalls(model, uniform(model, 12), PRECISIONS["fp32"])
    assert calls.layers[0].transfers[0].forward == ()
    whole = BlockPlacement(0, 12, 1, False)
    assert _collective(whole, whole) is None

"""Operators as layers: shapes and counts from first principles."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.training.models.layers import GraphBuilder

SIDES = st.integers(1, 9)


@settings(max_examples=50)
@given(st.lists(SIDES, min_size=1, max_size=3), SIDES, st.booleans(), st.booleans())
def test_products_take_two_flops_a_weight_and_row(shape, features, bias, tied):
    graph = GraphBuilder()
    graph.linear("a", tuple(shape), features, bias=bias, tied=tied)
    (layer,) = graph.layers
    weights = np.ones((shape[-1], features))
    assert layer.output == (np.ones(shape) @ weights).shape
    assert layer.flops == 2 * weights.size * prod(shape[:-1])
    assert layer.parameters == (0 if tied else weights.size) + bias * features


@settings(max_examples=50)
@given(
    *(st.tuples(SIDES, SIDES) for _ in range(2)),
    st.tuples(*[st.integers(0, 2)] * 2),
    *[st.integers(1, 3)] * 3,
)
def test_windows_are_counted_one_by_one(image, kernel, padding, stride, depth, channels):
    padded = np.pad(np.ones(image), [(edge, edge) for edge in padding])
    if any(window > side for window, side in zip(kernel, padded.shape, strict=True)):
        return
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel)[::stride, ::stride]
    graph = GraphBuilder()
    graph.convolution("a", (depth, *image), channels, kernel, stride=stride, padding=padding)
    graph.pooling("b", (depth, *image), kernel, stride=stride, padding=padding)
    convolution, pooling = graph.layers
    assert convolution.output == (channels, *windows.shape[:2])
    assert convolution.flops == 2 * windows.size * depth * channels
    assert convolution.parameters == prod(kernel) * depth * channels
    assert pooling.output == (depth, *windows.shape[:2])
    assert pooling.flops == windows.size * depth


@settings(max_examples=30)
@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from([1, 2, 3]))
def test_attention_takes_two_products_of_each_head(tokens, others, width, groups, times):
    heads = groups * times
    graph = GraphBuilder()
    key, value = ((others, groups * width) for _ in range(2))
    graph.attention("a", (tokens, heads * width), key, value, heads)
    (layer,) = graph.layers
    scores = heads * tokens * others
    assert layer.flops == 2 * 2 * scores * width + 5 * scores
    assert layer.saved == (tokens * heads + 2 * others * groups) * width + scores


def test_a_tensor_is_saved_once():
    graph = GraphBuilder()
    hidden = graph.linear("a", (3, 4), 5)
    for name in "bc":
        graph.linear(name, hidden, 6)
    active = graph.function("relu", hidden, "relu")
    graph.linear("d", active, 2)
    saved = {layer.name: layer.saved for layer in graph.layers}
    assert saved == {"a": 12, "b": 15, "c": 0, "relu": 15, "d": 0}


@pytest.mark.parametrize("first", ["column", "row"])
@pytest.mark.parametrize("widths", [(4,), (4, 3), (4, 3, 2)])
def test_stacks_divide_columns_and_rows_by_turns(first, widths):
    graph = GraphBuilder()
    graph.stack("p", (2,), widths, first=first)
    splits = [layer.split for layer in graph.layers if layer.operator == "matmul"]
    turns = ["column", "row"] * 2 if first == "column" else ["row", "column"] * 2
    expected = turns[: len(widths)]
    if expected[-1] == "column":
        expected[-1] = "none"
    assert splits == expected
    after = [layer.split for layer in graph.layers if layer.operator == "elementwise"]
    assert after == ["local" if split == "column" else "none" for split in splits]

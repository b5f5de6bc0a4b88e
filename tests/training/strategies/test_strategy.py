"""Groups of GPUs, stages of pipelines, and strategies that are refused."""

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import chain, layer

from wavefabric.base.errors import InputError
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.strategies.strategy import (
    LayerLayout,
    check_strategy,
    cut_stages,
    uniform,
)


@st.composite
def layouts(draw):
    expert, tensor, groups = (draw(st.integers(1, 4)) for _ in range(3))
    return LayerLayout(expert * groups, tensor, expert)


@settings(max_examples=50)
@given(layouts(), st.integers(0, 100))
def test_groups_partition_the_gpus_of_a_stage(layout, first):
    gpus = list(range(first, first + layout.gpus))
    sizes = {
        "tensor": layout.tensor,
        "expert": layout.expert,
        "data": layout.data // layout.expert,
    }
    for kind, size in sizes.items():
        result = layout.groups(first, kind)
        assert {len(group) for group in result} == {size}
        assert sorted(gpu for group in result for gpu in group) == gpus
    # GPU i · tensor + j: GPUs that split a layer have the same i, whose gradients are added the same j.
    for group in layout.groups(first, "tensor"):
        assert len({(gpu - first) // layout.tensor for gpu in group}) == 1
    for group in replace(layout, expert=1).groups(first, "data"):
        assert len({(gpu - first) % layout.tensor for gpu in group}) == 1
    # Whoever has the same experts has no other experts to send to, and the same share of them.
    for group in layout.groups(first, "expert"):
        for other in layout.groups(first, "data"):
            assert len(set(group) & set(other)) <= 1
    # Together they are all of one share: the groups of gradients if there were no experts.
    of = {gpu: set(group) for group in layout.groups(first, "expert") for gpu in group}
    for group in layout.groups(first, "data"):
        together = set().union(*(of[gpu] for gpu in group))
        assert together in [set(data) for data in replace(layout, expert=1).groups(first, "data")]


def test_groups_by_hand():
    layout = LayerLayout(4, 2, 2)
    assert layout.groups(8, "tensor") == ((8, 9), (10, 11), (12, 13), (14, 15))
    assert replace(layout, expert=1).groups(8, "data") == ((8, 10, 12, 14), (9, 11, 13, 15))
    assert layout.groups(8, "expert") == ((8, 10), (9, 11), (12, 14), (13, 15))
    assert layout.groups(8, "data") == ((8, 12), (9, 13), (10, 14), (11, 15))


def in_blocks(sizes, flops):
    layers, numbers = [], iter(range(sum(sizes)))
    for block, size in enumerate(sizes):
        for _ in range(size):
            number = next(numbers)
            layers.append(layer(f"l{number}", seconds=flops[number], block=f"b{block}"))
    return ModelGraph("blocks", tuple(layers))


@settings(max_examples=80)
@given(st.data())
def test_the_slowest_stage_is_as_fast_as_any_cut_allows(data):
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=7))
    flops = data.draw(st.lists(st.integers(0, 9), min_size=sum(sizes), max_size=sum(sizes)))
    stages = data.draw(st.integers(1, len(sizes)))
    model = in_blocks(sizes, flops)
    stage = cut_stages(model, stages)
    assert sorted(set(stage)) == list(range(stages))
    assert list(stage) == sorted(stage)
    assert all(len({stage[n] for n in block}) == 1 for block in model.blocks)

    work = [sum(flops[n] for n in block) for block in model.blocks]

    def slowest(cuts):
        ends = [0, *cuts, len(work)]
        return max(sum(work[a:b]) for a, b in pairwise(ends))

    best = min(map(slowest, combinations(range(1, len(work)), stages - 1)))
    assert max(sum(f for f, s in zip(flops, stage, strict=True) if s == k) for k in range(stages)) == best


def test_stages_of_gpus():
    strategy = uniform(chain([1] * 4), 12, pipeline=4)
    assert (strategy.stages, strategy.stage_gpus) == (4, 3)
    assert [strategy.first_gpu(stage) for stage in range(4)] == [0, 3, 6, 9]
    assert strategy.stages_of((2, 3, 11)) == (0, 1, 3)
    assert uniform(chain([1]), 12).stages_of((2, 3, 11)) == (0,)


def test_uniform():
    model = replace(chain([1] * 4), batch=6)
    plain = uniform(model, 8)
    assert (plain.batch, plain.microbatches, plain.stage) == (48, 1, (0,) * 4)
    assert set(plain.layouts) == {LayerLayout(8)}
    assert plain.samples(0) == 6
    piped = uniform(model, 8, tensor=2, pipeline=2)
    # 12 samples for 2 data-parallel GPUs each: as many microbatches up to 8 as divide 6.
    assert (piped.batch, piped.microbatches, piped.stage) == (12, 6, (0, 0, 1, 1))
    assert set(piped.layouts) == {LayerLayout(2, 2)}
    own = uniform(model, 8, layers={"l1": LayerLayout(4, 2)})
    assert own.layouts == (LayerLayout(8), LayerLayout(4, 2), LayerLayout(8), LayerLayout(8))


def test_only_layers_with_experts_divide_them():
    model = ModelGraph("mixture", (layer("a"), layer("b", ["a"], experts=8)))
    assert uniform(model, 4, expert=4).layouts == (LayerLayout(4), LayerLayout(4, 1, 4))


REFUSED = [
    ({"tensor": 3}, "tensor: 3 with pipeline 1 given; allowed: degrees whose product divides 8, the GPUs"),
    ({"data": 5}, "data: 5 given; allowed: 8, 8 GPUs / tensor 1 / pipeline 1"),
    ({"pipeline": 8}, "pipeline: 8 given; allowed: up to 4, the blocks of chain"),
    ({"tensor": 0}, "tensor: 0; allowed: whole numbers from 1"),
    ({"tensor": True}, "tensor: True; allowed: whole numbers from 1"),
    ({"batch": 12}, "batch: 12 samples in 1 microbatches given; allowed: multiples of 8, with data 8"),
    ({"batch": 0}, "batch: 0; allowed: whole numbers from 1"),
    ({"batch": 8, "microbatches": 2},
     "batch: 8 samples in 2 microbatches given; allowed: multiples of 16, with data 8"),
    ({"microbatches": -1}, "microbatches: -1; allowed: whole numbers from 1"),
    ({"bucket": -1.0}, "bucket: -1.0 B given; allowed: 0 to below 1e15"),
    ({"bucket": float("nan")}, "bucket: nan B given; allowed: 0 to below 1e15"),
    ({"layers": {"x\n": LayerLayout(8)}}, 'layers: "x\\n" given; allowed: layers of chain'),
    ({"layers": {"l1": LayerLayout(4)}},
     "layers.l1: data 4 and tensor 1 given; allowed: a product of 8, the GPUs of a stage"),
    ({"layers": {"l1": LayerLayout(8, 1, 2)}}, "layers.l1.expert: 2 given; allowed: 1, it has no experts"),
    ({"layers": {"l2": LayerLayout(8, 1, 8)}},
     "layers.l2.expert: 8 given; allowed: divisors of its 4 experts"),
    ({"layers": {"l2": LayerLayout(8, 1, 3)}}, "layers.l2.expert: 3 given; allowed: divisors of data, 8"),
    ({"layers": {"l3": LayerLayout(1, 8)}},
     'tensor: 8 given for layer "l3"; allowed: up to 4, its outputs for each sample'),
]  # fmt: skip


def four_layers():
    return ModelGraph(
        "chain",
        (
            layer("l0"),
            layer("l1", ["l0"]),
            layer("l2", ["l1"], experts=4),
            layer("l3", ["l2"], split="column", output=(4,)),
        ),
    )


@pytest.mark.parametrize(("options", "line"), REFUSED)
def test_refused_in_one_line(options, line):
    with pytest.raises(InputError) as refused:
        uniform(four_layers(), 8, **options)
    assert str(refused.value) == line


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"stage": (0, 0, 1)}, "stage: 3 given; allowed: 4, one for each layer"),
        ({"stage": (0, 1, 0, 1)}, "stage: 0 after 1 given for l2; allowed: the same or the next, from 0"),
        ({"stage": (1, 1, 1, 1)}, "stage: 1 after 0 given for l0; allowed: the same or the next, from 0"),
        ({"stage": (0, 0, 0, 2)}, "stage: 2 after 0 given for l3; allowed: the same or the next, from 0"),
        ({"stage": (0, 1, 2, 2)}, "gpus: 8 given; allowed: multiples of 3, the pipeline stages"),
        ({"layouts": (LayerLayout(8),)}, "layouts: 1 given; allowed: 4, one for each layer"),
        ({"gpus": 0}, "gpus: 0; allowed: whole numbers from 1"),
    ],
)  # fmt: skip
def test_strategies_from_elsewhere_are_checked_whole(changes, line):
    model = four_layers()
    with pytest.raises(InputError) as refused:
        check_strategy(model, replace(uniform(model, 8), **changes))
    assert str(refused.value) == line

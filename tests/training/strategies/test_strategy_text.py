"""What ``--strategy`` says: words, degrees, and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategy_models import chain, tables

from wavefabric.base.errors import InputError
from wavefabric.training.strategies.strategy import LayerLayout, uniform
from wavefabric.training.strategies.strategy_text import parse_strategy, save_strategy

MODEL = chain("column", "row", "none", "none", batch=32)
EXPERTS = chain("none", "none", experts=4)


def test_data_alone_is_data_parallelism():
    strategy = parse_strategy("data", MODEL, 8)
    assert set(strategy.layouts) == {LayerLayout(8)}
    assert (strategy.batch, strategy.microbatches, strategy.stages) == (256, 1, 1)
    assert not strategy.sharded
    assert parse_strategy("sharded", MODEL, 8).sharded


def test_all_degrees_at_once():
    text = " Bucket:25M, tensor:2,sharded,recompute,pipeline:2, microbatches:16 ,data:2"
    wanted = uniform(
        MODEL,
        8,
        data=2,
        tensor=2,
        pipeline=2,
        microbatches=16,
        bucket=25 * 2**20,
        zero=3,
        recompute=True,
    )
    assert parse_strategy(text, MODEL, 8) == wanted


def test_experts_divide_the_layers_that_have_some():
    assert [layout.expert for layout in parse_strategy("expert:4", EXPERTS, 8).layouts] == [1, 4]


@pytest.mark.parametrize(
    ("features", "pipeline", "layout"),
    [(16, "", LayerLayout(1, 8)), (4, "", LayerLayout(2, 4)), (16, ",pipeline:2", LayerLayout(1, 4))],
)
def test_tables_are_split_over_as_many_gpus_of_the_stage_as_have_features(features, pipeline, layout):
    strategy = parse_strategy("tables" + pipeline, tables(features), 8)
    assert strategy.layouts == (layout, layout, LayerLayout(layout.gpus))


@pytest.mark.parametrize(
    ("size", "nbytes"), [("0", 0), ("7", 7), ("25M", 25 << 20), ("4KiB", 4096), ("1gb", 1 << 30)]
)
def test_bytes_of_buckets(size, nbytes):
    assert parse_strategy(f"bucket:{size}", MODEL, 2).bucket == nbytes


@given(
    st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]),
    st.integers(0, 10**6), st.booleans(), st.randoms(use_true_random=False),
)  # fmt: skip
@settings(max_examples=40)
def test_any_order_means_the_same(tensor, pipeline, microbatches, bucket, sharded, random):
    items = [f"tensor:{tensor}", f"pipeline:{pipeline}", f"microbatches:{microbatches}", f"bucket:{bucket}"]
    items += ["sharded"] * sharded
    random.shuffle(items)
    assert parse_strategy(",".join(items), MODEL, 16) == uniform(
        MODEL, 16, tensor=tensor, pipeline=pipeline, microbatches=microbatches, bucket=bucket,
        zero=3 * sharded,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "strategy: \"\" given; allowed: data, sharded, tables"),
        ("magic", "strategy: \"magic\" given; allowed: data"),
        ("data,", "strategy: \"\" given"),
        ("tensor", "strategy: \"tensor\" given"),
        ("sharded:2", "strategy: \"sharded:2\" given"),
        ("sharded,zero:1", "strategy.zero: 1 given with sharded; allowed: one"),
        ("zero:4", "zero: 4 given; allowed: 0 to 3"),
        ("interleave:2", "interleave: 2 given"),
        ("pipeline:2,interleave:2,microbatches:3", "interleave: 2 given"),
        ("tensor:2,tensor:2", "strategy: tensor given twice in \"tensor:2,tensor:2\"; allowed: each once"),
        ("data,data:8", "strategy: data given twice"),
        ("tensor:0", "strategy.tensor: \"0\" given; allowed: whole numbers from 1"),
        ("tensor:-2", "strategy.tensor: \"-2\" given"),
        ("tensor:2.5", "strategy.tensor: \"2.5\" given"),
        ("tensor:²", "strategy.tensor: \"²\" given"),
        ("tensor:1" + "0" * 5000, "strategy.tensor: \"1000"),
        ("bucket:lots", "strategy.bucket: \"lots\" given; allowed: bytes such as 25M"),
        ("bucket:999999T", "strategy.bucket: \"999999t\" given"),
        ("tensor:3", "tensor: 3 with pipeline 1 given; allowed: degrees whose product divides 8"),
        ("data:4", "data: 4 given; allowed: 8"),
        ("pipeline:8", "pipeline: 8 given; allowed: up to 4, the blocks"),
        ("microbatches:7", "batch: 256 samples in 7 microbatches given; allowed: multiples of 56"),
        ("expert:2", "strategy.expert: 2 given; allowed: 1, chain has no experts"),
        ("tables", "strategy: tables given; allowed: for models with embeddings"),
    ],
)  # fmt: skip
def test_refused_in_one_line(text, line):
    with pytest.raises(InputError) as caught:
        parse_strategy(text, MODEL, 8)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_tables_with_a_pipeline_that_does_not_divide_the_gpus():
    with pytest.raises(InputError, match=r"^tensor: 1 with pipeline 3 given"):
        parse_strategy("tables,pipeline:3", tables(), 8)


def test_gpus_must_be_known():
    with pytest.raises(InputError, match=r"^gpus: none given"):
        parse_strategy("data", MODEL)


def test_a_file_is_read(tmp_path):
    wanted = parse_strategy("tensor:2", MODEL, 8)
    path = save_strategy(tmp_path / "best.json", MODEL, wanted)
    assert parse_strategy(str(path), MODEL, 8) == parse_strategy(path, MODEL) == wanted
    with pytest.raises(InputError, match=r"best\.json: gpus: 4 given; allowed: 8"):
        parse_strategy(str(path), MODEL, 4)

"""Strategies as JSON files: read back as written, and what is refused."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategy_models import chain

from wavefabric.base.errors import InputError
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, uniform
from wavefabric.training.strategies.strategy_text import from_json, load_strategy, save_strategy, to_json

MODEL = chain("column", "row", "none", "local", "none", experts=4)
PLAIN = json.loads(to_json(MODEL, uniform(MODEL, 8, tensor=2)))


@st.composite
def any_strategy(draw):
    """Every layer with a layout of its own, stages cut anywhere between blocks."""
    stages = draw(st.sampled_from([1, 2, 4]))
    begins = sorted(draw(st.permutations(range(1, 5)))[: stages - 1])
    per_stage = 8 // stages
    layouts = []
    for layer in MODEL.layers:
        data = draw(st.sampled_from([n for n in (1, 2, 4, 8) if n <= per_stage]))
        expert = draw(st.sampled_from([n for n in (1, 2, 4) if data % n == 0])) if layer.experts else 1
        layouts.append(LayerLayout(data, per_stage // data, expert))
    return Strategy(
        8, 64 * draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4])),
        tuple(sum(n >= begin for begin in begins) for n in range(5)), tuple(layouts),
        draw(st.integers(0, 3)), draw(st.floats(0, 1e14)), draw(st.booleans()),
    )  # fmt: skip


@given(any_strategy())
@settings(max_examples=60)
def test_read_back_as_written(strategy):
    assert from_json(to_json(MODEL, strategy), MODEL) == strategy


def test_batch_may_be_replaced():
    text = to_json(MODEL, uniform(MODEL, 8))
    assert from_json(text, MODEL, 128).batch == 128
    with pytest.raises(InputError, match=r"^batch: 12 samples"):
        from_json(text, MODEL, 12)


def test_saved_whole_and_not_replaced_without_force(tmp_path):
    path = tmp_path / "s.json"
    first, second = uniform(MODEL, 8), uniform(MODEL, 8, tensor=2)
    save_strategy(path, MODEL, first)
    with pytest.raises(InputError, match=r"s\.json exists"):
        save_strategy(path, MODEL, second)
    assert load_strategy(path, MODEL) == first
    save_strategy(path, MODEL, second, force=True)
    assert load_strategy(path, MODEL, 8) == second


def _changed(**values):
    return json.dumps({key: value for key, value in {**PLAIN, **values}.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "strategy: not JSON (Expecting"),
        ("[1]", "strategy: no JSON object given"),
        ("[" * 100_000, "strategy: n"),
        ('{"gpus": 1' + "0" * 5000 + "}", "strategy: a number with too many digits"),
        ('{"gpus": 8, "gpus": 8}', '"gpus": given twice in one object; allowed: once'),
        ('{"bucket": NaN}', "strategy: NaN; allowed: finite numbers"),
        (_changed(format="other"), 'format: "other" given'),
        (_changed(version=2), "version: 2 given; allowed: 1"),
        (_changed(gpus=...), "gpus: missing"),
        (_changed(data=0), "data: 0 given; allowed: from 1"),
        (_changed(gpus=True), "gpus: true given; allowed: a whole number"),
        (_changed(selective=1), "selective: 1 given; allowed: true or false"),
        (_changed(bucket=-1), "bucket: -1 given; allowed: from 0"),
        (_changed(bucket=1e15), "bucket: 1000000000000000.0 given; allowed: below 1000000000000000.0"),
        (_changed(layers=[1]), "layers: [1] given; allowed: a table"),
        (_changed(pipelin=2), "pipelin: unknown key"),
        (_changed(layers={"no": {"data": 8}}), 'layers: "no" given; allowed: layers of chain'),
        (_changed(layers={"l1": {"data": 8, "row": 1}}), "layers.l1.row: unknown key"),
        (_changed(layers={"l0": {"data": 3}}), "layers.l0: data 3 and tensor 1 given; allowed: a prod"),
        (_changed(layers={"l1": {"data": 8, "expert": 8}}), "layers.l1.expert: 8 given; allowed: divisors"),
        (_changed(layers={"l0": {"data": 8, "expert": 2}}), "layers.l0.expert: 2 given; allowed: 1, it"),
        (_changed(stages=["no"]), 'stages: "no" given; allowed: first layers of blocks'),
        (_changed(stages=["l0"]), 'stages: "l0" given'),
        (_changed(stages=["l3", "l1"]), 'stages: "l1" given'),
        (_changed(stages=["l1", "l1"]), 'stages: "l1" given'),
        (_changed(stages=["l1", "l2"]), "stages: 2 given, of 3 stages in all; allowed: numbers of"),
        (_changed(stages=["l1"]), "layers.l0: data 4 and tensor 2 given; allowed: a product of 4"),
        (_changed(microbatches=64), "batch: 32 samples in 64 microbatches given"),
    ],
)  # fmt: skip
def test_refused_in_one_line(text, line, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_strategy(path, MODEL)
    assert str(caught.value).startswith(f"{path}: {line}")
    assert "\n" not in str(caught.value)

"""Model graphs as JSON: they round-trip, and faults are told in one line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.training.models import load_model
from wavefabric.training.models.graph import OPERATORS, OPTIMIZERS, SPLITS, Layer, ModelGraph
from wavefabric.training.models.graph_file import from_json, load_graph, save_graph, to_json

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
NUMBERS = st.floats(0, 1e29) | st.integers(0, 2**53).map(float)


@st.composite
def graphs(draw):
    layers = []
    sizes = st.lists(st.integers(1, 2**40), max_size=4).map(tuple)
    for name in draw(st.lists(NAMES, min_size=1, max_size=5, unique=True)):
        earlier = [layer.name for layer in layers]
        inputs = draw(st.lists(st.sampled_from(earlier), max_size=3)) if earlier else []
        tensors = draw(sizes)
        layer = Layer(
            name,
            draw(st.sampled_from(OPERATORS)),
            tuple(inputs),
            tuple(draw(st.lists(st.integers(1, 2**40), min_size=1, max_size=4))),
            flops=draw(NUMBERS),
            parameters=sum(tensors) or draw(st.integers(0, 2**62)),
            elements=draw(NUMBERS),
            saved=draw(NUMBERS),
            split=draw(st.sampled_from(SPLITS)),
            backward=draw(NUMBERS),
            experts=draw(st.integers(0, 1000)),
            used=draw(st.floats(0, 1, exclude_min=True)),
            block=draw(TEXTS),
            tensors=tensors,
            whole=draw(st.integers(0, 1000)),
        )
        layers.append(layer)
    return ModelGraph(
        draw(NAMES),
        tuple(layers),
        sample=draw(TEXTS),
        batch=draw(st.integers(1, 10**9)),
        optimizer=draw(st.sampled_from(sorted(OPTIMIZERS))),
        description=draw(TEXTS),
        source=draw(TEXTS),
        tensor_calls=draw(st.booleans()),
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(graphs())
def test_graphs_round_trip(graph):
    text = to_json(graph)
    assert from_json(text) == graph
    assert to_json(from_json(text)) == text


def test_a_model_round_trips_through_a_file(tmp_path):
    graph = load_model("bert-base")
    path = save_graph(tmp_path / "bert.json", graph)
    assert load_graph(path) == graph
    assert load_model(path) == graph
    assert load_model(str(path)) == graph
    with pytest.raises(InputError, match=r"model: .*bert\.json exists; allowed: another name, or --force"):
        save_graph(path, graph)
    assert save_graph(path, load_model("ncf"), force=True) == path
    assert load_graph(path).name == "ncf"


LAYER = {"name": "a", "operator": "matmul", "output": [4]}
MODEL = {"name": "m", "layers": [LAYER]}


def test_the_least_file():
    assert from_json(json.dumps(MODEL)) == ModelGraph("m", (Layer("a", "matmul", output=(4,)),))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"color": 1}, "color: unknown key; allowed: format, version, name, sample, batch, "),
        ({"layres": []}, "layres: unknown key (did you mean [layers]?); allowed: format, "),
        ({"layers": []}, "layers: none given; allowed: at least one"),
        ({"name": None}, "name: null given; allowed: text"),
        ({"format": "other"}, 'format: "other" given; allowed: "wavefabric model"'),
        ({"version": 2}, "version: 2 given; allowed: 1"),
        ({"batch": 0}, "batch: 0 given; allowed: from 1"),
        ({"batch": 1.5}, "batch: 1.5 given; allowed: a whole number"),
        ({"optimizer": "lion"}, 'optimizer: "lion" given; allowed: sgd, momentum, rmsprop, adam'),
        ({"layers": [LAYER, LAYER]}, 'layers: name "a" given; allowed: a name, each once'),
        ({"layers": {}}, "layers: {} given; allowed: a list"),
        ({"layers": [3]}, "layers[0]: 3 given; allowed: "),
        ({"layers": [LAYER | {"inputs": ["b"]}]}, 'layers.a.inputs: "b" given; allowed: layers before it'),
        ({"layers": [LAYER | {"operator": "mul"}]}, 'layers[0].operator: "mul" given; allowed: matmul, '),
        ({"layers": [LAYER | {"split": ["row"]}]}, 'layers[0].split: ["row"] given; allowed: none, column, '),
        ({"layers": [LAYER | {"flops": -1}]}, "layers[0].flops: -1 given; allowed: from 0"),
        ({"layers": [LAYER | {"flops": "1"}]}, 'layers[0].flops: "1" given; allowed: a number'),
        ({"layers": [LAYER | {"flops": 1e31}]}, "layers[0].flops: 1e+31 given; allowed: below 1e+30"),
        (
            {"layers": [LAYER | {"output": []}]},
            "layers[0].output: [] given; allowed: a list with at least",
        ),
        ({"layers": [LAYER | {"output": [0]}]}, "layers[0].output[0]: 0 given; allowed: from 1"),
        (
            {"layers": [LAYER | {"parameters": 5, "tensors": [3, 1]}]},
            "layers.a.tensors: [3, 1] given; allowed: whole numbers from 1 whose sum is 5, its parameters",
        ),
        ({"tensor_calls": 1}, "tensor_calls: 1 given; allowed: "),
        ({"layers": [LAYER | {"used": 0}]}, "layers[0].used: 0 given; allowed: above 0"),
        ({"layers": [LAYER | {"flop": 0}]}, "layers[0].flop: unknown key (did you mean flops?); allowed: "),
        ({"layers": [{"name": "a", "output": [4]}]}, "layers[0].operator: missing; allowed: a value for it"),
    ],
)
def test_bad_files_take_one_line(change, message):
    with pytest.raises(InputError) as caught:
        from_json(json.dumps(MODEL | change))
    assert str(caught.value).startswith(message), str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "model: not JSON (Expecting value at line 1, column 1); allowed: a JSON object"),
        ("[]", "model: no JSON object given; allowed: one with name and layers"),
        ('{"name": "m", "name": "m"}', '"name": given twice in one object; allowed: once'),
        ('{"batch": NaN}', "model: NaN; allowed: finite numbers"),
        ("[" * 10**5, "model: nested too deeply; allowed: "),
        ('{"batch": 1' + "0" * 5000 + "}", "model: a number with too many digits; allowed: "),
    ],
)
def test_text_that_is_no_model_takes_one_line(text, message):
    with pytest.raises(InputError) as caught:
        from_json(text)
    assert str(caught.value).startswith(message)


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(MODEL | {"batch": 0}))
    with pytest.raises(InputError, match=r"m\.json: batch: 0 given; allowed: from 1"):
        load_graph(path)

"""Model graphs as JSON files that people can read and write."""

from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr

from wavefabric.errors import InputError, show
from wavefabric.fabric.io.tables import FabricFileTable
from wavefabric.files.faults import checked
from wavefabric.files.input import parse_json, parsed
from wavefabric.files.output import json_rows, write_text
from wavefabric.training.models.graph import OPERATORS, OPTIMIZERS, SPLITS, Layer, ModelGraph

FORMAT: Literal["wavefabric model"] = "wavefabric model"
VERSION: Literal[1] = 1


def _one_of(value: Any, names: Iterable[str]) -> str:
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{show(value)} given; allowed: {', '.join(names)}")
    return value


_Operator = Annotated[str, BeforeValidator(partial(_one_of, names=OPERATORS))]
_Split = Annotated[str, BeforeValidator(partial(_one_of, names=SPLITS))]
_Optimizer = Annotated[str, BeforeValidator(partial(_one_of, names=tuple(OPTIMIZERS)))]
_Number = Annotated[float, Field(ge=0, lt=1e30, strict=True)]
_Whole = Annotated[StrictInt, Field(ge=0, lt=2**63)]
_Side = Annotated[StrictInt, Field(ge=1, lt=2**63)]


class LayerTable(FabricFileTable):
    """A layer, with the keys of `graph.Layer`; those with a default may be left out."""

    name: StrictStr
    operator: _Operator
    inputs: list[StrictStr] = Field(default_factory=list)
    output: Annotated[list[_Side], Field(min_length=1, max_length=8)]
    flops: _Number = 0.0
    parameters: _Whole = 0
    elements: _Number = 0.0
    saved: _Number = 0.0
    split: _Split = "none"
    backward: _Number = 2.0
    experts: Annotated[StrictInt, Field(ge=0, le=10**6)] = 0
    used: Annotated[float, Field(gt=0, le=1, strict=True)] = 1.0
    block: StrictStr = ""
    tensors: Annotated[list[_Side], Field(max_length=10**4)] = Field(default_factory=list)
    whole: _Whole = 0
    again: _Number | None = None


class ModelTable(FabricFileTable):
    """A model, with the keys of `wavefabric.training.models.graph.ModelGraph`, ``format`` and ``version``."""

    format: Literal["wavefabric model"] = FORMAT
    version: Literal[1] = VERSION
    name: StrictStr
    sample: StrictStr = "sample"
    batch: Annotated[StrictInt, Field(ge=1, le=10**9)] = 1
    optimizer: _Optimizer = "adam"
    description: StrictStr = ""
    source: StrictStr = ""
    tensor_calls: StrictBool = False
    layers: list[LayerTable]


def to_json(graph: ModelGraph) -> str:
    """A model as JSON text, one layer a line; keys at their defaults are left out.

    ::

        {"format": "wavefabric model", "version": 1, "name": "two layers", "sample": "image", "batch": 32,
         "optimizer": "momentum", "description": "", "source": "",
         "layers": [
          {"name": "a", "operator": "matmul", "output": [128], "flops": 2e5, "parameters": 100480},
          {"name": "b", "operator": "elementwise", "inputs": ["a"], "output": [128], "backward": 1.5}]}

    All numbers of a layer are of one sample and its forward pass, as `Layer` says: ``flops`` (multiplication
    and addition are two), ``parameters``, ``elements`` (of activations read and written), ``saved`` (elements
    kept for the backward pass), ``split`` (``"none"``, ``"column"``, ``"row"``, ``"local"``), ``backward``
    (over forward), ``experts``, ``used`` (share of the parameters a sample reads), ``block``, ``tensors``
    (elements of each), ``whole`` (tables that no two GPUs divide), ``again`` (of ``saved``, computed
    again by selective recomputation). ``tensor_calls`` of the model: gradients
    are reduced by a call a tensor. A layer's ``inputs`` come before it; none: it reads the model's input.
    """
    keys = ("name", "sample", "batch", "optimizer", "description", "source")
    head = {"format": FORMAT, "version": VERSION} | {key: getattr(graph, key) for key in keys}
    head |= {"tensor_calls": True} if graph.tensor_calls else {}
    return json_rows(head | {"layers": map(_changed, graph.layers)}, ("layers",))


def _changed(layer: Layer) -> dict[str, Any]:
    """What a layer has beside its defaults."""
    needed = ("name", "operator", "output")
    values = ((item.name, getattr(layer, item.name), item.default) for item in fields(Layer))
    return {key: value for key, value, default in values if key in needed or value != default}


def from_json(text: str) -> ModelGraph:
    """The model that JSON text describes (see `to_json`); `InputError` in one line, which names the key."""
    content = parse_json(text, "model")
    if not isinstance(content, dict):
        raise InputError("model: no JSON object given; allowed: one with name and layers")
    if "traceEvents" in content:
        allowed = "a model graph, or Chakra traces (chakra_trace_link and chakra_converter make them of it)"
        raise InputError(f"model: a trace of PyTorch's profiler given; allowed: {allowed}")
    table = checked(ModelTable, content)
    values = table.model_dump(exclude={"format", "version", "layers"})
    return ModelGraph(layers=tuple(map(_layer, table.layers)), **values)


def _layer(table: LayerTable) -> Layer:
    values = table.model_dump()
    values |= {key: tuple(values[key]) for key in ("inputs", "output", "tensors")}
    return Layer(**values)


def load_graph(path: str | Path) -> ModelGraph:
    """A model from a JSON file; `InputError`, in one line, names the file and the key."""
    return parsed(path, "model", from_json)


def save_graph(path: str | Path, graph: ModelGraph, force: bool = False) -> Path:
    """Write a model to a JSON file, whole or not at all; `force` replaces a file that is there.

    `InputError` if it exists (without `force`), is a folder, or cannot be written.
    """
    return write_text(path, to_json(graph), "model", force)

"""Read and write model graphs as JSON files that people can edit."""

from dataclasses import fields
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal

from wavefabric.base.errors import InputError
from wavefabric.base.files.input import parse_json, parsed
from wavefabric.base.files.output import json_rows, write_text
from wavefabric.base.files.validation_errors import checked
from wavefabric.fabric.io.tables import fields_of, make_table
from wavefabric.training.models.graph import Layer, ModelGraph

FORMAT: Literal["wavefabric model"] = "wavefabric model"
VERSION: Literal[1] = 1

#: Why a trace of PyTorch's profiler (Kineto) is refused, and what makes a Chakra trace of it
#: (github.com/mlcommons/chakra, USER_GUIDE.md).
PROFILER_TRACE = (
    "a trace of PyTorch's profiler given; allowed: Chakra traces, one a GPU: chakra_trace_link --rank R "
    "--chakra-host-trace HOST.json --chakra-device-trace PROFILE.json --output-file BOTH.json, then "
    "chakra_converter PyTorch --input BOTH.json --output NAME.R.et (HOST.json: ExecutionTraceObserver's)"
)
#: A layer in JSON, with the keys of `graph.Layer`. Keys with a default may be left out, except ``output``.
LayerTable = make_table(
    "LayerTable",
    **fields_of(Layer) | {"output": (fields_of(Layer)["output"][0], ...)},
)
#: A model in JSON, with the keys of `wavefabric.training.models.graph.ModelGraph`, ``format``, ``version``.
ModelTable = make_table(
    "ModelTable",
    format=(Literal["wavefabric model"], FORMAT),
    version=(Literal[1], VERSION),
    **fields_of(ModelGraph, "layers"),
    layers=(GenericAlias(list, LayerTable), ...),
)


def to_json(graph: ModelGraph) -> str:
    """Return a model graph as JSON text, one layer per line; values equal to the default are left out.

    ::

        {"format": "wavefabric model", "version": 1, "name": "two layers", "sample": "image", "batch": 32,
         "optimizer": "momentum", "description": "", "source": "",
         "layers": [
          {"name": "a", "operator": "matmul", "output": [128], "flops": 2e5, "parameters": 100480},
          {"name": "b", "operator": "elementwise", "inputs": ["a"], "output": [128], "backward": 1.5}]}
    """
    keys = ("name", "sample", "batch", "optimizer", "description", "source")
    head = {"format": FORMAT, "version": VERSION} | {key: getattr(graph, key) for key in keys}
    head |= {"tensor_calls": True} if graph.tensor_calls else {}
    return json_rows(head | {"layers": map(_changed, graph.layers)}, ("layers",))


def _changed(layer: Layer) -> dict[str, Any]:
    """Return the values of ``layer`` that differ from the defaults, plus name, operator and output."""
    needed = ("name", "operator", "output")
    values = ((item.name, getattr(layer, item.name), item.default) for item in fields(Layer))
    return {key: value for key, value, default in values if key in needed or value != default}


def from_json(text: str) -> ModelGraph:
    """Return the model that JSON text describes (see `to_json`); an `InputError` names the key."""
    content = parse_json(text, "model", allowed="one with name and layers")
    if "traceEvents" in content:
        raise InputError(f"model: {PROFILER_TRACE}")
    read = checked(ModelTable, content)
    values = read.model_dump(exclude={"format", "version", "layers"})
    return ModelGraph(layers=tuple(Layer(**vars(layer)) for layer in read.layers), **values)


def load_graph(path: str | Path) -> ModelGraph:
    """Load a model from a JSON file; an `InputError`, in one line, names the file and the key."""
    return parsed(path, "model", from_json)


def save_graph(path: str | Path, graph: ModelGraph, force: bool = False) -> Path:
    """Write a model to a JSON file atomically; ``force`` replaces an existing file.

    Raises `InputError` if the file exists (without ``force``), is a folder, or cannot be written.
    """
    return write_text(path, to_json(graph), "model", force)

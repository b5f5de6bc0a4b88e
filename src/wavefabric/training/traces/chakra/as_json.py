"""Chakra traces as JSON: what `chakra_jsonizer` writes, and the files of Chakra's feeder of JSON."""

import json
import re
from collections.abc import Iterator
from typing import Any

from wavefabric.errors import InputError
from wavefabric.training.traces.chakra.messages import NodeType, attributes, schema

#: A file that begins so is JSON; binary ones may begin with ``{`` and a line feed too.
_BEGINS = re.compile(rb"\s*[\[{]\s*[\"{}\]]")
_FEEDER = {"Id": "id", "Name": "name", "NodeType": "type", "runtime": "duration_micros",
           "data_deps": "data_deps", "ctrl_deps": "ctrl_deps", "ctrlDeps": "ctrl_deps"}  # fmt: skip


def is_json(content: bytes) -> bool:
    """Whether a file's bytes are JSON rather than messages."""
    return _BEGINS.match(content[:4096]) is not None


def decoded_json(content: bytes, file: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Messages and attributes as `messages.decoded` gives them; `InputError` names the file and the fault."""
    objects = _objects(content, file)
    first = objects[0]
    if isinstance(first, dict) and isinstance(first.get("workload_graph"), list):
        yield None, {}
        for node in first["workload_graph"]:
            yield _message(node, file, names=_FEEDER), {k: node[k] for k in node if k not in _FEEDER}
        return
    if isinstance(first, dict) and "nodes" in first:
        actual = "is an execution trace of PyTorch, without times of its GPU"
        allowed = "what chakra_trace_link and chakra_converter make of it and a Kineto trace"
        raise InputError(f"trace: {file} {actual}; allowed: {allowed}")
    has_metadata = isinstance(first, dict) and "type" not in first
    if has_metadata and first and not first.keys() & {"version", "attr"}:
        raise InputError(f"trace: {file} is JSON of something else; allowed: a Chakra execution trace")
    yield None, attributes(_message(first, file, metadata=True)) if has_metadata else {}
    for node in objects[has_metadata:]:
        message = _message(node, file)
        yield message, attributes(message)


def _objects(content: bytes, file: str) -> list[Any]:
    """Values of JSON that follow one another."""
    decoder, result, position = json.JSONDecoder(), [], 0
    try:
        text = content.decode("utf-8").strip()
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            result += value if isinstance(value, list) else [value]
            while text[position : position + 1].isspace():
                position += 1
    except (ValueError, RecursionError) as error:
        raise InputError(f"trace: {file} is not JSON ({error}); allowed: a Chakra trace") from None
    if not result:
        raise InputError(f"trace: {file} is empty; allowed: a Chakra execution trace")
    return result


def _message(value: Any, file: str, metadata: bool = False, names: dict[str, str] | None = None) -> Any:
    from google.protobuf import json_format

    kinds = schema()
    try:
        value = {(names or {}).get(key, key): entry for key, entry in value.items()}
        if isinstance(named := value.get("type"), str):
            value["type"] = int(NodeType[named.removesuffix("_NODE")])
        made = kinds.metadata() if metadata else kinds.node()
        return json_format.ParseDict(value, made, ignore_unknown_fields=True)
    except (json_format.ParseError, AttributeError, KeyError, TypeError) as error:
        words = " ".join(str(error).split())
        raise InputError(f"trace: {file}: node with {words}; allowed: nodes of Chakra's schema") from None

"""Define the protobuf messages of Chakra's schema at run time, and decode trace files.

Field numbers are from MLCommons Chakra, schema/protobuf/et_def.proto; other fields are skipped on reading. A
file is a sequence of messages, each preceded by its length as a varint: one GlobalMetadata, then Nodes.
"""

import json
import re
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.training.models.graph_file import PROFILER_TRACE

#: Schema version of the files that `write_chakra` writes.
VERSION = "0.0.4"
#: Maximum number of bytes of a varint that states a length: lengths have 32 bits.
_MOST_VARINT = 5


class NodeType(IntEnum):
    """Types of trace nodes that can be read, with their numbers in Chakra's schema."""

    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


#: Replacements for collectives that are not simulated, with equal load on the busiest GPU's links.
STAND_FOR = {
    "reduce": "reduce-scatter", "gather": "all-gather", "scatter": "reduce-scatter",
    "broadcast": "all-gather", "barrier": "all-reduce",
}  # fmt: skip
#: Collective names in the order of the schema's numbers.
COMM_TYPES = (
    "ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST", "ALL_TO_ALL", "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK", "BARRIER",
)  # fmt: skip
#: Collectives by the schema's number; REDUCE_SCATTER_BLOCK counts as reduce-scatter.
COLLECTIVES = tuple(name.lower().replace("_", "-").removesuffix("-block") for name in COMM_TYPES)

#: Types of scalar attribute values: fields 3, 5, … of the attribute's message.
_VALUES = (
    "DOUBLE", "FLOAT", "INT32", "INT64", "UINT32", "UINT64", "SINT32", "SINT64", "FIXED32", "FIXED64",
    "SFIXED32", "SFIXED64", "BOOL", "STRING", "BYTES",
)  # fmt: skip
#: Fields of each message as (name, number, type); "*" before the type means a repeated field.
_MESSAGES = {
    "AttributeProto": (
        ("name", 1, "STRING"),
        *((f"{kind.lower()}_val", 3 + 2 * position, kind) for position, kind in enumerate(_VALUES)),
    ),
    "GlobalMetadata": (("version", 1, "STRING"), ("attr", 2, "*AttributeProto")),
    "IOInfo": (("values", 1, "STRING"),),
    # The schema has an enumeration for the type; an integer has the same bytes and accepts any number.
    "Node": (
        ("id", 1, "UINT64"),
        ("name", 2, "STRING"),
        ("type", 3, "INT32"),
        ("ctrl_deps", 4, "*UINT64"),
        ("data_deps", 5, "*UINT64"),
        ("start_time_micros", 6, "UINT64"),
        ("duration_micros", 7, "UINT64"),
        ("inputs", 8, "IOInfo"),
        ("attr", 10, "*AttributeProto"),
        ("old_attribute", 11, "*BYTES"),  # of versions before 0.0.4
    ),
}


class Schema(NamedTuple):
    """Holds the protobuf classes of Chakra's messages, and the exception raised by decoding."""

    metadata: Any
    node: Any
    attribute: Any
    decode_error: type[Exception]


@cache
def schema() -> Schema:
    """Return the protobuf classes of Chakra's messages; raise `MissingExtra` if protobuf is missing."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
    except ImportError:
        raise MissingExtra("Chakra traces", "chakra") from None
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    field_type = descriptor_pb2.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        table = file.message_type.add(name=name)
        if name == "AttributeProto":
            table.oneof_decl.add(name="value")
        for key, number, kind in fields:
            one = kind.removeprefix("*")
            entry = table.field.add(name=key, number=number)
            entry.label = field_type.LABEL_OPTIONAL if one == kind else field_type.LABEL_REPEATED
            if one in _MESSAGES:
                entry.type, entry.type_name = field_type.TYPE_MESSAGE, f".ChakraProtoMsg.{one}"
            else:
                entry.type = getattr(field_type, f"TYPE_{one}")
            if name == "AttributeProto" and number > 1:
                entry.oneof_index = 0
    # A separate pool, since Chakra's generated classes may be loaded in the same process.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)

    def made(name: str) -> Any:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))

    return Schema(made("GlobalMetadata"), made("Node"), made("AttributeProto"), message.DecodeError)


#: Field of an attribute by the Python type of the value; attributes whose integers have 32 bits.
_FIELDS = {bool: "bool_val", int: "int64_val", float: "double_val", str: "string_val"}
_SHORT = ("comm_src", "comm_dst", "comm_tag")


def tell(message: Any, /, **values: bool | int | float | str) -> None:
    """Add ``values`` as attributes to a message, each in the schema's field for the value's type."""
    for name, value in values.items():
        field = "int32_val" if name in _SHORT else _FIELDS[type(value)]
        message.attr.append(schema().attribute(name=name, **{field: value}))


def attributes(message: Any) -> dict[str, Any]:
    """Return the scalar values of a message's attributes by name; lists are left out."""
    kinds = ((each, each.WhichOneof("value")) for each in message.attr)
    return {each.name: getattr(each, kind) for each, kind in kinds if kind is not None}


def with_length(message: Any) -> bytes:
    """Return a message as bytes, preceded by its length, as in a file."""
    # A serialised bytes field is one byte for its number, then the length, then the bytes.
    return schema().node(old_attribute=[message.SerializeToString()]).SerializeToString()[1:]


def trace_paths(prefix: str | Path) -> list[Path]:
    """Return the existing files ``PREFIX.RANK.et`` or ``.json``, compressed (``.gz``) or not, sorted."""
    prefix = Path(prefix)
    name = re.compile(rf"{re.escape(prefix.name)}\.[0-9]+\.(et|json)(\.gz)?")
    files = prefix.parent.iterdir() if prefix.parent.is_dir() else ()
    return sorted(file for file in files if name.fullmatch(file.name))


#: Beginning of a JSON file, up to its second token: a binary file may also begin with ``{``, line feed.
_BEGINS = re.compile(rb"\s*[\[{]\s*[\"{}\]]")
_FEEDER = {"Id": "id", "Name": "name", "NodeType": "type", "runtime": "duration_micros",
           "data_deps": "data_deps", "ctrl_deps": "ctrl_deps", "ctrlDeps": "ctrl_deps"}  # fmt: skip
#: Cache of decoded messages and attributes by the bytes: the files of many GPUs have equal messages.
Known = dict[bytes, tuple[Any, dict[str, Any]]]


def decoded(content: bytes, file: str, known: Known | None = None) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield (message, attributes) pairs of a file: first the metadata (None or empty if missing), then nodes.

    ``known``: a cache from the bytes of a message to its pair. Raises `InputError` if ``file`` ends within a
    message or has other content.
    """
    if _BEGINS.match(content[:4096]):
        yield from _decoded_json(content, file)
        return
    kinds, position, number = schema(), 0, 0
    known = {} if known is None else known
    while position < len(content):
        length, begin = _varint(content, position, file)
        if number and not length:
            raise _fault(file, position, "holds an empty message")
        if begin + length > len(content):
            raise _fault(file, position, f"ends within a message of {length} bytes")
        body = content[begin : begin + length]
        early = False
        if not number:
            try:
                metadata = kinds.metadata.FromString(body)
            except kinds.decode_error:
                metadata = kinds.metadata()
            yield metadata, attributes(metadata)
            early = bool(body) and not metadata.version and not metadata.attr
        if number or early:  # files of old versions begin with a node
            if body not in known:
                message = kinds.node()
                try:
                    message.ParseFromString(body)
                except kinds.decode_error:
                    raise _fault(file, position, "holds something else") from None
                if message.old_attribute:
                    actual = f"{file} is of Chakra's schema before 0.0.4"
                    raise InputError(f"trace: {actual}; allowed: traces of schema 0.0.4 or later")
                known[body] = message, attributes(message)
            yield known[body]
        position, number = begin + length, number + 1
    if not number:
        raise InputError(f"trace: {file} is empty; allowed: a Chakra execution trace")


def _varint(content: bytes, position: int, file: str) -> tuple[int, int]:
    """Return the length that is stored at ``position`` as a varint, and the position after the varint."""
    value = 0
    for shift, byte in enumerate(content[position : position + _MOST_VARINT]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, position + shift + 1
    what = (
        "ends within a length" if len(content) - position < _MOST_VARINT else "holds no length of a message"
    )
    raise _fault(file, position, what)


def _fault(file: str, position: int, what: str) -> InputError:
    return InputError(f"trace: {file} {what} at byte {position}; allowed: a Chakra execution trace")


def _decoded_json(content: bytes, file: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield (message, attributes) pairs of a JSON file from ``chakra_jsonizer`` or for Chakra's feeder."""
    objects = _objects(content, file)
    first = objects[0]
    if isinstance(first, dict) and isinstance(first.get("workload_graph"), list):
        yield None, {}
        for node in first["workload_graph"]:
            yield _message(node, file, names=_FEEDER), {k: node[k] for k in node if k not in _FEEDER}
        return
    if isinstance(first, dict) and first.keys() & {"traceEvents", "ph"}:
        raise InputError(f"trace: {file}: {PROFILER_TRACE}")
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
    """Return the JSON values of a file as one list; the file may have several values or lists of values."""
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

"""Read and check one file of a Chakra execution trace: the nodes of one GPU."""

import json
import math
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError, quoted, show
from wavefabric.base.files.input import read_bytes
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.traces.chakra import messages
from wavefabric.training.traces.chakra.messages import NodeType
from wavefabric.training.traces.chakra.sources import TraceSource
from wavefabric.training.traces.order import in_order

_COMPUTE = (NodeType.MEM_LOAD, NodeType.MEM_STORE, NodeType.COMP)


@dataclass(slots=True)
class TraceNode:
    """A node of one GPU's trace; ``waits``: positions in the file of nodes that must end first."""

    name: str
    kind: NodeType
    waits: tuple[int, ...]
    seconds: float = 0.0
    cpu: bool = False
    collective: str = ""
    size: float = 0.0  # B: comm_size
    group: str = ""
    source: int = -1  # sending GPU of a message; ``target`` receives
    target: int = -1
    tag: int = 0
    own: dict[str, Any] = field(default_factory=dict)  # all attributes by name, also of `write_chakra`

    @property
    def computes(self) -> bool:
        """Return whether the node is computation or a memory access, not communication."""
        return self.kind in _COMPUTE


@dataclass(frozen=True)
class TraceFile:
    """Holds the content of one trace file: rank of the GPU, metadata, nodes in order, and groups of GPUs."""

    file: str
    rank: int
    metadata: dict[str, Any]
    nodes: list[TraceNode]
    groups: dict[str, tuple[int, ...]]


def read_file(
    source: TraceSource, device: DeviceModel | None, arithmetic: str, known: messages.Known
) -> TraceFile:
    """Read and check the trace file of one GPU; raise an `InputError` that names the file and the fault.

    ``device``, ``arithmetic``: to time nodes that have no duration. ``known``: a cache of decoded messages,
    shared by the files of all GPUs.
    """
    nodes = messages.decoded(source.content(), source.file, known)
    _, metadata = next(nodes, (None, {}))
    return _Reader(source.file, source.rank, device, arithmetic).read(metadata, nodes)


@dataclass(frozen=True)
class _Reader:
    file: str
    rank: int
    device: DeviceModel | None
    arithmetic: str

    def read(self, metadata: dict[str, Any], nodes: Iterable[tuple[Any, dict[str, Any]]]) -> TraceFile:
        result = list(nodes)
        position: dict[int, int] = {}  # index in the file of each node, by node number
        passed: dict[int, list[int]] = {}  # dependencies of each metadata node
        groups: dict[str, tuple[int, ...]] = {}
        for message, _ in result:
            if message.id in position or message.id in passed:
                raise self._fault(message, "is there twice", "each number once")
            if message.type == NodeType.METADATA:
                passed[message.id] = [*message.data_deps, *message.ctrl_deps]
                groups |= self._groups(message)
            else:
                position[message.id] = len(position)
        real = [(message, values) for message, values in result if message.type != NodeType.METADATA]
        absent: list[str] = []

        def waited_for(message: Any, control: bool) -> tuple[int, ...]:
            waits, seen, left = set(), set(), [*message.data_deps, *(message.ctrl_deps if control else ())]
            while left:
                other = left.pop()
                if other in position:
                    waits.add(position[other])
                elif other not in passed:
                    absent.append(f"{message.id} for {other}")
                elif other not in seen:
                    seen.add(other)
                    left += passed[other]
            return tuple(sorted(waits))

        waits = [waited_for(message, True) for message, _ in real]
        lost = tuple(absent)
        if _circular(waits):
            # PyTorch's traces have callers as control dependencies, and a caller may end after its callees.
            data = [waited_for(message, False) for message, _ in real]
            if not _circular(data):
                self._warn("nodes wait in a circle; without their control dependencies")
                waits = data
        if lost:
            words = f"{len(lost)} times, such as node {lost[0]}"
            self._warn(f"nodes wait for others that are not there ({words}); as if they did not")
        checked = [self._node(*pair, own) for pair, own in zip(real, waits, strict=True)]
        return TraceFile(self.file, self.rank, metadata, checked, groups)

    def _node(self, message: Any, values: dict[str, Any], waits: tuple[int, ...]) -> TraceNode:
        try:
            kind = NodeType(message.type)
        except ValueError:
            allowed = ", ".join(f"{each.value} ({each.name})" for each in NodeType)
            raise self._fault(message, f"has type {message.type}", allowed) from None
        if kind == NodeType.COMM_COLL and values.get("is_cpu_op") and "comm_type" not in values:
            kind = NodeType.COMP  # the launch on the CPU, which early converters also label COMM_COLL
        node = TraceNode(message.name, kind, waits, own=values)
        if kind in _COMPUTE:
            node.seconds = self._duration(message, values)
            node.cpu = bool(values.get("is_cpu_op", False))
        elif kind == NodeType.COMM_COLL:
            node.collective = self._collective(message, values)
            none = 0 if node.collective == "barrier" else None
            node.size = self._number(message, values, "comm_size", none)
            node.group = str(values.get("pg_name", ""))
        else:
            sends = kind == NodeType.COMM_SEND
            node.source = self._end(message, values, "comm_src", sends)
            node.target = self._end(message, values, "comm_dst", not sends)
            node.size = self._number(message, values, "comm_size")
            node.tag = int(self._number(message, values, "comm_tag", 0))
        return node

    def _duration(self, message: Any, values: dict[str, Any]) -> float:
        if "duration_seconds" in values:
            return self._number(message, values, "duration_seconds")
        if message.duration_micros:
            return message.duration_micros * 1e-6
        flops = self._number(message, values, "num_ops", 0)
        nbytes = self._number(message, values, "tensor_size", 0)
        if not flops and not nbytes:
            return 0.0
        if self.device is None:
            needed = "durations, or a device that has them"
            raise self._fault(message, "has operations and no duration", needed)
        return self.device.seconds("matmul" if flops else "elementwise", flops, nbytes, self.arithmetic)

    def _collective(self, message: Any, values: dict[str, Any]) -> str:
        if isinstance(named := values.get("comm_type"), str):
            numbers = {name.replace("_", ""): number for number, name in enumerate(messages.COMM_TYPES)}
            values = values | {"comm_type": numbers.get(re.sub("[_-]", "", named.upper()))}
        number = int(self._number(message, values, "comm_type"))
        if number >= len(messages.COLLECTIVES):
            raise self._fault(message, f"has comm_type {number}", ", ".join(messages.COMM_TYPES))
        return messages.COLLECTIVES[number]

    def _end(self, message: Any, values: dict[str, Any], key: str, mine: bool) -> int:
        """Return the number of the GPU that sends or receives a message, from attribute ``key``.

        ``mine``: it must be the GPU of this file, and is by default if the attribute is missing.
        """
        gpu = int(self._number(message, values, key, self.rank if mine else None))
        if mine and gpu != self.rank:
            raise self._fault(message, f"has {key} {gpu}", f"{self.rank}, whose file it is")
        return gpu

    def _number(self, message: Any, values: dict[str, Any], key: str, default: float | None = None) -> float:
        value = values.get(key, default)
        if value is None:
            raise self._fault(message, f"has no {key}", f"nodes with {key}")
        if isinstance(value, (str, bytes)) or not (math.isfinite(value) and 0 <= value < 2**63):
            raise self._fault(message, f"has {key} {quoted(value)}", "numbers from 0 to 2^63")
        return value

    def _groups(self, message: Any) -> dict[str, tuple[int, ...]]:
        """Return a dictionary from group to GPUs, from a metadata node's JSON (``['JSON']`` in PyTorch)."""
        text = message.inputs.values.strip()
        text = text.removeprefix("['").removesuffix("']")
        if "pg_name" not in text:
            return {}
        try:
            return {str(entry["pg_name"]): _gpus(entry["ranks"]) for entry in json.loads(text)}
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._fault(message, "has no process groups", "JSON with pg_name and ranks") from None

    def _warn(self, words: str) -> None:
        warnings.warn(f"{self.file}: {words}", stacklevel=5)

    def _fault(self, message: Any, what: str, allowed: str) -> InputError:
        return fault(self.file, f"node {message.id} {what}", allowed)


def _circular(waits: list[tuple[int, ...]]) -> bool:
    return len(in_order(dict(enumerate(waits)), int)) < len(waits)


def fault(file: str, what: str, allowed: str) -> InputError:
    """Return an `InputError` that says what is wrong with a trace file, and what is allowed."""
    return InputError(f"trace: {file}: {what}; allowed: {allowed}")


def read_groups(path: str | Path, content: bytes | None = None) -> dict[str, tuple[int, ...]]:
    """Return a dictionary from group to GPUs, from a file as for ASTRA-sim: ``{"1": [0, 1, 2, 3]}``."""
    try:
        content = read_bytes(Path(path)) if content is None else content
        return {str(name): _gpus(gpus) for name, gpus in json.loads(content).items()}
    except OSError as error:
        raise InputError(f"groups: {path} ({error.strerror}); allowed: a file that can be read") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InputError(f'groups: {path} is none; allowed: JSON such as {{"1": [0, 1]}}') from None


def whole(value: Any) -> int:
    """Return ``value`` if it is a whole number from 0, else -1 (such as for a missing attribute)."""
    return value if type(value) is int and 0 <= value < 2**63 else -1


def _gpus(values: Any) -> tuple[int, ...]:
    """Return the GPU numbers in ``values`` as a tuple; ValueError if one is repeated or invalid."""
    gpus = tuple(values)
    if any(type(gpu) is not int or gpu < 0 for gpu in gpus) or len(set(gpus)) < len(gpus):
        raise ValueError(show(values))
    return gpus

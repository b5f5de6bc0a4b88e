"""Which nodes of different GPUs are one task: calls by their order in a group, messages by their tags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from wavefabric.errors import InputError, show
from wavefabric.training.traces.chakra.messages import NodeType
from wavefabric.training.traces.chakra.parse import TraceFile, TraceNode

#: A node: which file, which place in it.
Position = tuple[int, int]


@dataclass(frozen=True)
class Instance:
    """One collective of one group, or one message: the nodes of it, and its GPUs in order."""

    positions: tuple[Position, ...]
    gpus: tuple[int, ...]


def collectives(files: Sequence[TraceFile], groups: Mapping[str, tuple[int, ...]]) -> list[Instance]:
    """The collectives of all groups: the k-th of a group in one file is the k-th of it in the others.

    A group that is not described has all GPUs whose files name it; without a name, or as ``0``, all GPUs.
    """
    calls: dict[tuple[str, tuple[int, ...] | None], dict[int, list[Position]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for number, file in enumerate(files):
        for position, node in enumerate(file.nodes):
            if node.kind == NodeType.COMM_COLL:
                described = file.groups.get(node.group) or groups.get(node.group) or None
                calls[node.group, described][number].append((number, position))
    instances = []
    for (name, described), by_file in calls.items():
        everyone = name in ("", "0") or any(name in file.groups for file in files)
        named = (file.rank for number, file in enumerate(files) if everyone or number in by_file)
        gpus = described or tuple(sorted(named))
        if len(gpus) > 1:
            instances += _of_group(name, gpus, files, by_file)
            continue
        for file, position in chain.from_iterable(by_file.values()):
            files[file].nodes[position].kind = NodeType.COMP  # nothing is sent: a computation of no time
    return instances


def _of_group(
    name: str, gpus: tuple[int, ...], files: Sequence[TraceFile], by_file: Mapping[int, list[Position]]
) -> list[Instance]:
    numbers = {file.rank: number for number, file in enumerate(files)}
    first = next(iter(by_file))
    wanted = by_file[first]
    for gpu in gpus:
        if gpu not in numbers:
            actual = f"{files[first].file}: group {show(name)} has GPU {gpu}, of which there is no file"
            raise InputError(f"trace: {actual}; allowed: GPUs with files")
        count = len(by_file.get(numbers[gpu], ()))
        if count != len(wanted):
            actual = f"{files[numbers[gpu]].file}: {count} collectives of group {show(name)}"
            raise InputError(f"trace: {actual}; allowed: {len(wanted)}, as in {files[first].file}")
    for number in by_file:
        if files[number].rank not in gpus:
            actual = f"{files[number].file}: a collective of group {show(name)}"
            raise InputError(f"trace: {actual}; allowed: groups that the GPU is in")
    instances = [
        Instance(positions, gpus) for positions in zip(*(by_file[numbers[gpu]] for gpu in gpus), strict=True)
    ]
    for instance in instances:
        like = _node(files, instance.positions[0])
        for file, position in instance.positions:
            node = files[file].nodes[position]
            if (node.collective, node.size) != (like.collective, like.size):
                actual = f"{files[file].file}: {node.collective} of {node.size:g} B ({show(node.name)})"
                allowed = (
                    f"{like.collective} of {like.size:g} B, as in {files[instance.positions[0][0]].file}"
                )
                raise InputError(f"trace: {actual}; allowed: {allowed}")
    return instances


def messages(files: Sequence[TraceFile]) -> list[Instance]:
    """Messages: the k-th that is sent from a GPU to another with a tag is the k-th that is received so."""
    ends: dict[tuple[int, int, int], tuple[list[Position], list[Position]]] = defaultdict(lambda: ([], []))
    for number, file in enumerate(files):
        for position, node in enumerate(file.nodes):
            if node.kind in (NodeType.COMM_SEND, NodeType.COMM_RECV):
                received = node.kind == NodeType.COMM_RECV
                ends[node.source, node.target, node.tag][received].append((number, position))
    instances = []
    for key, (sent, received) in ends.items():
        if len(sent) != len(received):
            more, what, lacks = sent, "sent", "received"
            if len(received) > len(sent):
                more, what, lacks = received, "received", "sent"
            position = more[min(len(sent), len(received))]
            actual = (
                f"{files[position[0]].file}: {show(_node(files, position).name)} is {what} and never {lacks}"
            )
            allowed = f"a send and a receive from {key[0]} to {key[1]} with tag {key[2]}"
            raise InputError(f"trace: {actual}; allowed: {allowed}")
        for one, other in zip(sent, received, strict=True):
            a, b = (_node(files, position) for position in (one, other))
            if a.size != b.size:
                actual = f"{files[other[0]].file}: {show(b.name)} receives {b.size:g} B"
                raise InputError(f"trace: {actual}; allowed: {a.size:g} B, as {files[one[0]].file} sends")
            instances.append(Instance((one, other), key[:2]))
    return instances


def _node(files: Sequence[TraceFile], position: Position) -> TraceNode:
    return files[position[0]].nodes[position[1]]

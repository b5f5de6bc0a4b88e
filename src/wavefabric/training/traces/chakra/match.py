"""Which nodes of different GPUs are one task: calls by their order in a group, messages by their tags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wavefabric.errors import InputError, show
from wavefabric.training.traces.chakra.messages import NodeType
from wavefabric.training.traces.chakra.parse import TraceFile, TraceNode

#: A node: which file, which place in it.
Place = tuple[int, int]


@dataclass(frozen=True)
class Instance:
    """One collective of one group, or one message: the nodes of it, and its GPUs in order."""

    places: tuple[Place, ...]
    gpus: tuple[int, ...]


class Classes:
    """Nodes that are one task (union-find)."""

    def __init__(self, files: Sequence[TraceFile]):
        self._parent: dict[Place, Place] = {
            (file, place): (file, place)
            for file, each in enumerate(files)
            for place in range(len(each.nodes))
        }

    def find(self, place: Place) -> Place:
        """The node that stands for a task."""
        parent = self._parent
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    def unite(self, places: Iterable[Place]) -> None:
        """Make these nodes one task; the first in order stands for it."""
        roots = sorted({self.find(place) for place in places})
        for other in roots[1:]:
            self._parent[other] = roots[0]

    def members(self) -> dict[Place, list[Place]]:
        """Nodes of each task, in order."""
        found: dict[Place, list[Place]] = defaultdict(list)
        for place in self._parent:
            found[self.find(place)].append(place)
        return dict(found)


def collectives(files: Sequence[TraceFile], groups: Mapping[str, tuple[int, ...]]) -> list[Instance]:
    """The collectives of all groups: the k-th of a group in one file is the k-th of it in the others.

    A group that is not described has all GPUs whose files name it; without a name, or as ``0``, all GPUs.
    """
    calls: dict[tuple[str, tuple[int, ...] | None], dict[int, list[Place]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for number, file in enumerate(files):
        for place, node in enumerate(file.nodes):
            if node.kind == NodeType.COMM_COLL:
                key = node.group, _described(node.group, file, groups)
                calls[key][number].append((number, place))
    numbers = {file.rank: number for number, file in enumerate(files)}
    found = []
    for (name, described), by_file in calls.items():
        gpus = described or _undescribed(name, files, by_file)
        if len(gpus) == 1:
            _pass_alone(files, by_file)
            continue
        found += _of_group(name, gpus, files, numbers, by_file)
    return found


def _pass_alone(files: Sequence[TraceFile], by_file: Mapping[int, list[Place]]) -> None:
    """Collectives of one GPU send nothing: computations of no time."""
    for places in by_file.values():
        for file, place in places:
            files[file].nodes[place].kind = NodeType.COMP


def _described(name: str, file: TraceFile, groups: Mapping[str, tuple[int, ...]]) -> tuple[int, ...] | None:
    """A group's GPUs, from its file or from all; None: not described, or described as all."""
    return file.groups.get(name) or groups.get(name) or None


def _undescribed(name: str, files: Sequence[TraceFile], by_file: Mapping[int, list]) -> tuple[int, ...]:
    everyone = name in ("", "0") or any(name in file.groups for file in files)
    return tuple(sorted(file.rank for n, file in enumerate(files) if everyone or n in by_file))


def _of_group(
    name: str,
    gpus: tuple[int, ...],
    files: Sequence[TraceFile],
    numbers: Mapping[int, int],
    by_file: Mapping[int, list[Place]],
) -> list[Instance]:
    first = next(iter(by_file))
    wanted = by_file[first]
    for gpu in gpus:
        if gpu not in numbers:
            given = f"{files[first].file}: group {show(name)} has GPU {gpu}, of which there is no file"
            raise InputError(f"trace: {given}; allowed: GPUs with files")
        count = len(by_file.get(numbers[gpu], ()))
        if count != len(wanted):
            given = f"{files[numbers[gpu]].file}: {count} collectives of group {show(name)}"
            raise InputError(f"trace: {given}; allowed: {len(wanted)}, as in {files[first].file}")
    for number in by_file:
        if files[number].rank not in gpus:
            given = f"{files[number].file}: a collective of group {show(name)}"
            raise InputError(f"trace: {given}; allowed: groups that the GPU is in")
    found = []
    for turn in range(len(wanted)):
        places = tuple(by_file[numbers[gpu]][turn] for gpu in gpus)
        _check_alike(files, places)
        found.append(Instance(places, gpus))
    return found


def _check_alike(files: Sequence[TraceFile], places: Sequence[Place]) -> None:
    nodes = [files[file].nodes[place] for file, place in places]
    for (file, _), node in zip(places, nodes, strict=True):
        if (node.collective, node.size) != (nodes[0].collective, nodes[0].size):
            given = f"{files[file].file}: {node.collective} of {node.size:g} B ({show(node.name)})"
            allowed = f"{nodes[0].collective} of {nodes[0].size:g} B, as in {files[places[0][0]].file}"
            raise InputError(f"trace: {given}; allowed: {allowed}")


def messages(files: Sequence[TraceFile]) -> list[Instance]:
    """Messages: the k-th that is sent from a GPU to another with a tag is the k-th that is received so."""
    sent: dict[tuple[int, int, int], list[Place]] = defaultdict(list)
    received: dict[tuple[int, int, int], list[Place]] = defaultdict(list)
    for number, file in enumerate(files):
        for place, node in enumerate(file.nodes):
            if node.kind in (NodeType.COMM_SEND, NodeType.COMM_RECV):
                ends = sent if node.kind == NodeType.COMM_SEND else received
                ends[node.source, node.target, node.tag].append((number, place))
    found = []
    for key in [*sent, *(key for key in received if key not in sent)]:
        ours, theirs = sent.get(key, []), received.get(key, [])
        if len(ours) != len(theirs):
            _unmatched(files, key, ours, theirs)
        for one, other in zip(ours, theirs, strict=True):
            a, b = (_node(files, place) for place in (one, other))
            if a.size != b.size:
                given = f"{files[other[0]].file}: {show(b.name)} receives {b.size:g} B"
                raise InputError(f"trace: {given}; allowed: {a.size:g} B, as {files[one[0]].file} sends")
            found.append(Instance((one, other), key[:2]))
    return found


def _unmatched(
    files: Sequence[TraceFile], key: tuple[int, int, int], ours: list[Place], theirs: list[Place]
) -> None:
    more, what, lacks = (
        (ours, "sent", "received") if len(ours) > len(theirs) else (theirs, "received", "sent")
    )
    place = more[min(len(ours), len(theirs))]
    given = f"{files[place[0]].file}: {show(_node(files, place).name)} is {what} and never {lacks}"
    source, target, tag = key
    raise InputError(
        f"trace: {given}; allowed: a send and a receive from {source} to {target} with tag {tag}"
    )


def _node(files: Sequence[TraceFile], place: Place) -> TraceNode:
    return files[place[0]].nodes[place[1]]

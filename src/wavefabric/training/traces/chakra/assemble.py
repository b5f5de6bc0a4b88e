"""Build tasks from the trace nodes of all GPUs: match collectives by order in a group, messages by tag."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from scipy.cluster.hierarchy import DisjointSet

from wavefabric.base.errors import show
from wavefabric.training.iteration.task_graph import KINDS, PURPOSES, Call, TaskGraph
from wavefabric.training.traces.chakra import messages
from wavefabric.training.traces.chakra.messages import NodeType
from wavefabric.training.traces.chakra.parse import TraceFile, TraceNode, fault, whole
from wavefabric.training.traces.order import in_order

#: Purpose of a call that a later task waits for, by collective, if the trace does not state a purpose.
_BLOCKING = {
    "all-reduce": "tensor",
    "reduce-scatter": "tensor",
    "all-gather": "parameters",
    "all-to-all": "experts",
    "messages": "layer-to-layer",
}
#: Position of a node: number of the GPU (which is the number of the file), and index in the file.
Position = tuple[int, int]


@dataclass(frozen=True)
class Instance:
    """One collective of a group of GPUs, or one message, matched across trace files.

    ``positions``: for each GPU, (file number, index) of the node. ``gpus``: the group, or sender and
    receiver.
    """

    positions: tuple[Position, ...]
    gpus: tuple[int, ...]


class Assembly:
    """Builds the task graph of a Chakra trace.

    ``instances``: all collectives and messages. ``workers``: for each file, the number of its worker; GPUs
    that do the same are one worker. ``own``: whether the files are from `write_chakra`, which states in each
    node to which task the node belongs.
    """

    def __init__(
        self, files: Sequence[TraceFile], instances: Sequence[Instance], workers: Sequence[int], own: bool
    ):
        self.files, self.own = files, own
        # GPU workers are numbered first, in ascending order; CPU workers follow.
        order = {worker: number for number, worker in enumerate(sorted(set(workers)))}
        self.worker = [order[worker] for worker in workers]
        self.gpu_workers = len(order)
        self.cpu_worker: dict[int, int] = {}
        joined = DisjointSet()
        for positions in (*(instance.positions for instance in instances), *self._same_tasks()):
            for position in positions:
                joined.add(position)
                joined.merge(positions[0], position)
        #: Positions of the nodes of each task; the key, called root, is the position of the first node.
        self.members = {min(positions): sorted(positions) for positions in joined.subsets()}
        self.root = {position: root for root, positions in self.members.items() for position in positions}
        self.instances: dict[Position, list[Instance]] = defaultdict(list)
        for instance in instances:
            self.instances[self.root[instance.positions[0]]].append(instance)
        self.waits = {root: self._waits(root) for root in self.members}

    def _same_tasks(self) -> list[list[Position]]:
        """Return lists of nodes, (file number, index) each, such that the nodes of a list are one task.

        In files of `write_chakra` these are nodes of equal task number; in others, nodes of equal index in
        the files of one worker.
        """
        tasks: dict[tuple, list[Position]] = defaultdict(list)
        for number, file in enumerate(self.files):
            for position, node in enumerate(file.nodes):
                told = self.own and node.own.get("task") is not None
                key = (number if self.own else self.worker[number]), position
                tasks[(node.own["task"],) if told else key].append((number, position))
        return list(tasks.values())

    def _waits(self, root: Position) -> list[Position]:
        """Return the tasks that ``root`` waits for; a task is named by the position of its first node."""
        others: set[Position] = set()
        for file, position in self.members[root]:
            nodes = self.files[file].nodes
            # In files of `write_chakra`, each computation waits for the one before: omit that.
            program = self.own and nodes[position].computes
            others.update(
                self.root[file, at] for at in nodes[position].waits if not (program and nodes[at].computes)
            )
        return sorted(others - {root})

    def graph(self) -> TaskGraph:
        """Return the task graph, with tasks numbered so that each task waits only for earlier tasks."""
        # Ready tasks are ordered by task number, if the files state it, else by position in the file.
        number_of = {root: whole(self._node(root).own.get("task")) for root in self.members}
        order = in_order(self.waits, lambda r: (number_of[r], *r) if self.own else r[::-1])
        if len(order) < len(self.members):
            file, position = min(self.members.keys() - set(order))
            name = show(self.files[file].nodes[position].name)
            raise fault(self.files[file].file, f"nodes wait in a circle, {name} among them", "none that do")
        programs = self._programs(order)
        graph = TaskGraph(len(programs))
        number: dict[Position, int] = {}
        hidden = self._gradients(order)
        for root in order:
            waits = self._needed(root, number)
            node = self._node(root)
            microbatch = whole(node.own.get("microbatch"))
            self._check(root)
            if node.computes:
                worker = self._program_of(root)
                number[root] = graph.compute(_kind(node), node.name, worker, node.seconds, waits, microbatch)
            else:
                call = self._call(root, hidden)
                ports = tuple(sorted({self.worker[file] for file, _ in self.members[root]}))
                number[root] = graph.communicate(node.name, call, ports, waits, microbatch)
        graph.program = [[number[root] for root in program] for program in programs]
        graph.gpus = [() for _ in programs]
        for file, worker in zip(self.files, self.worker, strict=True):
            graph.gpus[worker] += (file.rank,)
        return graph

    def _node(self, root: Position) -> TraceNode:
        return self.files[root[0]].nodes[root[1]]

    def _program_of(self, root: Position) -> int:
        """Return the number of the worker, GPU or CPU, that runs the computation ``root``."""
        worker = self.worker[root[0]]
        return self.cpu_worker[worker] if self._node(root).cpu else worker

    def _programs(self, order: Sequence[Position]) -> list[list[Position]]:
        """Return each worker's computations in file order if dependencies allow, else as in ``order``."""
        for file, worker in enumerate(self.worker):
            if any(node.cpu for node in self.files[file].nodes):
                self.cpu_worker.setdefault(worker, self.gpu_workers + len(self.cpu_worker))
        programs: list[list[Position]] = [[] for _ in range(self.gpu_workers + len(self.cpu_worker))]
        for root in sorted(root for root in order if self._node(root).computes):
            programs[self._program_of(root)].append(root)
        waits = {root: list(others) for root, others in self.waits.items()}
        for program in programs:
            for before, after in pairwise(program):
                waits[after].append(before)
        if len(in_order(waits, lambda root: root)) == len(waits):
            return programs
        position = {root: turn for turn, root in enumerate(order)}
        return [sorted(program, key=position.__getitem__) for program in programs]

    def _needed(self, root: Position, number: Mapping[Position, int]) -> list[int]:
        """Return the numbers of the tasks that a task must wait for, except computations of the same worker.

        ``root``: position of the task's first node. ``number``: task number for each such position.
        """
        worker = self._program_of(root) if self._node(root).computes else -1
        return sorted(
            number[other]
            for other in self.waits[root]
            if worker < 0 or not self._node(other).computes or self._program_of(other) != worker
        )

    def _check(self, root: Position) -> None:
        """Raise `InputError` if nodes that are one task, according to the files, are not the same."""
        node = self._node(root)
        for file, position in self.members[root]:
            other = self.files[file].nodes[position]
            same = (other.seconds, other.cpu, other.computes) == (node.seconds, node.cpu, node.computes)
            if not same or (node.computes and self.worker[file] != self.worker[root[0]]):
                actual = f"{show(other.name)} differs from {show(node.name)}"
                raise fault(self.files[file].file, actual, "nodes of one task that are the same")

    def _call(self, root: Position, hidden: set[Position]) -> Call:
        node, instances = self._node(root), self.instances[root]
        collective = messages.STAND_FOR.get(node.collective, node.collective or "messages")
        gpus = [gpu for instance in instances for gpu in instance.gpus]
        named = node.own.get("purpose")
        fallback = "gradients" if root in hidden and collective != "messages" else _BLOCKING[collective]
        purpose = named if named in PURPOSES else fallback
        if collective == "messages":
            return self._messages(root, purpose)
        groups = tuple(instance.gpus for instance in instances)
        nodes = {(self._node(i.positions[0]).collective, self._node(i.positions[0]).size) for i in instances}
        if len(set(gpus)) < len(gpus) or len(set(map(len, groups))) > 1 or len(nodes) > 1:
            actual = f"{show(node.name)} is not the same in its groups"
            raise fault(self.files[root[0]].file, actual, "disjoint groups of one size")
        each = node.collective in ("all-gather", "gather")
        whole = node.size * (len(groups[0]) if each else 1)
        return Call(collective, groups, _own_size(node, "call_bytes", whole), purpose)

    def _messages(self, root: Position, purpose: str) -> Call:
        sent = []
        for instance in self.instances[root]:
            node = self._node(instance.positions[0])
            if node.collective:
                actual = f"{show(node.name)} is a collective and a message"
                raise fault(self.files[root[0]].file, actual, "one of both")
            size = _own_size(node, "message_size", node.size)
            sent.append((whole(node.own.get("message")), (*instance.gpus, size)))
        pairs = tuple(message for _, message in sorted(sent))
        ends = tuple(sorted({end for source, target, _ in pairs for end in (source, target)}))
        return Call("messages", (ends,), _own_size(self._node(root), "call_bytes", 1.0), purpose, pairs)

    def _gradients(self, order: Sequence[Position]) -> set[Position]:
        """Return the calls for which no computation waits, even through other calls: those for gradients."""
        awaited: set[Position] = set()
        for root in reversed(order):
            if root in awaited or self._node(root).computes:
                awaited.update(self.waits[root])
        return {root for root in order if root not in awaited and not self._node(root).computes}


def _kind(node: TraceNode) -> str:
    named = node.own.get("kind")
    if named in KINDS[:-1]:
        return str(named)
    name = node.name.lower()
    return "backward" if "backward" in name or "bwd" in name else "forward"


def _own_size(node: TraceNode, key: str, default: float) -> float:
    """Return the unrounded size in attribute ``key``, which `write_chakra` adds; without it, ``default``."""
    value = node.own.get(key)
    return value if isinstance(value, float) and 0 <= value < 2**63 else default


def matched_collectives(files: Sequence[TraceFile], groups: Mapping[str, tuple[int, ...]]) -> list[Instance]:
    """Match collectives across files: the k-th of a group in one file is the k-th of the group in the others.

    ``groups``: a dictionary from group name to GPUs, for groups that the files do not describe. A group
    without any description consists of the GPUs whose files use it, or of all GPUs if its name is empty or
    ``0``. A group whose description lists no GPU also consists of all GPUs.
    """
    calls: dict[tuple[str, tuple[int, ...] | None], dict[int, list[Position]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for gpu, file in enumerate(files):
        for at, node in enumerate(file.nodes):
            if node.kind == NodeType.COMM_COLL:
                described = file.groups.get(node.group) or groups.get(node.group) or None
                calls[node.group, described][gpu].append((gpu, at))
    instances = []
    for (name, described), by_gpu in calls.items():
        everyone = name in ("", "0") or any(name in file.groups for file in files)
        gpus = described or tuple(range(len(files)) if everyone else sorted(by_gpu))
        if len(gpus) > 1:
            instances += _of_group(name, gpus, files, by_gpu)
            continue
        for position in chain.from_iterable(by_gpu.values()):
            _node(files, position).kind = NodeType.COMP  # one GPU has nothing to send: no time
    return instances


def _of_group(
    name: str, gpus: tuple[int, ...], files: Sequence[TraceFile], by_gpu: Mapping[int, list[Position]]
) -> list[Instance]:
    first = next(iter(by_gpu))
    wanted, like = len(by_gpu[first]), f"as in {files[first].file}"
    for gpu in gpus:
        if gpu >= len(files):
            actual = f"group {show(name)} has GPU {gpu}, of which there is no file"
            raise fault(files[first].file, actual, "GPUs with files")
        if (count := len(by_gpu.get(gpu, ()))) != wanted:
            raise fault(
                files[gpu].file,
                f"{count} collectives of group {show(name)}",
                f"{wanted}, {like}, or its GPUs described",
            )
    for gpu in by_gpu:
        if gpu not in gpus:
            actual = f"a collective of group {show(name)}"
            raise fault(files[gpu].file, actual, "groups that the GPU is in")
    instances = [Instance(each, gpus) for each in zip(*(by_gpu[gpu] for gpu in gpus), strict=True)]
    for instance in instances:
        node, *others = (_node(files, position) for position in instance.positions)
        for gpu, other in zip(gpus[1:], others, strict=True):
            if (other.collective, other.size) != (node.collective, node.size):
                actual = f"{other.collective} of {other.size:g} B ({show(other.name)})"
                allowed = f"{node.collective} of {node.size:g} B, as in {files[gpus[0]].file}"
                raise fault(files[gpu].file, actual, allowed)
    return instances


def matched_messages(files: Sequence[TraceFile]) -> list[Instance]:
    """Match sends and receives: the k-th of equal sender, receiver and tag belong together."""
    ends: dict[tuple[int, int, int], tuple[list[Position], list[Position]]] = defaultdict(lambda: ([], []))
    for gpu, file in enumerate(files):
        for at, node in enumerate(file.nodes):
            if node.kind in (NodeType.COMM_SEND, NodeType.COMM_RECV):
                received = node.kind == NodeType.COMM_RECV
                ends[node.source, node.target, node.tag][received].append((gpu, at))
    instances = []
    for (source, target, tag), (sent, received) in ends.items():
        if len(sent) != len(received):
            done, lacks = ("sent", "received") if len(sent) > len(received) else ("received", "sent")
            position = max(sent, received, key=len)[min(len(sent), len(received))]
            actual = f"{show(_node(files, position).name)} is {done} and never {lacks}"
            allowed = f"a send and a receive from {source} to {target} with tag {tag}"
            raise fault(files[position[0]].file, actual, allowed)
        for one, other in zip(sent, received, strict=True):
            a, b = _node(files, one), _node(files, other)
            if a.size != b.size:
                actual, allowed = f"{show(b.name)} receives {b.size:g} B", f"{a.size:g} B"
                raise fault(files[other[0]].file, actual, f"{allowed}, as {files[one[0]].file} sends")
            instances.append(Instance((one, other), (source, target)))
    return instances


def _node(files: Sequence[TraceFile], position: Position) -> TraceNode:
    return files[position[0]].nodes[position[1]]

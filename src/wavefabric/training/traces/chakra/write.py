"""Write simulated tasks as a Chakra execution trace, one file per GPU, in the format that ASTRA-sim reads."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.base.files.output import check_output, replacing
from wavefabric.training.iteration.simulate import Iteration
from wavefabric.training.iteration.task_graph import Call, TaskGraph
from wavefabric.training.traces.chakra import messages
from wavefabric.training.traces.chakra.messages import NodeType
from wavefabric.training.traces.order import execution_order, gpus_of_workers

#: ASTRA-sim's name of the group of all GPUs.
_ALL = "0"
_MOST_TAG = 2**31


def write_chakra(
    prefix: str | Path,
    simulated: Iteration | TaskGraph,
    *,
    gpus: Sequence[Sequence[int]] | None = None,
    force: bool = False,
) -> list[Path]:
    """Write a Chakra trace, one file ``PREFIX.RANK.et`` per GPU, all files or none; return the paths.

    Computations are COMP_NODEs, each after the previous one (ctrl_deps), with times in whole µs, as the
    schema requires, and exactly in ``duration_seconds``; a model's layers also have num_ops and tensor_size.
    Collectives are COMM_COLL_NODEs of the GPU's group, which a METADATA_NODE describes as in PyTorch's
    traces. Messages are COMM_SEND_NODEs and COMM_RECV_NODEs; all messages of one call have one tag.
    Additional attributes, which other programs ignore, say which nodes are one task, so that `read_chakra`
    returns the same tasks. Sizes are as in ASTRA-sim: the data of each GPU before the collective. For an
    `Iteration`, start times are written too.

    ``gpus``: the GPUs of each worker, by default from the strategy or trace, else equal parts. Raises
    `MissingExtra` without the package protobuf. Raises `InputError` if a file exists (without ``force``) or
    cannot be written, if a worker is a CPU, if tasks wait in a cycle, or if a computation waits for one of
    other GPUs without a call in between.
    """
    messages.schema()
    writer = _Writer(simulated, gpus)
    paths = {gpu: Path(f"{prefix}.{gpu}.et") for gpu in sorted(writer.worker_of)}
    for path in paths.values():
        check_output(path, force)
    for other in messages.trace_paths(prefix):
        if other.name not in {path.name for path in paths.values()}:
            raise InputError(f"output: {other} is of a trace of other GPUs; allowed: another name")
    with ExitStack() as stack:
        for gpu, path in paths.items():
            partial = stack.enter_context(replacing(path))
            with open(partial, "wb") as file:
                file.writelines(writer.messages(gpu))
    return list(paths.values())


class _Writer:
    def __init__(self, simulated: Iteration | TaskGraph, gpus: Sequence[Sequence[int]] | None):
        workload = self.begin = None
        if isinstance(simulated, Iteration):
            workload, self.begin = simulated.workload, simulated.timeline.begin.tolist()
            simulated = simulated.graph
        graph = self.graph = simulated
        gpus = gpus_of_workers(graph, workload, gpus)
        if not all(gpus):
            raise InputError("tasks: some of a CPU given; allowed: those of GPUs")
        self.turn = {task: turn for turn, task in enumerate(execution_order(graph))}
        self.worker_of = {gpu: worker for worker, members in enumerate(gpus) for gpu in members}
        self.everyone = tuple(sorted(self.worker_of))
        self.before = {b: a for program in graph.program for a, b in pairwise(program)}
        self.group_of: list[dict[int, tuple[int, ...]]] = [{} for _ in range(len(graph))]
        self.sends: list[dict[int, list[int]]] = [{} for _ in range(len(graph))]
        self.names: dict[tuple[int, ...], str] = {self.everyone: _ALL}
        self.calls_of: dict[int, list[int]] = defaultdict(list)  # in execution order
        most = 1
        for task in self.turn:
            call = graph.call[task]
            if call is not None:
                most = max(most, self._prepare(task, call))
        self.stride = most  # node numbers reserved per task
        # Nodes that are equal in the files of several GPUs are built once.
        self.computation, self.collective = cache(self._computation), cache(self._collective)

    def _prepare(self, task: int, call: Call) -> int:
        """Record each GPU's group or messages in call ``task``; return the most nodes that a GPU needs."""
        if call.collective != "messages":
            for group in call.groups:
                self.names.setdefault(group, str(len(self.names)))
                self.group_of[task].update(dict.fromkeys(group, group))
        mine: dict[int, list[int]] = defaultdict(list)
        for number, (source, target, _) in enumerate(call.messages):
            for gpu in {source, target} if source != target else ():
                mine[gpu].append(number)
        self.sends[task] = mine
        for gpu in (*self.group_of[task], *mine):
            if gpu not in self.worker_of or self.worker_of[gpu] not in self.graph.ports[task]:
                actual = f"tasks: {self.graph.name[task]} has GPU {gpu}, not of its workers"
                raise InputError(f"{actual}; allowed: GPUs of the workers of a call")
            self.calls_of[gpu].append(task)
        return max(map(len, mine.values()), default=1)

    def messages(self, gpu: int) -> Iterator[bytes]:
        """Yield the serialised messages of the file of ``gpu``: metadata, groups, then nodes in order."""
        kinds, worker = messages.schema(), self.worker_of[gpu]
        metadata = kinds.metadata(version=messages.VERSION)
        messages.tell(metadata, schema=f"chakra-{messages.VERSION}", generator="wavefabric")
        messages.tell(metadata, worker=worker, gpus=len(self.everyone))
        yield messages.with_length(metadata)
        yield messages.with_length(self._groups(gpu))
        for task in sorted((*self.graph.program[worker], *self.calls_of[gpu]), key=self.turn.__getitem__):
            data = tuple(sorted(self._waits(task, gpu)))
            before = self.before.get(task)
            control = () if before is None or self._number(before) in data else (self._number(before),)
            if self.graph.call[task] is None:
                yield self.computation(task, data, control)
            elif gpu in self.group_of[task]:
                yield self.collective(task, data, self.names[self.group_of[task][gpu]])
            else:
                for position, message in enumerate(self.sends[task][gpu]):
                    yield self._message(task, data, gpu, position, message)

    def _number(self, task: int, position: int = 0) -> int:
        """Return the number of node ``position`` of ``task`` in the trace; number 0 describes the groups."""
        return 1 + self.turn[task] * self.stride + position

    def _waits(self, task: int, gpu: int) -> set[int]:
        """Return the numbers of nodes of ``gpu`` that ``task`` waits for, also via calls of other GPUs."""
        waits, seen, left = set(), set(), list(self.graph.waits[task])
        worker = self.worker_of[gpu]
        while left:
            other = left.pop()
            if self.graph.call[other] is None:
                if self.graph.worker[other] == worker:
                    waits.add(self._number(other))
                elif self.graph.call[task] is None and other in self.graph.waits[task]:
                    one, awaited = self.graph.name[task], self.graph.name[other]
                    actual = f"tasks: {one} waits for {awaited} of other GPUs"
                    raise InputError(f"{actual}; allowed: waits for calls between them")
            elif gpu in self.group_of[other]:
                waits.add(self._number(other))
            elif gpu in self.sends[other]:
                waits.update(self._number(other, position) for position in range(len(self.sends[other][gpu])))
            elif other not in seen:
                seen.add(other)
                left += self.graph.waits[other] if worker in self.graph.ports[other] else ()
        return waits

    def _groups(self, gpu: int) -> Any:
        """Return the metadata node with the groups that contain ``gpu``."""
        groups = {group for task in self.calls_of[gpu] if (group := self.group_of[task].get(gpu))}
        named = sorted((int(self.names[group]), group) for group in groups if group != self.everyone)
        node = messages.schema().node(id=0, name="process groups", type=int(NodeType.METADATA))
        if named:
            text = json.dumps([{"pg_name": str(name), "ranks": members} for name, members in named])
            node.inputs.values = f"['{text}']"
        messages.tell(node, is_cpu_op=False)
        return node

    def _computation(self, task: int, data: tuple[int, ...], control: tuple[int, ...]) -> bytes:
        flops, nbytes = self.graph.operations[task]
        values: dict[str, Any] = {"num_ops": round(flops), "tensor_size": round(nbytes)} if nbytes else {}
        values |= {"duration_seconds": float(self.graph.seconds[task]), "kind": self.graph.kind[task]}
        return self._node(task, NodeType.COMP, data, 0, control, **values)

    def _collective(self, task: int, data: tuple[int, ...], group: str) -> bytes:
        call = self.graph.call_of(task)
        number = messages.COLLECTIVES.index(call.collective)
        size = _whole(call.bytes / (len(call.groups[0]) if call.collective == "all-gather" else 1))
        return self._node(task, NodeType.COMM_COLL, data, comm_type=number, comm_size=size, pg_name=group)

    def _message(self, task: int, data: tuple[int, ...], gpu: int, position: int, message: int) -> bytes:
        call = self.graph.call_of(task)
        source, target, size = call.messages[message]
        kind = NodeType.COMM_SEND if gpu == source else NodeType.COMM_RECV
        values = {"comm_src": source, "comm_dst": target, "comm_tag": self.turn[task] % _MOST_TAG}
        values |= {"comm_size": _whole(size * call.bytes), "message": message, "message_size": float(size)}
        return self._node(task, kind, data, position, **values)

    def _node(
        self, task: int, kind: NodeType, data: Sequence[int], position=0, control=(), /, **values: Any
    ) -> bytes:
        """Return a serialised node of ``task`` with the common attributes and the attributes ``values``."""
        graph, call = self.graph, self.graph.call[task]
        node = messages.schema().node(id=self._number(task, position), name=graph.name[task], type=int(kind))
        node.data_deps.extend(data)
        node.ctrl_deps.extend(control)
        node.duration_micros = round(graph.seconds[task] * 1e6)
        if self.begin is not None:
            node.start_time_micros = round(self.begin[task] * 1e6)
        part = {"microbatch": graph.microbatch[task]} if graph.microbatch[task] >= 0 else {}
        messages.tell(node, is_cpu_op=False, task=task, **part, **values)
        if call is not None:
            messages.tell(node, purpose=call.purpose, call_bytes=float(call.bytes))
        return messages.with_length(node)


def _whole(nbytes: float) -> int:
    """Return ``nbytes`` rounded to whole bytes; at least 1 if it is above 0."""
    return max(round(nbytes), 1 if nbytes > 0 else 0)

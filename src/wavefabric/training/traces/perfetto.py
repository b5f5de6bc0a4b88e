"""Write a simulated iteration as a trace for ui.perfetto.dev or chrome://tracing (Trace Event Format)."""

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.base.files.output import write_text
from wavefabric.fabric.draw.timeline import lanes
from wavefabric.training.iteration.simulate import Iteration
from wavefabric.training.iteration.task_graph import Call
from wavefabric.training.traces.order import ranges, worker_names

#: Process number of the fabric; workers have the following numbers.
_FABRIC = 1
#: Thread number of a worker's computation; the calls of the worker have the following numbers.
_COMPUTE = 0
#: Maximum number of groups or messages listed per call.
_MOST_TOLD = 16
#: Colour names defined by the trace viewers.
_COLOURS = {
    "forward": "thread_state_running",
    "backward": "rail_animation",
    "update": "thread_state_iowait",
    "gradients": "terrible",
}


def write_perfetto(path: str | Path, iteration: Iteration, force: bool = False) -> Path:
    """Write a simulated iteration as a JSON trace for Perfetto or Chrome, with times in µs.

    The fabric is one process, with a thread per purpose of calls (several if calls overlap). Each worker is a
    process, with threads for computation and for calls. Event arguments are the task number, the microbatch,
    and for a call the collective, bytes, groups and messages. An arrow from a computation to a call, or from
    a call to a computation, shows which task's end let the other begin. Raises `InputError` if the extension
    is not ``.json``, if the file exists and ``force`` is not set, or if the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise InputError(f"output: {path} given; allowed: names that end in .json")
    text = ",\n".join(json.dumps(event, ensure_ascii=False) for event in _events(iteration))
    seconds = {"iteration_us": iteration.seconds * 1e6, "exposed_us": iteration.exposed_seconds * 1e6}
    other = json.dumps(
        {"program": "wavefabric", **seconds, "bound_by": iteration.bound_by}, ensure_ascii=False
    )
    content = f'{{"displayTimeUnit": "ms", "otherData": {other}, "traceEvents": [\n{text}\n]}}\n'
    return write_text(path, content, "output", force)


def _events(iteration: Iteration) -> Iterator[dict[str, Any]]:
    graph = iteration.graph
    tracks, names = _tracks(iteration)
    yield from _names(iteration, names)
    order = iteration.timeline.begin.argsort(kind="stable").tolist()
    for task in order:
        for process, thread in tracks[task]:
            yield _event(iteration, task, process, thread)
    for task in order:
        before = int(iteration.timeline.released_by[task])
        if before >= 0 and graph.worker[before] != graph.worker[task]:
            yield from _arrow(iteration, before, task, tracks)


def _tracks(iteration: Iteration) -> tuple[list[list[tuple[int, int]]], dict[tuple[int, int], str]]:
    """Return where each task is drawn, and a dictionary from (process, thread) to the name of the thread.

    A task is drawn in one or more threads: the result has a list of pairs (process, thread) for each task.
    """
    graph, times = iteration.graph, iteration.timeline
    tracks: list[list[tuple[int, int]]] = [[] for _ in range(len(graph))]
    names: dict[tuple[int, int], str] = {}
    shown: dict[tuple[int, str], list[int]] = defaultdict(list)
    for task, call in enumerate(graph.call):
        if call is None:
            process = _FABRIC + 1 + graph.worker[task]
            tracks[task].append((process, _COMPUTE))
            names[process, _COMPUTE] = "compute"
        else:
            shown[_FABRIC, call.purpose].append(task)
            for worker in graph.ports[task]:
                shown[_FABRIC + 1 + worker, "calls"].append(task)
    threads: dict[int, int] = defaultdict(lambda: _COMPUTE + 1)
    for (process, name), tasks in shown.items():
        lane = lanes(times.begin[tasks], times.end[tasks])
        for task, at in zip(tasks, lane, strict=True):
            tracks[task].append((process, threads[process] + at))
            names[process, threads[process] + at] = name if at == 0 else f"{name} ({at + 1})"
        threads[process] += max(lane) + 1
    return tracks, names


def _names(iteration: Iteration, threads: dict[tuple[int, int], str]) -> Iterator[dict[str, Any]]:
    """Yield the metadata events that name and order the processes and threads of the trace."""
    processes = [*enumerate(worker_names(iteration), _FABRIC + 1), (_FABRIC, "fabric")]
    rows = [("process", process, 0, order, name) for order, (process, name) in enumerate(processes)]
    rows += [("thread", process, thread, thread, name) for (process, thread), name in sorted(threads.items())]
    for what, process, thread, order, name in rows:
        event = {"ph": "M", "pid": process, "tid": thread}
        yield event | {"name": f"{what}_name", "args": {"name": name}}
        yield event | {"name": f"{what}_sort_index", "args": {"sort_index": order}}


def _event(iteration: Iteration, task: int, process: int, thread: int) -> dict[str, Any]:
    graph, times = iteration.graph, iteration.timeline
    call, begin, end = graph.call[task], float(times.begin[task]), float(times.end[task])
    args: dict[str, Any] = {"task": task}
    if graph.microbatch[task] >= 0:
        args["microbatch"] = graph.microbatch[task]
    if call is not None:
        args |= _call_args(call)
    category = graph.kind[task] if call is None else f"call,{call.purpose}"
    event = {"ph": "X", "pid": process, "tid": thread, "name": graph.name[task], "cat": category}
    event |= {"ts": begin * 1e6, "dur": (end - begin) * 1e6, "args": args}
    colour = _COLOURS.get(graph.kind[task] if call is None else call.purpose)
    return event | ({"cname": colour} if colour else {})


def _call_args(call: Call) -> dict[str, Any]:
    args: dict[str, Any] = {"collective": call.collective, "purpose": call.purpose}
    if call.collective == "messages":
        args["bytes"] = sum(size for *_, size in call.messages) * call.bytes
        shown = call.messages[:_MOST_TOLD]
        key, told = "messages", [f"{a} to {b}: {size * call.bytes:g} B" for a, b, size in shown]
    else:
        args["bytes"] = call.bytes
        key, told = "groups", [ranges(group) for group in call.groups[:_MOST_TOLD]]
    more = len(call.messages or call.groups) - _MOST_TOLD
    return args | {key: told + [f"and {more} more"] * (more > 0)}


def _arrow(
    iteration: Iteration, before: int, task: int, tracks: list[list[tuple[int, int]]]
) -> Iterator[dict[str, Any]]:
    """Yield the two events of an arrow from the middle of task ``before`` to the beginning of ``task``."""
    times = iteration.timeline
    if times.begin[before] == times.end[before] or times.begin[task] == times.end[task]:
        return  # a task of zero length has no event to attach the arrow to
    pairs = list(product(tracks[before], tracks[task]))
    same = (pair for pair in pairs if pair[0][0] == pair[1][0] != _FABRIC)
    (process, thread), (other, at) = next(same, pairs[-1])  # both ends in one process if possible
    middle = float(times.begin[before] + times.end[before]) / 2 * 1e6
    common = {"cat": "waits", "name": "lets begin", "id": task}
    yield {"ph": "s", "pid": process, "tid": thread, "ts": middle, **common}
    yield {"ph": "f", "bp": "e", "pid": other, "tid": at, "ts": float(times.begin[task]) * 1e6, **common}

"""Simulate faults: GPUs that compute more slowly than others (stragglers), and slow links."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wavefabric.base.errors import InputError, show
from wavefabric.fabric import AnyFabric, Fabric
from wavefabric.training.iteration.task_graph import NO_OPERATIONS, TaskGraph


def parse_stragglers(text: str) -> dict[int, float]:
    """Return a dictionary from GPU to slowdown: ``5:1.5,9:2`` means that GPU 5 takes 1.5 times as long."""
    result = {}
    for word, gpu, factor in _parts(text, "--straggler", "GPU:FACTOR, such as 5:1.5"):
        if not (gpu.isascii() and gpu.isdigit() and len(gpu) <= 9) or int(gpu) in result:
            raise InputError(f"--straggler: {word} given; allowed: GPU:FACTOR, such as 5:1.5, each GPU once")
        result[int(gpu)] = factor
    return result


def parse_slow_links(text: str) -> dict[str, float]:
    """Return a dictionary from link to factor: ``GPU0-switch:4`` is a link with 1/4 of its bandwidth."""
    parts = _parts(text, "--slow-link", "A-B:FACTOR, such as GPU0-switch:4")
    return {link: factor for _, link, factor in parts}


def _parts(text: str, key: str, allowed: str) -> list[tuple[str, str, float]]:
    parts = []
    for word in text.split(","):
        name, _, number = word.strip().rpartition(":")
        try:
            factor = float(number)
        except ValueError:
            factor = math.nan
        if not name or not 1 <= factor < math.inf:
            raise InputError(f"{key}: {word.strip()} given; allowed: {allowed}; factors from 1")
        parts.append((word.strip(), name, factor))
    return parts


def with_stragglers(
    graph: TaskGraph, gpus: Sequence[Sequence[int]], stragglers: Mapping[int, float]
) -> TaskGraph:
    """Return ``graph`` with each worker's tasks slowed down to the speed of the worker's slowest GPU.

    A worker represents GPUs that do the same, such as all data-parallel replicas of a pipeline stage. The
    work of these GPUs ends in calls among them (for tensor parallelism or gradients), which wait for the
    slowest GPU. With one straggler, the time is therefore exact, except that calls of replicas without the
    straggler could leave shared links earlier. Several stragglers are assumed to be in one replica, so the
    time is then an upper bound.

    ``gpus``: the GPUs of each worker. ``stragglers``: a dictionary from slow GPU to the factor by which its
    computation takes longer. Raises `InputError` for a straggler that no worker has.
    """
    everyone = {gpu for members in gpus for gpu in members}
    for gpu in stragglers:
        if gpu not in everyone:
            raise InputError(f"straggler: GPU {gpu} given; allowed: 0 to {max(everyone)}, those that work")
    factor = [max((stragglers.get(gpu, 1.0) for gpu in members), default=1.0) for members in gpus]
    factor += [1.0] * (graph.workers - len(factor))
    factors = [factor[worker] if worker >= 0 else 1.0 for worker in graph.worker]
    slower = [seconds * times for seconds, times in zip(graph.seconds, factors, strict=True)]
    tasks = zip(graph.operations, factors, strict=True)
    known = [
        own if times == 1 else NO_OPERATIONS for own, times in tasks
    ]  # the time of a slow task no longer follows from its FLOPs
    return replace(graph, seconds=slower, operations=known)


def with_slow_links(fabric: AnyFabric, slow: Mapping[str, float]) -> Fabric:
    """Return a copy of ``fabric`` in which some links are slower, in both directions.

    ``slow``: a dictionary from a link, such as ``"A-B"``, to the factor by which the bandwidth is divided.
    Raises `InputError` for a photonic fabric, whose circuits are planned, and for links that do not exist.
    """
    if not isinstance(fabric, Fabric):
        raise InputError(f"--slow-link: {next(iter(slow))} given; allowed: with electrical fabrics")
    links = list(fabric.links)
    for name, factor in slow.items():
        ends = ((f"{link.source}-{link.target}", f"{link.target}-{link.source}") for link in links)
        there = [n for n, names in enumerate(ends) if name in names]
        if not there:
            allowed = f"links of {fabric.name}, such as {links[0].source}-{links[0].target}"
            raise InputError(f"--slow-link: {show(name)} given; allowed: {allowed}")
        for n in there:
            links[n] = replace(links[n], bandwidth=links[n].bandwidth / factor)
    return replace(fabric, name=f"{fabric.name} with slow links", links=tuple(links))

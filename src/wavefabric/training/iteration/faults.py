"""GPUs that compute slower than others, and links that carry less: stragglers and slow links."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wavefabric.errors import InputError, show
from wavefabric.fabric import AnyFabric, Fabric
from wavefabric.training.iteration.task_graph import NO_OPERATIONS, TaskGraph


def parse_stragglers(text: str) -> dict[int, float]:
    """``GPU:FACTOR`` with commas between, such as ``5:1.5,9:2``: GPU 5 takes 1.5 times as long to compute."""
    result = {}
    for word, gpu, factor in _parts(text, "--straggler", "GPU:FACTOR, such as 5:1.5"):
        if not (gpu.isascii() and gpu.isdigit() and len(gpu) <= 9) or int(gpu) in result:
            raise InputError(f"--straggler: {word} given; allowed: GPU:FACTOR, such as 5:1.5, each GPU once")
        result[int(gpu)] = factor
    return result


def parse_slow_links(text: str) -> dict[str, float]:
    """``A-B:FACTOR`` with commas between, such as ``GPU0-switch:4``: that link is 4 times as slow."""
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
    """Tasks of which a worker computes as its slowest GPU does.

    A worker stands for GPUs that do the same. All that they do ends in calls with one another (of tensors,
    or of gradients), which wait for the slowest: so for one straggler the time is that of its own replica,
    exactly, but for calls of the other replicas that would be over earlier on links of both. Stragglers of
    several stages are taken to be in one replica: of more than one the time is an upper bound.

    ``gpus``: those of each worker. `InputError`: for a GPU that no worker has.
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
    ]  # what is slow takes longer than its work
    return replace(graph, seconds=slower, operations=known)


def with_slow_links(fabric: AnyFabric, slow: Mapping[str, float]) -> Fabric:
    """An electrical fabric with the links between two nodes (``"A-B"``) slower, in both directions.

    `InputError` for a photonic fabric, whose circuits are planned, and for nodes that no link joins.
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

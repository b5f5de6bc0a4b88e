"""Which GPU each rank takes: its own, or with as little traffic over slow links as a schedule allows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wavefabric.collectives import Schedule
from wavefabric.device import Device, get_device
from wavefabric.device.select import cuda_count
from wavefabric.errors import InputError
from wavefabric.exchange.launch import environment
from wavefabric.system.gpu_topology import GpuTopology

#: All placements are tried up to so many (8 ranks on 8 GPUs: 40320).
_EXACT = 50_000


def rank_device(device: str | Device | None, local_rank: int, placement: list[int] | None = None) -> Device:
    """The device of a rank: for None, ``"auto"`` and ``"cuda"`` a GPU of its own.

    That is the one that ``placement`` names for its rank on this host, or GPU r for rank r, starting again
    when there are no more; where there is none, the CPU (not for ``"cuda"``). Others are taken as they are.
    """
    if device not in (None, "auto", "cuda"):
        return get_device(device) if isinstance(device, str) else device  # type: ignore[return-value]
    gpus = cuda_count()
    if not gpus:
        return get_device("cuda") if device == "cuda" else get_device("cpu", environment.threads() or 1)
    if placement is None:
        return get_device(f"cuda:{local_rank % gpus}")
    if local_rank >= len(placement):
        raise InputError(f"placement: {len(placement)} GPUs for {local_rank + 1} or more ranks of this host")
    return get_device(f"cuda:{placement[local_rank]}")


def traffic(schedule: Schedule, itemsize: int = 1) -> np.ndarray:
    """Bytes (elements by default) from rank to rank in one run of a schedule, shape (ranks, ranks)."""
    total = np.zeros((schedule.ranks, schedule.ranks), np.int64)
    for transfer in schedule.transfers:
        source, first = int(transfer["src"]), int(transfer["src_chunk"])
        sizes = schedule.sizes[transfer["src_buffer"]][source]
        moved = int(sizes[first : first + int(transfer["count"])].sum())
        total[source, transfer["dst"]] += moved * itemsize
    np.fill_diagonal(total, 0)
    return total


def message_counts(schedule: Schedule) -> np.ndarray:
    """Messages from rank to rank in one run of a schedule, shape (ranks, ranks); both directions count."""
    total = np.zeros((schedule.ranks, schedule.ranks), np.int64)
    np.add.at(total, (schedule.transfers["src"], schedule.transfers["dst"]), 1)
    np.fill_diagonal(total, 0)
    return total


def crossings(counts: np.ndarray, topology: GpuTopology, gpus: list[int]) -> dict[str, int]:
    """What of ``counts``, shape (ranks, ranks), goes over each class of links, slow ones first."""
    used = topology.only(gpus)
    links = np.array(used.links)
    return {name: int(counts[links == name].sum()) for name in topology.classes}


@dataclass(frozen=True)
class Placement:
    """GPU of each rank, and what crosses the slowest links."""

    gpus: list[int]
    #: Class of the slowest links of the host; empty if it has one GPU.
    slowest: str
    #: Messages over links of that class, in both directions: here, and in the worst placement found.
    crossing: int
    worst: int
    #: Whether all placements were compared.
    exact: bool

    def __str__(self) -> str:
        text = f"placement: {' '.join(map(str, self.gpus))}"
        if self.slowest:
            text += f"; messages over the slowest links ({self.slowest}): {self.crossing}"
            text += f" (worst case {self.worst})"
        return text


def best_placement(schedule: Schedule, topology: GpuTopology) -> Placement:
    """The placement that sends the least data over the slowest links, then over the next class, and so on.

    All placements are compared for up to 8 ranks on 8 GPUs; beyond, ranks are placed greedily and then
    swapped while that helps. Of equally good ones the first in order of numbers is taken, so that all ranks
    agree. `InputError` if there are fewer GPUs than ranks.
    """
    ranks = schedule.ranks
    if ranks > topology.gpus:
        raise InputError(f"placement: {ranks} ranks on {topology.gpus} GPUs; allowed: a GPU for each rank")
    moved, counted = traffic(schedule), message_counts(schedule)
    exact = math.perm(topology.gpus, ranks) <= _EXACT
    search = _compare_all if exact else _search
    best, worst = search(moved, counted, topology)
    slowest = topology.classes[0] if topology.classes else ""
    count = {gpus: crossings(counted, topology, list(gpus)).get(slowest, 0) for gpus in (best, worst)}
    return Placement(list(best), slowest, count[best], count[worst], exact)


def _levels(topology: GpuTopology) -> np.ndarray:
    """Number of the class of each link, 0 for the slowest; the last number for a GPU with itself."""
    order = {name: number for number, name in enumerate(topology.classes)}
    return np.array([[order.get(link, len(order)) for link in row] for row in topology.links])


def _compare_all(moved, counted, topology: GpuTopology) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Best placement by bytes, and worst by messages over the slowest class."""
    levels = _levels(topology)
    tried = np.array(list(itertools.permutations(range(topology.gpus), len(moved))))
    costs = np.zeros((len(topology.classes), len(tried)), np.int64)
    worst = np.zeros(len(tried), np.int64)
    for a, b in zip(*np.nonzero(moved + counted), strict=True):
        level = levels[tried[:, a], tried[:, b]]
        for number in range(len(costs)):
            costs[number] += moved[a, b] * (level == number)
        worst += counted[a, b] * (level == 0)
    # lexsort takes its last key first; it is stable, so that the first of equals stays first.
    best = np.lexsort(costs[::-1])[0] if len(costs) else 0
    return tuple(map(int, tried[best])), tuple(map(int, tried[np.argmax(worst)]))


def _search(moved, counted, topology: GpuTopology) -> tuple[tuple[int, ...], tuple[int, ...]]:
    levels, classes = _levels(topology), len(topology.classes)
    both, number = moved + moved.T, counted + counted.T

    def bytes_by_class(gpus: list[int]) -> tuple[int, ...]:
        level = levels[np.ix_(gpus, gpus)]
        return tuple(int(both[level == c].sum()) for c in range(classes))

    def messages_not_over_slowest(gpus: list[int]) -> tuple[int, ...]:
        return (-int(number[levels[np.ix_(gpus, gpus)] == 0].sum()),)

    starts = [_greedy(both, levels, first) for first in range(topology.gpus)]
    starts.append(list(range(len(moved))))
    best = min(_improve(start, topology.gpus, bytes_by_class) for start in starts)
    # Every other GPU first: far apart on most hosts.
    scattered = [*range(0, topology.gpus, 2), *range(1, topology.gpus, 2)][: len(moved)]
    starts = [scattered, list(range(len(moved)))]
    worst = min(_improve(start, topology.gpus, messages_not_over_slowest) for start in starts)
    return tuple(best[1]), tuple(worst[1])


def _greedy(both, levels, first: int) -> list[int]:
    """Place the rank that talks most with those placed where that costs least, beginning on one GPU."""
    ranks, gpus = len(both), len(levels)
    placed = {int(np.argmax(both.sum(1))): first}
    while len(placed) < ranks:
        left = [rank for rank in range(ranks) if rank not in placed]
        rank = max(left, key=lambda rank: (sum(both[rank, other] for other in placed), -rank))

        def cost(gpu: int, rank: int = rank) -> tuple:
            pairs = [(int(levels[gpu, at]), int(both[rank, other])) for other, at in placed.items()]
            return *(sum(n for level, n in pairs if level == c) for c in range(levels.max())), gpu

        placed[rank] = min((gpu for gpu in range(gpus) if gpu not in placed.values()), key=cost)
    return [placed[rank] for rank in range(ranks)]


def _improve(
    gpus: list[int], total: int, cost: Callable[[list[int]], tuple[int, ...]]
) -> tuple[tuple[int, ...], list[int]]:
    """Swap two ranks, or move one to a free GPU, while that helps; the cost and the placement."""
    gpus, least = list(gpus), cost(gpus)
    better = True
    while better:
        better = False
        for a, gpu in itertools.product(range(len(gpus)), range(total)):
            trial = list(gpus)
            if gpu in trial:
                trial[trial.index(gpu)] = trial[a]
            trial[a] = gpu
            value = cost(trial)
            if value < least:
                gpus, least, better = trial, value, True
    return least, gpus

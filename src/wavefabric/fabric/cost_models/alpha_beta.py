"""The α–β model: rounds follow one another, each costs a latency and as long as its busiest resource."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import checked_structure
from wavefabric.fabric.bounds.bound import schedule_bound
from wavefabric.fabric.cost_models.local_work import issue_time, reduction_times
from wavefabric.fabric.cost_models.result import Cost, RoundCost, check_sizes
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.resources import resource_use, transfer_bytes

#: Entries of the table of loads that is kept at a time.
_TABLE = 2**22


def alpha_beta(schedule: Schedule, fabric: Fabric, element_bytes: float) -> Cost:
    """Time of a schedule whose rounds are synchronous.

    A round costs ``alpha``, the greatest latency of the routes it uses, and the transfer time: the greatest,
    over all resources, of the bytes that cross it in the round by its bandwidth. Resources are the links, in
    each direction; what each GPU sends and receives in all (`Fabric.copy_bandwidth`); and each ordered pair
    of GPUs (`Fabric.flow_bandwidth`). Rounds that stay within ranks cost nothing. On an ideal switch this is
    the model of Hockney 1994 (doi:10.1016/S0167-8191(06)80021-9).

    A fabric that was measured adds what GPUs need to reduce what arrived and to copy within themselves, also
    in rounds of their own, and takes no less time in all than hosts need to issue everything (`local_work`).

    Parameters
    ----------
    schedule : Schedule
        Rank r is GPU r.
    fabric : Fabric
    element_bytes : float
        B an element.

    Returns
    -------
    Cost
        `times` give each transfer from the beginning of its round to the end of it.

    Raises
    ------
    InputError
        If the schedule has more ranks than the fabric GPUs, or uses a pair with no route.

    Examples
    --------
    Around a ring of four, 3 rounds of 0.7 us and 1 MiB at 300 GiB/s:

    >>> from wavefabric.collectives import ring_all_gather
    >>> from wavefabric.fabric import load
    >>> from wavefabric.fabric.cost_models.alpha_beta import alpha_beta
    >>> time = alpha_beta(ring_all_gather([1] * 4), load("ring:4"), 2**20)
    >>> f"{time.seconds * 1e6:.3f} us, {time.rounds[0].limit}"
    '11.866 us, link GPU0 -> GPU1'
    """
    checked_structure(schedule)
    check_sizes(schedule, fabric, element_bytes)
    size = transfer_bytes(schedule, element_bytes)
    rounds, busiest = _communication(schedule, fabric, size)
    rounds = _with_reductions(rounds, schedule, fabric, size)
    seconds = rounds.latency + rounds.transfer
    end = np.concatenate(([0.0], np.cumsum(seconds)))
    issue, host = issue_time(schedule, fabric)
    columns = (rounds.numbers, seconds, rounds.latency, rounds.transfer, rounds.size, rounds.limits)
    return Cost(
        schedule=schedule.name,
        fabric=fabric.name,
        model="alpha-beta",
        seconds=max(float(end[-1]), issue),
        rounds=tuple(
            RoundCost(int(n), 1, float(s), float(a), 0.0, float(b), float(v), name)
            for n, s, a, b, v, name in zip(*columns, strict=True)
        ),
        bound=schedule_bound(schedule, fabric, element_bytes),
        times=_times(schedule.transfers["round"], rounds.numbers, end),
        busiest=busiest if issue <= end[-1] else f"host of {fabric.gpus[host]}",
    )


@dataclass(frozen=True, eq=False)
class _Rounds:
    """Rounds that cost something."""

    numbers: np.ndarray
    latency: np.ndarray  # s
    transfer: np.ndarray  # s
    size: np.ndarray  # B sent
    limits: list[str]  # what bounds each, in words


def _communication(schedule: Schedule, fabric: Fabric, size: np.ndarray) -> tuple[_Rounds, str]:
    """Rounds in which something moves between GPUs, and the resource that is used longest."""
    t, ranks = schedule.transfers, schedule.ranks
    remote = np.flatnonzero(t["src"] != t["dst"])
    if not remote.size:
        none = np.zeros(0)
        return _Rounds(none, none, none, none, []), "nothing"
    numbers, row = np.unique(t["round"][remote], return_inverse=True)
    rounds = numbers.size
    # Transfers of one pair in one round are one flow.
    pairs, pair = np.unique(t["src"][remote].astype(np.int64) * ranks + t["dst"][remote], return_inverse=True)
    flows, flow = np.unique(row * np.int64(pairs.size) + pair, return_inverse=True)
    flow_row, flow_pair = np.divmod(flows, pairs.size)
    flow_size = np.bincount(flow, size[remote])
    use = resource_use(fabric, *np.divmod(pairs, ranks))
    which, resource = use.of(flow_pair)
    loads = np.empty(rounds)
    most = np.empty(rounds, np.int64)
    busy = np.zeros(use.capacity.size)
    # A table of rounds by resources, some rounds at a time.
    block = max(_TABLE // use.capacity.size, 1)
    for begin in range(0, rounds, block):
        a, b = np.searchsorted(flow_row[which], (begin, begin + block))
        here = min(block, rounds - begin)
        cell = (flow_row[which[a:b]] - begin) * use.capacity.size + resource[a:b]
        load = np.bincount(cell, flow_size[which[a:b]], here * use.capacity.size).reshape(here, -1)
        load /= use.capacity
        most[begin : begin + here] = load.argmax(axis=1)
        loads[begin : begin + here] = load.max(axis=1)
        busy += load.sum(axis=0)
    limits = [use.name(int(r)) for r in most]
    if fabric.flow_bandwidth is not None:
        slowest = np.zeros(rounds)
        np.maximum.at(slowest, flow_row, flow_size / fabric.flow_bandwidth)
        largest = np.lexsort((-flow_size, flow_row))[np.searchsorted(flow_row, np.arange(rounds))]
        for i in np.flatnonzero(slowest > loads):
            src, dst = divmod(int(pairs[flow_pair[largest[i]]]), ranks)
            limits[i] = f"one transfer {fabric.gpus[src]} -> {fabric.gpus[dst]}"
        loads = np.maximum(loads, slowest)
    latency = np.zeros(rounds)
    np.maximum.at(latency, flow_row, use.latency[flow_pair])
    total = np.bincount(row, size[remote], rounds)
    return _Rounds(numbers, fabric.alpha + latency, loads, total, limits), use.name(int(busy.argmax()))


def _with_reductions(moving: _Rounds, schedule: Schedule, fabric: Fabric, size: np.ndarray) -> _Rounds:
    """The same, with what GPUs add or copy at the end of rounds, and rounds that do only that."""
    reducing, latency, seconds, gpu = reduction_times(schedule, fabric, size)
    if not reducing.size:
        return moving
    every = np.union1d(moving.numbers, reducing).astype(np.int64)
    at, there = np.searchsorted(every, moving.numbers), np.searchsorted(every, reducing)
    columns = np.zeros((3, every.size))
    columns[:, at] = moving.latency, moving.transfer, moving.size
    columns[0, there] += latency
    columns[1, there] += seconds
    limits = dict(zip(at.tolist(), moving.limits, strict=True))
    for i, g in zip(there.tolist(), gpu.tolist(), strict=True):
        limits.setdefault(i, f"{fabric.gpus[g]} adds")
    return _Rounds(every, columns[0], columns[1], columns[2], [limits[i] for i in range(every.size)])


def _times(rounds: np.ndarray, numbers: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Begin and end of each transfer's round; a round that costs nothing lies at the end of the last."""
    return np.stack([end[np.searchsorted(numbers, rounds, side)] for side in ("left", "right")], axis=1)

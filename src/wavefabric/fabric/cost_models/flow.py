"""Transfers as flows: each starts when its data are there, and shares what it crosses fairly.

The simulation itself, and max–min fair shares (Bertsekas & Gallager, *Data Networks*, 2nd ed., section
6.5.2), are ``flow.cpp`` of `wavefabric.kernels`.
"""

from typing import NamedTuple

import numpy as np

from wavefabric.collectives.levels import dependencies
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import issuers, units
from wavefabric.fabric.bounds.bound import bounds
from wavefabric.fabric.cost_models.alpha_beta import issue_time, works_alone
from wavefabric.fabric.cost_models.cost import Cost, check_sizes
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.flows import flows
from wavefabric.fabric.electrical.static_routes import ResourceUse, transfer_bytes
from wavefabric.kernels.cpu_launch import call_kernel
from wavefabric.quantities import whole


class Transfers(NamedTuple):
    """What is moved: arrays with an element for each transfer, but `after`."""

    src: np.ndarray
    dst: np.ndarray
    pair: np.ndarray  # of `SharedLinks`; −1: within a rank
    size: np.ndarray  # B
    delay: np.ndarray  # s before the first byte
    work: np.ndarray  # s that the receiver takes to add it up, or a rank to copy
    follows: np.ndarray  # transfer before it from the same rank to the same, −1: none
    first_after: np.ndarray  # successors of transfer t: after[first_after[t]:first_after[t + 1]]
    after: np.ndarray


class SharedLinks(NamedTuple):
    """Resources, such as links, that pairs of ranks share.

    Pair p uses ``resource[first[p]:first[p + 1]]``; ``fraction`` is the part of its bytes that crosses each.
    """

    first: np.ndarray
    resource: np.ndarray
    fraction: np.ndarray  # of the pair's bytes, as `resource`
    capacity: np.ndarray  # B/s of each resource
    most: float  # B/s of one transfer


_DOUBLE = ("size", "delay", "work", "fraction", "capacity")


def flow(schedule: Schedule, fabric: Fabric, element_bytes: float, *, engines: int | None = None) -> Cost:
    """Time of a schedule whose transfers wait for their data alone, not for rounds.

    A transfer is ready when all transfers are done that wrote what it reads, or read or wrote what it writes
    (`dependencies`). It waits `Fabric.alpha` and the latency of its route, then moves, split over parallel
    switches in fixed proportions. What moves at the same
    time gets max–min fair shares of the links in each direction and of what each GPU sends and receives in
    all, and no more than `Fabric.flow_bandwidth`. Shares change when a transfer starts or ends.
    A later transfer may thus slow one down that others wait for, and the whole take longer than in rounds.

    Transfers from one rank to the same other keep their order in the schedule, as messages do: each moves
    when the one before it has arrived, though its latency may pass meanwhile. Copies and sums within a rank
    take no time, unless the fabric has a `reduce_bandwidth`; then a GPU does one after the other.

    At most `engines` transfers leave a GPU at once; others wait, first come, first served (of those that come
    together the first in the schedule goes first). By default any number do. `rounds` is empty. `times` give
    for each transfer when its latency began (of one that had to queue, as if it began so as to end when it
    moved), and when its data, with their sum, were there.
    """
    check_sizes(schedule, fabric, element_bytes)
    at_once = 0 if engines is None else whole("engines", engines, 1)
    size = transfer_bytes(schedule, element_bytes)
    over = flows(schedule, fabric)
    use, remote = over.use, over.route >= 0
    seconds, times = _simulate(schedule, fabric, size, over.route, use, at_once)
    u = units(schedule)
    times = times[u.first[u.of]]
    busy = use.seconds(np.bincount(over.route[remote], size[remote], use.latency.size))
    busiest = use.name(int(np.argmax(busy))) if remote.any() else "nothing"
    least, unaided = bounds(schedule, fabric, element_bytes)
    issuing, host = issue_time(schedule, fabric)
    if issuing > seconds:
        seconds, busiest = issuing, f"host of {fabric.gpus[host]}"
    return Cost(schedule.name, fabric.name, "flow", seconds, (), least, times, busiest, unaided)


def _simulate(
    schedule: Schedule, fabric: Fabric, size: np.ndarray, pair: np.ndarray, use: ResourceUse, engines: int
) -> tuple[float, np.ndarray]:
    """s of the whole, and when transfers begin and end; `pair`: of each transfer, −1 within a rank."""
    t = schedule.transfers
    times = np.zeros((t.size, 2))
    first, then = dependencies(schedule)
    delay, work = np.zeros((2, t.size))
    delay[pair >= 0] = fabric.alpha + use.latency[pair[pair >= 0]]
    if fabric.reduce_bandwidth is not None:
        work = np.where(works_alone(schedule), fabric.reduce_alpha + size / fabric.reduce_bandwidth, 0.0)
    # The transfer before each from the same rank to the same.
    follows = np.full(t.size, -1, np.int64)
    order = np.argsort(pair, kind="stable")
    before, after = order[:-1], order[1:]
    same = (pair[before] == pair[after]) & (pair[after] >= 0)
    follows[after[same]] = before[same]
    ends = issuers(schedule), t["dst"].astype(np.int64)
    first_after = np.searchsorted(first, np.arange(t.size + 1))
    transfers = Transfers(*ends, pair, size, delay, work, follows, first_after, then)
    most = np.inf if fabric.flow_bandwidth is None else fabric.flow_bandwidth
    each = np.searchsorted(use.pair, np.arange(use.latency.size + 1))
    groups = transfers, SharedLinks(each, use.resource, use.fraction, use.capacity, most)
    waits = np.bincount(then, minlength=t.size)  # written on the way
    seconds, success = np.zeros(1), np.zeros(1, np.bool_)
    results, inputs = (times, seconds, success), tuple(map(_typed, groups))
    call_kernel("simulate_double", inputs, waits, schedule.ranks, engines, *results)
    if not success[0]:
        raise MemoryError("a simulation of flows")
    return float(seconds[0]), times


def _typed(group):
    """Return the same with arrays as the kernel reads them."""
    arrays = {name: value for name, value in group._asdict().items() if isinstance(value, np.ndarray)}
    kinds = {name: np.float64 if name in _DOUBLE else np.int64 for name in arrays}
    return group._replace(**{name: np.ascontiguousarray(arrays[name], kinds[name]) for name in arrays})

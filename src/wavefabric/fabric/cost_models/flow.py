"""Simulates transfers as flows: each starts once its data are ready, and shares links fairly with others.

The simulation itself, with max–min fair shares (Bertsekas & Gallager, *Data Networks*, 2nd ed., section
6.5.2), is ``flow.cpp`` of `wavefabric.runtime.kernels`.
"""

from typing import NamedTuple

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.collectives.levels import dependencies
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import issuers, units
from wavefabric.fabric.bounds.bound import bounds
from wavefabric.fabric.cost_models.alpha_beta import issue_time, works_alone
from wavefabric.fabric.cost_models.cost import Cost, check_sizes
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.flows import flows
from wavefabric.fabric.electrical.static_routes import ResourceUse, transfer_bytes
from wavefabric.runtime.kernels.cpu_launch import call_kernel


class Transfers(NamedTuple):
    """Holds the transfers of a schedule: one element each in all arrays but ``after``, all successors."""

    src: np.ndarray
    dst: np.ndarray
    pair: np.ndarray  # index in `SharedLinks`; −1: within a rank
    size: np.ndarray  # B
    delay: np.ndarray  # s before the first byte
    work: np.ndarray  # s that the receiver needs to add the data, or a rank to copy them
    follows: np.ndarray  # previous transfer between the same ranks, −1: none
    first_after: np.ndarray  # successors of transfer t: after[first_after[t]:first_after[t + 1]]
    after: np.ndarray


class SharedLinks(NamedTuple):
    """Holds which resources (links, ports of GPUs) the pairs of ranks use, and how fast these are.

    Pair p uses the resources ``resource[first[p]:first[p + 1]]``. The same part of ``fraction`` tells which
    fraction of the pair's bytes crosses each of them.
    """

    first: np.ndarray
    resource: np.ndarray
    fraction: np.ndarray  # one element per element of `resource`
    capacity: np.ndarray  # B/s of each resource
    most: float  # B/s of one transfer


_DOUBLE = ("size", "delay", "work", "fraction", "capacity")


def flow(schedule: Schedule, fabric: Fabric, element_bytes: float, *, engines: int | None = None) -> Cost:
    """Simulate a schedule whose transfers wait only for their data, not for rounds, and return its time.

    A transfer is ready once all transfers that wrote its input, or that read or wrote its output, are done
    (`dependencies`). It waits for `Fabric.alpha` and the latency of its route, then moves, split over
    parallel switches in fixed proportions. Concurrent transfers get max–min fair shares of the links in each
    direction and of each GPU's total send and receive rates, up to `Fabric.flow_bandwidth`. Shares change
    when a transfer starts or ends. A transfer may thus slow down an earlier one that others wait for, and the
    schedule may take longer than in rounds.

    Transfers between the same two ranks keep their order in the schedule, as messages do: each moves after
    the previous one has arrived, but its latency may pass meanwhile. Copies and sums within a rank take no
    time, unless the fabric has a `reduce_bandwidth`; then a GPU performs one after the other.

    At most ``engines`` transfers leave a GPU at once, by default any number. The others queue in the order in
    which they become ready, then in the order of the schedule. `Cost.rounds` is empty. `Cost.times` gives for
    each transfer when its latency began, and when its data had arrived and been summed. The latency of a
    transfer that queued counts as passing just before it moves.
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
    """Return the total time in s, and the begin and end of each transfer in s: shape (transfers, 2).

    ``pair``: number of each transfer's route in ``use``, −1 for transfers without one, such as within a rank.
    ``engines``: largest number of transfers that leave a GPU at once; 0: no limit.
    """
    t = schedule.transfers
    times = np.zeros((t.size, 2))
    first, then = dependencies(schedule)
    delay, work = np.zeros((2, t.size))
    delay[pair >= 0] = fabric.alpha + use.latency[pair[pair >= 0]]
    if fabric.reduce_bandwidth is not None:
        work = np.where(works_alone(schedule), fabric.reduce_alpha + size / fabric.reduce_bandwidth, 0.0)
    # Previous transfer between the same ranks.
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
    waits = np.bincount(then, minlength=t.size)  # the kernel writes into it
    seconds, success = np.zeros(1), np.zeros(1, np.bool_)
    results, inputs = (times, seconds, success), tuple(map(_typed, groups))
    call_kernel("simulate_double", inputs, waits, schedule.ranks, engines, *results)
    if not success[0]:
        raise MemoryError("a simulation of flows")
    return float(seconds[0]), times


def _typed(group):
    """Return a `Transfers` or `SharedLinks` with its arrays in the element types that ``flow.cpp`` reads."""
    arrays = {name: value for name, value in group._asdict().items() if isinstance(value, np.ndarray)}
    kinds = {name: np.float64 if name in _DOUBLE else np.int64 for name in arrays}
    return group._replace(**{name: np.ascontiguousarray(arrays[name], kinds[name]) for name in arrays})

"""Predicts times by the α–β model: each round takes a latency plus the time of its busiest link or port."""

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import issuers, units
from wavefabric.fabric.bounds.bound import bounds
from wavefabric.fabric.cost_models.cost import Cost, RoundCost, check_sizes
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.flows import flows
from wavefabric.fabric.electrical.static_routes import transfer_bytes


def alpha_beta(schedule: Schedule, fabric: Fabric, element_bytes: float) -> Cost:
    """Return the time of a schedule whose rounds run one after the other, each begun by all ranks together.

    A round takes ``alpha``, plus the largest latency of the routes in use, plus the transfer time of the
    busiest resource: the bytes that cross the resource in the round ÷ its bandwidth. Resources are the links,
    in each direction; the total send and receive rates of each GPU (`Fabric.copy_bandwidth`); and each
    ordered pair of GPUs (`Fabric.flow_bandwidth`). On an ideal switch this is the model of Hockney 1994
    (doi:10.1016/S0167-8191(06)80021-9). A multicast or sum in a switch crosses each link of its routes once.

    A measured fabric adds the time in which GPUs add received data and copy within themselves, which may take
    rounds of its own. Its total is at least the time that the hosts need to issue all operations
    (`issue_time`). `Cost.times` gives for each transfer the begin and end of its round.
    """
    check_sizes(schedule, fabric, element_bytes)
    size = transfer_bytes(schedule, element_bytes)
    numbers, latency, transfer, sent, limits, busiest = _rounds(schedule, fabric, size)
    seconds = latency + transfer
    end = np.concatenate(([0.0], np.cumsum(seconds)))
    # A round without cost lies at the end of the previous round.
    times = [end[np.searchsorted(numbers, schedule.transfers["round"], side)] for side in ("left", "right")]
    issue, host = issue_time(schedule, fabric)
    columns = zip(*(c.tolist() for c in (numbers, seconds, latency, transfer, sent, limits)), strict=True)
    least, unaided = bounds(schedule, fabric, element_bytes)
    return Cost(
        schedule.name,
        fabric.name,
        "alpha-beta",
        seconds=max(float(end[-1]), issue),
        rounds=tuple(RoundCost(n, 1, s, a, 0.0, b, v, w) for n, s, a, b, v, w in columns),
        bound=least,
        unaided=unaided,
        times=np.stack(times, axis=1),
        busiest=busiest if issue <= end[-1] else f"host of {fabric.gpus[host]}",
    )


def alpha_beta_seconds(schedule: Schedule, fabric: Fabric, element_bytes: float) -> float:
    """Return the time in s that `alpha_beta` predicts for a schedule, without the details of a `Cost`."""
    check_sizes(schedule, fabric, element_bytes)
    _, latency, transfer, *_ = _rounds(schedule, fabric, transfer_bytes(schedule, element_bytes))
    return max(float((latency + transfer).sum()), issue_time(schedule, fabric)[0])


def _rounds(schedule: Schedule, fabric: Fabric, size: np.ndarray) -> tuple:
    """Return the costs of the rounds that take time, and the description of the busiest resource.

    ``size``: bytes of each transfer. The costs are five arrays with one element per round: the round's
    number, latency in s, transfer time in s, bytes sent, and description of its bottleneck.
    """
    t, busiest = schedule.transfers, "nothing"
    over = flows(schedule, fabric)
    remote = np.flatnonzero(over.route >= 0)
    reducing, starts, sums, gpu = reduction_times(schedule, fabric, size)
    numbers = np.union1d(t["round"][remote], reducing).astype(np.int64)
    latency, transfer, sent = np.zeros((3, numbers.size))
    limits = np.full(numbers.size, "", object)
    there = np.searchsorted(numbers, reducing)
    limits[there] = [f"{fabric.gpus[g]} adds" for g in gpu]
    if remote.size:
        row, u = np.searchsorted(numbers, t["round"][remote]), units(schedule)
        # Count the bytes of all senders of a sum in a switch.
        away = np.bincount(u.of, t["src"] != t["dst"], u.sums.size)
        senders = np.where(u.sums, away, 1)[u.of]
        sent = np.bincount(row, size[remote] * senders[remote], numbers.size)
        # Transfers of one pair in one round are one flow.
        use = over.use
        joined, flow = np.unique(row * np.int64(use.latency.size) + over.route[remote], return_inverse=True)
        flow_row, flow_route = np.divmod(joined, use.latency.size)
        flow_size = np.bincount(flow, size[remote])
        which, resource, fraction = use.of(flow_route)
        cells, cell = np.unique(flow_row[which] * use.capacity.size + resource, return_inverse=True)
        cell_row, cell_resource = np.divmod(cells, use.capacity.size)
        load = np.bincount(cell, flow_size[which] * fraction) / use.capacity[cell_resource]
        busiest = use.name(int(np.bincount(cell_resource, load).argmax()))
        moving = np.unique(row)
        most = _largest(cell_row, load)
        transfer[moving] = load[most]
        limits[moving] = [use.name(int(r)) for r in cell_resource[most]]
        if fabric.flow_bandwidth is not None:
            for i in _largest(flow_row, flow_size).tolist():
                alone, at = flow_size[i] / fabric.flow_bandwidth, int(flow_row[i])
                if alone > transfer[at]:
                    transfer[at] = alone
                    limits[at] = f"one transfer {over.words[flow_route[i]]}"
        np.maximum.at(latency, flow_row, use.latency[flow_route])
        latency[moving] += fabric.alpha
    latency[there] += starts
    transfer[there] += sums
    return numbers, latency, transfer, sent, limits, busiest


def _largest(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return, for each distinct value of ``rows`` (ascending), the index of the largest of its ``values``."""
    return np.lexsort((-values, rows))[np.flatnonzero(np.diff(rows, prepend=-1))]


def reduction_times(schedule: Schedule, fabric: Fabric, size: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return arrays on the rounds in which GPUs add or copy data: number, latency, duration, slowest GPU.

    Latency and duration are in s, of the slowest GPU. A GPU performs its additions and copies one after the
    other (`Fabric.reduce_alpha`, `Fabric.reduce_bandwidth`). Data to be added are first received beside the
    chunk, then added to it. A transfer within a rank is an addition or a copy. A sum formed by a switch is
    added to a chunk once.
    """
    t = schedule.transfers
    mine = np.flatnonzero(works_alone(schedule))
    if fabric.reduce_bandwidth is None or not mine.size:
        return (np.zeros(0, np.int64),) * 4
    rounds, row = np.unique(t["round"][mine], return_inverse=True)
    cell, shape = row * schedule.ranks + t["dst"][mine], (rounds.size, schedule.ranks)
    latency = fabric.reduce_alpha * np.bincount(cell, minlength=np.prod(shape)).reshape(shape)
    seconds = np.bincount(cell, size[mine] / fabric.reduce_bandwidth, np.prod(shape)).reshape(shape)
    gpu = (latency + seconds).argmax(axis=1)
    at = np.arange(rounds.size), gpu
    return rounds, latency[at], seconds[at], gpu


def works_alone(schedule: Schedule) -> np.ndarray:
    """Return for each transfer whether the receiving GPU adds or copies data in its own memory."""
    t = schedule.transfers
    return (t["reduce"] & units(schedule).leads) | ((t["src"] == t["dst"]) & (t["switch"] == 0))


def issue_time(schedule: Schedule, fabric: Fabric) -> tuple[float, int]:
    """Return the shortest time in s in which hosts can issue a schedule, and the GPU of the slowest host.

    `Fabric.round_overhead` counts for each round in which a GPU sends or receives, `Fabric.peer_overhead` for
    each further GPU to which it sends in the round, and `Fabric.reduce_overhead` for each addition or copy.
    """
    t, ranks = schedule.transfers, schedule.ranks
    if not t.size or not (fabric.round_overhead or fabric.peer_overhead or fabric.reduce_overhead):
        return 0.0, 0
    remote = units(schedule).leads & ((t["src"] != t["dst"]) | (t["switch"] > 0))
    number, source = t["round"][remote].astype(np.int64), issuers(schedule)
    src, dst = source[remote], np.where(t["switch"] > 0, source, t["dst"])[remote]
    peers = np.unique((number * ranks + src) * ranks + dst) // ranks
    sending = np.unique(peers)
    taking_part = np.union1d(sending, number * ranks + dst)
    local = works_alone(schedule)
    seconds = fabric.round_overhead * np.bincount(taking_part % ranks, minlength=ranks)
    further = np.bincount(peers % ranks, minlength=ranks) - np.bincount(sending % ranks, minlength=ranks)
    seconds += fabric.peer_overhead * further
    seconds += fabric.reduce_overhead * np.bincount(t["dst"][local], minlength=ranks)
    return float(seconds.max()), int(seconds.argmax())

"""What no schedule can beat: the least number of rounds, and the bytes that must cross the tightest cut."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from wavefabric.collectives.conditions import COLLECTIVES, operation, whole_elements
from wavefabric.collectives.schedule import Schedule
from wavefabric.errors import choice, require
from wavefabric.fabric.bounds.cuts import as_electrical, bottleneck, port_rates, restrict, tightest_by_size
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import hop_counts
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.units import binary_bytes


@dataclass(frozen=True)
class LowerBound:
    """What no schedule for the same operation can beat, under the model it was derived for."""

    latency: float  # s, of the least number of rounds
    transfer: float  # s, of the bytes that must cross the tightest cut
    seconds: float  # the bound: the sum of the two, since no byte moves while a latency passes
    why: str  # in words


#: How many times the whole array is sent at least for each rank but one.
_COPIES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "broadcast": 1, "reduce": 1}
#: What switches spare GPUs: to send what they copy, to receive what they add up.
_AIDED = {
    "send": ("all-reduce", "all-gather", "broadcast"),
    "receive": ("all-reduce", "reduce-scatter", "reduce"),
}
#: Whose bottleneck is out of a set of GPUs, and whose into one.
_OUT_OF, _INTO = ("all-gather", "broadcast", "gather"), ("reduce-scatter", "reduce", "scatter")
#: s of transfers at least, and why.
_Need = tuple[float, str]


def bound(
    collective: str | Schedule,
    fabric: Fabric | PhotonicFabric,
    nbytes: float,
    *,
    ranks: int | None = None,
    root: int = 0,
    incremental: bool = False,
) -> LowerBound:
    """The least time of a collective operation (by name, or what a schedule does), whatever its schedule.

    `nbytes` of the whole array, as `elements` of `wavefabric.collectives.conditions.layout`. The first
    `ranks` GPUs take part. With `incremental` circuits may stay from round to round: only the first ones must
    be set up.

    *Latency*: a round reaches 1 + L times as many ranks at most if each sends to L at once, hence at least
    ⌈log_{1+L} N⌉ rounds. L is the number of ports of a photonic tile; on electrical fabrics any number of
    transfers may begin together: L = N − 1.

    *Transfer*: the greatest of

    - what each GPU must send and receive, by what it can (Thakur, Rabenseifner & Gropp 2005,
      doi:10.1177/1094342005051521), and what all must send, by what all can (an all-reduce without sums
      inside the network: 2 (N − 1) arrays in all, Patarasuk & Yuan 2009, doi:10.1016/j.jpdc.2008.09.002).
      Where switches multicast and reduce (`Fabric.multicast_switches`), what all send or receive together
      bounds nothing that they copy or add up;
    - the bottleneck cut (`cuts.bottleneck`; ForestColl, arXiv:2402.06787), for an all-to-all the tightest of
      `cuts.tightest_by_size`;
    - for an all-to-all, bytes times the least number of links on their route, by the bandwidth of all links.

    Examples
    --------
    >>> from wavefabric.fabric import load
    >>> from wavefabric.fabric.bounds.bound import bound
    >>> least = bound("all-gather", load("dgx-a100"), 342.857142857e6)
    >>> f"{least.transfer * 1e3:.3f} ms, {least.latency * 1e6:.1f} us"
    '1.000 ms, 0.7 us'
    """
    if isinstance(collective, Schedule):
        whole = whole_elements(collective)
        return schedule_bound(collective, fabric, nbytes / whole if whole else 0.0, incremental=incremental)
    choice("collective", collective, COLLECTIVES)
    n = fabric.ranks if ranks is None else ranks
    require(1 <= n <= fabric.ranks, "ranks", f"{n} given", f"1 to the {fabric.ranks} GPUs of {fabric.name}")
    require(0 <= root < n, "root", f"{root} given", f"0 to {n - 1}")
    return _total(fabric, *_named(collective, fabric, np.full(n, nbytes / n), nbytes, root), incremental)


def schedule_bound(
    schedule: Schedule, fabric: Fabric | PhotonicFabric, element_bytes: float, *, incremental: bool = False
) -> LowerBound:
    """The least time of whatever reaches a schedule's postconditions; see `bound`.

    Of a schedule that is no named operation: what each GPU must send and receive by itself.
    """
    of = operation(schedule)
    if of.collective == "custom":
        out, into = _custom(schedule, element_bytes)
        needs = _port_needs(_electrical(fabric, schedule.ranks), out, into) if into.any() else ()
        return _total(fabric, needs, 2, incremental)
    whole = float(of.counts.sum()) * element_bytes
    if of.counts.size % schedule.ranks:
        parts = np.full(schedule.ranks, whole / schedule.ranks)
    else:
        parts = of.counts.reshape(schedule.ranks, -1).sum(axis=1) * element_bytes
    return _total(fabric, *_named(of.collective, fabric, parts, whole, of.root or 0), incremental)


def bounds(schedule: Schedule, fabric: Fabric, element_bytes: float) -> tuple[LowerBound, LowerBound | None]:
    """`schedule_bound` on an electrical fabric, and without the help of its switches, if they give any."""
    least = schedule_bound(schedule, fabric, element_bytes)
    if not fabric.multicast_switches:
        return least, None
    return least, schedule_bound(schedule, replace(fabric, multicast_switches=()), element_bytes)


def _named(
    collective: str, fabric: Fabric | PhotonicFabric, parts: np.ndarray, whole: float, root: int
) -> tuple[Iterable[_Need], int]:
    """What a named operation needs, and how many ranks have a part in it; `parts`: B of each rank."""
    n = len(parts)
    needs = _needs(collective, _electrical(fabric, n), parts, whole, root) if n > 1 else ()
    if collective in ("gather", "scatter"):  # Ranks with an empty share have no part in it.
        n = 1 + int(np.count_nonzero(np.delete(parts, root)))
    return needs, n


def _total(
    fabric: Fabric | PhotonicFabric, needs: Iterable[_Need], ranks: int, incremental: bool
) -> LowerBound:
    """Latency of the fewest rounds after which data of one rank can have reached all, and of transfers."""
    transfer, why = max(needs, key=lambda need: need[0], default=(0.0, ""))
    if not transfer:
        return LowerBound(0.0, 0.0, 0.0, "nothing has to move")
    light = isinstance(fabric, PhotonicFabric)
    at_once = fabric.ports if light else max(ranks - 1, 1)
    rounds, reached = 0, 1
    while reached < ranks:
        rounds, reached = rounds + 1, reached * (1 + at_once)
    latency = rounds * fabric.alpha
    if light:
        latency += rounds * fabric.synchronisation
        latency += (min(rounds, 1) if incremental else rounds) * fabric.reconfiguration
    words = f"{rounds} {'round' if rounds == 1 else 'rounds'} at least; {why}"
    return LowerBound(latency, transfer, latency + transfer, words)


@lru_cache(maxsize=8)
def _electrical(fabric: Fabric | PhotonicFabric, ranks: int) -> Fabric:
    electrical = as_electrical(fabric) if isinstance(fabric, PhotonicFabric) else fabric
    return restrict(electrical, ranks) if ranks < fabric.ranks else electrical


def _port_needs(fabric: Fabric, out: np.ndarray, into: np.ndarray) -> Iterator[_Need]:
    """What the GPU that is slowest to send, and to receive, its bytes needs."""
    for verb, amount, rate in zip(("sends", "receives"), (out, into), port_rates(fabric), strict=True):
        times = amount / rate
        g = int(np.argmax(times))
        yield float(times[g]), f"{fabric.gpus[g]} {verb} at least {binary_bytes(amount[g])}"


def _needs(collective: str, fabric: Fabric, parts: np.ndarray, whole: float, root: int) -> Iterator[_Need]:
    n = len(parts)
    ranks = np.arange(n)
    each, others = (1, parts), (n - 1, whole - parts)
    ends = (_across(collective, each, others, ranks == root, whole, into) for into in (False, True))
    yield from _port_needs(fabric, *(np.broadcast_to(amount, n) for amount in ends))
    copies = _COPIES.get(collective, 0) * (n - 1) * whole
    for verb, rate in zip(("send", "receive"), port_rates(fabric), strict=True):
        if fabric.multicast_switches and collective in _AIDED[verb]:
            continue
        yield copies / float(rate.sum()), f"all GPUs together {verb} at least {binary_bytes(copies)}"
    # Shares of a cut array differ by an element or so: the smallest counts, so that this stays a bound.
    part = float(parts.min())
    for gpus, capacity, reverse in _cuts(collective, fabric, root):
        inside, outside = ((count, count * part) for count in (len(gpus), n - len(gpus)))
        amount = float(_across(collective, inside, outside, root in gpus, whole, reverse))
        why = f"{binary_bytes(amount)} {'into' if reverse else 'out of'} {_some(fabric, gpus)}"
        yield float(amount / capacity) if capacity else np.inf, why
    if collective == "all-to-all":
        apart, bandwidth = hop_counts(fabric)
        crossed = float(apart.sum()) * part
        yield crossed / bandwidth, f"{binary_bytes(crossed)} over all links together"


def _cuts(collective: str, fabric: Fabric, root: int) -> Iterator[tuple[frozenset[int], float, bool]]:
    """GPUs, capacity in B/s, and whether that is into them."""
    if collective != "all-to-all":
        roots = None
        if not collective.startswith(("all-gather", "reduce-")):
            at_root = collective in ("broadcast", "reduce", "all-reduce")
            roots = tuple(r for r in range(fabric.ranks) if (r == root) == at_root)
        for into, names in ((False, _OUT_OF), (True, _INTO)):
            # All of an all-reduce's array has to leave every set with one GPU, and to enter it.
            if collective in (*names, "all-reduce"):
                cut = bottleneck(fabric, into, roots)
                yield cut.gpus, cut.capacity, into
    for gpus, out, into in tightest_by_size(fabric):
        yield gpus, out, False
        yield gpus, into, True


def _across(collective: str, inside, outside, has_root, whole: float, reverse: bool):
    """B that must leave a set of GPUs, or enter it; of inside and outside: number of GPUs, B of their shares.

    Arrays give many sets at once.
    """
    # Of what must enter a set, all is what must leave the others.
    if reverse:
        inside, outside, has_root = outside, inside, np.logical_not(has_root)
    has_none = np.logical_not(has_root)
    amounts = {
        "all-gather": inside[1],
        "reduce-scatter": outside[1],
        "all-reduce": whole,
        "all-to-all": inside[0] * outside[1],
        "broadcast": whole * has_root,
        "reduce": whole * has_none,
        "gather": inside[1] * has_none,
        "scatter": outside[1] * has_root,
    }
    return amounts[collective]


def _custom(schedule: Schedule, element_bytes: float) -> tuple[np.ndarray, np.ndarray]:
    """B that each rank sends and receives: the items of which it lacks a part; who alone has a part sends."""
    parts: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))  # whose of an item a rank has
    for (rank, _, _), (item, origins) in schedule.pre.items():
        parts[item][rank] |= origins
    sent: dict[tuple[int, int], float] = {}  # of rank and item; the first chunk counts
    received: dict[tuple[int, int], float] = {}
    for (rank, buffer, chunk), (item, origins) in schedule.post.items():
        lacks = origins & ~parts[item][rank]
        if not lacks:
            continue
        size = float(schedule.sizes[buffer][rank, chunk]) * element_bytes
        received.setdefault((rank, item), size)
        once = twice = 0
        for held in parts[item].values():
            once, twice = once | held, twice | once & held
        for holder, held in parts[item].items():
            if held & lacks & once & ~twice:
                sent.setdefault((holder, item), size)
    out, into = (
        np.bincount([rank for rank, _ in each], list(each.values()), schedule.ranks)
        for each in (sent, received)
    )
    return out, into


def _some(fabric: Fabric, gpus: frozenset[int]) -> str:
    n = fabric.ranks
    if len(gpus) == n - 1:
        (one,) = frozenset(range(n)) - gpus
        return f"all GPUs but {fabric.gpus[one]}"
    if len(gpus) <= 3:
        return ", ".join(fabric.gpus[g] for g in sorted(gpus))
    return f"{len(gpus)} GPUs ({fabric.gpus[min(gpus)]}, …)"

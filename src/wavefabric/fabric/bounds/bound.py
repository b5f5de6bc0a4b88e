"""Computes lower bounds on the time of collective operations: fewest rounds, bytes over the tightest cut."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np

from wavefabric.base.errors import choice, ensure
from wavefabric.base.units import binary_bytes
from wavefabric.collectives.conditions import COLLECTIVES, operation, whole_elements
from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.bounds.cuts import as_electrical, bottleneck, port_rates, restrict, tightest_by_size
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import hop_counts
from wavefabric.fabric.photonic.fabric import PhotonicFabric


@dataclass(frozen=True)
class LowerBound:
    """Holds a lower bound on the time of an operation on a fabric, whatever the schedule."""

    latency: float  # s, of the smallest number of rounds
    transfer: float  # s, for the bytes that must cross the tightest cut
    seconds: float  # the bound: the sum of the two, since no byte moves while a latency passes
    why: str  # explanation in words


#: Smallest number of times that the whole array is sent, per rank beyond the first.
_COPIES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "broadcast": 1, "reduce": 1}
#: Operations in which multicast saves sends, and in-switch reduction saves receives.
_AIDED = {
    "send": ("all-reduce", "all-gather", "broadcast"),
    "receive": ("all-reduce", "reduce-scatter", "reduce"),
}
#: Operations whose bottleneck is the capacity out of a set of GPUs, and those with the capacity into one.
_OUT_OF, _INTO = ("all-gather", "broadcast", "gather"), ("reduce-scatter", "reduce", "scatter")
#: Lower bound of the transfer time in s, and the reason.
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
    """Return a lower bound on the time of a collective operation, given by name or by a schedule for it.

    ``nbytes`` is the size of the whole array: the data of all ranks for an all-gather, gather or scatter,
    else the data of one rank. The first ``ranks`` GPUs take part; their number is N below. On a photonic
    fabric circuits are set up in every round or, with ``incremental``, only in the first, because they may
    stay up.

    *Latency*: at least ⌈log_{1+L} N⌉ rounds. If a rank can send to L others at once, a round multiplies the
    number of ranks reached by at most 1 + L. L is the number of ports of a photonic tile. On electrical
    fabrics it is N − 1, because any number of transfers may begin together.

    *Transfer*: the largest of these times:

    - the bytes that one GPU must send, or receive, ÷ its bandwidth (Thakur, Rabenseifner & Gropp 2005,
      doi:10.1177/1094342005051521);
    - the bytes that all GPUs must send, or receive, ÷ their total bandwidth. For an all-reduce without sums
      inside the network these are 2 (N − 1) arrays (Patarasuk & Yuan 2009, doi:10.1016/j.jpdc.2008.09.002).
      If switches multicast and reduce (`Fabric.multicast_switches`), this is no bound for data that they copy
      or add up;
    - the bytes that must leave, or enter, a set of GPUs ÷ the bandwidth out of, or into, the set. The sets
      are those of `cuts.tightest_by_size` and, except for an all-to-all, `cuts.bottleneck` (ForestColl,
      arXiv:2402.06787);
    - for an all-to-all, bytes × fewest links between sender and receiver, summed over all pairs, ÷ total
      bandwidth of all links.

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
    ensure(1 <= n <= fabric.ranks, "ranks", f"{n} given", f"1 to the {fabric.ranks} GPUs of {fabric.name}")
    ensure(0 <= root < n, "root", f"{root} given", f"0 to {n - 1}")
    return _total(fabric, *_named(collective, fabric, np.full(n, nbytes / n), nbytes, root), incremental)


def schedule_bound(
    schedule: Schedule, fabric: Fabric | PhotonicFabric, element_bytes: float, *, incremental: bool = False
) -> LowerBound:
    """Return a lower bound on the time of any schedule for the operation of ``schedule``; see `bound`.

    If it is none of the collective operations that have a name, the bound is the latency of one round plus
    the time of the GPU that takes longest to send, or to receive, the bytes that it must, or of the data of
    one GPU for one other that must cross a cut.
    """
    of = operation(schedule)
    if of.collective == "custom":
        electrical = _electrical(fabric, schedule.ranks)
        out, into, messages = _custom(schedule, element_bytes)
        needs = chain(_port_needs(electrical, out, into), _message_needs(electrical, messages))
        return _total(fabric, needs if into.any() else (), 2, incremental)
    whole = float(of.counts.sum()) * element_bytes
    if of.counts.size % schedule.ranks:
        parts = np.full(schedule.ranks, whole / schedule.ranks)
    else:
        parts = of.counts.reshape(schedule.ranks, -1).sum(axis=1) * element_bytes
    return _total(fabric, *_named(of.collective, fabric, parts, whole, of.root or 0), incremental)


def bounds(schedule: Schedule, fabric: Fabric, element_bytes: float) -> tuple[LowerBound, LowerBound | None]:
    """Return two lower bounds on the time: with the multicast switches of the fabric, and without them.

    Both are as in `schedule_bound`. The second is None if no switch of the fabric multicasts and reduces.
    """
    least = schedule_bound(schedule, fabric, element_bytes)
    if not fabric.multicast_switches:
        return least, None
    return least, schedule_bound(schedule, replace(fabric, multicast_switches=()), element_bytes)


def _named(
    collective: str, fabric: Fabric | PhotonicFabric, parts: np.ndarray, whole: float, root: int
) -> tuple[Iterable[_Need], int]:
    """Return lower bounds on the transfer time of an operation (s, reason), and the number of ranks in it.

    ``parts``: bytes of the part of the array that belongs to each rank; ``whole``: bytes of the whole array.
    Ranks with an empty part take no part in a gather or scatter.
    """
    n = len(parts)
    needs = _needs(collective, _electrical(fabric, n), parts, whole, root) if n > 1 else ()
    if collective in ("gather", "scatter"):  # Ranks with an empty part do not participate.
        n = 1 + int(np.count_nonzero(np.delete(parts, root)))
    return needs, n


def _total(
    fabric: Fabric | PhotonicFabric, needs: Iterable[_Need], ranks: int, incremental: bool
) -> LowerBound:
    """Return the lower bound on the total time: latency of the fewest rounds + largest of all transfer times.

    ``needs``: lower bounds on the transfer time in s, each with its reason; ``ranks``: how many take part.
    """
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
    """Yield the time in s of the GPU that takes longest to send, then of that which takes longest to receive.

    Each comes with its reason. ``out`` and ``into``: bytes that each GPU must send, and receive.
    """
    for verb, amount, rate in zip(("sends", "receives"), (out, into), port_rates(fabric), strict=True):
        times = amount / rate
        g = int(np.argmax(times))
        yield float(times[g]), f"{fabric.gpus[g]} {verb} at least {binary_bytes(amount[g])}"


def _message_needs(fabric: Fabric, messages: np.ndarray) -> Iterator[_Need]:
    """Yield the time in s that each cut takes for ``messages[a, b]`` bytes from GPU a to b, and why."""
    for gpus, out, into in tightest_by_size(fabric):
        inside = np.isin(np.arange(len(messages)), list(gpus))
        for word, rate, amount in (
            ("out of", out, messages[inside][:, ~inside].sum()),
            ("into", into, messages[~inside][:, inside].sum()),
        ):
            why = f"{binary_bytes(amount)} {word} {_some(fabric, gpus)}"
            yield float(amount / rate) if rate else np.inf, why


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
    # Parts of an array differ by an element or so; the smallest part gives a valid bound.
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
    """Yield the cuts to compare for an operation as (set of GPUs, bandwidth in B/s, whether it is inwards).

    The bandwidth is that out of the set or, if inwards, from the other GPUs into the set.
    """
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
    """Return the bytes that must leave a set of GPUs in an operation or, with ``reverse``, enter the set.

    ``inside`` and ``outside`` describe the GPUs in the set and the others: (number of GPUs, bytes of their
    parts of the array). ``has_root``: whether the root is in the set; ``whole``: bytes of the whole array.
    With arrays many sets are evaluated at once.
    """
    # Bytes that enter a set leave its complement.
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


def _custom(schedule: Schedule, element_bytes: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the fewest bytes that each rank must send, and receive, in an operation without a name.

    The third array has the bytes from each rank to each of what one rank alone has and one alone needs.

    An item is a piece of data: a sum of contributions of ranks. A rank must receive an item if its result
    contains contributions that it does not hold at the beginning. A rank must send an item if another rank
    needs contributions that only it holds.
    """
    parts: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))  # item → rank → origins
    for (rank, _, _), (item, origins) in schedule.pre.items():
        parts[item][rank] |= origins
    sent: dict[tuple[int, int], float] = {}  # by rank and item; the first chunk counts
    received: dict[tuple[int, int], float] = {}
    takers: dict[int, set[int]] = defaultdict(set)
    for (rank, buffer, chunk), (item, origins) in schedule.post.items():
        lacks = origins & ~parts[item].get(rank, 0)
        if not lacks:
            continue
        size = float(schedule.sizes[buffer][rank, chunk]) * element_bytes
        received.setdefault((rank, item), size)
        takers[item].add(rank)
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
    messages = np.zeros((schedule.ranks, schedule.ranks))
    for (holder, item), size in sent.items():
        if len(takers[item]) == len(parts[item]) == 1:
            messages[holder, min(takers[item])] += size
    return out, into, messages


def _some(fabric: Fabric, gpus: frozenset[int]) -> str:
    n = fabric.ranks
    if len(gpus) == n - 1:
        (one,) = frozenset(range(n)) - gpus
        return f"all GPUs but {fabric.gpus[one]}"
    if len(gpus) <= 3:
        return ", ".join(fabric.gpus[g] for g in sorted(gpus))
    return f"{len(gpus)} GPUs ({fabric.gpus[min(gpus)]}, …)"

"""What no schedule can beat: the least number of rounds, and the bytes that must cross the tightest cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wavefabric.collectives.conditions import COLLECTIVES, operation, whole_elements
from wavefabric.collectives.schedule import Schedule
from wavefabric.errors import InputError
from wavefabric.fabric.bounds.cuts import as_electrical, bottleneck, port_rates, restrict, sampled
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.routing import hop_counts
from wavefabric.fabric.photonic.fabric import PhotonicFabric


@dataclass(frozen=True)
class LowerBound:
    """What no schedule for the same operation can beat, under the model it was derived for.

    Parameters
    ----------
    latency, transfer : float
        s: of the least number of rounds; of the bytes that must cross the tightest cut.
    seconds : float
        The bound: the sum of the two, since no byte moves while a latency passes.
    why : str
        In words.
    """

    latency: float
    transfer: float
    seconds: float
    why: str


def bound(
    collective: str | Schedule,
    fabric: Fabric | PhotonicFabric,
    nbytes: float,
    *,
    ranks: int | None = None,
    root: int = 0,
    incremental: bool = False,
) -> LowerBound:
    """The least time of a collective operation, whatever its schedule.

    Parameters
    ----------
    collective : str or Schedule
        Of `wavefabric.collectives.conditions.COLLECTIVES`; of a schedule, its pre- and postconditions count.
    fabric : Fabric or PhotonicFabric
    nbytes : float
        B of the whole array, as `elements` of `wavefabric.collectives.conditions.layout`: of a schedule,
        see `wavefabric.collectives.conditions.whole_elements`.
    ranks : int, optional
        The first GPUs of the fabric take part; by default all.
    root : int
        Of a broadcast, reduce, gather or scatter.
    incremental : bool
        Circuits of a photonic fabric may stay from round to round: only the first ones must be set up.

    Raises
    ------
    InputError

    Notes
    -----
    *Latency*: a round reaches 1 + L times as many ranks at most if each sends to L at once, hence at least
    ⌈log_{1+L} N⌉ rounds. L is the number of ports of a photonic tile; on electrical fabrics any number of
    transfers may begin together: L = N − 1.

    *Transfer*: the greatest of

    - what each GPU must send and receive, by what it can (Thakur, Rabenseifner & Gropp 2005,
      doi:10.1177/1094342005051521), and what all must send, by what all can (an all-reduce without sums
      inside the network: 2 (N − 1) arrays in all, Patarasuk & Yuan 2009, doi:10.1016/j.jpdc.2008.09.002);
    - the bottleneck cut (`cuts.bottleneck`; ForestColl, arXiv:2402.06787), and other cuts;
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
    if collective not in COLLECTIVES:
        raise InputError(f"collective: {collective!r} given; allowed: {', '.join(COLLECTIVES)}")
    n = fabric.ranks if ranks is None else ranks
    if not 1 <= n <= fabric.ranks:
        raise InputError(f"ranks: {n} given; allowed: 1 to the {fabric.ranks} GPUs of {fabric.name}")
    if not 0 <= root < n:
        raise InputError(f"root: {root} given; allowed: 0 to {n - 1}")
    return _named(collective, fabric, np.full(n, nbytes / n), nbytes, root, incremental)


def schedule_bound(
    schedule: Schedule,
    fabric: Fabric | PhotonicFabric,
    element_bytes: float,
    *,
    incremental: bool = False,
) -> LowerBound:
    """The least time of whatever reaches a schedule's postconditions; see `bound`.

    Of a schedule that is no named operation: what each GPU must send and receive by itself.
    """
    of = operation(schedule)
    if of.collective == "custom":
        return _custom(schedule, fabric, element_bytes, incremental)
    whole = float(of.counts.sum()) * element_bytes
    if of.counts.size % schedule.ranks:
        shares = np.full(schedule.ranks, whole / schedule.ranks)
    else:
        shares = of.counts.reshape(schedule.ranks, -1).sum(axis=1) * element_bytes
    return _named(of.collective, fabric, shares, whole, of.root or 0, incremental)


@dataclass(frozen=True)
class _Need:
    """A lower bound on the transfer time, and why."""

    seconds: float
    why: str


def _named(
    collective: str,
    fabric: Fabric | PhotonicFabric,
    shares: np.ndarray,
    whole: float,
    root: int,
    incremental: bool,
) -> LowerBound:
    """The bound of a named operation; `shares`: B of each rank."""
    n = len(shares)
    electrical = _electrical(fabric, n)
    needs = _transfer_needs(collective, electrical, shares, whole, root) if n > 1 else []
    if collective in ("gather", "scatter"):  # Ranks with an empty share have no part in it.
        n = 1 + int(np.count_nonzero(np.delete(shares, root)))
    return _total(fabric, needs, n, incremental)


def _total(
    fabric: Fabric | PhotonicFabric,
    needs: list[_Need],
    ranks: int,
    incremental: bool,
) -> LowerBound:
    """Latency of the rounds and the greatest transfer time."""
    most = max(needs, key=lambda need: need.seconds, default=None)
    if most is None or not most.seconds:
        return LowerBound(0.0, 0.0, 0.0, "nothing has to move")
    latency, why = _latency(fabric, ranks, incremental)
    return LowerBound(latency, most.seconds, latency + most.seconds, f"{why}; {most.why}")


def _latency(fabric: Fabric | PhotonicFabric, ranks: int, incremental: bool) -> tuple[float, str]:
    """s of the least number of rounds after which data of one rank can have reached all."""
    at_once = fabric.ports if isinstance(fabric, PhotonicFabric) else max(ranks - 1, 1)
    rounds, reached = 0, 1
    while reached < ranks:
        rounds, reached = rounds + 1, reached * (1 + at_once)
    seconds = rounds * fabric.alpha
    if isinstance(fabric, PhotonicFabric):
        seconds += rounds * fabric.synchronisation
        seconds += (min(rounds, 1) if incremental else rounds) * fabric.reconfiguration
    return seconds, f"{rounds} {'round' if rounds == 1 else 'rounds'} at least"


@lru_cache(maxsize=8)
def _electrical(fabric: Fabric | PhotonicFabric, ranks: int) -> Fabric:
    return restrict(as_electrical(fabric) if isinstance(fabric, PhotonicFabric) else fabric, ranks)


def _port_needs(fabric: Fabric, out: np.ndarray, into: np.ndarray) -> Iterator[_Need]:
    """What the GPU that is slowest to send, and to receive, its bytes needs."""
    for verb, amount, rate in zip(("sends", "receives"), (out, into), port_rates(fabric), strict=True):
        times = amount / rate
        g = int(np.argmax(times))
        yield _Need(float(times[g]), f"{fabric.gpus[g]} {verb} at least {_amount(amount[g])}")


def _transfer_needs(
    collective: str, fabric: Fabric, shares: np.ndarray, whole: float, root: int
) -> list[_Need]:
    n = len(shares)
    needs = list(_port_needs(fabric, *_own(collective, shares, whole, root)))
    copies = _COPIES.get(collective, 0) * (n - 1) * whole
    for verb, rate in zip(("send", "receive"), port_rates(fabric), strict=True):
        why = f"all GPUs together {verb} at least {_amount(copies)}"
        needs.append(_Need(copies / float(rate.sum()), why))
    # Shares of a cut array differ by an element or so: the smallest counts, so that this stays a bound.
    share = float(shares.min())
    for gpus, capacity, reverse in _cuts(collective, fabric, root):
        amount = _across(collective, (len(gpus), n - len(gpus)), root in gpus, share, whole, reverse)
        why = f"{_amount(amount)} {'into' if reverse else 'out of'} {_some(fabric, gpus)}"
        needs.append(_Need(float(amount / capacity) if capacity else np.inf, why))
    if collective == "all-to-all":
        apart, bandwidth = hop_counts(fabric)
        crossed = float(apart.sum()) * share
        needs.append(_Need(crossed / bandwidth, f"{_amount(crossed)} over all links together"))
    return needs


#: How many times the whole array is sent at least for each rank but one.
_COPIES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "broadcast": 1, "reduce": 1}


def _own(collective: str, shares: np.ndarray, whole: float, root: int) -> tuple[np.ndarray, np.ndarray]:
    """B that each rank has to send and to receive at least."""
    n = len(shares)
    at_root = np.arange(n) == root
    others = whole - shares
    everywhere = np.full(n, whole)
    table = {
        "all-gather": (shares, others),
        "reduce-scatter": (others, shares),
        "all-reduce": (everywhere, everywhere),
        "all-to-all": (others, (n - 1) * shares),
        "broadcast": (everywhere * at_root, everywhere * ~at_root),
        "reduce": (everywhere * ~at_root, everywhere * at_root),
        "gather": (shares * ~at_root, others * at_root),
        "scatter": (others * at_root, shares * ~at_root),
    }
    return table[collective]


def _cuts(collective: str, fabric: Fabric, root: int) -> list[tuple[frozenset[int], float, bool]]:
    """GPUs, capacity in B/s, and whether that is into them."""
    cuts = []
    others = tuple(r for r in range(fabric.ranks) if r != root)
    forth = {"all-gather": None, "broadcast": (root,), "gather": others}
    back = {"reduce-scatter": None, "reduce": forth["broadcast"], "scatter": forth["gather"]}
    for reverse, table in ((False, forth), (True, back)):
        if collective in table:
            cut = bottleneck(fabric, reverse, table[collective])
            cuts.append((cut.gpus, cut.capacity, reverse))
    for gpus, out, into in sampled(fabric):
        cuts += [(gpus, out, False), (gpus, into, True)]
    return cuts


def _across(
    collective: str, gpus: tuple[int, int], has_root: bool, share: float, whole: float, reverse: bool
) -> float:
    """B that must leave a set of GPUs, or enter it; `gpus`: how many are inside it and outside."""
    inside, outside = gpus
    # Of what must enter a set, all is what must leave the others.
    if reverse:
        inside, outside, has_root = outside, inside, not has_root
    table = {
        "all-gather": inside * share,
        "reduce-scatter": outside * share,
        "all-reduce": whole,
        "all-to-all": inside * outside * share,
        "broadcast": whole * has_root,
        "reduce": whole * (not has_root),
        "gather": inside * share * (not has_root),
        "scatter": outside * share * has_root,
    }
    return table[collective]


def _custom(
    schedule: Schedule, fabric: Fabric | PhotonicFabric, element_bytes: float, incremental: bool
) -> LowerBound:
    """Each rank receives the items of which it lacks a part; who alone has a part that others lack sends."""
    n = schedule.ranks
    parts: dict[int, dict[int, int]] = {}  # of each item: whose contributions each rank has
    for (rank, _, _), (item, origins) in schedule.pre.items():
        ranks = parts.setdefault(item, {})
        ranks[rank] = ranks.get(rank, 0) | origins
    out, into = np.zeros(n), np.zeros(n)
    sent: set[tuple[int, int]] = set()
    received: set[tuple[int, int]] = set()
    for (rank, buffer, chunk), (item, origins) in schedule.post.items():
        ranks = parts.get(item, {})
        lacks = origins & ~ranks.get(rank, 0)
        if not lacks:
            continue
        size = float(schedule.sizes[buffer][rank, chunk]) * element_bytes
        if (rank, item) not in received:
            received.add((rank, item))
            into[rank] += size
        once = twice = 0
        for held in ranks.values():
            once, twice = once | held, twice | once & held
        for holder, held in ranks.items():
            if held & lacks & once & ~twice and (holder, item) not in sent:
                sent.add((holder, item))
                out[holder] += size
    needs = list(_port_needs(_electrical(fabric, n), out, into)) if into.any() else []
    return _total(fabric, needs, 2, incremental)


def _amount(nbytes: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= size:
            return f"{nbytes / size:.4g} {unit}"
    return f"{nbytes:.4g} B"


def _some(fabric: Fabric, gpus: frozenset[int]) -> str:
    n = fabric.ranks
    if len(gpus) == n - 1:
        (one,) = frozenset(range(n)) - gpus
        return f"all GPUs but {fabric.gpus[one]}"
    if len(gpus) <= 3:
        return ", ".join(fabric.gpus[g] for g in sorted(gpus))
    return f"{len(gpus)} GPUs ({fabric.gpus[min(gpus)]}, …)"

"""What no schedule can beat: the least number of rounds, and the bytes that must cross the tightest cut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wavefabric.collectives.conditions import COLLECTIVES, operation, whole_elements
from wavefabric.collectives.schedule import Schedule
from wavefabric.errors import InputError
from wavefabric.fabric.bounds.bottleneck import bottleneck
from wavefabric.fabric.bounds.cuts import as_electrical, ports, restrict, sampled
from wavefabric.fabric.cost.result import Bound
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.routing import hops
from wavefabric.fabric.photonic.wafer import PhotonicFabric


def bound(
    collective: str | Schedule,
    fabric: Fabric | PhotonicFabric,
    nbytes: float,
    *,
    ranks: int | None = None,
    root: int = 0,
    incremental: bool = False,
    peers: int | None = None,
) -> Bound:
    """The least time of a collective operation, whatever its schedule.

    Parameters
    ----------
    collective : str or Schedule
        Of `wavefabric.collectives.conditions.COLLECTIVES`; of a schedule, what it promises counts.
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
    peers : int, optional
        GPUs that a GPU sends to at once, L below; by default all others, or the ports of a photonic tile.

    Returns
    -------
    Bound
        `seconds` is the sum of the two: while a latency passes, none of the bytes moves.

    Raises
    ------
    InputError

    Notes
    -----
    *Latency*: a round reaches 1 + L times as many ranks at most if each sends to L at once, hence at least
    ⌈log_{1+L} N⌉ rounds. On electrical fabrics any number of transfers may begin together: L = N − 1.

    *Transfer*: the greatest of

    - what each GPU must send and receive, by what it can (Thakur, Rabenseifner & Gropp 2005,
      doi:10.1177/1094342005051521), and what all must send, by what all can (an all-reduce without sums
      inside the network: 2 (N − 1) arrays in all, Patarasuk & Yuan 2009, doi:10.1016/j.jpdc.2008.09.002);
    - the bottleneck cut (`bottleneck.bottleneck`; ForestColl, arXiv:2402.06787), and other cuts;
    - for an all-to-all, bytes times the least number of links on their way, by the bandwidth of all links.

    Examples
    --------
    >>> from wavefabric.fabric import load
    >>> from wavefabric.fabric.bounds.bounds import bound
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
    if peers is not None and peers < 1:
        raise InputError(f"peers: {peers} given; allowed: from 1")
    return _bound(collective, fabric, np.full(n, nbytes / n), nbytes, root, incremental, peers)


def schedule_bound(
    schedule: Schedule,
    fabric: Fabric | PhotonicFabric,
    element_bytes: float,
    *,
    incremental: bool = False,
) -> Bound:
    """The least time of whatever does what a schedule promises; see `bound`.

    Parameters
    ----------
    schedule : Schedule
    fabric : Fabric or PhotonicFabric
        Of at least as many GPUs as the schedule has ranks.
    element_bytes : float
        B an element.
    incremental : bool
        See `bound`.

    Notes
    -----
    Of a schedule that promises no named operation: what each GPU must send and receive by itself.
    """
    found = operation(schedule)
    collective, root, counts = found.collective, found.root, found.counts
    if collective == "custom":
        return _custom(schedule, fabric, element_bytes, incremental)
    whole = float(counts.sum()) * element_bytes
    if counts.size % schedule.ranks:
        shares = np.full(schedule.ranks, whole / schedule.ranks)
    else:
        shares = counts.reshape(schedule.ranks, -1).sum(axis=1) * element_bytes
    return _bound(collective, fabric, shares, whole, root or 0, incremental)


@dataclass(frozen=True)
class _Need:
    """A lower bound on the transfer time, and why."""

    seconds: float
    why: str


def _bound(
    collective: str,
    fabric: Fabric | PhotonicFabric,
    shares: np.ndarray,
    whole: float,
    root: int,
    incremental: bool,
    peers: int | None = None,
) -> Bound:
    n = len(shares)
    wires = _wires(fabric, n)
    found = max(
        _transfer(collective, wires, shares, whole, root), key=lambda need: need.seconds, default=None
    )
    if found is None or not found.seconds:
        return Bound(0.0, 0.0, 0.0, "nothing has to move")
    if collective in ("gather", "scatter"):  # Ranks with an empty share have no part in it.
        n = 1 + int(np.count_nonzero(np.delete(shares, root)))
    latency, why = _latency(fabric, n, incremental, peers)
    return Bound(latency, found.seconds, latency + found.seconds, f"{why}; {found.why}")


def _latency(
    fabric: Fabric | PhotonicFabric, ranks: int, incremental: bool, peers: int | None = None
) -> tuple[float, str]:
    """s of the least number of rounds after which all ranks can have heard of one."""
    at_once = fabric.ports if isinstance(fabric, PhotonicFabric) else max(ranks - 1, 1)
    at_once = at_once if peers is None else min(peers, at_once)
    rounds, reached = 0, 1
    while reached < ranks:
        rounds, reached = rounds + 1, reached * (1 + at_once)
    seconds = rounds * fabric.alpha
    if isinstance(fabric, PhotonicFabric):
        seconds += rounds * fabric.synchronisation
        seconds += (min(rounds, 1) if incremental else rounds) * fabric.reconfiguration
    return seconds, f"{rounds} {'round' if rounds == 1 else 'rounds'} at least"


@lru_cache(maxsize=8)
def _wires(fabric: Fabric | PhotonicFabric, ranks: int) -> Fabric:
    return restrict(as_electrical(fabric) if isinstance(fabric, PhotonicFabric) else fabric, ranks)


def _transfer(collective: str, fabric: Fabric, shares: np.ndarray, whole: float, root: int) -> list[_Need]:
    n, names = len(shares), fabric.gpus
    if n == 1:
        return []
    sends, receives = ports(fabric)
    out, into = _own(collective, shares, whole, root)
    found = []
    for verb, amount, able in (("sends", out, sends), ("receives", into, receives)):
        times = amount / able
        g = int(np.argmax(times))
        found.append(_Need(float(times[g]), f"{names[g]} {verb} at least {_amount(amount[g])}"))
    copies = _copies(collective, n) * whole
    for verb, able in (("send", sends), ("receive", receives)):
        why = f"all GPUs together {verb} at least {_amount(copies)}"
        found.append(_Need(copies / float(able.sum()), why))
    # Shares of a cut array differ by an element or so: the smallest counts, so that this stays a bound.
    share = float(shares.min())
    for gpus, capacity, reverse in _cuts(collective, fabric, root):
        inside = len(gpus)
        amount = _across(collective, n, inside, root in gpus, share, whole, reverse)
        why = f"{_amount(amount)} {'into' if reverse else 'out of'} {_some(fabric, gpus)}"
        found.append(_Need(float(amount / capacity) if capacity else np.inf, why))
    if collective == "all-to-all":
        apart, bandwidth = hops(fabric)
        crossed = float(apart.sum()) * share
        found.append(_Need(crossed / bandwidth, f"{_amount(crossed)} over all links together"))
    return found


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


def _copies(collective: str, n: int) -> float:
    """How many times the whole array is sent at least, by all ranks together."""
    if collective == "all-reduce":
        return 2 * (n - 1)
    if collective in ("all-gather", "reduce-scatter", "broadcast", "reduce"):
        return n - 1
    return 0


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
    collective: str, n: int, inside: int, has_root: bool, share: float, whole: float, reverse: bool
) -> float:
    """B that must leave a set of GPUs, or enter it."""
    outside = n - inside
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
) -> Bound:
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
    if not into.any():
        return Bound(0.0, 0.0, 0.0, "nothing has to move")
    able = _wires(fabric, n)
    sends, receives = ports(able)
    found = []
    for verb, amount, rate in (("sends", out, sends), ("receives", into, receives)):
        times = amount / rate
        g = int(np.argmax(times))
        found.append(_Need(float(times[g]), f"{able.gpus[g]} {verb} at least {_amount(amount[g])}"))
    need = max(found, key=lambda f: f.seconds)
    latency, why = _latency(fabric, 2, incremental)
    return Bound(latency, need.seconds, latency + need.seconds, f"{why}; {need.why}")


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

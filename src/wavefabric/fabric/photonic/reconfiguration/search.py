"""Finds which circuits should be up in each round, for the least total time, by dynamic programming."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path


class Topology(NamedTuple):
    """Holds circuits that are up together, in one plane of wavelengths."""

    name: str
    nodes: int
    ends: np.ndarray  # source and target of each link, each pair once: shape (links, 2)
    speed: np.ndarray  # B/s of each link
    circuits: tuple[Hashable, ...]  # identity of each link: links equal in two topologies stay up


class RoundDemand(NamedTuple):
    """Holds the data of a round: each pair (source, target) sends ``amount`` × ``scale`` bytes."""

    pairs: np.ndarray
    amount: np.ndarray
    scale: float = 1.0


def carry(topology: Topology, demand: RoundDemand) -> tuple[list[list[int]], int, np.ndarray]:
    """Route a round's data over a topology; return each pair's links, the most hops, and s per link.

    A route is a shortest one that prefers the links least busy so far. The s for which each link is busy are
    for ``demand.scale`` 1, and infinite if a pair has no route.
    """
    (src, dst), ends = demand.pairs.T, topology.ends.tolist()
    graph = csr_array((np.ones(len(ends)), tuple(topology.ends.T)), shape=(topology.nodes,) * 2)
    apart = shortest_path(graph, unweighted=True)
    if not np.isfinite(apart[src, dst]).all():
        return [], 0, np.array([np.inf])
    onward = [np.flatnonzero(topology.ends[:, 0] == node).tolist() for node in range(topology.nodes)]
    load, routes = np.zeros(len(ends)), [[] for _ in src]
    for i in np.argsort(-demand.amount * apart[src, dst], kind="stable").tolist():
        seconds, at, end = demand.amount[i] / topology.speed, src[i], dst[i]
        while at != end:
            nearer = [link for link in onward[at] if apart[ends[link][1], end] < apart[at, end]]
            routes[i].append(nearer[int((load[nearer] + seconds[nearer]).argmin())])
            at = ends[routes[i][-1]][1]
        load[routes[i]] += seconds[routes[i]]
    return routes, int(apart[src, dst].max()), load


@dataclass(frozen=True, eq=False)
class CircuitProblem:
    """Holds rounds in order, and topologies that may carry them; no circuits are up at the beginning.

    The wavelengths are divided into equal ``planes`` with separate waveguides. Each plane has one topology at
    a time and is switched by itself; new links are up ``set_up`` s later. A round takes the transfer time of
    its data, and ``hop`` s for each hop of its longest route.
    """

    topologies: tuple[Topology, ...]
    demands: tuple[RoundDemand, ...]
    node_speed: float  # B/s that a node sends, and receives, over all planes
    set_up: float
    hop: float
    planes: int = 1
    known: dict = field(default_factory=dict, repr=False)

    def carried(self, number: int, topology: int) -> tuple[list[list[int]], int, np.ndarray]:
        """Return `carry` of round ``number`` over a topology: routes, most hops, seconds per link."""
        demand = self.demands[number]
        key = demand.pairs.tobytes(), demand.amount.tobytes(), topology
        if key not in self.known:
            self.known[key] = carry(self.topologies[topology], demand)
        return self.known[key]

    def new_links(self, before: int, after: int) -> np.ndarray:
        """Return which links of topology ``after`` must be set up if ``before`` is up (−1: nothing is)."""
        if (before, after) not in self.known:
            old = set(self.topologies[before].circuits) if before >= 0 else ()
            self.known[before, after] = np.array([c not in old for c in self.topologies[after].circuits])
        return self.known[before, after]

    def time(self, number: int, topology: int) -> float:
        """Return the time in s of a round if all planes have ``topology``; infinite without a route."""
        _, hops, seconds = self.carried(number, topology)
        return self.hop * hops + seconds.max() * self.demands[number].scale / self.planes

    def lower_bound(self) -> float:
        """Return a lower bound on the total time in s, from one set-up, the hops and the busiest nodes."""
        data = (max(np.bincount(e, d.amount).max() for e in d.pairs.T) * d.scale for d in self.demands)
        return self.set_up + self.hop * len(self.demands) + sum(data) / self.node_speed


class CircuitStep(NamedTuple):
    """Describes over which circuits, and when, one round sends its data."""

    topology: int
    planes: tuple[int, ...]
    ready: tuple[float, ...]  # when all links of each plane are up, s
    free: tuple[float, ...]  # when each plane can be switched, s: at the end, or earlier by a set-up
    begin: float
    end: float
    choice: str  # keep, forward (over hops), change, ahead (of the round); "change, forward": both
    wait: float  # time added because circuits are set up, s


#: Time (s); topology of each plane (-1: none) and time from which it can be switched (s); steps so far.
_State = tuple[float, tuple[tuple[int, float], ...], tuple[CircuitStep, ...]]


def shortest(problem: CircuitProblem, most: float = np.inf, keep: int = 64) -> tuple[float, tuple, float]:
    """Return the least time in s of all rounds together, the `CircuitStep` of each, and a lower bound.

    The time is infinite if none below ``most`` s is found. Rounds follow one another. Each uses one topology
    in some of the planes, which are switched to it as soon as their last use ends. The data of a link are
    divided over these planes so that all end together, or some earlier by a set-up, which can thus be up for
    another round at the end of this one. Links that stay up in all of these planes carry data during the
    switching, if no data are forwarded over several hops.

    The search keeps states after each round. A state is dropped if another has the same topologies and is as
    early in all times. It is also dropped if another ends earlier by a set-up, and can thus get the same
    topologies in time. With several planes only the ``keep`` earliest states remain, and half as many whose
    planes are free the earliest, so the result may not be the least.
    """
    rounds, topologies, planes = range(len(problem.demands)), range(len(problem.topologies)), problem.planes
    quickest = [min(problem.time(r, c) for c in topologies) for r in rounds]
    states, dropped = [(0.0, ((-1, 0.0),) * planes, ())], np.inf
    for number in rounds:
        to_come, alike = sum(quickest[number + 1 :]), defaultdict(list)
        for state in (after for each in states for after in _after(problem, number, each, most - to_come)):
            # A plane that has been free for a set-up can have any topology at once.
            idle = state[0] - problem.set_up * (1 - 1e-9)
            held, free = zip(*sorted((h if f > idle else -1, f) for h, f in state[1]), strict=True)
            times = np.array([state[0], *free])
            if not any((other <= times * (1 + 1e-12)).all() for other, _ in alike[held]):
                alike[held] = [one for one in alike[held] if not (times <= one[0]).all()] + [(times, state)]
        states = sorted((state for group in alike.values() for _, state in group), key=lambda s: s[0])
        states = [s for s in states if s[0] <= states[0][0] + problem.set_up]
        if planes > 1 and len(states) > keep:
            # Also those whose planes together could be up for other topologies the earliest.
            away = [s[0] + sum(max(0.0, p[1] + problem.set_up - s[0]) for p in s[1]) / planes for s in states]
            chosen = {*range(keep), *np.argsort(away, kind="stable")[: keep // 2].tolist()}
            left = [s[0] + to_come for i, s in enumerate(states) if i not in chosen]
            dropped, states = min([dropped, *left]), [states[i] for i in sorted(chosen)]
    now, _, steps = states[0] if states else (np.inf, (), ())
    return now, steps, min(now, dropped)


def _after(problem: CircuitProblem, number: int, state: _State, most: float) -> Iterator[_State]:
    """Yield the states that can follow a round before ``most`` s, per topology, set of planes, early planes.

    A state is the time, what circuits each plane has, and the steps so far.
    """
    now, planes, steps = state
    sets = [c for size in range(problem.planes) for c in combinations(range(problem.planes), size + 1)]
    unlike = {frozenset(Counter(planes[j] for j in chosen).items()): chosen for chosen in sets}
    for topology in range(len(problem.topologies)):
        possible = unlike.values() if now + problem.time(number, topology) < most else ()
        for chosen, early in ((c, e) for c in possible for e in range(len(c))):
            step = _step(problem, number, state, topology, chosen, early)
            if step and step.end < most:
                after = [(held, max(free, step.end - problem.set_up)) for held, free in planes]
                for j, free in zip(chosen, step.free, strict=True):
                    after[j] = topology, free
                yield step.end, tuple(after), (*steps, step)


def _step(problem: CircuitProblem, number: int, state: _State, topology: int, chosen: tuple, early: int):
    """Return when a round sends its data over a topology in the planes ``chosen``, as a `CircuitStep`.

    Those ``early`` planes that are up first stop sending earlier than the others by a set-up. The result is
    None if all data could be sent before the last of these planes is set up, or before the early ones stop.
    """
    _, hops, seconds = problem.carried(number, topology)
    now, planes, seconds = state[0], [state[1][j] for j in chosen], seconds * problem.demands[number].scale
    news = [problem.new_links(held, topology) for held, _ in planes]
    ready = [max(now, p[1] + problem.set_up) if n.any() else now for p, n in zip(planes, news, strict=True)]
    order, unused = np.argsort(ready, kind="stable").tolist(), early * problem.set_up
    end, ideal = (now + (float(seconds.max()) + more) / len(chosen) for more in (unused, 0.0))
    label = "keep" if hops == 1 else "forward"
    if (new := np.any(news, axis=0)).any():
        new = new | (hops > 1)
        kept = now + (float(seconds[~new].max(initial=0.0)) + unused) / len(chosen)
        end = max(kept, (float(seconds[new].max()) + sum(ready) + unused) / len(chosen))
        if max(ready) >= end:
            return None
        ahead = all(p[1] < now for p, n in zip(planes, news, strict=True) if n.any())
        label = ("ahead" if ahead else "change") + (", forward" if hops > 1 else "")
    if early and ready[order[early - 1]] >= end - problem.set_up:
        return None
    last = end + problem.hop * hops
    free = tuple(last - problem.set_up * (order.index(j) < early) for j in range(len(chosen)))
    return CircuitStep(topology, chosen, tuple(ready), free, now, last, label, end - ideal)

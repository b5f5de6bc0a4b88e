"""Find schedules of circuits without a solver: the start of a search, and the result if time runs out."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from wavefabric.collectives.synthesis.circuits.free_wavelengths import FreeWavelengths, RoutedNetwork
from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import ChunkDemand, Demand, Move
from wavefabric.collectives.synthesis.graphs import colours, ring_moves
from wavefabric.collectives.synthesis.search import Lightpath, Solution, ordered_solution


def direct(demand: Demand, net: RoutedNetwork, seed: int, stop: Deadline) -> Solution | None:
    """Return a solution in which ranks send their chunks directly, in the fewest rounds that lasers allow.

    In a graph of sources and destinations circuits are edges; an edge colouring gives each a round and a
    wavelength. None if a route is missing, or a wavelength is not free on it.
    """
    rng = np.random.default_rng(seed)
    load: Counter[int] = Counter()
    wanted: list[tuple[int, int, int]] = []
    for number, chunk in enumerate(demand.chunks):
        for d in sorted(chunk.need):
            stop.check()
            able = [s for s in sorted(chunk.have) if (s, d) in net.routes]
            if not able:
                return None
            s = min(able, key=lambda s: (load[s], net.hops(s, d)))
            load[s] += 1
            wanted.append((number, s, d))
    wanted = [wanted[i] for i in rng.permutation(len(wanted))]
    colour = colours([(s, d) for _, s, d in wanted], demand.ranks, demand.ranks, stop)
    at_once = net.network.at_once
    # Long routes first: they have the least choice.
    order = sorted(zip(colour, wanted, strict=True), key=lambda x: -net.hops(*x[1][1:]))
    circuits = (((c // at_once, *move), 1 << c % at_once) for c, move in order)
    return _set_up(net, circuits, "direct circuits by edge colouring", stop)


def _set_up(
    net: RoutedNetwork, circuits: Iterable[tuple[Move, int]], method: str, stop: Deadline
) -> Solution | None:
    """Set up circuits in order, each on its first free wavelength; None if one cannot be set up.

    A circuit is (move of a chunk, bit mask of the allowed wavelengths). ``method``: its name in the solution.
    """
    free: dict[int, FreeWavelengths] = defaultdict(lambda: FreeWavelengths(net))
    lightpaths: dict[Move, Lightpath] = {}
    for move, wavelengths in circuits:
        stop.check()
        r, _, s, d = move
        lightpath = free[r].take(s, d, wavelengths)
        if lightpath is None:
            return None
        lightpaths[move] = lightpath
    return ordered_solution(lightpaths, method)


def relayed(demand: Demand, net: RoutedNetwork, stop: Deadline) -> Solution | None:
    """Return a solution that sends a chunk directly to a rank that needs it, and from there to the others.

    None unless some ranks have far more to send than others, such as the root of a broadcast: a broadcast in
    pieces becomes a scatter and an all-gather (Thakur et al. 2005, doi:10.1177/1094342005051521).
    """
    sends: Counter[int] = Counter()
    for chunk in demand.chunks:
        sends[min(chunk.have)] += len(chunk.need)
    if max(sends.values(), default=0) * demand.ranks <= 2 * sum(sends.values()):
        return None
    load: Counter[int] = Counter()
    halves: list[tuple[ChunkDemand, ChunkDemand]] = []
    for chunk in demand.chunks:
        if len(chunk.have) > 1 or len(chunk.need) < 2:
            halves.append((ChunkDemand(chunk.have, frozenset()), chunk))
            continue
        by = min(sorted(chunk.need | chunk.have), key=lambda rank: load[rank])
        load[by] += 1
        first = ChunkDemand(chunk.have, frozenset({by}) - chunk.have)
        halves.append((first, ChunkDemand(frozenset({by}), chunk.need - {by})))
    if not load:
        return None
    scatter, gather = (direct(Demand(demand.ranks, c), net, 0, stop) for c in zip(*halves, strict=True))
    if scatter is None or gather is None:
        return None
    later = {(scatter.rounds + m[0], m[1], m[2], m[3]): path for m, path in gather.lightpaths.items()}
    return ordered_solution({**scatter.lightpaths, **later}, "a scatter and an all-gather")


def ring(demand: Demand, net: RoutedNetwork, stop: Deadline) -> Solution | None:
    """Return a solution around a ring of neighbours, or None; every rank must have chunks for all others."""
    at_once = net.network.at_once
    pairs = [pair for pair in net.routes if net.hops(*pair) == 1]
    moves = ring_moves(demand, pairs, max(1, at_once // 2), at_once > 1, stop)
    return None if moves is None else _set_up(net, ((move, -1) for move in moves), "ring of neighbours", stop)


def greedy(demand: Demand, net: RoutedNetwork, seed: int, stop: Deadline) -> Solution | None:
    """Return a solution with as many circuits per round as fit; ranks that miss most chunks come first."""
    rng = np.random.default_rng(seed)
    holders = [set(c.have) for c in demand.chunks]
    missing: dict[int, set[int]] = defaultdict(set)
    for number, chunk in enumerate(demand.chunks):
        for d in chunk.need:
            missing[d].add(number)
    lightpaths: dict[Move, Lightpath] = {}
    r = 0
    while any(missing.values()):
        queue = sorted((d for d in missing if missing[d]), key=lambda d: (-len(missing[d]), rng.random()))
        sent = _greedy_round(net, queue, missing, holders, rng, stop)
        if not sent:
            return None
        for (number, s, d), lightpath in sent.items():
            lightpaths[r, number, s, d] = lightpath
            holders[number].add(d)
            missing[d].discard(number)
        r += 1
    return ordered_solution(lightpaths, "greedy rounds")


def _greedy_round(
    net: RoutedNetwork, queue: list[int], missing: dict[int, set[int]], holders: list[set[int]], rng, stop
) -> dict[tuple[int, int, int], Lightpath]:
    """Return a dictionary from (chunk, source, destination) to the lightpath of each circuit of a round.

    Ranks of ``queue`` receive in turn, one chunk each, until no more circuits fit.
    """
    free = FreeWavelengths(net)
    copies = Counter({number: len(ranks) for number, ranks in enumerate(holders)})
    wanted = {d: sorted(missing[d], key=lambda n: (copies[n], rng.random())) for d in queue}
    sent: dict[tuple[int, int, int], Lightpath] = {}

    def send_one(d: int) -> bool:
        """Send ``d`` one of the chunks that it still needs; return False if none can be sent."""
        stop.check()
        for i, number in enumerate(wanted[d] if free.receives[d] else ()):
            able = [s for s in holders[number] if free.sends[s] and (s, d) in net.routes]
            for s in sorted(able, key=lambda s: (net.hops(s, d), -free.sends[s]))[:4]:
                lightpath = free.take(s, d)
                if lightpath is not None:
                    sent[number, s, d] = lightpath
                    copies[number] += 1
                    del wanted[d][i]
                    return True
        return False

    while queue:
        queue = [d for d in queue if send_one(d)]
    return sent

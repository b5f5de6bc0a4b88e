"""Schedules of circuits found without a solver: where to begin, and what there is if time runs out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.synthesis.circuits.edges import Net, Room
from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import Chunk, Demand, Move
from wavefabric.collectives.synthesis.edge_colouring import colours

#: (wavelength, tiles of the route)
Way = tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class Plan:
    """Moves in order, the way of each, and what made them."""

    moves: tuple[Move, ...]
    ways: tuple[Way, ...]
    method: str

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return 1 + max((m[0] for m in self.moves), default=-1)


def plan(moves: dict[Move, Way], method: str) -> Plan:
    """Moves in order, empty rounds left out."""
    rounds = {r: i for i, r in enumerate(sorted({m[0] for m in moves}))}
    ordered = sorted(moves)
    return Plan(tuple((rounds[m[0]], *m[1:]) for m in ordered), tuple(moves[m] for m in ordered), method)


def seeds(demand: Demand, net: Net, stop: Deadline) -> Iterator[Plan]:
    """Schedules, the promising ones first; `OutOfTime` when their deadline has passed."""
    found = relayed(demand, net, stop)
    if found is not None:
        yield found
    for attempt in range(4):
        found = direct(demand, net, attempt, stop)
        if found is not None:
            yield found
    found = ring(demand, net, stop)
    if found is not None:
        yield found
    for attempt in range(max(1, 4000 // (demand.ranks * len(demand.chunks) + 1))):
        if attempt == 12:
            return
        found = greedy(demand, net, attempt, stop)
        if found is not None:
            yield found


def direct(demand: Demand, net: Net, seed: int, stop: Deadline) -> Plan | None:
    """Every chunk straight from a rank that has it before, in the fewest rounds that lasers allow.

    Circuits are edges between sources and destinations: their colouring gives each a round and a wavelength.
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
            s = min(able, key=lambda s: (load[s], len(net.routes[s, d][0][0])))
            load[s] += 1
            wanted.append((number, s, d))
    wanted = [wanted[i] for i in rng.permutation(len(wanted))]
    colour = colours([(s, d) for _, s, d in wanted], demand.ranks, demand.ranks, stop)
    at_once = net.lights.at_once
    rooms: dict[int, Room] = defaultdict(lambda: Room(net))
    moves: dict[Move, Way] = {}
    # Long routes first: they have the least choice.
    order = sorted(zip(colour, wanted, strict=True), key=lambda x: -len(net.routes[x[1][1], x[1][2]][0][0]))
    for c, (number, s, d) in order:
        stop.check()
        way = rooms[c // at_once].place(s, d, 1 << c % at_once)
        if way is None:
            return None
        moves[c // at_once, number, s, d] = way
    return plan(moves, "direct circuits by edge colouring")


def relayed(demand: Demand, net: Net, stop: Deadline) -> Plan | None:
    """Each chunk of one rank that several need to one of them, and from there to the others, straight.

    Only where some ranks have far more to send than others, as the root of a broadcast has: in pieces, that
    becomes a scatter and an all-gather (Thakur et al. 2005, doi:10.1177/1094342005051521).
    """
    sends: Counter[int] = Counter()
    for chunk in demand.chunks:
        sends[min(chunk.have)] += len(chunk.need)
    if max(sends.values(), default=0) * demand.ranks <= 2 * sum(sends.values()):
        return None
    load: Counter[int] = Counter()
    first: list[Chunk] = []
    second: list[Chunk] = []
    for chunk in demand.chunks:
        if len(chunk.have) > 1 or len(chunk.need) < 2:
            first.append(Chunk(chunk.have, frozenset()))
            second.append(chunk)
            continue
        by = min(sorted(chunk.need | chunk.have), key=lambda rank: load[rank])
        load[by] += 1
        first.append(Chunk(chunk.have, frozenset({by}) - chunk.have))
        second.append(Chunk(frozenset({by}), chunk.need - {by}))
    if not load:
        return None
    parts = [direct(Demand(demand.ranks, tuple(chunks)), net, 0, stop) for chunks in (first, second)]
    if parts[0] is None or parts[1] is None:
        return None
    moves = dict(zip(parts[0].moves, parts[0].ways, strict=True))
    later = parts[0].rounds
    moves |= {(later + m[0], *m[1:]): way for m, way in zip(parts[1].moves, parts[1].ways, strict=True)}
    return plan(moves, "a scatter and an all-gather")


def ring(demand: Demand, net: Net, stop: Deadline) -> Plan | None:
    """Every chunk both ways round a ring of neighbours, if each rank has chunks that all others need."""
    pairs = [pair for pair, ways in net.routes.items() if len(ways[0][0]) == 1]
    links = max(1, net.lights.at_once // 2)
    moves = ring_moves(demand, pairs, links, both=net.lights.at_once > 1, stop=stop)
    return None if moves is None else _placed(moves, net, "ring of neighbours", stop)


def ring_moves(
    demand: Demand, pairs: list[tuple[int, int]], links: int, both: bool, stop: Deadline
) -> list[Move] | None:
    """Moves round a ring whose neighbours take `links` chunks a round, in either direction if `both`."""
    ranks = demand.ranks
    mine: dict[int, list[int]] = defaultdict(list)
    for number, chunk in enumerate(demand.chunks):
        if len(chunk.have) > 1 or len(chunk.have | chunk.need) < ranks:
            return None
        mine[min(chunk.have)].append(number)
    cycle = _cycle(ranks, pairs) if ranks > 1 else None
    if cycle is None:
        return None
    moves: list[Move] = []
    for way in (1, -1) if both else (1,):
        for start in range(ranks):
            sent: list[tuple[int, int]] = []
            for j, number in enumerate(mine[cycle[start]]):
                # The odd hop of an even ring goes one way with every other chunk.
                hops = (ranks - (way == (1 if j % 2 else -1))) // 2 if both else ranks - 1
                sent += [(hop, number) for hop in range(hops)]
            full = min(links, len(mine[cycle[start]]))
            taken: Counter[int] = Counter()
            earliest: Counter[int] = Counter()
            for hop, number in sorted(sent):
                stop.check()
                r = earliest[number]
                while taken[r] == full:
                    r += 1
                taken[r] += 1
                earliest[number] = r + 1
                here = start + way * hop
                moves.append((r, number, cycle[here % ranks], cycle[(here + way) % ranks]))
    return moves


def greedy(demand: Demand, net: Net, seed: int, stop: Deadline) -> Plan | None:
    """Round by round as many circuits as fit, ranks that miss most first."""
    rng = np.random.default_rng(seed)
    holders = [set(c.have) for c in demand.chunks]
    missing: dict[int, set[int]] = defaultdict(set)
    for number, chunk in enumerate(demand.chunks):
        for d in chunk.need:
            missing[d].add(number)
    moves: dict[Move, Way] = {}
    r = 0
    while any(missing.values()):
        room = Room(net)
        copies = Counter({n: len(h) for n, h in enumerate(holders)})
        got: list[tuple[int, int]] = []
        queue = sorted((d for d in missing if missing[d]), key=lambda d: (-len(missing[d]), rng.random()))
        wishes = {d: sorted(missing[d], key=lambda n: (copies[n], rng.random())) for d in queue}
        while queue:
            left = []
            for d in queue:
                stop.check()
                if _one(room, net, d, wishes[d], holders, copies, moves, got, r):
                    left.append(d)
            queue = left
        if not got:
            return None
        for number, d in got:
            holders[number].add(d)
            missing[d].discard(number)
        r += 1
    return plan(moves, "greedy rounds")


def _one(room, net, d, wishes, holders, copies, moves, got, r) -> bool:
    """Send one of the chunks that `d` still wishes for; False if none can be sent."""
    if not room.receives[d]:
        return False
    for i, number in enumerate(wishes):
        able = [s for s in holders[number] if room.sends[s] and (s, d) in net.routes]
        for s in sorted(able, key=lambda s: (len(net.routes[s, d][0][0]), -room.sends[s]))[:4]:
            way = room.place(s, d)
            if way is not None:
                moves[r, number, s, d] = way
                copies[number] += 1
                got.append((number, d))
                del wishes[i]
                return True
    return False


def _placed(moves: list[Move], net: Net, method: str, stop: Deadline) -> Plan | None:
    """Ways for moves whose rounds are known, the first that are free."""
    rooms: dict[int, Room] = defaultdict(lambda: Room(net))
    ways: dict[Move, Way] = {}
    for move in moves:
        stop.check()
        way = rooms[move[0]].place(move[2], move[3])
        if way is None:
            return None
        ways[move] = way
    return plan(ways, method)


def _cycle(ranks: int, pairs: list[tuple[int, int]]) -> list[int] | None:
    """All ranks in a cycle joined both ways: a search with a limit, neighbours with fewest ways out first."""
    joined = set(pairs)
    near: list[list[int]] = [[] for _ in range(ranks)]
    for a, b in sorted(joined):
        if (b, a) in joined:
            near[a].append(b)
    if ranks == 2:
        return [0, 1] if near[0] else None
    start = min(range(ranks), key=lambda t: len(near[t]))
    path, on = [start], {start}
    tries = [iter(_ways_out(start, near, on))]
    for _ in range(200 * ranks):
        here = next(tries[-1], None)
        if here is None:
            tries.pop()
            on.discard(path.pop())
            if not path:
                return None
            continue
        path.append(here)
        on.add(here)
        if len(path) == ranks and start in near[here]:
            return path
        tries.append(iter(_ways_out(here, near, on)))
    return None


def _ways_out(here: int, near: list[list[int]], on: set[int]) -> list[int]:
    return sorted((n for n in near[here] if n not in on), key=lambda n: sum(m not in on for m in near[n]))

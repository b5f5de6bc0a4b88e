"""Find rings of neighbours and edge colourings, from which schedules are made without a solver."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import count

from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.problem import Edge


def ring_moves(
    demand: Demand, pairs: list[Edge], width: int, both: bool, stop: Deadline
) -> list[Move] | None:
    """Return moves around a ring whose links carry ``width`` chunks per round; both ways if ``both``.

    None if there is no ring, or not every rank has chunks that all others need.
    """
    ranks = demand.ranks
    own: dict[int, list[int]] = defaultdict(list)
    for number, chunk in enumerate(demand.chunks):
        if len(chunk.have) > 1 or len(chunk.have | chunk.need) < ranks:
            return None
        own[min(chunk.have)].append(number)
    cycle = _hamiltonian_cycle(ranks, pairs) if ranks > 1 else None
    if cycle is None:
        return None
    moves: list[Move] = []
    for path in (1, -1) if both else (1,):
        for start in range(ranks):
            chunks = own[cycle[start]]
            sent: list[tuple[int, int]] = []
            for j, number in enumerate(chunks):
                # In an even ring one direction has a hop more than the other: chunks alternate.
                hops = (ranks - (path == (1 if j % 2 else -1))) // 2 if both else ranks - 1
                sent += [(hop, number) for hop in range(hops)]
            taken: Counter[int] = Counter()
            earliest: Counter[int] = Counter()
            for hop, number in sorted(sent):
                stop.check()
                r = earliest[number]
                while taken[r] == min(width, len(chunks)):
                    r += 1
                taken[r] += 1
                earliest[number] = r + 1
                here = start + path * hop
                moves.append((r, number, cycle[here % ranks], cycle[(here + path) % ranks]))
    return moves


def _hamiltonian_cycle(ranks: int, pairs: list[Edge]) -> list[int] | None:
    """Return the ranks in the order of a cycle over two-way links; None if a limited search finds none."""
    joined = set(pairs)
    near: list[list[int]] = [[] for _ in range(ranks)]
    for a, b in sorted(joined):
        if (b, a) in joined:
            near[a].append(b)
    start = min(range(ranks), key=lambda t: len(near[t]))
    path, on_path = [start], {start}

    def outgoing(here: int) -> list[int]:
        free = [n for n in near[here] if n not in on_path]
        return sorted(free, key=lambda n: sum(m not in on_path for m in near[n]))

    tries = [iter(outgoing(start))]
    for _ in range(200 * ranks):
        here = next(tries[-1], None)
        if here is None:
            tries.pop()
            on_path.discard(path.pop())
            if not path:
                return None
            continue
        path.append(here)
        on_path.add(here)
        if len(path) == ranks and start in near[here]:
            return path
        tries.append(iter(outgoing(here)))
    return None


def colours(edges: Sequence[Edge], left: int, right: int, stop: Deadline) -> list[int]:
    """Return colours, from 0, of edges (left node, right node): all edges at a node have different colours.

    Their number is the largest degree: Kőnig 1916, doi:10.1007/BF01456961. `OutOfTime` after ``stop``.
    """
    ends = [(u, left + v) for u, v in edges]
    at: list[dict[int, int]] = [{} for _ in range(left + right)]  # at[u][c]: the edge of colour c at node u
    colour = [0] * len(edges)
    for number, (u, v) in enumerate(ends):
        stop.check()
        a, b = (next(c for c in count() if c not in at[node]) for node in (u, v))
        # Swap colours a and b along the path from v, which lacks b, so that v lacks a. The path cannot end
        # at u, which lacks a, as it would reach u by an edge of colour a.
        path, node, wanted = [], v, a
        while a != b and (edge := at[node].get(wanted)) is not None:
            path.append(edge)
            node, wanted = sum(ends[edge]) - node, a + b - wanted
        for edge in path:
            for end in ends[edge]:
                del at[end][colour[edge]]
        for edge in path:
            colour[edge] = a + b - colour[edge]
            for end in ends[edge]:
                at[end][colour[edge]] = edge
        colour[number] = a
        at[u][a] = at[v][a] = number
    return colour

"""Edge colouring of bipartite multigraphs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from wavefabric.collectives.synthesis.deadline import Deadline


def colours(
    edges: Sequence[tuple[int, int]], left: int, right: int, deadline: Deadline | None = None
) -> list[int]:
    """Colours from 0 of edges (left node, right node), so that no two at a node are alike.

    As few as the largest degree: Kőnig 1916, doi:10.1007/BF01456961. `OutOfTime` after the deadline.
    """
    # at_left[u][c]: the edge of colour c at left node u.
    at_left: list[dict[int, int]] = [{} for _ in range(left)]
    at_right: list[dict[int, int]] = [{} for _ in range(right)]
    colour = [0] * len(edges)
    deadline = deadline or Deadline()
    for number, (u, v) in enumerate(edges):
        deadline.check()
        a, b = (next(c for c in count() if c not in used) for used in (at_left[u], at_right[v]))
        if a != b:
            _swap(edges, colour, at_left, at_right, v, a, b)
        colour[number] = a
        at_left[u][a] = at_right[v][a] = number
    return colour


def _swap(edges, colour: list[int], at_left, at_right, start: int, a: int, b: int) -> None:
    """Swap colours a and b along the path from a right node that lacks b, so that it lacks a.

    The path cannot end at the new edge's left node, which lacks a: an edge of colour a would reach it.
    """
    path = []
    node, wanted, sides = start, a, (at_right, at_left)
    while (edge := sides[0][node].get(wanted)) is not None:
        path.append(edge)
        node = edges[edge][0] if sides[0] is at_right else edges[edge][1]
        sides = sides[::-1]
        wanted = a + b - wanted
    for edge in path:
        u, v = edges[edge]
        del at_left[u][colour[edge]], at_right[v][colour[edge]]
    for edge in path:
        u, v = edges[edge]
        colour[edge] = a + b - colour[edge]
        at_left[u][colour[edge]] = at_right[v][colour[edge]] = edge

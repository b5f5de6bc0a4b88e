"""Edge colouring of bipartite multigraphs."""

from __future__ import annotations

from collections.abc import Sequence

from wavefabric.collectives.synthesis.deadline import Deadline


def colours(
    edges: Sequence[tuple[int, int]], left: int, right: int, deadline: Deadline | None = None
) -> list[int]:
    """Colours of edges, as few as the largest degree, so that no two at a node are alike.

    Parameters
    ----------
    edges : sequence of (int, int)
        A left and a right node; the same two may be joined several times.
    left, right : int
        Nodes on each side.
    deadline : Deadline, optional
        After which `OutOfTime` is raised.

    Returns
    -------
    list of int
        From 0. That the largest degree is enough: Kőnig 1916, doi:10.1007/BF01456961.
    """
    # at_left[u][c]: the edge of colour c at left node u.
    at_left: list[dict[int, int]] = [{} for _ in range(left)]
    at_right: list[dict[int, int]] = [{} for _ in range(right)]
    found = [0] * len(edges)
    deadline = deadline or Deadline()
    for number, (u, v) in enumerate(edges):
        deadline.check()
        a, b = _least_missing(at_left[u]), _least_missing(at_right[v])
        if a != b:
            _swap(edges, found, at_left, at_right, v, a, b)
        found[number] = a
        at_left[u][a] = number
        at_right[v][a] = number
    return found


def _swap(edges, found: list[int], at_left, at_right, start: int, a: int, b: int) -> None:
    """Swap colours a and b along the path from a right node that lacks b, so that it lacks a.

    The path cannot end at the new edge's left node, which lacks a: it would be reached by an edge of colour
    a.
    """
    path = []
    node, colour, sides = start, a, (at_right, at_left)
    while (edge := sides[0][node].get(colour)) is not None:
        path.append(edge)
        node = edges[edge][0] if sides[0] is at_right else edges[edge][1]
        sides = sides[::-1]
        colour = a + b - colour
    for edge in path:
        u, v = edges[edge]
        del at_left[u][found[edge]], at_right[v][found[edge]]
    for edge in path:
        u, v = edges[edge]
        found[edge] = a + b - found[edge]
        at_left[u][found[edge]] = at_right[v][found[edge]] = edge


def _least_missing(used: dict[int, int]) -> int:
    colour = 0
    while colour in used:
        colour += 1
    return colour

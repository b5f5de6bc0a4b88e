"""What links can carry in a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from wavefabric.collectives.synthesis.demand import Move
from wavefabric.collectives.synthesis.problem import Edge, Links


class StepCapacity:
    """What links, and groups of links, can still carry in a step of so many rounds."""

    def __init__(self, links: Links, rounds: int):
        self.links = {link: n * rounds for link, n in links.capacity.items()}
        self.groups = [n * rounds for _, n in links.groups]
        self.of_link: dict[Edge, list[int]] = defaultdict(list)
        for i, (members, _) in enumerate(links.groups):
            for link in members:
                self.of_link[link].append(i)

    def take(self, link: Edge) -> bool:
        """Use a link for a chunk, if there is room."""
        groups = self.of_link.get(link, ())
        if self.links.get(link, 0) < 1 or any(self.groups[i] < 1 for i in groups):
            return False
        self.links[link] -= 1
        for i in groups:
            self.groups[i] -= 1
        return True


def fits(moves: Sequence[Move], links: Links, rounds: Sequence[int]) -> bool:
    """Whether moves keep to the capacities of steps of so many rounds."""
    steps = [StepCapacity(links, r) for r in rounds]
    return all(m[0] < len(steps) and steps[m[0]].take((m[2], m[3])) for m in moves)

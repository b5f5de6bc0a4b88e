"""Define the inputs and the results of a synthesis."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.schedule import Schedule

Edge = tuple[int, int]


class Undecided(InputError):
    """Raised if the time limit passes before a schedule is found or proved impossible."""


def no_time_to_begin() -> Undecided:
    """Return the error that time ran out before any schedule was found."""
    return Undecided("time_limit: over before any schedule was found; allowed: more time")


@dataclass(frozen=True)
class OpticalNetwork:
    """Describes a photonic fabric as plain data: tiles that send light to each other over waveguides.

    Rank r is on tile r, with ``lasers`` wavelengths and as many photodiodes, of which it can use ``ports`` at
    once in each direction (None: all). ``routes``: by pair (src, dst), the allowed routes as tiles, src first
    and dst last; a pair without a route cannot be connected. An edge has ``waveguides`` waveguides in each
    direction, unless ``capacity`` has another number for the edge. A waveguide carries each wavelength once.
    ``shared``: waveguides carry light either way, so circuits of both directions of an edge count together.
    """

    ranks: int
    lasers: int
    waveguides: int
    ports: int | None
    routes: Mapping[Edge, tuple[tuple[int, ...], ...]] = field(repr=False)
    capacity: Mapping[Edge, int] | None = field(default=None, repr=False)
    shared: bool = False

    def __post_init__(self) -> None:
        whole("ranks", self.ranks, 1)
        whole("lasers", self.lasers, 1)
        whole("waveguides", self.waveguides, 0)
        if self.ports is not None:
            whole("ports", self.ports, 1)
        for (src, dst), routes in self.routes.items():
            _check_pair("routes", src, dst, self.ranks)
            for route in routes:
                tiles = tuple(route)
                ends = len(tiles) > 1 and (tiles[0], tiles[-1]) == (src, dst)
                if not ends or len(set(tiles)) < len(tiles) or not all(0 <= t < self.ranks for t in tiles):
                    allowed = f"tiles of 0 to {self.ranks - 1}, none twice, {src} first and {dst} last"
                    raise InputError(f"routes[{src}, {dst}]: {tiles}; allowed: {allowed}")
        for (a, b), waveguides in (self.capacity or {}).items():
            _check_pair("capacity", a, b, self.ranks)
            whole(f"capacity[{a}, {b}]", waveguides, 0)

    @property
    def at_once(self) -> int:
        """Return the number of circuits that a rank can send, or receive, per round."""
        return self.lasers if self.ports is None else min(self.lasers, self.ports)

    def waveguides_of(self, a: int, b: int) -> int:
        """Return the number of waveguides from tile ``a`` to tile ``b``.

        If they are `shared`, an entry of `capacity` for one direction holds for the other too.
        """
        capacity = self.capacity or {}
        other = capacity.get((b, a), self.waveguides) if self.shared else self.waveguides
        return capacity.get((a, b), other)

    def reversed(self) -> "OpticalNetwork":
        """Return the network reversed in time, with every route reversed."""
        routes = {(d, s): tuple(tuple(r[::-1]) for r in paths) for (s, d), paths in self.routes.items()}
        capacity = self.capacity and {(b, a): w for (a, b), w in self.capacity.items()}
        return replace(self, routes=routes, capacity=capacity)

    def symmetric(self) -> bool:
        """Return whether the network equals its `reversed` in waveguides and routes."""
        edges = {e for routes in self.routes.values() for route in routes for e in pairwise(route)}
        if any(self.waveguides_of(a, b) != self.waveguides_of(b, a) for a, b in edges):
            return False
        mirror = self.reversed().routes
        return all(set(map(tuple, paths)) == set(mirror.get(pair, ())) for pair, paths in self.routes.items())


@dataclass(frozen=True)
class Links:
    """An electrical topology as in SCCL: chunks that each directed link (src, dst) carries per round.

    A pair that is absent has no link. ``groups``: chunks per round that several links carry together, such as
    all links of a hub.
    """

    ranks: int
    capacity: Mapping[Edge, int]
    groups: tuple[tuple[frozenset[Edge], int], ...] = ()

    def __post_init__(self) -> None:
        whole("ranks", self.ranks, 1)
        for (a, b), chunks in self.capacity.items():
            _check_pair("capacity", a, b, self.ranks)
            whole(f"capacity[{a}, {b}]", chunks, 0)
        for i, (links, chunks) in enumerate(self.groups):
            whole(f"groups[{i}]", chunks, 0)
            for link in links:
                ensure(link in self.capacity, f"groups[{i}]", f"link {link}", "links named in capacity")

    @property
    def usable(self) -> list[Edge]:
        """Return the links with a capacity above 0."""
        return [link for link, chunks in self.capacity.items() if chunks]

    def resources(self) -> tuple[dict[Edge, list[int]], list[int]]:
        """Return the numbers of the resources that each usable link takes, and the capacity of each resource.

        A resource is a group, or a link whose capacity is below those of its groups.
        """
        uses: dict[Edge, list[int]] = {link: [] for link in self.usable}
        capacities = []
        for links, most in self.groups:
            members = [link for link in links if link in uses]
            for link in members:
                uses[link].append(len(capacities))
            capacities += [most] * bool(members)
        for link, over in uses.items():
            if self.capacity[link] < min((capacities[i] for i in over), default=inf):
                over.append(len(capacities))
                capacities.append(self.capacity[link])
        return uses, capacities

    def reversed(self) -> "Links":
        """Return the same topology with every link reversed."""
        groups = tuple((frozenset((b, a) for a, b in links), n) for links, n in self.groups)
        return Links(self.ranks, {(b, a): n for (a, b), n in self.capacity.items()}, groups)

    def symmetric(self) -> bool:
        """Return whether the topology equals its `reversed`."""
        return self == self.reversed()


@dataclass(frozen=True)
class Circuit:
    """Light from one tile to another during one round of a schedule; a circuit carries one chunk.

    ``wavelength``: number, from 0, of the laser of `src` and of the photodiode of `dst`. ``route``: the tiles
    from `src` to `dst`, including both.
    """

    round: int
    src: int
    dst: int
    wavelength: int
    route: tuple[int, ...]


@dataclass(frozen=True)
class Synthesis:
    """Holds a verified schedule, and what is proved about its number of rounds."""

    schedule: Schedule
    #: Rounds with communication; rounds that only add are not counted. For `synthesise_links`: all rounds of
    #: all steps, where a round of the schedule is a step.
    rounds: int
    #: No schedule has fewer rounds, or, for `least_steps`, steps. For `synthesise_links`: no schedule of
    #: exactly the requested steps has fewer rounds, by counting alone; one of fewer steps may.
    lower_bound: int
    #: Whether `rounds` is the minimum (for `synthesise_links`: in exactly the requested steps); for an
    #: all-reduce, of each half.
    optimal: bool
    #: The proof of `optimal`, or what is missing; one line.
    why: str
    #: One circuit per transfer between ranks, in the schedule's order; none on electrical links.
    circuits: tuple[Circuit, ...] = field(repr=False)
    #: Wall time of the synthesis in s.
    seconds: float
    #: Numbers of rounds tried (for `least_steps`: of steps), each with ``"infeasible: proved by …"``,
    #: ``"feasible: …"`` or ``"unknown: …"``.
    status: tuple[tuple[int, str], ...]
    #: For electrical links: rounds of each step.
    rounds_of_steps: tuple[int, ...] = ()


def _check_pair(key: str, a: int, b: int, ranks: int) -> None:
    whole(f"{key}: rank", a, 0, ranks - 1)
    whole(f"{key}: rank", b, 0, ranks - 1)
    ensure(a != b, f"{key}[{a}, {b}]", "a rank and itself", "two ranks")

"""What a synthesis is given and what it returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from wavefabric.collectives.schedule import Schedule
from wavefabric.errors import InputError, require
from wavefabric.quantities import whole

Edge = tuple[int, int]


class Undecided(InputError):
    """The time limit passed before a schedule was found or proved impossible."""


def no_time_to_begin() -> Undecided:
    """Time is over before any schedule was found."""
    return Undecided("time_limit: over before any schedule was found; allowed: more time")


@dataclass(frozen=True)
class OpticalNetwork:
    """A photonic fabric as plain data: tiles that send light to each other over waveguides.

    Rank r is on tile r, with `lasers` wavelengths and as many photodiodes, of which it can use `ports` at
    once in each direction (None: all). `routes` are those allowed for each pair (src, dst), as tiles, src
    first and dst last; a pair without any cannot be connected. An edge has so many `waveguides` in each
    direction, or its own `capacity`, and each carries every wavelength once. `shared`: waveguides carry light
    either way, so that circuits of both directions of an edge count together.
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
        """Circuits that a rank can send, or receive, in a round."""
        return self.lasers if self.ports is None else min(self.lasers, self.ports)

    def waveguides_of(self, a: int, b: int) -> int:
        """Waveguides from a tile to its neighbour; of a shared edge those of either direction."""
        capacity = self.capacity or {}
        other = capacity.get((b, a), self.waveguides) if self.shared else self.waveguides
        return capacity.get((a, b), other)

    def reversed(self) -> "OpticalNetwork":
        """The same network with time, and so every route, reversed."""
        routes = {(d, s): tuple(tuple(r[::-1]) for r in paths) for (s, d), paths in self.routes.items()}
        capacity = self.capacity and {(b, a): w for (a, b), w in self.capacity.items()}
        return replace(self, routes=routes, capacity=capacity)

    def symmetric(self) -> bool:
        """Whether reversing time changes nothing."""
        edges = {e for routes in self.routes.values() for route in routes for e in pairwise(route)}
        if any(self.waveguides_of(a, b) != self.waveguides_of(b, a) for a, b in edges):
            return False
        mirror = self.reversed().routes
        return all(set(map(tuple, paths)) == set(mirror.get(pair, ())) for pair, paths in self.routes.items())


@dataclass(frozen=True)
class Links:
    """An electrical topology as in SCCL: chunks that each directed link (src, dst) carries in a round.

    A pair that is absent has no link. ``groups``: chunks a round that several links carry together, as those
    of a hub.
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
                require(link in self.capacity, f"groups[{i}]", f"link {link}", "links named in capacity")

    @property
    def usable(self) -> list[Edge]:
        """Links that carry anything."""
        return [link for link, chunks in self.capacity.items() if chunks]

    def reversed(self) -> "Links":
        """The same topology with every link reversed."""
        groups = tuple((frozenset((b, a) for a, b in links), n) for links, n in self.groups)
        return Links(self.ranks, {(b, a): n for (a, b), n in self.capacity.items()}, groups)

    def symmetric(self) -> bool:
        """Whether reversing time changes nothing."""
        return self == self.reversed()


@dataclass(frozen=True)
class Circuit:
    """Light from one tile to another during one round of a schedule; it carries one chunk.

    ``wavelength``, from 0: a laser of `src` and a photodiode of `dst`. ``route``: tiles, src first, dst last.
    """

    round: int
    src: int
    dst: int
    wavelength: int
    route: tuple[int, ...]


@dataclass(frozen=True)
class Synthesis:
    """A schedule, verified, and what is proved of it."""

    schedule: Schedule
    #: Rounds in which something is sent: those that only add up are not counted. Of `synthesise_links`: all
    #: rounds of all steps, and a round of the schedule is a step.
    rounds: int
    #: No schedule has fewer rounds, or, of `least_steps`, fewer steps. Of `synthesise_links`: no schedule of
    #: exactly the steps asked for has fewer rounds, by counting alone; one of fewer steps may.
    lower_bound: int
    #: Whether `rounds` is the least possible (of `synthesise_links`: in exactly the steps asked for); of an
    #: all-reduce, of each half.
    optimal: bool
    #: What proves it, or what is missing; one line.
    why: str
    #: One a transfer between ranks, in the order of the schedule's transfers; none on electrical links.
    circuits: tuple[Circuit, ...] = field(repr=False)
    #: Wall time in s.
    seconds: float
    #: Rounds tried (steps by `least_steps`), and ``"infeasible: proved by …"``, ``"feasible: …"`` or
    #: ``"unknown: …"``.
    status: tuple[tuple[int, str], ...]
    #: Of electrical links: rounds that each step takes.
    rounds_of_steps: tuple[int, ...] = ()


def _check_pair(key: str, a: int, b: int, ranks: int) -> None:
    whole(f"{key}: rank", a, 0, ranks - 1)
    whole(f"{key}: rank", b, 0, ranks - 1)
    require(a != b, f"{key}[{a}, {b}]", "a rank and itself", "two ranks")

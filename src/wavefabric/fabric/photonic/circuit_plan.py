"""Describes the circuits that carry a schedule over a photonic fabric, round by round."""

from dataclasses import dataclass

from wavefabric.fabric.photonic.fabric import PhotonicFabric


@dataclass(frozen=True)
class Bundle:
    """The circuits between two tiles that are up at the same time over the same route."""

    src: int
    dst: int
    wavelengths: int  # bit mask: bit w stands for laser w of `src` and photodiode w of `dst`
    route: tuple[int, ...]  # tiles passed, `src` first and `dst` last
    waveguides: tuple[int, ...]  # number of the waveguide (or fibre) on each edge of the route

    @property
    def lasers(self) -> int:
        """Return the number of wavelengths."""
        return self.wavelengths.bit_count()


@dataclass(frozen=True)
class CircuitRound:
    """Holds circuits that are up together: a round of a schedule, or a part of it."""

    round: int  # of the schedule
    part: int  # from 0: a round whose circuits do not fit at once is split
    bundles: tuple[Bundle, ...]
    #: Largest number of circuits on an edge in one direction; bundles of a pair on the same route count once.
    overlap: int
    #: Lower bound of the overlap for any choice of one route per pair (from a cut, or proved by a solver).
    overlap_bound: int
    #: Lower bound of the number of parts of the round (from ports and cuts), for any routes and wavelengths,
    #: if no pair has fewer wavelengths than the busiest tiles can give.
    parts_bound: int = 1

    def __str__(self) -> str:
        return f"round {self.round}, part {self.part}"


@dataclass(frozen=True)
class CircuitPlan:
    """Circuits for all rounds of a schedule with transfers between ranks, ordered by round and part.

    If a pair has several bundles, their wavelengths add up.
    """

    schedule: str  # name of the schedule
    fabric: PhotonicFabric
    rounds: tuple[CircuitRound, ...]

"""The circuits that carry a schedule over a photonic fabric, round by round."""

from dataclasses import dataclass

from wavefabric.fabric.photonic.fabric import PhotonicFabric


@dataclass(frozen=True)
class Bundle:
    """The circuits from one tile to another that are up at the same time and take the same route."""

    src: int
    dst: int
    wavelengths: int  # bit mask: bit w is laser w of `src` and photodiode w of `dst`
    route: tuple[int, ...]  # tiles passed, `src` first and `dst` last
    waveguides: tuple[int, ...]  # which waveguide (or fibre) on each edge of the route

    @property
    def lasers(self) -> int:
        """Number of wavelengths."""
        return self.wavelengths.bit_count()


@dataclass(frozen=True)
class CircuitRound:
    """Circuits that are up together."""

    round: int  # of the schedule
    part: int  # from 0: a round whose circuits do not fit at once is split
    bundles: tuple[Bundle, ...]
    #: Most circuits on one edge in one direction; bundles of a pair that take the same route count once.
    overlap: int
    #: No choice of one route a pair has a smaller overlap (a cut, or proved by a solver).
    overlap_bound: int
    #: The round needs at least so many parts (ports, and cuts), however routes and wavelengths are chosen, if
    #: no pair is to have fewer wavelengths than the busiest tiles can give.
    parts_bound: int = 1

    def __str__(self) -> str:
        return f"round {self.round}, part {self.part}"


@dataclass(frozen=True)
class CircuitPlan:
    """Circuits for all rounds of a schedule in which ranks talk to others, in order of round and part.

    Wavelengths of several bundles of a pair add up.
    """

    schedule: str  # its name
    fabric: PhotonicFabric
    rounds: tuple[CircuitRound, ...]

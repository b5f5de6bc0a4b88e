"""The circuits that carry a schedule over a photonic fabric, round by round."""

from __future__ import annotations

from dataclasses import dataclass

from wavefabric.fabric.photonic.fabric import PhotonicFabric


@dataclass(frozen=True)
class Bundle:
    """The circuits from one tile to another that are up at the same time and take the same route.

    Parameters
    ----------
    src, dst : int
        Ranks.
    wavelengths : int
        Bit mask: bit w is laser w of `src` and photodiode w of `dst`.
    route : tuple of int
        Tiles passed, `src` first and `dst` last.
    waveguides : tuple of int
        Which waveguide (or fibre) on each edge of the route.
    """

    src: int
    dst: int
    wavelengths: int
    route: tuple[int, ...]
    waveguides: tuple[int, ...]

    @property
    def lasers(self) -> int:
        """Number of wavelengths."""
        return self.wavelengths.bit_count()


@dataclass(frozen=True)
class CircuitRound:
    """Circuits that are up together.

    Parameters
    ----------
    round : int
        Of the schedule.
    part : int
        From 0: a round whose circuits do not fit at once is split.
    bundles : tuple of Bundle
    overlap : int
        Most circuits on one edge in one direction; bundles of a pair that take the same route count once.
    overlap_bound : int
        No choice of one route a pair has fewer (a cut, or proved by a solver).
    parts_bound : int
        The round needs at least so many parts (ports, and cuts), however routes and wavelengths are chosen,
        if no pair is to have fewer wavelengths than the busiest tiles can give.
    """

    round: int
    part: int
    bundles: tuple[Bundle, ...]
    overlap: int
    overlap_bound: int
    parts_bound: int = 1


@dataclass(frozen=True)
class CircuitPlan:
    """Circuits for all rounds of a schedule in which ranks talk to others.

    Parameters
    ----------
    schedule : str
        Its name.
    fabric : PhotonicFabric
    rounds : tuple of CircuitRound
        In order of round and part. A round's transfers from s to d are carried by its bundles from s to d;
        with several bundles their wavelengths add up.
    """

    schedule: str
    fabric: PhotonicFabric
    rounds: tuple[CircuitRound, ...]

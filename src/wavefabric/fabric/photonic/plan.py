"""The circuits that carry a schedule over a photonic fabric, round by round."""

from __future__ import annotations

from dataclasses import dataclass

from wavefabric.fabric.photonic.wafer import PhotonicFabric


@dataclass(frozen=True)
class Bundle:
    """The circuits from one tile to another that are up at the same time and take the same way.

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
        Most bundles on one edge in one direction.
    overlap_bound : int
        No choice of routes has fewer (a cut, or proved by a solver).
    """

    round: int
    part: int
    bundles: tuple[Bundle, ...]
    overlap: int
    overlap_bound: int


@dataclass(frozen=True)
class CircuitPlan:
    """Circuits for all rounds of a schedule in which ranks talk to others.

    Parameters
    ----------
    schedule : str
        Its name.
    fabric : PhotonicFabric
    rounds : tuple of CircuitRound
        In order of round and part. A round's transfers from s to d are carried by its bundles from s to d; with
        several bundles their wavelengths add up.
    """

    schedule: str
    fabric: PhotonicFabric
    rounds: tuple[CircuitRound, ...]

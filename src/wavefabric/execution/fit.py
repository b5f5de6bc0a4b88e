"""Straight lines through times: what a transfer costs before its first byte, and for each byte after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

#: Residuals beyond this many standard deviations weigh less (Huber 1964, doi:10.1214/aoms/1177703732; 95 %
#: as efficient as least squares where errors are normal).
_HUBER = 1.345
_TURNS = 20
#: Largest residual with which a fit stands for what was measured: at 0.75 a time is four times its line.
RESIDUAL = 0.75
#: Where bytes make up less than this share of the time of the largest size, their rate is not seen.
_SEEN = 0.01


@dataclass(frozen=True)
class Line:
    """t = max(floor, α + bytes/bandwidth): s, B/s; ``residuals`` are (fitted − measured)/measured.

    No time is shorter than the floor, however few the bytes; 0 if there is none.
    """

    alpha: float
    bandwidth: float
    floor: float
    residuals: tuple[float, ...]

    @property
    def worst(self) -> float:
        """Largest residual, whatever its sign."""
        return max(map(abs, self.residuals))

    def grows(self, nbytes: float) -> bool:
        """Whether so many bytes, the most that were sent, take a share of the time that can be seen."""
        return nbytes / self.bandwidth > _SEEN * self.seconds(nbytes)

    def seconds(self, nbytes: float) -> float:
        """The time of so many bytes."""
        return max(self.floor, self.alpha + nbytes / self.bandwidth)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "residuals": list(self.residuals), "worst": self.worst}


def fit(nbytes: Sequence[float], seconds: Sequence[float], floor: bool = False) -> Line:
    """Fit a line with α ≥ 0 to times (two sizes or more) by their relative errors, outliers weighing less.

    With a floor, times of small sizes may be level: a host needs that long to issue a transfer, while the
    device is still busy with the one before. The sizes that belong to the level are those that fit best.
    The fit is iteratively reweighted least squares with Huber's weights, started from all weights equal; the
    scale is the median absolute residual over 0.6745.
    """
    b, t = np.asarray(nbytes, float), np.asarray(seconds, float)
    if np.unique(b).size < 2 or (t <= 0).any():
        raise ValueError("a line needs two sizes, and times above 0")
    sizes = np.unique(b)
    best: tuple[float, tuple[float, float, float]] | None = None
    for level in range(sizes.size - 1 if floor else 1):
        low = b < sizes[level]
        alpha, slope = _line(b[~low], t[~low])
        least = float(np.median(t[low])) if low.any() else 0.0
        residual = np.maximum(least, alpha + slope * b) / t - 1
        # Of equally good fits the one with fewer points on the level.
        error = float(np.abs(residual).sum()) * (1 + 1e-9 * level)
        if best is None or error < best[0]:
            best = error, (alpha, slope, least)
    assert best is not None
    alpha, slope, least = best[1]
    residual = np.maximum(least, alpha + slope * b) / t - 1
    return Line(alpha, 1 / slope, least, tuple(float(a) for a in residual))


def _line(b: np.ndarray, t: np.ndarray) -> tuple[float, float]:
    """α ≥ 0 and seconds a byte > 0."""
    weights = np.ones_like(t)
    alpha = slope = 0.0
    for _ in range(_TURNS):
        alpha, slope = _weighted(b, t, weights / t)
        residual = np.abs((alpha + slope * b) / t - 1)
        scale = max(float(np.median(residual)) / 0.6745, 1e-6)
        weights = np.sqrt(np.minimum(1.0, _HUBER * scale / np.maximum(residual, 1e-300)))
    return alpha, slope


def _weighted(b: np.ndarray, t: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    from scipy.optimize import nnls

    unit = float(b.max())
    columns = np.column_stack([weights, weights * b / unit])
    (alpha, slope), _ = nnls(columns, weights * t)
    # Times that do not grow at all: as fast as can be told from these.
    return float(alpha), max(float(slope) / unit, 1e-6 * float(np.median(t)) / unit)

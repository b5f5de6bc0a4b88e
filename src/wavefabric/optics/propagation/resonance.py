"""Compute the resonance limit of a step, above which phase-mismatched light acts as if it were phase-matched.

Four-wave mixing ω1 + ω2 → ω3 + ω4 within the modes a (ω1 → ω3) and b (ω2 → ω4) has the phase mismatch
Δβ = Ω [τ_a − τ_b], Ω = ω3 − ω1, τ the mean of β1(ω) between the two frequencies; with one mode it is
β2 (ω3 − ω1)(ω3 − ω2). An integrator evaluates the product only at multiples of its step h, so Δβ = 2π/h is
indistinguishable from no mismatch. In a band of half-width B the largest mismatch of one mode is |β2|(2πB)²,
with a pump in the middle and a channel at each edge: h < 2π/(|β2|(2πB)²) for the channels. Products outside
the band have up to four times that mismatch, so that the whole field is free of resonances below a quarter of
it. On spurious four-wave mixing see O. V. Sinkin et al., J. Lightwave Technol. 21, 61 (2003),
doi 10.1109/JLT.2003.808628.

Two modes whose delays differ by d = |Δβ1| also walk off. With s the mean of their |β2| and w = 2πB, |Ω| ≤ 2w
gives Δβ ≤ |Ω| (d + s (2w − |Ω|)): at most (d + 2sw)²/(4s) if d < 2sw, else 2wd.
"""

import math
from dataclasses import dataclass

import numpy as np

from wavefabric.optics.fibre.fibre import Fibre


@dataclass(frozen=True)
class StepLimit:
    """Holds steps (m) above which spurious four-wave mixing is phase-matched; ``math.inf``: at no step."""

    #: 2π/(|β2|(2πB)²) of the mode with the largest |β2| in the band, m.
    dispersion: float
    #: The limit of the two modes that walk off fastest, m; `inf` without two modes that mix.
    walk_off: float
    #: Cause of the lower limit, in words.
    cause: str
    #: Labels of the two modes of ``walk_off``, or empty.
    pair: tuple[str, ...] = ()

    @property
    def step(self) -> float:
        """Return the largest step without resonances in the band, m: the lower of the two limits."""
        return min(self.dispersion, self.walk_off)

    @property
    def field(self) -> float:
        """Return the largest step, m, without resonances of products outside the band: ``dispersion``/4."""
        return self.dispersion / 4


def step_limit(fibre: Fibre, half_band: float) -> StepLimit:
    """Return the resonance limit for light within ±``half_band`` Hz of the fibre's centre of expansion."""
    w = 2 * math.pi * half_band
    _, first, kind = np.unique(fibre.beta, axis=0, return_index=True, return_inverse=True)
    beta = fibre.beta[first]  # one mode of each set of equal modes
    member = np.equal.outer(np.arange(len(first)), np.repeat(kind.reshape(-1), 2))
    kerr = member @ (fibre.gamma * np.abs(fibre.kappa_rows())) @ member.T
    mixes = kerr + kerr.T > 0  # without a Kerr effect between two modes they do not limit the step
    # Largest |β2(ω)| for |ω| ≤ w: at an edge, or where β3 + β4 ω = 0; with higher orders at one of 65 points.
    b3, b4 = beta.T[2:4]
    turn = np.clip(np.divide(-b3, b4, out=np.zeros_like(b3), where=b4 != 0), -w, w)
    at = np.stack([np.full_like(b3, -w), np.full_like(b3, w), turn])
    if beta.shape[1] > 4:
        at = np.concatenate([at, np.outer(np.linspace(-w, w, 65), np.ones_like(b3))])
    curvature = np.abs(sum(b * at**k / math.factorial(k) for k, b in enumerate(beta.T[1:]))).max(axis=0)
    top = int(np.argmax(curvature * np.diagonal(mixes)))
    dispersion = _step(float(curvature[top] * mixes[top, top]) * w**2)
    d = np.abs(beta[:, None, 0] - beta[None, :, 0])
    s = (curvature[:, None] + curvature[None, :]) / 2
    far = d >= 2 * s * w
    mismatch = np.where(far, 2 * w * d, (d + 2 * s * w) ** 2 / np.where(s > 0, 4 * s, 1))
    mismatch *= mixes & ~np.eye(len(first), dtype=bool)
    a, b = np.unravel_index(int(np.argmax(mismatch)), mismatch.shape)
    label = [fibre.labels[i] for i in first]
    pair = tuple(label[i] for i in sorted((int(a), int(b)))) if mismatch[a, b] > 0 else ()
    walk_off = _step(float(mismatch[a, b]))
    cause = f"delay between {' and '.join(pair)}" if walk_off < dispersion else f"dispersion of {label[top]}"
    cause = f"{cause} over a band of {2 * half_band / 1e12:.3g} THz"
    return StepLimit(dispersion, walk_off, cause, pair)


def metres(length: float) -> str:
    """Return a length in m as text, in km if ≥ 1 km."""
    return f"{length:.3g} m" if length < 999.5 else f"{length / 1e3:.4g} km"


def delay_spread(fibre: Fibre) -> tuple[float, tuple[str, str]]:
    """Return the largest difference of β1 between two modes, s/m, and their labels."""
    delay = fibre.beta[:, 0]
    low, high = int(np.argmin(delay)), int(np.argmax(delay))
    return float(delay[high] - delay[low]), (fibre.labels[low], fibre.labels[high])


def _step(mismatch: float) -> float:
    return 2 * math.pi / mismatch if mismatch > 0 else math.inf

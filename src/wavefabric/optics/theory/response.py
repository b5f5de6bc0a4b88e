r"""How strongly four frequencies of a link mix, as a function of their phase mismatch alone.

A product of first order at frequency f of row i, made by A_i(f1), A_j(f2) and A_j*(f3), f3 = f1 + f2 − f,
adds up along n spans of length L to

.. math:: μ(Δβ) = \frac{e^{(iΔβ-α)L}-1}{iΔβ-α} \sum_{s=0}^{n-1} ρ^s e^{isΔβL}

with the power attenuation α of j, Δβ = β_i(f1) − β_i(f) + β_j(f2) − β_j(f3), and the net power gain ρ of a
span for j: P. Poggiolini et al. 2014, doi 10.1109/JLT.2013.2295208, eqs. (4) and (5).

An integrator with equal steps of h sees the integral of z as a sum. Its Kerr operator acts with weights w_k
at z + c_k h, so that μ has the factor

.. math:: \frac{2ξ}{e^{2ξ}-1} \sum_k w_k e^{2ξc_k}, \quad ξ = (iΔβ-α)h/2

``strang`` and ``ssfm_rk4`` act once, in the middle: ξ/sinh ξ. To first order in γ all stages of ``rk4ip`` are
N̂ of the linearly propagated field, and their weights are Simpson's: (ξ/sinh ξ)(2 + cosh ξ)/3. With either,
|μ|² repeats itself with the period 2π/h (4π/h): products with that mismatch look phase-matched.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wavefabric.errors import choice
from wavefabric.optics.propagation.step_size import step_count

#: Weights and positions of the Kerr operator in a step of unit length, period of |μ|² in 2π/h, by integrator.
QUADRATURES = {
    "strang": ((1.0,), (0.5,), 1),
    "ssfm_rk4": ((1.0,), (0.5,), 1),
    "rk4ip": ((1 / 6, 2 / 3, 1 / 6), (0.0, 0.5, 1.0), 2),
}
#: Mismatch beyond which nothing counts, in attenuations (or 1/L): of light, of correlated symbols. |μ|² falls
#: with the square, and what lies beyond is of the order of the inverse of these.
MATCHED, CORRELATED = 300.0, 150.0


class Table(NamedTuple):
    """A response from Δβ = 0 on in steps of ``step`` (1/m), as ``four_wave.h`` has it."""

    values: np.ndarray
    once: np.ndarray  # integral of the values, and its integral
    twice: np.ndarray
    step: float
    period: float  # in Δβ, or 0
    tail: float  # without a period |μ|² is tail/Δβ² beyond the table
    negligible: float  # Δβ beyond which no mixing counts


@dataclass(frozen=True)
class Steps:
    """Equal steps of a span: ``step`` in m, ``integrator`` one of `QUADRATURES`; InputError for others.

    ``sections``: of a span, in each of which a run takes a whole number of steps.
    """

    step: float
    integrator: str = "strang"
    sections: int = 1

    def __post_init__(self):
        choice("integrator", self.integrator, tuple(QUADRATURES))

    def period(self, length: float) -> float:
        """Period of |μ|² in Δβ, 1/m, for a span of ``length`` m."""
        return 2 * math.pi / self.taken(length) * QUADRATURES[self.integrator][2]

    def taken(self, length: float) -> float:
        """Length of the equal steps that a run takes in a span, m."""
        return length / step_count(length, self.step, self.sections)

    def factor(self, rate, length: float):
        """What μ is multiplied by, complex; ``rate`` is iΔβ − α, 1/m."""
        weights, positions, _ = QUADRATURES[self.integrator]
        double = rate * self.taken(length)
        kicks = sum(w * np.exp(double * c) for w, c in zip(weights, positions, strict=True))
        return kicks / _mean_exponential(double)


@dataclass(frozen=True)
class Accumulation:
    """n = ``spans`` of ``length`` m with the attenuation ``alpha`` (1/m) and net gain ``gain`` of a row."""

    alpha: float
    length: float
    spans: int = 1
    gain: float = 1.0
    coherent: bool = True
    steps: Steps | None = None

    @property
    def matched(self) -> float:
        """Mismatch up to which a span mixes in phase, 1/m: the attenuation, or 1/L."""
        return max(self.alpha, 1 / self.length)

    def amplitude(self, mismatch, first: int = 0, spans: int | None = None) -> np.ndarray:
        """μ in m at mismatches Δβ (1/m), of ``spans`` spans from ``first`` on, added up in phase."""
        rate = 1j * np.asarray(mismatch) - self.alpha
        turn = self.gain * np.exp(1j * np.asarray(mismatch) * self.length)
        count, near = self.spans if spans is None else spans, abs(turn - 1) < 1e-9
        array = np.where(near, count, (turn**count - 1) / np.where(near, 1, turn - 1))
        out = self.length * _mean_exponential(rate * self.length) * array * turn**first
        return out if self.steps is None else out * self.steps.factor(rate, self.length)

    def power_table(self) -> Table:
        """|μ|² (m²) and its integrals over Δβ."""
        spans = self.spans if self.coherent else 1
        scale = 1.0 if self.coherent else float(sum(self.gain ** (2 * s) for s in range(self.spans)))
        decay, loss = math.exp(-self.alpha * self.length), self.matched
        period = 0.0 if self.steps is None else self.steps.period(self.length)
        # Far out only the mean over oscillations counts, by the coefficients of e^{isΔβL} in μ's numerator.
        gains = self.gain ** np.arange(spans)
        tail = scale * float(((np.append(gains, 0.0) - decay * np.append(0.0, gains)) ** 2).sum())
        limits = period / 2 if period else 100 * loss, spans * self.length, period, tail, MATCHED * loss
        return _table(lambda d: scale * abs(self.amplitude(d, 0, spans)) ** 2, *limits)

    def amplitude_tables(self, largest: float) -> list[Table]:
        """μ and its integrals up to the mismatch ``largest`` (1/m): one table, or incoherently one a span."""
        parts = [(0, self.spans)] if self.coherent else [(s, 1) for s in range(self.spans)]
        length = self.spans * self.length
        return [_table(lambda d, part=part: self.amplitude(d, *part), largest, length) for part in parts]


def _mean_exponential(x):
    """∫₀¹ e^{xt} dt = (eˣ − 1)/x, 1 at 0."""
    safe = np.where(x == 0, 1.0, x)
    return np.where(x == 0, 1.0, np.expm1(safe) / safe)


def _table(response, largest: float, length: float, period=0.0, tail=0.0, negligible=0.0) -> Table:
    """A response up to a mismatch, after ``length`` m: integrals by Simpson's rule, then by Hermite's."""
    cells = max(64, math.ceil(12 * largest * length / (2 * math.pi)))
    step, values = largest / cells, response(np.linspace(0, largest, 2 * cells + 1))
    at, (once, twice) = values[::2].copy(), np.zeros((2, cells + 1), values.dtype)
    once[1:] = np.cumsum(step / 6 * (at[:-1] + 4 * values[1::2] + at[1:]))
    twice[1:] = np.cumsum(step / 2 * (once[:-1] + once[1:]) + step**2 / 12 * (at[:-1] - at[1:]))
    return Table(at, once, twice, step, period, tail, negligible)

"""Computes the largest eigenvalue of the leapfrog operator of a time step, by Lanczos iteration."""

import math
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.setup_passes import parts
from wavefabric.acoustics.solver.formulas import wavenumber_range
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.step import Step
from wavefabric.acoustics.stability.energy import row_weights
from wavefabric.acoustics.stability.free_steps import FreeSteps, fill_with_noise
from wavefabric.base.errors import ensure

#: Above this eigenvalue a field alternates in sign from step to step and grows.
LIMIT = 4.0
#: Largest number of applications of the operator; number between computations of the eigenvalue.
_MOST, _CHECK_STEPS = 240, 10
#: Probability that the true eigenvalue is larger than the result with the added error.
_PROBABILITY = 1e-3
#: Number of previous vectors that a new vector is made orthogonal to: two, or as many as `_BYTES` hold.
_WINDOW, _BYTES = 2, 1 << 26
#: Points per chunk of a product, on a CPU and on a GPU, so that temporary arrays are small.
_CHUNK_CPU, _CHUNK_GPU = 1 << 16, 1 << 22


class LargestEigenvalue(FreeSteps):
    """Computes the largest eigenvalue of the operator T that decides whether a step is stable; collective.

    Notes
    -----
    Without sources, nonlinearity and PML a step is, with G = κ∇ on the staggered grid and δρ = ρⁿ − ρⁿ⁻¹,

        ρⁿ⁺¹ − 2ρⁿ + ρⁿ⁻¹ = −Δt² ρ₀ Gᵀρ₀⁻¹G pⁿ,   p = c₀² (ρ − τ L1 δρ/Δt − η L2 ρ),   τ ≤ 0

    (Treeby & Cox 2010, doi:10.1121/1.3377056). With δρ centred in its interval, y = ρ₀^(−½) ρ and
    Ĝ = Δt² ρ₀^½ Gᵀρ₀⁻¹G ρ₀^½, this is a damped leapfrog of mass Ĝ⁻¹ − B/2, stiffness A = c₀² (1 − η L2) and
    damping B = c₀² |τ| L1/Δt. For a symmetric B ≥ 0 (no absorption, Stokes absorption, uniform absorption)
    its energy is positive and does not grow as long as 4Ĝ⁻¹ ≥ A + 2B. Otherwise the step has an eigenvalue
    z < −1. So the step is stable if and only if no eigenvalue of

        T = Δt² c₀² (1 + 2|τ| L1/Δt − η L2) ρ₀ Gᵀρ₀⁻¹G

    is above 4. A power law in a heterogeneous medium makes B unsymmetric. If T has a real eigenvalue above 4,
    then there is a z < −1 in that case too; other growth is possible at any time step (see `growth`).

    T p is computed from steps of the run's stages: one from (p, u = 0, ρ = 0) gives
    p₁ = −Δt² c₀² (1 + |τ| L1/Δt − η L2) ρ₀ Gᵀρ₀⁻¹G p, a second one from (0, 0, ρ) gives p₂, the same without
    τ, and T p = p₂ − 2p₁. T is symmetric in the product weighted by 1/(c₀² ρ₀ (1 + 2|τ|/Δt)), which the
    Lanczos iteration uses. Each vector is made orthogonal to the two before it by explicit products, which
    allows for an operator that is only nearly symmetric, or on a small grid to all of them (Arnoldi).
    """

    FIELDS = 4

    def __init__(self, problem: Problem, settings: RunSettings):
        super().__init__(problem, settings, pml=False)
        field = problem.points * self.dtype.itemsize
        self._doubt = math.log(1.648 * math.sqrt(problem.points) / _PROBABILITY)
        self._window = max(_WINDOW, min(_MOST, _BYTES // field))

    def __call__(self, dt: float) -> float:
        """Return the largest eigenvalue for time step ``dt``, s.

        The iteration estimates it from below. It ends when the estimate is above `LIMIT`; that is the result.
        It also ends if the estimate plus its possible error is at most `LIMIT`, or after 240 applications of
        T; the result then includes the error. From a random start the relative error is above ε after m
        applications with a probability of at most 1.648 √N exp(−√ε (2m − 1)) (Kuczyński & Woźniakowski 1992,
        doi:10.1137/0613066). The possible error is the ε for which this is 0.001.
        """
        with self.stages(dt) as stages:
            return self._iterate(_Operator(stages, dt), stages)

    def _iterate(self, operator: "_Operator", stages: Stages) -> float:
        c, points = stages.coefficients, self.problem.points
        most = min(_MOST, points)
        vector = c.device.empty(c.shape, c.dtype)
        fill_with_noise(vector, c.subdomain, c.device.xp)
        vector *= c.dtype.type(1 / math.sqrt(self._product(operator, vector, vector)))
        vectors, projected = [vector], np.zeros((most + 1, most))
        for number in range(most):
            new, count = operator(vectors[-1]), number + 1
            for back, old in enumerate(reversed(vectors)):
                projected[number - back, number] = product = self._product(operator, old, new)
                for plane, more in zip(new, old, strict=True):
                    plane -= c.dtype.type(product) * more
            norm = math.sqrt(self._product(operator, new, new))
            projected[count, number] = norm
            exact = count == points or norm <= 10 * np.finfo(c.dtype).eps * abs(projected).max()
            if exact or count % _CHECK_STEPS == 0:
                right = np.isfinite(projected[:count, :count]).all()
                ensure(right, "medium", "density and sound speed overflow", "values nearer together")
                result = float(np.real(np.linalg.eigvals(projected[:count, :count])).max())
                error = 0.0 if exact else (self._doubt / (2 * count - 1)) ** 2
                if exact or count == most or result > LIMIT or result * (1 + error) <= LIMIT:
                    break
            new *= c.dtype.type(1 / norm)
            vectors = [*vectors[-self._window + 1 :], new]
        return result if result > LIMIT else result * (1 + error)

    def _product(self, operator: "_Operator", a: Any, b: Any) -> float:
        return self.sum(operator.product(a, b))


class _Operator:
    """Applies the operator T of `LargestEigenvalue` to a field, and computes weighted products of fields."""

    def __init__(self, stages: Stages, dt: float):
        c = stages.coefficients
        self._stages, self._step, self._number = stages, Step(stages), 1
        self._xp, self._owned = c.device.xp, c.subdomain.owned
        points = _CHUNK_CPU if c.device.name == "cpu" else _CHUNK_GPU
        self._chunks = parts(stages.fields.p[self._owned].shape, points)
        self._weight = c.device.empty(stages.fields.p[self._owned].shape, c.dtype)
        steepness = 0.0
        if c.lossy:
            _, largest = wavenumber_range(c.problem)
            steepness = 2 / dt * (1.0 if c.stokes else largest ** (c.problem.alpha_power - 2))
        speed, density, tau = (c.part(each, self._owned) for each in (c.speed, c.density, c.tau))
        for at in self._chunks:
            lossy = 1 + abs(tau[at]) * c.dtype.type(steepness)
            self._weight[at] = 1 / (speed[at] * speed[at] * density[at] * lossy)
        for rings in row_weights(c.problem, c.subdomain.indices(1)[self._owned[1]])[:1]:
            self._weight *= c.device.asarray(rings.astype(c.dtype))

    def product(self, a: Any, b: Any) -> float:
        """Return the weighted product of two fields over this rank's own points, in double precision."""
        xp, total = self._xp, 0.0
        a, b = a[self._owned], b[self._owned]
        for at in self._chunks:
            total = total + xp.sum(a[at] * b[at] * self._weight[at], dtype=np.float64)
        return float(total)

    def __call__(self, vector: Any) -> Any:
        """Return T applied to ``vector``, a pressure field, as a new array."""
        f = self._stages.fields
        f.p[...] = vector
        f.rho[...] = 0
        self._step_from_rest()
        out = f.p.copy()
        if self._stages.coefficients.lossy:
            f.p[...] = 0
            self._step_from_rest()
            out *= 2
            out -= f.p
        out *= -1
        return out

    def _step_from_rest(self) -> None:
        stages = self._stages
        stages.layout.finish_exchanges()
        for component in stages.fields.u:
            component[...] = 0
        stages.transform_pressure()
        self._step.take(self._number)
        self._number += 1
        stages.layout.finish_exchanges()

"""Takes adjoint time steps: the transposed stages of the time step, from the last stage to the first.

An adjoint step starts from the derivatives of the objective with respect to the fields after a step, p̄, ū_ξ
and ρ̄_ξ. It computes those with respect to the fields before the step, and adds to the medium's derivatives:

    q = c₀² p̄,  ρ̄_ξ += q (1 + B/A ρ/ρ₀) − L2{η q}                           (`pressure`)
    g_ξ = ρ₀ L1{τ q} − m f ρ̄_ξ,  ρ̄_ξ ← f² ρ̄_ξ [+ 2Δt m̄],  ū_ξ += Dᵀ g_ξ     (`density`)
    p̄ = −Σ Gᵀ{f Δt/ρ₀ ū_ξ},  ū_ξ ← f² ū_ξ                                   (`velocity`)

with the PML factor f and m = Δt ρ₀ or, with the term in brackets, Δt (2ρ + ρ₀) in a nonlinear step. G and D
are the derivatives of p and of u; transposed, they have the opposite shift: Dᵀ = −G, Gᵀ = −D. So an adjoint
step has the same transforms as a step, with the same kernels. m̄ and the derivatives with respect to ρ₀ need
∂u and ∂p of the forward step. These follow from the forward fields before and after it, without transforms.
Adjoint-state method: Plessix 2006 (doi:10.1111/j.1365-246X.2006.02978.x); this scheme in absorbing media:
Arridge et al. 2016 (doi:10.1088/1361-6420/32/11/115012).
"""

import operator
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.adjoint import kernels
from wavefabric.acoustics.solver.adjoint.sources import AdjointSources
from wavefabric.acoustics.solver.coefficients import Fields
from wavefabric.acoustics.solver.formulas import absorption_factors
from wavefabric.acoustics.solver.stages import AdjointChange, Stages

#: A medium absorbs everywhere if absorption changes the density by more machine epsilons than this, for waves
#: of which `_WAVES` fit in the grid.
_LEAST_LOSS, _WAVES = 3e3, 8
#: Medium parameters to differentiate by, named as in `Problem`.
MEDIUM = ("sound_speed", "density", "alpha_coeff", "nonlinearity")


def needs_states(problem: Problem, wrt: frozenset[str]) -> bool:
    """Return whether adjoint steps need the fields of the simulation itself (forward fields).

    They do in a nonlinear medium, or for derivatives with respect to medium parameters.
    """
    return problem.nonlinearity is not None or bool(wrt & set(MEDIUM))


def needs_differences(problem: Problem, wrt: frozenset[str]) -> bool:
    """Return whether an adjoint step needs two sets of forward fields: before and after the step."""
    return problem.nonlinearity is not None or bool(wrt & {"density", "alpha_coeff"})


class AdjointStep:
    """Holds the adjoint fields of a simulation and takes adjoint steps of its ``stages``.

    ``fields`` are p̄, ū and ρ̄, the derivatives of the objective with respect to p, u and ρ. ``wrt`` names
    the medium parameters, as in `Problem`, and the sources to differentiate by. `gradients` returns the
    derivatives for the medium. For ``scaled`` see `AdjointSources`.
    """

    def __init__(self, stages: Stages, wrt: frozenset[str], scaled: frozenset[str] = frozenset()):
        c = stages.coefficients
        self._stages, self._c = stages, c
        self.kernels = c.device.kernels(kernels.TABLE)
        self.kernels.load(c.dtype, wait=stages.layout.comm is not None)
        self.sources = AdjointSources(stages, self.kernels, wrt, scaled)
        self.fields = Fields(c)
        #: Copies of the forward fields after a step, if those before the step are needed too; clock shared.
        self.after_step = Fields(c) if needs_differences(c.problem, wrt) else None
        if self.after_step is not None:
            self.after_step.clock = stages.fields.clock
        self._minus_one = c.device.asarray(-np.ones((1, 1), c.dtype))
        self._first_row = c.device.zeros(1, np.int64)

        def sums(name: str) -> Any:
            return c.device.zeros(c.shape if name in wrt else (0, 1, 1), c.dtype)

        #: Derivatives, (Nz, Ny, Nx) each; empty if not requested.
        self._medium = {name: sums(name) for name in MEDIUM}
        self._staggered = [sums("density") for _ in stages.fields.u]
        self._scratch = [c.device.empty(c.shape, c.dtype) for _ in range(max(c.axes, 1 + c.lossy))]
        self._structures: dict[tuple[int, int], tuple] = {}
        self._power = c.dtype.type(c.problem.alpha_power)
        self._differs = c.nonlinear or "density" in wrt
        # If the medium absorbs everywhere, absorption itself gives the derivatives with respect to α₀.
        problem, source = c.problem, c.problem.pressure_source
        # The smallest absorbed part of the density, τ c₀ k^(y−1), of waves of which `_WAVES` fit in the grid.
        k = 2 * np.pi * _WAVES / max(map(operator.mul, c.subdomain.shape, problem.spacing))
        tau_c = -absorption_factors(problem)[0] * problem.reference_speed**problem.alpha_power
        loss = float(np.min(problem.alpha_coeff) * tau_c * k ** (problem.alpha_power - 1))
        facts = loss, source is not None and source.mode == "dirichlet"
        comm = stages.layout.comm
        losses, replaced = zip(*([facts] if comm is None else comm.control.all_gather(facts)), strict=True)
        self._absorbs = min(losses) > _LEAST_LOSS * np.finfo(c.dtype).eps
        self._replaced = any(replaced)
        self._unit = c.tau
        if "alpha_coeff" in wrt:
            self._unit = c.parameter(c.problem.alpha_coeff)
            if not self._absorbs:  # τ of α₀ = 1
                self._unit, one = c.device.empty(c.speed.shape, c.dtype), np.ones((1, 1, c.shape[2]), c.dtype)
                c.fill_tau(self._unit, c.speed, c.device.asarray(one))
        # ρ₀ ∇·u, which absorption depends on; from the fields before and after if no source replaces them.
        self._rate = None
        if c.lossy and ("density" in wrt or ("alpha_coeff" in wrt and not self._absorbs)):
            self._rate = c.device.empty(c.shape, c.dtype)

    def _change(self, before: Fields, after: Fields) -> AdjointChange:
        density = self._medium["density"], self._staggered, self._differs
        return AdjointChange(self.fields, before, after, self._scratch[0], *density, self._structures)

    @staticmethod
    def nbytes(problem: Problem, wrt: frozenset[str], fields: int, field: int) -> int:
        """Return the bytes of device memory of an adjoint step.

        ``fields`` are the bytes of `Fields`, ``field`` those of one field.
        """
        medium = len(wrt & set(MEDIUM)) + problem.dimensions * ("density" in wrt) + ("alpha_coeff" in wrt)
        return fields * (1 + needs_differences(problem, wrt)) + field * (medium + 6)

    def arrays(self) -> dict[str, Any]:
        """Return a dictionary from name to array of all that a checkpoint stores."""
        named = {f"adjoint/{name}": array for name, array in self.fields.named().items()}
        named |= {f"gradient/{name}": array for name, array in self.gradients().items()}
        if self._c.lossy:  # between `transpose_pressure` and `transpose_motion`
            named["adjoint/rate"] = self._scratch[0]
            if self._rate is not None:
                named["forward/rate"] = self._rate
        return named | {f"product/{name}": array for name, array in self.sources.products.items()}

    def gradients(self) -> dict[str, Any]:
        """Return a dictionary from medium parameter to derivative, summed over the steps so far.

        Derivatives with respect to the staggered densities are named ``density_x``, ….
        """
        staggered = {f"density_{axis}": array for axis, array in zip("xyz", self._staggered, strict=False)}
        return {name: array for name, array in (self._medium | staggered).items() if array.size}

    @property
    def repeatable(self) -> bool:
        """Whether all steps but the first only run stages and launch kernels."""
        return self._rate is None or not self._replaced

    # --- A step: `transpose_pressure`, then `transpose_motion`; forward fields may be restored in between ---

    def _sets_initial_pressure(self, number: int) -> bool:
        """Return whether an initial pressure replaces the result of step ``number``."""
        return number == 0 and self._c.problem.initial_pressure is not None

    def transpose_pressure(self, number: int, forward: Fields) -> None:
        """Do the pressure stage's transpose; ``forward`` are the simulation's own fields after the step."""
        c, f = self._c, self.fields
        if self._sets_initial_pressure(number):
            self._split_of_initial_pressure(forward.p)
            return
        fused = self._stages.fused_adjoint_pressure
        if fused is not None:
            fused(self._change(forward, forward))
        else:
            loss, shift = self._scratch[0], self._scratch[-1] if c.disperses else self._scratch[0]
            if c.lossy and not c.stokes:
                self.kernels.adjoint_losses(loss, shift, f.p, c.speed, c.tau, c.eta_factor, c.disperses)
                self._stages.apply_operator(loss, c.nabla1, adjoint=True)
                if c.disperses:
                    self._stages.apply_operator(shift, c.nabla2, adjoint=True)
            self.kernels.adjoint_pressure(
                f.rho, f.split_layers, loss, f.p, forward.rho, c.speed, c.density, c.ratio, c.tau, loss,
                shift, c.nonlinear, c.lossy, c.stokes, c.disperses,
            )  # fmt: skip
        if any(each.size for each in self._medium.values()):
            self._add_medium(forward)

    def _add_medium(self, forward: Fields) -> None:
        """Add this step's contribution of the equation of state to the medium's derivatives."""
        c, shift, medium = self._c, self._scratch[-1], self._medium
        lossy = medium["alpha_coeff"].size and not self._absorbs
        if c.disperses and (medium["sound_speed"].size or lossy):
            self._stages.apply_operator(forward.rho, c.nabla2, out=shift)
        self.kernels.medium_gradients(
            self.fields.p, *medium.values(), forward.p, forward.rho, c.speed, c.density, c.ratio, c.tau,
            self._unit, shift, self._power, c.eta_factor, c.nonlinear, c.lossy, c.disperses, self._absorbs,
        )  # fmt: skip
        if self._rate is not None and self._replaced:
            self._stages.divergence(forward.u, self._rate)

    def forward_after_step(self, forward: Fields) -> Fields:
        """Return the forward fields after a step: ``forward`` itself, or a copy if they will be overwritten.

        A copy is made if the derivatives also need the fields before the step at the same time.
        """
        if self.after_step is None:
            return forward
        copied = self.after_step
        pairs = [
            (copied.rho, forward.rho),
            *zip(copied.split_layers.parts, forward.split_layers.parts, strict=True),
        ]
        if self._staggered[0].size:
            pairs += zip(copied.u, forward.u, strict=True)
        for target, source in pairs:
            if target.size:
                self._c.device.copy(target, source)
        return copied

    def _add_rate(self, rate: Any, before: Fields, after: Fields) -> None:
        """Add the derivatives of a step's absorption term τ L1{ρ₀ ∇·u} with respect to ρ₀ and α₀."""
        c, f, rate_bar = self._c, self.fields, self._scratch[0]
        if self._replaced:
            if self._medium["density"].size:
                self._medium["density"][...] += rate_bar * rate / c.density
            rate *= c.density
        else:
            self.kernels.forward_rate(
                rate, f.split_layers, rate_bar, c.density, self._medium["density"], before.rho,
                before.split_layers, after.rho, after.split_layers, c.dt, c.nonlinear,
            )  # fmt: skip
        if self._medium["alpha_coeff"].size and not self._absorbs:
            if not c.stokes:
                self._stages.apply_operator(rate, c.nabla1)
            self.kernels.alpha_gradient(self._medium["alpha_coeff"], f.p, c.speed, self._unit, rate)

    def transpose_motion(self, number: int, before: Fields, after: Fields) -> None:
        """Do the transposes of the density and velocity stages of step ``number``.

        ``before`` and ``after`` are the forward fields, those of the simulation itself, before and after the
        step. What sources added in the step is subtracted from ``after``. The clock of the forward fields
        must be ``number``.
        """
        stages, c, f = self._stages, self._c, self.fields
        if self._sets_initial_pressure(number):
            self._motion_of_initial_pressure(before, after)
            return
        if self.after_step is not None:
            self.sources.remove(after, number)
        change = self._change(before, after)
        if self._rate is not None:
            self._add_rate(self._rate, before, after)
        gradients = self._scratch[: c.axes]
        self.sources.pressure(f, number)
        sources_act = self.sources.acts_on_velocity(number)
        if not sources_act and (fused := stages.fused_adjoint_motion) is not None:
            fused(change)
            return
        self.kernels.adjoint_density(
            f.rho, f.split_layers, *f.three(gradients), c.density, change.density_bar, before.rho,
            before.split_layers, after.rho, after.split_layers, c.dt, c.nonlinear, c.lossy,
            change.differs, c.axes,
        )  # fmt: skip
        stages.adjoint_divergence(gradients)
        if sources_act:  # sources act between the two stages
            for component, gradient in zip(f.u, gradients, strict=True):
                c.kernels.add_pattern(component, gradient, self._minus_one, self._first_row)
            self.sources.velocity(f, number)
        self._velocity(change, c.pml_staggered, c.dt, not sources_act)

    def count_step(self, number: int) -> None:
        """Mark step ``number`` as done, so that the source values read in it can leave the device."""
        if not self._sets_initial_pressure(number):
            self.sources.count_read(number)

    def _velocity(self, change: AdjointChange, pml: list, dt: Any, subtracts: bool) -> None:
        c, f, gradients = self._c, self.fields, self._scratch[: self._c.axes]
        for axis, (component, gradient) in enumerate(zip(f.u, gradients, strict=True)):
            self.kernels.adjoint_velocity(
                component, gradient, c.staggered[axis], pml[axis], self._staggered[axis],
                change.before.u[axis], change.after.u[axis], axis, dt, subtracts,
            )  # fmt: skip
        self._stages.adjoint_gradient(gradients, f.p)

    def _split_of_initial_pressure(self, p0: Any) -> None:
        """Add to p̄ the derivative with respect to p₀ through the D split densities ρ_ξ = p₀/(D c₀²).

        The derivative with respect to the sound speed c₀ is also added, if requested.
        """
        c, f, gradient = self._c, self.fields, self._scratch[0]
        self.kernels.density_sum(gradient, f.rho, f.split_layers, c.dimensions)
        gradient /= c.dimensions * c.speed * c.speed
        f.p += gradient
        if self._medium["sound_speed"].size:
            gradient *= p0 / c.speed
            self._medium["sound_speed"][...] -= gradient + gradient

    def _motion_of_initial_pressure(self, before: Fields, after: Fields) -> None:
        """Add to p̄ the derivative with respect to p₀ through the first velocity, u = Δt/(2ρ₀) ∂p₀."""
        c, f, p_bar = self._c, self.fields, self.fields.p.copy()
        for component in before.u:
            component[...] = 0
        rest = self._change(before, after)
        self._velocity(rest, [vector * 0 + 1 for vector in c.pml_staggered], -c.half_dt, False)
        f.p += p_bar

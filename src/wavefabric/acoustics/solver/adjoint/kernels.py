"""Table of the whole-array kernels of the adjoint time step; `wavefabric.runtime.kernels` has their formulas.

Conventions are those of `wavefabric.acoustics.solver.kernels`. A bar is the derivative of the objective with
respect to a field. The adjoint density is stored like the density: the part ρ̄_ξ of an axis is stored in the
PML layers of this axis, and equals ``total`` elsewhere. f is the PML factor; L1 and L2 are the fractional
Laplacians of loss and dispersion. An output that is not requested is an empty array.

- ``adjoint_losses``: loss = τ c₀² p̄ and shift = η c₀² p̄, to which the fractional Laplacians are applied.
- ``adjoint_pressure``: ρ̄_ξ += c₀² p̄ (1 + B/A ρ/ρ₀) − L2{η c₀² p̄}; rate = ρ₀ L1{τ c₀² p̄}, the derivative
  with respect to ∇·u. This is the transpose of ``update_pressure`` and ``absorption_terms``. ``loss`` and
  ``shift`` are L1 and L2 of the results of ``adjoint_losses``; ``rate`` may be ``loss``.
- ``adjoint_density``: the transpose of ``update_density``: g_ξ = rate − m f ρ̄_ξ and ρ̄_ξ ← f² ρ̄_ξ. Here
  m is Δt ρ₀ or, in a nonlinear step, Δt (2ρ + ρ₀). If ``lossy``, ``gx`` holds ``rate`` at first. ``before``
  and ``after`` are forward densities, with their parts, before and after the step, without what sources
  added. If ``differs``, m̄ is computed from them: m̄ m = −Σ ρ̄_ξ (f² ρ_ξ,before − ρ_ξ,after). Δt m̄ is added
  to ``density_gradient`` and, in a nonlinear step, 2Δt m̄ to each ρ̄_ξ.
- ``adjoint_velocity``: the transpose of ``update_velocity``: g ← f Δt/ρ₀ ū and ū ← f² ū; with ``subtracts``,
  ū −= g comes first. ``density_gradient`` += ū (f² u_before − u_after)/ρ₀, with forward velocities.
- ``medium_gradients``: adds one step's derivatives of the equation of state, p = c₀² (ρ + B/A ρ²/(2ρ₀) + A),
  with respect to the medium. The absorption A = τ L1{ρ₀ ∇·u} − η L2{ρ} follows from p and ρ. ``shift`` is
  L2{ρ}; τ is proportional to c₀^(y−1), η to c₀^y, with y = ``power``. If the medium ``absorbs`` everywhere,
  ``unit`` is α₀, to which A is proportional. If not, ``unit`` is τ₁, the τ of α₀ = 1, and of the derivative
  with respect to α₀ only the L2 part is added.
- ``alpha_gradient``: adds the L1 part, gradient += p̄ c₀² τ₁ L1{ρ₀ ∇·u}.
- ``forward_rate``: rate = ρ₀ ∇·u of the step between two densities; ``density_gradient`` += ``rate_bar``
  ∇·u/ρ₀.
- ``density_sum``: out = Σ ρ̄_ξ over ``parts`` split parts.
- ``add_readings``: field[index_i] += Σ weights · values[columns], from bounds[i] to bounds[i + 1]; the values
  are this time step's row of the ring buffer ``rows``.
- ``accumulate_products``: sums_i += field[index_i] · w_i · signal[first_i, i or 0], nothing beyond the
  signal's end.
"""

from wavefabric.acoustics.solver.kernels import BEFORE
from wavefabric.runtime.kernels.table import kernel_table

TABLE = kernel_table(
    """
    points adjoint_losses(array loss, array shift, array p, medium speed, medium tau, real eta_factor, int
        disperses)
    points adjoint_pressure(array total, layers layers, array rate, array p, array rho, medium speed, medium
        density, medium ratio, medium tau, array loss, array shift, int nonlinear, int lossy, int stokes, int
        disperses)
    points adjoint_density(array total, layers layers, array gx, array gy, array gz, medium density, optional
        array density_gradient, array before, parts before, array after, parts after, real dt, int nonlinear,
        int lossy, int differs, int axes)
    points adjoint_velocity(array u, array gradient, medium density, array pml, optional array
        density_gradient, array before, array after, int axis, real dt, int subtracts)
    points medium_gradients(array p_bar, optional array speed, optional array density, optional array alpha,
        optional array ratio, array p, array rho, medium speed, medium density, medium ratio, medium tau,
        medium unit, array shift, real power, real eta_factor, int nonlinear, int lossy, int disperses, int
        absorbs)
    points forward_rate(array rate, layers layers, array rate_bar, medium density, optional array
        density_gradient, array before, parts before, array after, parts after, real dt, int nonlinear)
    points alpha_gradient(array gradient, array p_bar, medium speed, medium unit_tau, array loss)
    points density_sum(array out, array total, layers layers, real parts)
    items add_readings(array field, counted indices index, indices bounds, indices columns, doubles weights,
        shape array rows, indices clock)
    items accumulate_products(array sums, array field, counted indices index, shape array signal, counted
        indices first, counted array weights)
    """,
    "wavefabric.acoustics.solver.adjoint",
    "kernels.cu",
    (*BEFORE, "wavefabric.acoustics.solver.adjoint/density.cu"),
)

"""Pointwise kernels of the adjoint time step (Numba); ``kernels.cu`` holds the same for CUDA.

Conventions are those of ``kernels.py``. A bar is the derivative of the objective with respect to a field. The
adjoint density is kept as densities are: ``total`` is what every part ρ̄_ξ is where its layer does not damp,
and the `SplitLayers` hold the parts inside the layers. An array of no elements is one that nobody asks for.
"""

from typing import Any, NamedTuple

import numpy as np

from wavefabric.acoustics.solver.row_kernels import row_of, source_density_row
from wavefabric.device.parallel_kernels import parallel_kernel, thread_range
from wavefabric.system.numba_cache import njit

_ROW: dict[str, Any] = dict(inline="never", nogil=True, error_model="numpy")


class MediumGradients(NamedTuple):
    """Derivatives with respect to c₀, ρ₀, α₀ and B/A, (Nz, Ny, Nx) each."""

    speed: Any
    density: Any
    alpha: Any
    ratio: Any


@parallel_kernel
def adjoint_losses(thread, loss, shift, p, speed, tau, eta_factor, disperses):
    """loss = τ c₀² p̄ and shift = η c₀² p̄: what the fractional Laplacians are applied to."""
    for z in thread_range(thread, p.shape[0]):
        for y in range(p.shape[1]):
            c, t = row_of(speed, z, y), row_of(tau, z, y)
            for x in range(p.shape[2]):
                value = t[x] * c[x] * c[x] * p[z, y, x]
                loss[z, y, x] = value
                if disperses:
                    shift[z, y, x] = eta_factor * c[x] * value


@parallel_kernel
def adjoint_pressure(
    thread, total, split_layers, rate, p, rho, speed, density, ratio, tau, loss, shift,
    nonlinear, lossy, stokes, disperses,
):  # fmt: skip
    """ρ̄_ξ += c₀² p̄ (1 + B/A ρ/ρ₀) − L2{η c₀² p̄}; rate = ρ₀ L1{τ c₀² p̄}, the derivative with respect to ∇·u.

    The transpose of `update_pressure` and `absorption_terms`; ``loss`` and ``shift`` are L1 and L2 of
    `adjoint_losses`. ``rate`` may be ``loss``.
    """
    one = p.dtype.type(1)
    for z in thread_range(thread, p.shape[0]):
        more = np.empty(p.shape[2], p.dtype)
        for y in range(p.shape[1]):
            c, rho0 = row_of(speed, z, y), row_of(density, z, y)
            b, t = row_of(ratio, z, y), row_of(tau, z, y)
            for x in range(more.size):
                q = c[x] * c[x] * p[z, y, x]
                if lossy:
                    rate[z, y, x] = rho0[x] * (t[x] * q if stokes else loss[z, y, x])
                if nonlinear:
                    q += q * b[x] * rho[z, y, x] / rho0[x]
                if disperses:
                    q -= shift[z, y, x]
                more[x] = q
            source_density_row(total[z, y], split_layers, more, one, one, z, y)


@njit(**_ROW)
def _damped_work(part, factor, bar, before, after):
    """What a part that is damped changes of −ρ̄ (ρ_before − ρ_after)."""
    return bar * (before - after) - part * (factor * factor * before - after)


@parallel_kernel
def adjoint_density(
    thread, total, split_layers, gx, gy, gz, density, density_gradient,
    before, layers_before, after, layers_after, dt, nonlinear, lossy, differs, axes,
):  # fmt: skip
    """The transpose of `update_density`: g_ξ = rate − m f ρ̄_ξ, ρ̄_ξ ← f² ρ̄_ξ + 2Δt m̄, with m = Δt (2ρ + ρ₀).

    ``gx`` holds ``rate`` if ``lossy``. ``before`` and ``after`` are forward densities before and after the
    step, without what a source has added. If ``differs``, m̄ m = −Σ ρ̄_ξ (f² ρ_ξ,before − ρ_ξ,after) follows
    from them, which enters ρ̄ where the step is ``nonlinear``, and Δt m̄ is added to ``density_gradient``.
    """
    zero, one = total.dtype.type(0), total.dtype.type(1)
    for z in thread_range(thread, total.shape[0]):
        for y in range(total.shape[1]):
            row, rho0, was, now = total[z, y], row_of(density, z, y), before[z, y], after[z, y]
            part_x, before_x, after_x = split_layers.x[z, y], layers_before.x[z, y], layers_after.x[z, y]
            # Where an axis does not damp, its part is the total.
            part_y, before_y, after_y, factor_y, in_y = row, was, now, one, split_layers.at_y[y]
            part_z, before_z, after_z, factor_z, in_z = row, was, now, one, split_layers.at_z[z]
            if in_y >= 0:
                part_y, factor_y = split_layers.y[z, in_y], split_layers.pml_y[y]
                before_y, after_y = layers_before.y[z, in_y], layers_after.y[z, in_y]
            if in_z >= 0:
                part_z, factor_z = split_layers.z[in_z, y], split_layers.pml_z[z]
                before_z, after_z = layers_before.z[in_z, y], layers_after.z[in_z, y]
            for x in range(row.size):
                i, bar, factor = split_layers.at_x[x], row[x], split_layers.pml_x[x]
                mass = dt * (was[x] + was[x] + rho0[x]) if nonlinear else dt * rho0[x]
                rate, more = gx[z, y, x] if lossy else zero, zero
                gx[z, y, x] = rate - mass * factor * (part_x[i] if i >= 0 else bar)
                if axes > 1:
                    gy[z, y, x] = rate - mass * factor_y * part_y[x]
                if axes > 2:
                    gz[z, y, x] = rate - mass * factor_z * part_z[x]
                if differs:
                    work = bar * (now[x] - was[x])
                    if i >= 0:
                        work += _damped_work(part_x[i], factor, bar, before_x[i], after_x[i])
                    if in_y >= 0:
                        work += _damped_work(part_y[x], factor_y, bar, before_y[x], after_y[x])
                    if in_z >= 0:
                        work += _damped_work(part_z[x], factor_z, bar, before_z[x], after_z[x])
                    work *= dt / mass
                    if density_gradient.size > 0:
                        density_gradient[z, y, x] += work
                    if nonlinear:
                        more = work + work
                row[x] = bar + more
                if i >= 0:
                    part_x[i] = factor * factor * part_x[i] + more
                if in_y >= 0:
                    part_y[x] = factor_y * factor_y * part_y[x] + more
                if in_z >= 0:
                    part_z[x] = factor_z * factor_z * part_z[x] + more


@parallel_kernel
def adjoint_velocity(thread, u, g, density, pml, density_gradient, before, after, axis, dt, subtracts):
    """The transpose of `update_velocity` for one component: g ← f Δt/ρ₀ ū and ū ← f² ū.

    If ``subtracts``, ū −= g comes first. ``density_gradient`` += ū (f² u_before − u_after)/ρ₀, of the
    forward velocities before and after the step, without what a source has added.
    """
    for z in thread_range(thread, u.shape[0]):
        for y in range(u.shape[1]):
            row, slope, rho = u[z, y], g[z, y], row_of(density, z, y)
            for x in range(row.size):
                factor = pml[x] if axis == 0 else pml[y] if axis == 1 else pml[z]
                bar = row[x] - slope[x] if subtracts else row[x]
                if density_gradient.size > 0:
                    change = factor * factor * before[z, y, x] - after[z, y, x]
                    density_gradient[z, y, x] += bar * change / rho[x]
                slope[x] = factor * dt / rho[x] * bar
                row[x] = factor * factor * bar


@parallel_kernel
def medium_gradients(
    thread, gradients, p_bar, p, rho, speed, density, ratio, tau, unit, shift, power, eta_factor,
    nonlinear, lossy, disperses, absorbs,
):  # fmt: skip
    """Add what the equation of state gives in one step, p = c₀² (ρ + B/A ρ²/(2ρ₀) + A), A = τ L1 − η L2{ρ}.

    A follows from p and ρ. ``shift`` is L2{ρ}; τ goes with c₀^(y−1), η with c₀^y, y is ``power``. If it
    ``absorbs`` everywhere ``unit`` is α₀, with which A goes; else τ for α₀ = 1, and of the derivative with
    respect to α₀ this is the part of L2, `alpha_gradient` that of L1.
    """
    less, zero = power - p.dtype.type(1), p.dtype.type(0)
    speed_bar, density_bar, alpha_bar, ratio_bar = gradients  # Numba drops what is put into members
    for z in thread_range(thread, p.shape[0]):
        for y in range(p.shape[1]):
            speeds, densities, ratios = row_of(speed, z, y), row_of(density, z, y), row_of(ratio, z, y)
            taus, units = row_of(tau, z, y), row_of(unit, z, y)
            for x in range(p.shape[2]):
                bar, c, r, over = p_bar[z, y, x], speeds[x], rho[z, y, x], zero
                if nonlinear:
                    over = c * c * r * r / (densities[x] + densities[x])  # by B/A: what it adds to p
                loss = p[z, y, x] - c * c * r - ratios[x] * over if lossy else zero  # c₀² A
                moved = eta_factor * c * c * c * shift[z, y, x] if disperses else zero  # c₀² η L2{ρ}/τ
                if speed_bar.size > 0:
                    slope = p[z, y, x] + p[z, y, x] + less * loss - taus[x] * moved
                    speed_bar[z, y, x] += bar * slope / c
                if alpha_bar.size > 0:
                    alpha_bar[z, y, x] += bar * (loss / units[x] if absorbs else -units[x] * moved)
                if nonlinear and ratio_bar.size > 0:
                    ratio_bar[z, y, x] += bar * over
                if nonlinear and density_bar.size > 0:
                    density_bar[z, y, x] -= bar * ratios[x] * over / densities[x]


@parallel_kernel
def forward_rate(
    thread, rate, split_layers, rate_bar, density, density_gradient, before, layers_before,
    after, layers_after, dt, nonlinear,
):  # fmt: skip
    """rate = ρ₀ ∇·u of the step between the densities ``before`` and ``after``, of which it follows.

    ``density_gradient`` += ``rate_bar`` ∇·u/ρ₀, the derivative with respect to ρ₀ in ``rate``.
    """
    one = rate.dtype.type(1)
    for z in thread_range(thread, rate.shape[0]):
        for y in range(rate.shape[1]):
            rho0, in_y, in_z = row_of(density, z, y), split_layers.at_y[y], split_layers.at_z[z]
            for x in range(rate.shape[2]):
                i, factor, was = split_layers.at_x[x], split_layers.pml_x[x], before[z, y, x]
                value = was - after[z, y, x]
                if i >= 0:
                    value += (factor - one) * (layers_before.x[z, y, i] + layers_after.x[z, y, i] / factor)
                if in_y >= 0:
                    f = split_layers.pml_y[y]
                    value += (f - one) * (layers_before.y[z, in_y, x] + layers_after.y[z, in_y, x] / f)
                if in_z >= 0:
                    f = split_layers.pml_z[z]
                    value += (f - one) * (layers_before.z[in_z, y, x] + layers_after.z[in_z, y, x] / f)
                divergence = value / (dt * (was + was + rho0[x]) if nonlinear else dt * rho0[x])
                rate[z, y, x] = rho0[x] * divergence
                if density_gradient.size > 0:
                    density_gradient[z, y, x] += rate_bar[z, y, x] * divergence / rho0[x]


@parallel_kernel
def alpha_gradient(thread, gradient, p_bar, speed, unit_tau, loss):
    """gradient += p̄ c₀² τ₁ L1{ρ₀ ∇·u}, τ₁ that of α₀ = 1."""
    for z in thread_range(thread, gradient.shape[0]):
        for y in range(gradient.shape[1]):
            c, unit, out = row_of(speed, z, y), row_of(unit_tau, z, y), gradient[z, y]
            for x in range(out.size):
                out[x] += p_bar[z, y, x] * c[x] * c[x] * unit[x] * loss[z, y, x]


@parallel_kernel
def density_sum(thread, out, total, split_layers, parts):
    """out = Σ ρ̄_ξ over so many ``parts`` (a real scalar)."""
    for z in thread_range(thread, total.shape[0]):
        for y in range(total.shape[1]):
            in_y, in_z = split_layers.at_y[y], split_layers.at_z[z]
            for x in range(total.shape[2]):
                i, bar = split_layers.at_x[x], total[z, y, x]
                sums = parts * bar
                if i >= 0:
                    sums += split_layers.x[z, y, i] - bar
                if in_y >= 0:
                    sums += split_layers.y[z, in_y, x] - bar
                if in_z >= 0:
                    sums += split_layers.z[in_z, y, x] - bar
                out[z, y, x] = sums


@parallel_kernel
def add_readings(thread, field, index, bounds, columns, weights, values, row):
    """field[index_i] += Σ weights · values[row, columns], from bounds[i] to bounds[i + 1]."""
    flat, source = field.reshape(-1), values[row]
    for i in thread_range(thread, index.size):
        sums = 0.0
        for j in range(bounds[i], bounds[i + 1]):
            sums += weights[j] * source[columns[j]]
        flat[index[i]] += sums


@parallel_kernel
def accumulate_products(thread, sums, field, index, signal, first, weights):
    """sums_i += field[index_i] · w_i · signal[first_i, i or 0], nothing beyond the signal's end."""
    flat = field.reshape(-1)
    for i in thread_range(thread, index.size):
        at = first[i] if first.size > 1 else first[0]
        if at < signal.shape[0]:
            value = signal[at, i] if signal.shape[1] > 1 else signal[at, 0]
            sums[i] += flat[index[i]] * value * (weights[i] if weights.size > 1 else weights[0])


def load(dtype):
    """Kernels of this precision are about to be called: each is compiled, or read, at its first call."""

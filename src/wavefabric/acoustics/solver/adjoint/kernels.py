"""Pointwise kernels of the adjoint time step (Numba); ``kernels.cu`` holds the same for CUDA.

Conventions are those of ``kernels.py``. A bar is the derivative of the objective with respect to a field. The
adjoint density is kept as densities are: ``total`` is what every part ρ̄_ξ is where its layer does not damp,
and the `SplitLayers` hold the parts inside the layers. An array of no elements is one that nobody asks for.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import prange

from wavefabric.acoustics.solver.row_kernels import mass_row, row_of, source_density_row
from wavefabric.system.numba_cache import njit

_JIT: dict[str, Any] = dict(parallel=True, nogil=True, error_model="numpy")
_ROW: dict[str, Any] = dict(inline="never", nogil=True, error_model="numpy")


class MediumGradients(NamedTuple):
    """Derivatives with respect to c₀, ρ₀, α₀ and B/A, (Nz, Ny, Nx) each."""

    speed: Any
    density: Any
    alpha: Any
    ratio: Any


@njit(**_JIT)
def adjoint_losses(loss, shift, p, speed, tau, eta_factor, disperses):
    """loss = τ c₀² p̄ and shift = η c₀² p̄: what the fractional Laplacians are applied to."""
    for z in prange(p.shape[0]):
        for y in range(p.shape[1]):
            c, t, source, out, other = (
                row_of(speed, z, y),
                row_of(tau, z, y),
                p[z, y],
                loss[z, y],
                shift[z, y],
            )
            for x in range(out.size):
                out[x] = t[x] * c[x] * c[x] * source[x]
            if disperses:
                for x in range(out.size):
                    other[x] = eta_factor * c[x] * out[x]


@njit(**_ROW)
def _pressure_row(out, p, rho, speed, density, ratio, shift, nonlinear, disperses):
    for x in range(out.size):
        out[x] = speed[x] * speed[x] * p[x]
    if nonlinear:
        for x in range(out.size):
            out[x] += out[x] * ratio[x] * rho[x] / density[x]
    if disperses:
        for x in range(out.size):
            out[x] -= shift[x]


@njit(**_ROW)
def _loss_row(rate, loss, p, speed, density, tau, stokes):
    if stokes:
        for x in range(rate.size):
            rate[x] = density[x] * tau[x] * speed[x] * speed[x] * p[x]
    else:
        for x in range(rate.size):
            rate[x] = density[x] * loss[x]


@njit(**_JIT)
def adjoint_pressure(
    total, split_layers, rate, p, rho, speed, density, ratio, tau, loss, shift,
    nonlinear, lossy, stokes, disperses,
):  # fmt: skip
    """ρ̄_ξ += c₀² p̄ (1 + B/A ρ/ρ₀) − L2{η c₀² p̄}; rate = ρ₀ L1{τ c₀² p̄}, the derivative with respect to ∇·u.

    The transpose of `update_pressure` and `absorption_terms`; ``loss`` and ``shift`` are L1 and L2 of
    `adjoint_losses`. ``rate`` may be ``loss``.
    """
    for z in prange(p.shape[0]):
        more = np.empty(p.shape[2], p.dtype)
        for y in range(p.shape[1]):
            c, rho0 = row_of(speed, z, y), row_of(density, z, y)
            _pressure_row(
                more, p[z, y], rho[z, y], c, rho0, row_of(ratio, z, y), shift[z, y], nonlinear, disperses
            )
            source_density_row(total[z, y], split_layers, more, p.dtype.type(1), p.dtype.type(1), z, y)
            if lossy:
                _loss_row(rate[z, y], loss[z, y], p[z, y], c, rho0, row_of(tau, z, y), stokes)


@njit(**_ROW)
def _flow_row(out, rate, mass, part, factor, lossy):
    """out = rate − mass f part: the derivative with respect to ∂u along one axis."""
    if lossy:
        for x in range(out.size):
            out[x] = rate[x] - mass[x] * factor * part[x]
    else:
        for x in range(out.size):
            out[x] = -mass[x] * factor * part[x]


@njit(**_ROW)
def _x_flow_row(out, mass, part, total, factor, runs):
    """The same along x, where f varies: what the layers change of it."""
    for run in range(runs.shape[0]):
        first, position = runs[run, 0], runs[run, 2]
        for x in range(first, runs[run, 1]):
            out[x] += mass[x] * (total[x] - factor[x] * part[position + (x - first)])


@njit(**_ROW)
def _rest_row(work, total, before, after):
    """work = −ρ̄ (ρ_before − ρ_after)."""
    for x in range(work.size):
        work[x] = total[x] * (after[x] - before[x])


@njit(**_ROW)
def _part_work_row(work, total, part, before, after, factor):
    """What a part that is damped changes of `_rest_row`."""
    for x in range(work.size):
        work[x] += total[x] * (before[x] - after[x]) - part[x] * (factor * factor * before[x] - after[x])


@njit(**_ROW)
def _x_part_work_row(work, total, part, before, after, factor, runs):
    for run in range(runs.shape[0]):
        first, position = runs[run, 0], runs[run, 2]
        for x in range(first, runs[run, 1]):
            i, square = position + (x - first), factor[x] * factor[x]
            work[x] += total[x] * (before[i] - after[i]) - part[i] * (square * before[i] - after[i])


@njit(**_ROW)
def _damp_row(part, factor, more):
    for x in range(part.size):
        part[x] = factor * factor * part[x] + more[x]


@njit(**_ROW)
def _x_damp_row(part, factor, more, runs):
    for run in range(runs.shape[0]):
        first, position = runs[run, 0], runs[run, 2]
        for x in range(first, runs[run, 1]):
            i = position + (x - first)
            part[i] = factor[x] * factor[x] * part[i] + more[x]


@njit(**_JIT)
def adjoint_density(
    total, split_layers, gx, gy, gz, density, density_gradient,
    before, layers_before, after, layers_after, dt, nonlinear, lossy, differs, axes,
):  # fmt: skip
    """The transpose of `update_density`: g_ξ = rate − m f ρ̄_ξ, ρ̄_ξ ← f² ρ̄_ξ + 2Δt m̄, with m = Δt (2ρ + ρ₀).

    ``gx`` holds ``rate`` if ``lossy``. ``before`` and ``after`` are forward densities before and after the
    step, without what a source has added. If ``differs``, m̄ m = −Σ ρ̄_ξ (f² ρ_ξ,before − ρ_ξ,after) follows
    from them, which enters ρ̄ where the step is ``nonlinear``, and Δt m̄ is added to ``density_gradient``.
    """
    for z in prange(total.shape[0]):
        nx = total.shape[2]
        mass, rate, work = (np.empty(nx, total.dtype), np.empty(nx, total.dtype), np.empty(nx, total.dtype))
        for y in range(total.shape[1]):
            row, in_y, in_z = total[z, y], split_layers.at_y[y], split_layers.at_z[z]
            runs, pml_x = split_layers.runs, split_layers.pml_x
            mass_row(mass, before[z, y], row_of(density, z, y), dt, nonlinear)
            rate[:] = gx[z, y]
            one = total.dtype.type(1)
            _flow_row(gx[z, y], rate, mass, row, one, lossy)
            _x_flow_row(gx[z, y], mass, split_layers.x[z, y], row, pml_x, runs)
            if axes > 1:
                part = split_layers.y[z, in_y] if in_y >= 0 else row
                _flow_row(gy[z, y], rate, mass, part, split_layers.pml_y[y] if in_y >= 0 else one, lossy)
            if axes > 2:
                part = split_layers.z[in_z, y] if in_z >= 0 else row
                _flow_row(gz[z, y], rate, mass, part, split_layers.pml_z[z] if in_z >= 0 else one, lossy)
            work[:] = 0
            if differs:
                _rest_row(work, row, before[z, y], after[z, y])
                _x_part_work_row(
                    work, row, split_layers.x[z, y], layers_before.x[z, y], layers_after.x[z, y], pml_x, runs
                )
                if in_y >= 0:
                    parts = layers_before.y[z, in_y], layers_after.y[z, in_y]
                    factor = split_layers.pml_y[y]
                    _part_work_row(work, row, split_layers.y[z, in_y], parts[0], parts[1], factor)
                if in_z >= 0:
                    parts = layers_before.z[in_z, y], layers_after.z[in_z, y]
                    factor = split_layers.pml_z[z]
                    _part_work_row(work, row, split_layers.z[in_z, y], parts[0], parts[1], factor)
                for x in range(nx):
                    work[x] = dt * work[x] / mass[x]
                if density_gradient.size > 0:
                    gradient = density_gradient[z, y]
                    for x in range(nx):
                        gradient[x] += work[x]
                for x in range(nx):
                    work[x] = (work[x] + work[x]) if nonlinear else total.dtype.type(0)
            for x in range(nx):
                row[x] += work[x]
            _x_damp_row(split_layers.x[z, y], pml_x, work, runs)
            if in_y >= 0:
                _damp_row(split_layers.y[z, in_y], split_layers.pml_y[y], work)
            if in_z >= 0:
                _damp_row(split_layers.z[in_z, y], split_layers.pml_z[z], work)


@njit(**_ROW)
def _velocity_row(u, g, density, factor, dt):
    for x in range(u.size):
        g[x] = factor * dt / density[x] * u[x]
    for x in range(u.size):
        u[x] = factor * factor * u[x]


@njit(**_ROW)
def _velocity_row_x(u, g, density, factor, dt):
    for x in range(u.size):
        g[x] = factor[x] * dt / density[x] * u[x]
    for x in range(u.size):
        u[x] = factor[x] * factor[x] * u[x]


@njit(**_ROW)
def _staggered_row(out, u, before, after, density, factor):
    for x in range(u.size):
        out[x] += u[x] * (factor * factor * before[x] - after[x]) / density[x]


@njit(**_ROW)
def _staggered_row_x(out, u, before, after, density, factor):
    for x in range(u.size):
        out[x] += u[x] * (factor[x] * factor[x] * before[x] - after[x]) / density[x]


@njit(**_JIT)
def adjoint_velocity(u, g, density, pml, density_gradient, before, after, axis, dt, subtracts):
    """The transpose of `update_velocity` for one component: g ← f Δt/ρ₀ ū and ū ← f² ū.

    If ``subtracts``, ū −= g comes first. ``density_gradient`` += ū (f² u_before − u_after)/ρ₀, of the
    forward velocities before and after the step, without what a source has added.
    """
    for z in prange(u.shape[0]):
        for y in range(u.shape[1]):
            row, slope, rho = u[z, y], g[z, y], row_of(density, z, y)
            if subtracts:
                for x in range(row.size):
                    row[x] -= slope[x]
            if axis == 0:
                if density_gradient.size > 0:
                    _staggered_row_x(density_gradient[z, y], row, before[z, y], after[z, y], rho, pml)
                _velocity_row_x(row, slope, rho, pml, dt)
            else:
                factor = pml[y] if axis == 1 else pml[z]
                if density_gradient.size > 0:
                    _staggered_row(density_gradient[z, y], row, before[z, y], after[z, y], rho, factor)
                _velocity_row(row, slope, rho, factor, dt)


@njit(**_ROW)
def _loss_of_row(loss, p, rho, speed, density, ratio, nonlinear):
    """loss = c₀² A = p − c₀² (ρ + B/A ρ²/(2ρ₀))."""
    for x in range(loss.size):
        loss[x] = p[x] - speed[x] * speed[x] * rho[x]
    if nonlinear:
        for x in range(loss.size):
            over = speed[x] * rho[x]
            loss[x] -= ratio[x] * over * over / (density[x] + density[x])


@njit(**_ROW)
def _speed_row(out, bar, p, speed, loss, shift, power, lossy, disperses):
    for x in range(out.size):
        out[x] += bar[x] * (p[x] + p[x]) / speed[x]
    if lossy:
        for x in range(out.size):
            out[x] += bar[x] * power * loss[x] / speed[x]
    if disperses:
        for x in range(out.size):
            out[x] -= bar[x] * shift[x] / speed[x]


@njit(**_ROW)
def _nonlinear_rows(ratio_bar, density_bar, bar, rho, speed, density, ratio):
    if ratio_bar.size > 0:
        for x in range(bar.size):
            ratio_bar[x] += bar[x] * speed[x] * speed[x] * rho[x] * rho[x] / (density[x] + density[x])
    if density_bar.size > 0:
        half = bar.dtype.type(0.5)
        for x in range(bar.size):
            over = speed[x] * rho[x] / density[x]
            density_bar[x] -= bar[x] * half * ratio[x] * over * over


@njit(**_JIT)
def medium_gradients(
    gradients, p_bar, p, rho, speed, density, ratio, tau, unit, shift, power, eta_factor,
    nonlinear, lossy, disperses, absorbs,
):  # fmt: skip
    """Add what the equation of state gives in one step, p = c₀² (ρ + B/A ρ²/(2ρ₀) + A), A = τ L1 − η L2{ρ}.

    A follows from p and ρ. ``shift`` is L2{ρ}; τ goes with c₀^(y−1), η with c₀^y, y is ``power``. If it
    ``absorbs`` everywhere ``unit`` is α₀, with which A goes; else τ for α₀ = 1, and of the derivative with
    respect to α₀ this is the part of L2, `alpha_gradient` that of L1.
    """
    less = power - p.dtype.type(1)
    for z in prange(p.shape[0]):
        loss, moved = np.empty(p.shape[2], p.dtype), np.empty(p.shape[2], p.dtype)
        for y in range(p.shape[1]):
            c, rho0, b = row_of(speed, z, y), row_of(density, z, y), row_of(ratio, z, y)
            bar, one, t = p_bar[z, y], row_of(unit, z, y), row_of(tau, z, y)
            if lossy:
                _loss_of_row(loss, p[z, y], rho[z, y], c, rho0, b, nonlinear)
            if disperses:
                for x in range(moved.size):
                    moved[x] = eta_factor * c[x] * c[x] * c[x] * shift[z, y, x]
            if gradients.alpha.size > 0:
                out = gradients.alpha[z, y]
                if absorbs:
                    for x in range(out.size):
                        out[x] += bar[x] * loss[x] / one[x]
                elif disperses:
                    for x in range(out.size):
                        out[x] -= bar[x] * one[x] * moved[x]
            if gradients.speed.size > 0:
                if disperses:
                    for x in range(moved.size):
                        moved[x] *= t[x]
                _speed_row(gradients.speed[z, y], bar, p[z, y], c, loss, moved, less, lossy, disperses)
            if nonlinear:
                ratio_bar = gradients.ratio[z, y] if gradients.ratio.size > 0 else loss[:0]
                density_bar = gradients.density[z, y] if gradients.density.size > 0 else loss[:0]
                _nonlinear_rows(ratio_bar, density_bar, bar, rho[z, y], c, rho0, b)


@njit(**_ROW)
def _rate_row(rate, part_before, part_after, factor):
    for x in range(rate.size):
        rate[x] += (factor - 1) * part_before[x] + (1 - 1 / factor) * part_after[x]


@njit(**_JIT)
def forward_rate(
    rate, split_layers, rate_bar, density, density_gradient, before, layers_before, after, layers_after,
    dt, nonlinear,
):  # fmt: skip
    """rate = ρ₀ ∇·u of the step between the densities ``before`` and ``after``, of which it follows.

    ``density_gradient`` += ``rate_bar`` ∇·u/ρ₀, the derivative with respect to ρ₀ in ``rate``.
    """
    for z in prange(rate.shape[0]):
        mass = np.empty(rate.shape[2], rate.dtype)
        for y in range(rate.shape[1]):
            row, rho0, runs = rate[z, y], row_of(density, z, y), split_layers.runs
            in_y, in_z = split_layers.at_y[y], split_layers.at_z[z]
            mass_row(mass, before[z, y], rho0, dt, nonlinear)
            for x in range(row.size):
                row[x] = before[z, y, x] - after[z, y, x]
            for run in range(runs.shape[0]):
                first, position = runs[run, 0], runs[run, 2]
                for x in range(first, runs[run, 1]):
                    i, factor = position + (x - first), split_layers.pml_x[x]
                    change = (1 - 1 / factor) * layers_after.x[z, y, i]
                    row[x] += (factor - 1) * layers_before.x[z, y, i] + change
            if in_y >= 0:
                _rate_row(row, layers_before.y[z, in_y], layers_after.y[z, in_y], split_layers.pml_y[y])
            if in_z >= 0:
                _rate_row(row, layers_before.z[in_z, y], layers_after.z[in_z, y], split_layers.pml_z[z])
            for x in range(row.size):
                row[x] *= rho0[x] / mass[x]
            if density_gradient.size > 0:
                for x in range(row.size):
                    density_gradient[z, y, x] += rate_bar[z, y, x] * row[x] / (rho0[x] * rho0[x])


@njit(**_JIT)
def alpha_gradient(gradient, p_bar, speed, unit_tau, loss):
    """gradient += p̄ c₀² τ₁ L1{ρ₀ ∇·u}, τ₁ that of α₀ = 1."""
    for z in prange(gradient.shape[0]):
        for y in range(gradient.shape[1]):
            c, unit, out = row_of(speed, z, y), row_of(unit_tau, z, y), gradient[z, y]
            for x in range(out.size):
                out[x] += p_bar[z, y, x] * c[x] * c[x] * unit[x] * loss[z, y, x]


@njit(**_JIT)
def density_sum(out, total, split_layers, parts):
    """out = Σ ρ̄_ξ over so many ``parts`` (a real scalar)."""
    for z in prange(total.shape[0]):
        for y in range(total.shape[1]):
            row, sums, runs = total[z, y], out[z, y], split_layers.runs
            for x in range(row.size):
                sums[x] = parts * row[x]
            for run in range(runs.shape[0]):
                first, position = runs[run, 0], runs[run, 2]
                for x in range(first, runs[run, 1]):
                    sums[x] += split_layers.x[z, y, position + (x - first)] - row[x]
            in_y, in_z = split_layers.at_y[y], split_layers.at_z[z]
            if in_y >= 0:
                for x in range(row.size):
                    sums[x] += split_layers.y[z, in_y, x] - row[x]
            if in_z >= 0:
                for x in range(row.size):
                    sums[x] += split_layers.z[in_z, y, x] - row[x]


@njit(**_JIT)
def add_readings(field, index, bounds, columns, weights, values, row):
    """field[index_i] += Σ weights · values[row, columns], from bounds[i] to bounds[i + 1]."""
    flat, source = field.reshape(-1), values[row]
    for i in prange(index.size):
        sums = 0.0
        for j in range(bounds[i], bounds[i + 1]):
            sums += weights[j] * source[columns[j]]
        flat[index[i]] += sums


@njit(**_JIT)
def accumulate_products(sums, field, index, signal, first, weights):
    """sums_i += field[index_i] · w_i · signal[first_i, i or 0], nothing beyond the signal's end."""
    flat = field.reshape(-1)
    for i in prange(index.size):
        at = first[i] if first.size > 1 else first[0]
        if at < signal.shape[0]:
            value = signal[at, i] if signal.shape[1] > 1 else signal[at, 0]
            sums[i] += flat[index[i]] * value * (weights[i] if weights.size > 1 else weights[0])


def load(dtype):
    """Kernels of this precision are about to be called: each is compiled, or read, at its first call."""

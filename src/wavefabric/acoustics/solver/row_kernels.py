"""What the sweeps do to one row of a grid: one output a loop, so that the compiler vectorises it.

A loop with many outputs needs more checks for overlapping arrays than LLVM is willing to make; rows stay
in the first-level cache, so several short loops cost no memory traffic.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from wavefabric.system.numba_cache import njit

_ROW: dict[str, Any] = dict(inline="never", nogil=True, error_model="numpy")


class MediumArrays(NamedTuple):
    """c₀, ρ₀, B/A, τ and η, each a full grid ``(Nz, Ny, Nx)`` or one row ``(1, 1, Nx)`` for all."""

    speed: Any
    density: Any
    ratio: Any
    tau: Any
    eta: Any


@njit(**_ROW)
def row_of(parameter, z, y):
    """Row of a full grid, or the one row ``(1, 1, Nx)`` of a uniform parameter."""
    full = parameter.shape[1] > 1 or parameter.shape[0] > 1
    return parameter[z, y] if full else parameter[0, 0]


@njit(**_ROW)
def velocity_row(u, gradient, density, factor, dt):
    """u = f (f u − Δt/ρ ∂p), f the same along the row."""
    for x in range(u.size):
        u[x] = factor * (factor * u[x] - dt / density[x] * gradient[x])


@njit(**_ROW)
def velocity_row_x(u, gradient, density, factor, dt):
    """The same with f varying along the row."""
    for x in range(u.size):
        u[x] = factor[x] * (factor[x] * u[x] - dt / density[x] * gradient[x])


@njit(**_ROW)
def mass_row(mass, rx, ry, rz, density, dt, nonlinear, three):
    """mass = Δt ρ₀, or Δt (2Σρ + ρ₀) if nonlinear."""
    if not nonlinear:
        for x in range(mass.size):
            mass[x] = dt * density[x]
    elif three:
        for x in range(mass.size):
            total = rx[x] + ry[x] + rz[x]
            mass[x] = dt * (total + total + density[x])
    else:
        for x in range(mass.size):
            total = rx[x] + ry[x]
            mass[x] = dt * (total + total + density[x])


@njit(**_ROW)
def density_row(rho, gradient, mass, factor):
    """ρ = f (f ρ − mass ∂u), f the same along the row."""
    for x in range(rho.size):
        rho[x] = factor * (factor * rho[x] - mass[x] * gradient[x])


@njit(**_ROW)
def density_row_x(rho, gradient, mass, factor):
    """The same with f varying along the row."""
    for x in range(rho.size):
        rho[x] = factor[x] * (factor[x] * rho[x] - mass[x] * gradient[x])


@njit(**_ROW)
def sum_row(total, rx, ry, rz, three):
    """total = Σρ_ξ."""
    if three:
        for x in range(total.size):
            total[x] = rx[x] + ry[x] + rz[x]
    else:
        for x in range(total.size):
            total[x] = rx[x] + ry[x]


@njit(**_ROW)
def rate_row(rate, gx, gy, gz, density, three):
    """rate = ρ₀ ∇·u."""
    if three:
        for x in range(rate.size):
            rate[x] = density[x] * (gx[x] + gy[x] + gz[x])
    else:
        for x in range(rate.size):
            rate[x] = density[x] * (gx[x] + gy[x])


@njit(**_ROW)
def pressure_row(p, extra, rx, ry, rz, medium, z, y, loss, shift, nonlinear, lossy, disperses, three):
    """p = c₀² (Σρ [+ B/A Σρ²/(2ρ₀)] [+ τ loss] [− η shift]); ``extra`` is scratch."""
    sum_row(p, rx, ry, rz, three)
    extra[:] = 0
    if nonlinear:
        ratio, density = row_of(medium.ratio, z, y), row_of(medium.density, z, y)
        for x in range(p.size):
            extra[x] += ratio[x] * p[x] * p[x] / (density[x] + density[x])
    if lossy:
        tau = row_of(medium.tau, z, y)
        for x in range(p.size):
            extra[x] += tau[x] * loss[x]
    if disperses:
        eta = row_of(medium.eta, z, y)
        for x in range(p.size):
            extra[x] -= eta[x] * shift[x]
    speed = row_of(medium.speed, z, y)
    for x in range(p.size):
        p[x] = speed[x] * speed[x] * (p[x] + extra[x])


@njit(**_ROW)
def multiply_row(out, a, b):
    """out = a b, for complex a and complex or real b of the same length."""
    for x in range(out.size):
        out[x] = a[x] * b[x]


@njit(**_ROW)
def multiply_scaled_row(out, a, b, factor):
    """out = a (b · factor), for complex a, real b, and one complex factor for the row."""
    for x in range(out.size):
        out[x] = a[x] * (b[x] * factor)


@njit(**_ROW)
def scale_row(out, a, factor):
    """out = a · factor, one factor for the row."""
    for x in range(out.size):
        out[x] = a[x] * factor


@njit(**_ROW)
def add_scaled_row(out, a, factor):
    """out += a · factor."""
    for x in range(out.size):
        out[x] += a[x] * factor

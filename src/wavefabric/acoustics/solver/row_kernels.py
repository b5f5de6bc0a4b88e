"""What the kernels do to one row of a grid: one output a loop, so that the compiler vectorises it.

A loop with many outputs needs more checks for overlapping arrays than LLVM is willing to make; rows stay
in the first-level cache, so several short loops cost no memory traffic.
"""

from typing import Any, NamedTuple

from wavefabric.system.numba_cache import njit

_ROW: dict[str, Any] = dict(inline="never", nogil=True, error_model="numpy")
# A `SplitLayers` has ten arrays: to hand it to a function costs as much as the work on a row.
_INLINE: dict[str, Any] = dict(_ROW, inline="always")


class MediumArrays(NamedTuple):
    """c₀, ρ₀, B/A and τ, each a full grid ``(Nz, Ny, Nx)`` or one row ``(1, 1, Nx)`` for all; η/(τ c₀)."""

    speed: Any
    density: Any
    ratio: Any
    tau: Any
    eta_factor: Any


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
def mass_row(mass, total, density, dt, nonlinear):
    """mass = Δt ρ₀, or Δt (2ρ + ρ₀) if nonlinear."""
    if not nonlinear:
        for x in range(mass.size):
            mass[x] = dt * density[x]
    else:
        for x in range(mass.size):
            mass[x] = dt * (total[x] + total[x] + density[x])


@njit(**_ROW)
def _flow_row(total, gx, gy, gz, mass, axes):
    """ρ −= mass ∇·u."""
    if axes == 3:
        for x in range(total.size):
            total[x] -= mass[x] * (gx[x] + gy[x] + gz[x])
    elif axes == 2:
        for x in range(total.size):
            total[x] -= mass[x] * (gx[x] + gy[x])
    else:
        for x in range(total.size):
            total[x] -= mass[x] * gx[x]


@njit(**_ROW)
def _loss_row(total, part, gradient, mass, factor):
    """What damping a part with f changes is taken from ρ, before the part itself is changed."""
    for x in range(total.size):
        flow = mass[x] * gradient[x]
        total[x] -= (part[x] - flow) - factor * (factor * part[x] - flow)


@njit(**_ROW)
def _part_row(part, gradient, mass, factor):
    """ρ_ξ = f (f ρ_ξ − mass ∂u_ξ), f the same along the row."""
    for x in range(part.size):
        part[x] = factor * (factor * part[x] - mass[x] * gradient[x])


@njit(**_ROW)
def _x_part_row(total, part, gx, mass, factor, runs):
    """Both for ρ_x, where f varies along the row, in the stretches of the row that have it."""
    for run in range(runs.shape[0]):
        first, position = runs[run, 0], runs[run, 2]
        for x in range(first, runs[run, 1]):
            i = position + (x - first)
            flow = mass[x] * gx[x]
            before = part[i]
            part[i] = factor[x] * (factor[x] * before - flow)
            total[x] -= (before - flow) - part[i]


@njit(**_ROW)
def _sum_row(total, part_x, part_y, part_z, runs, axes):
    """ρ = Σρ_ξ where all parts are kept: rounding errors of the total do not pile up there."""
    for run in range(runs.shape[0]):
        first, position = runs[run, 0], runs[run, 2]
        for x in range(first, runs[run, 1]):
            total[x] = part_x[position + (x - first)]
            if axes > 1:
                total[x] += part_y[x]
            if axes > 2:
                total[x] += part_z[x]


@njit(**_INLINE)
def density_row(total, split_layers, gx, gy, gz, mass, z, y, axes):
    """A time step of the total density and of its parts in the `SplitLayers` of the PML.

    Parts obey ρ_ξ ← pml (pml ρ_ξ − mass ∂u_ξ); the total the sum of these with pml = 1, less what damping
    takes from the parts.
    """
    _flow_row(total, gx, gy, gz, mass, axes)
    _x_part_row(total, split_layers.x[z, y], gx, mass, split_layers.pml_x, split_layers.runs)
    in_y, in_z = split_layers.at_y[y], split_layers.at_z[z]
    if in_y >= 0:
        _loss_row(total, split_layers.y[z, in_y], gy, mass, split_layers.pml_y[y])
        _part_row(split_layers.y[z, in_y], gy, mass, split_layers.pml_y[y])
    if in_z >= 0:
        _loss_row(total, split_layers.z[in_z, y], gz, mass, split_layers.pml_z[z])
        _part_row(split_layers.z[in_z, y], gz, mass, split_layers.pml_z[z])
    if (in_y >= 0 or axes == 1) and (in_z >= 0 or axes < 3):
        part_y = split_layers.y[z, in_y] if axes > 1 else total
        part_z = split_layers.z[in_z, y] if axes > 2 else total
        _sum_row(total, split_layers.x[z, y], part_y, part_z, split_layers.runs, axes)


@njit(**_ROW)
def source_density_row(total, split_layers, pattern, amplitude, parts, z, y):
    """pattern × amplitude into each of so many ``parts`` (a real scalar) of the density."""
    add_scaled_row(total, pattern, parts * amplitude)
    part, runs = split_layers.x[z, y], split_layers.runs
    for run in range(runs.shape[0]):
        first, position = runs[run, 0], runs[run, 2]
        for x in range(first, runs[run, 1]):
            part[position + (x - first)] += pattern[x] * amplitude
    if split_layers.at_y[y] >= 0:
        add_scaled_row(split_layers.y[z, split_layers.at_y[y]], pattern, amplitude)
    if split_layers.at_z[z] >= 0:
        add_scaled_row(split_layers.z[split_layers.at_z[z], y], pattern, amplitude)


@njit(**_ROW)
def put_density(total, split_layers, value, replace, parts, z, y, x):
    """Put or add a value to each of so many ``parts`` of the density at one point; ``total`` is its row."""
    total[x] = parts * value if replace else total[x] + parts * value
    in_x, in_y, in_z = split_layers.at_x[x], split_layers.at_y[y], split_layers.at_z[z]
    if in_x >= 0:
        split_layers.x[z, y, in_x] = value if replace else split_layers.x[z, y, in_x] + value
    if in_y >= 0:
        split_layers.y[z, in_y, x] = value if replace else split_layers.y[z, in_y, x] + value
    if in_z >= 0:
        split_layers.z[in_z, y, x] = value if replace else split_layers.z[in_z, y, x] + value


@njit(**_ROW)
def rate_row(rate, gx, gy, gz, density, axes):
    """rate = ρ₀ ∇·u."""
    if axes == 3:
        for x in range(rate.size):
            rate[x] = density[x] * (gx[x] + gy[x] + gz[x])
    elif axes == 2:
        for x in range(rate.size):
            rate[x] = density[x] * (gx[x] + gy[x])
    else:
        for x in range(rate.size):
            rate[x] = density[x] * gx[x]


@njit(**_ROW)
def pressure_row(p, extra, total, medium, z, y, loss, shift, nonlinear, lossy, disperses):
    """p = c₀² (ρ [+ B/A ρ²/(2ρ₀)] [+ τ loss] [− η shift]); ``extra`` is scratch."""
    speed = row_of(medium.speed, z, y)
    if not (nonlinear or lossy or disperses):
        for x in range(p.size):
            p[x] = speed[x] * speed[x] * total[x]
        return
    extra[:] = 0
    if nonlinear:
        ratio, density = row_of(medium.ratio, z, y), row_of(medium.density, z, y)
        for x in range(p.size):
            extra[x] += ratio[x] * total[x] * total[x] / (density[x] + density[x])
    tau = row_of(medium.tau, z, y)
    if lossy:
        for x in range(p.size):
            extra[x] += tau[x] * loss[x]
    if disperses:
        for x in range(p.size):
            extra[x] -= medium.eta_factor * tau[x] * speed[x] * shift[x]
    for x in range(p.size):
        p[x] = speed[x] * speed[x] * (total[x] + extra[x])


@njit(**_ROW)
def add_scaled_row(out, a, factor):
    """out += a · factor."""
    for x in range(out.size):
        out[x] += a[x] * factor

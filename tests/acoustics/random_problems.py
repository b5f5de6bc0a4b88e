"""Small problems whose fields are noise, so that every wavenumber and every point counts."""

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.problem import PressureSource, Problem, TransducerSource, VelocitySource
from wavefabric.acoustics.solver.step import Step

DX, C, RHO = 1e-4, 1500.0, 1000.0


def problem(shape, *, steps=12, mixed="", initial=5e6, pml=True, seed=1, materials=0, **more):
    """A problem on an (Nx, Ny, Nz) grid.

    Parameters
    ----------
    mixed : str
        Which parameters vary from point to point, of ``"c"``, ``"r"`` (density), ``"b"`` (B/A), ``"a"``
        (absorption).
    pml : bool or tuple of int
        Points of the layers along x, y and z.
    materials : int
        How many values what varies takes: those of the material of a point, or of its next neighbour along an
        axis for staggered densities. 0: a value for each point.
    initial : float
        Amplitude of a noisy initial pressure, Pa; 0 for none.
    more
        Further fields of `Problem`; ``nonlinearity=True`` stands for 6, and ``alpha_power`` may be left out.
    """
    rng = np.random.default_rng(seed)
    array, d = shape[::-1], sum(n > 1 for n in shape)
    label = rng.integers(0, materials, array) if materials else None

    def noisy(value, varies, by=0.1):
        # Rounded to single, so that both precisions see the same medium.
        if not varies:
            return value
        if materials:
            values = (value * (1 + by * rng.uniform(-1, 1, materials))).astype(np.float32)
            return values[label]
        return (value * (1 + by * rng.uniform(-1, 1, array))).astype(np.float32)

    if more.get("nonlinearity") is True:
        more["nonlinearity"] = noisy(6.0, "b" in mixed)
    if more.get("absorption", "none") != "none":
        more.setdefault("alpha_power", 2.0 if more["absorption"] == "stokes" else 1.4)
        more["alpha_coeff"] = noisy(4.0, "a" in mixed)
    if initial:
        more["initial_pressure"] = (initial * rng.standard_normal(array)).astype(np.float32)
    speed, density = noisy(C, "c" in mixed), noisy(RHO, "r" in mixed)
    if materials and "r" in mixed:
        staggered = tuple(np.roll(density, -1, 2 - axis) for axis in range(d))
    else:
        staggered = tuple(noisy(RHO, "r" in mixed) for _ in range(d))
    return Problem(
        shape=shape,
        spacing=(DX, 1.2 * DX, 0.9 * DX),
        dt=0.2 * DX / C,
        steps=steps,
        reference_speed=1.1 * C,
        pml_size=pml if isinstance(pml, tuple) else (3, *(2, 4)[: d - 1], 0, 0)[:3] if pml else (0, 0, 0),
        pml_alpha=(2.0, 1.5, 3.0),
        sound_speed=speed,
        density=density,
        density_staggered=staggered,
        **more,
    )


def points(shape, count, seed=2):
    """Different grid points in no order."""
    return np.random.default_rng(seed).permutation(int(np.prod(shape)))[:count].astype(np.int64)


def signal(steps, columns, amplitude, seed=3, rank_one=False):
    """Noise, single precision; ``rank_one``: all columns the same up to a factor."""
    rng = np.random.default_rng(seed)
    wave = rng.standard_normal((steps, columns))
    if rank_one:
        wave = wave[:, :1] * rng.uniform(-1, 1, columns)
    return np.asarray(amplitude * wave, np.float64 if rank_one else np.float32)


def pressure_source(shape, mode, columns=None, steps=12, count=17, rank_one=False):
    """kg/m³ of noise at some points; ``columns`` 1 for one signal for all."""
    wave = signal(steps, columns or count, 0.5, 4, rank_one)
    return PressureSource(points(shape, count, 5), wave, mode)


def velocity_source(shape, mode, columns=(None, None, None), steps=12, count=13, rank_one=False):
    """m/s of noise; ``columns`` of each axis: None many signals, 1 one, 0 no source."""
    d = sum(n > 1 for n in shape)
    signals = tuple(
        None if n == 0 else signal(steps, n or count, 0.3, 6 + axis, rank_one)
        for axis, n in enumerate(columns[:d])
    )
    return VelocitySource(points(shape, count, 7), signals, mode)


def transducer(shape, steps=10, samples=9, count=15):
    """Delays from 0 to beyond the signal's end."""
    delay = np.random.default_rng(8).integers(0, samples + 4, count).astype(np.int64)
    return TransducerSource(points(shape, count, 9), delay, signal(samples, 1, 0.4, 10)[:, 0], steps)


def history(device, inputs, dtype):
    """Fields after every step: name to (steps, Nz, Ny, Nx), on the host."""
    stages = make_stages(device, inputs, dtype)
    step, result = Step(stages), {name: [] for name in stages.fields.named()}
    for number in range(inputs.steps):
        step.take(number)
        device.synchronize()
        for name, field in stages.fields.named().items():
            result[name].append(np.array(device.to_host(field)))
    return {name: np.array(fields) for name, fields in result.items()}


def _along(vector, axis):
    """A vector laid along an axis (0 = x)."""
    return vector.reshape([-1 if 2 - i == axis else 1 for i in range(3)])


def joined(parts, split_layers, to_host=np.asarray):
    """Parts of the density where the PML damps them; the rest is in the first that it does not damp there."""
    parts, free = np.array(parts), np.zeros(parts[0].shape, bool)
    outside = [
        np.broadcast_to(_along(to_host(at) < 0, i), free.shape) for i, at in enumerate(split_layers[3:6])
    ]
    rest = sum(np.where(out, part, 0) for out, part in zip(outside, parts, strict=False))
    for out, part in zip(outside, parts, strict=False):
        part[out] = np.where(free, 0, rest)[out]
        free |= out
    return parts


def split_density(fields, to_host=np.asarray):
    """Parts of the density along each axis, full grids, `joined`."""
    total, split_layers, parts = to_host(fields.rho), fields.split_layers, []
    for axis, (at, part) in enumerate(
        list(zip(split_layers[3:6], split_layers.parts, strict=True))[: fields.dimensions]
    ):
        full, here = np.zeros_like(total), [slice(None)] * 3
        here[2 - axis] = to_host(at) >= 0
        full[tuple(here)] = to_host(part)
        parts.append(full)
    rest = total - sum(parts)
    for axis, part in enumerate(parts):
        # What no layer holds, once; `joined` finds it wherever it is free.
        outside = np.broadcast_to(_along(to_host(split_layers[3 + axis]) < 0, axis), total.shape)
        part[outside] = rest[outside]
        rest = np.where(outside, 0, rest)
    return joined(parts, split_layers, to_host)


def full_fields(stages):
    """Fields by name on the host, with the parts of the density as full grids."""
    device, fields = stages.coefficients.device, stages.fields
    device.synchronize()
    result = {name: np.array(device.to_host(field)) for name, field in fields.named().items()}
    parts = split_density(fields, device.to_host)
    return result | {f"rho{axis}": part for axis, part in zip("xyz", parts, strict=False)}

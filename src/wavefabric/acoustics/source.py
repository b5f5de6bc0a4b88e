"""Defines sources of sound in Pa and m/s; `Source.on` scales them to the solver's units."""

import math
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.problem import (
    PressureSource,
    ProductSignal,
    Signal,
    SourceMode,
    TransducerSource,
    VelocitySource,
)
from wavefabric.acoustics.series import check_series
from wavefabric.acoustics.smoothing import smooth, smooth_on
from wavefabric.base.arguments import instance, positive, real
from wavefabric.base.errors import InputError, choice, ensure, require
from wavefabric.base.summary import one_line_repr
from wavefabric.runtime.device.base import Device
from wavefabric.runtime.device.user_arrays import real_array

_MODES = get_args(SourceMode)[::-1]


@dataclass(frozen=True)
class Transducer:
    """A transducer that pushes along x: one signal, delayed at each point.

    Parameters
    ----------
    mask : array_like of bool, grid's shape
        Points of the transducer.
    signal : array_like, shape (samples,)
        Velocity, m/s.
    delay : array_like of int, shape (points,) or the grid's shape; or None
        Time steps, not negative; points in Fortran order (x fastest). Point i gets sample ``delay[i] + n`` in
        step n, so a *larger* delay is an *earlier* push, as in k-Wave. The source is on for
        ``samples - max(delay)`` steps.
    """

    mask: Any
    signal: Any
    delay: Any = None


@dataclass(frozen=True)
class ContinuousWave:
    """A source signal A(x) cos(2πft + φ(x)) that rises from 0; no array of points and steps is created.

    Parameters
    ----------
    frequency : float or str
        f, Hz (or text: ``"500 kHz"``).
    amplitude, phase : float or array_like, shape (points,)
        A, Pa or m/s, and φ, rad: one number for all points, or one per point in Fortran order. For a
        transducer, one per element.
    ramp : float
        Number of periods over which the wave rises, by a raised cosine.
    """

    frequency: Any
    amplitude: Any = 1.0
    phase: Any = 0.0
    ramp: float = 4.0

    def __post_init__(self) -> None:
        assign, key = object.__setattr__, "continuous_wave"
        assign(self, "frequency", positive(self.frequency, "Hz", f"{key}.frequency"))
        for name in ("amplitude", "phase"):
            values = real_array(getattr(self, name), f"{key}.{name}")
            allowed = "a number, or one for each point"
            require(values.ndim < 2 and np.isfinite(values).all(), f"{key}.{name}", values.shape, allowed)
            assign(self, name, values.astype(float))
        ramp = real(self.ramp, f"{key}.ramp")
        require(0 <= ramp < math.inf, f"{key}.ramp", self.ramp, "periods, from 0")

    def on(self, dt: float, steps: int, spread: Any = None) -> ProductSignal:
        """Return the wave in ``steps`` time steps of ``dt``, s, as a product of waveforms and point weights.

        There is one waveform if all points have the same phase, else a cosine and a sine. For a transducer,
        the matrix ``spread`` (points, elements) converts weights of its elements to weights of points.
        """
        periods = self.frequency * dt * np.arange(steps)
        angle = 2 * np.pi * (periods - np.rint(periods))
        rise = np.ones(steps)
        if self.ramp:
            rise = 0.5 - 0.5 * np.cos(np.pi * np.minimum(periods / self.ramp, 1.0))
        phase = float(self.phase.flat[0])
        if np.ptp(self.phase) == 0:
            waves, weights = [np.cos(angle + phase)], [self.amplitude * np.ones(self.phase.shape)]
        else:
            waves = [np.cos(angle), -np.sin(angle)]
            weights = [self.amplitude * np.cos(self.phase), self.amplitude * np.sin(self.phase)]
        table = np.stack(np.broadcast_arrays(*map(np.atleast_1d, weights)), axis=1)
        if spread is not None:
            table = spread @ np.broadcast_to(table, (spread.shape[1], table.shape[1]))
        return ProductSignal(rise[:, None] * np.stack(waves, axis=1), table)


@dataclass(frozen=True, repr=False)
class Source:
    """A source: initial pressure, mass source, force source, transducer, or several of them together.

    Parameters
    ----------
    p0 : array_like, grid's shape, or None
        Initial pressure, Pa; the particles rest at t = 0.
    smooth : bool
        Smooth ``p0`` as k-Wave does (`wavefabric.acoustics.smooth`), after a PML outside was added.
    p_mask : array_like of bool, grid's shape, or None
        Points of the mass source.
    p : array_like, shape (Nt,) or (points, Nt), ContinuousWave or None
        Pressure of the mass source, Pa: one signal for all points or one per point, points in Fortran order
        (x fastest, as in MATLAB). Zero after the end of the signal.
    p_mode : str
        ``"additive"`` (with k-space correction), ``"additive_no_correction"`` or ``"dirichlet"`` (the
        pressure is set, not added).
    u_mask, ux, uy, uz, u_mode
        The corresponding arguments of a force source, velocities in m/s.
    transducer : Transducer or None
        Transducer that pushes along x; 3-D or 2-D.

    Notes
    -----
    In N dimensions a time step adds 2 Δt p/(N c₀ Δx) to each split density and 2 c₀ Δt u_i/Δi to u_i, so
    that a plane source radiates its signal (Cox, Martin & Treeby 2018, doi:10.1109/ULTSYM.2018.8579896).
    For p, Δx is the spacing along x even if the spacings differ, as in k-Wave. In Dirichlet mode each split
    density is set to p/(N c₀²), the velocity to u_i.
    """

    p0: Any = None
    smooth: bool = True
    p_mask: Any = None
    p: Any = None
    p_mode: SourceMode = "additive"
    u_mask: Any = None
    ux: Any = None
    uy: Any = None
    uz: Any = None
    u_mode: SourceMode = "additive"
    transducer: Transducer | None = None

    __repr__ = one_line_repr

    def lasting(self, dt: float, steps: int) -> "Source":
        """Return a copy with each `ContinuousWave` as a signal of ``steps`` time steps of ``dt``, s."""
        values = {name: getattr(self, name) for name in ("p", "ux", "uy", "uz")}
        waves = {name: v.on(dt, steps) for name, v in values.items() if isinstance(v, ContinuousWave)}
        return replace(self, **waves)

    def on(
        self, grid: Grid, sound_speed: float | np.ndarray, dt: float, device: Device | None = None
    ) -> dict[str, Any]:
        """Return the arguments of `Problem` for this source on a grid, a dictionary from name to value.

        ``sound_speed`` (a number, or (Nz, Ny, Nx) of the total grid) sets the scale at each point. With
        ``device`` the initial pressure is brought to this GPU, and smoothed there.
        """
        parameters: dict[str, Any] = {}
        require(isinstance(self.smooth, bool), "source.smooth", self.smooth, "True or False")
        if self.p0 is not None:
            p0 = grid.to_memory(self.p0, "source.p0", "zero", device)
            parameters["initial_pressure"] = self._smoothed(p0, grid, device) if self.smooth else p0
        if (self.p is None) != (self.p_mask is None):
            raise InputError("source.p: p and p_mask go together; allowed: both or none")
        if self.p is not None:
            parameters["pressure_source"] = self._pressure(grid, sound_speed, dt)
        if any(u is not None for u in (self.ux, self.uy, self.uz)) != (self.u_mask is not None):
            raise InputError("source.u_mask: ux, uy or uz and u_mask go together; allowed: both or none")
        if self.u_mask is not None:
            parameters["velocity_source"] = self._velocity(grid, sound_speed, dt)
        if self.transducer is not None:
            instance("source.transducer", self.transducer, Transducer)
            parameters["transducer"] = self._transducer(self.transducer, grid, sound_speed, dt)
        ensure(parameters, "source", "drives nothing", "p0, p, ux, uy, uz or transducer")
        return parameters

    def scale(self, name: str, grid: Grid, c: np.ndarray, dt: float) -> np.ndarray:
        """Return the factors, (points,) or (1,), that convert signal ``name`` to the solver's units.

        ``name`` is "p", "ux", … or "transducer"; ``c`` is the sound speed at the source's points. A
        transducer has one factor, from the mean sound speed, as in k-Wave.
        """
        if name == "transducer":
            return np.array([2 * float(np.mean(c)) * dt / grid.spacing[0]])
        if name == "p":
            additive = 2 * dt / (grid.dimensions * c * grid.spacing[0])
            return 1 / (grid.dimensions * c**2) if self.p_mode == "dirichlet" else additive
        return np.ones(1) if self.u_mode == "dirichlet" else 2 * c * dt / grid.spacing["xyz".index(name[1])]

    def scale_power(self, name: str) -> int:
        """Return the exponent of the sound speed in the factors that `scale` returns for a signal."""
        if name == "p":
            return -2 if self.p_mode == "dirichlet" else -1
        return 0 if self.u_mode == "dirichlet" else 1

    @staticmethod
    def _smoothed(p0: Any, grid: Grid, device: Device | None) -> Any:
        """Smooth ``p0``; if axisymmetric, with its radius extended fourfold by mirroring, as in k-Wave."""
        if device is not None:
            return smooth_on(device, p0)
        if not grid.axisymmetric:
            return smooth(p0)
        half = np.concatenate([p0, 0 * p0[:, :1], -p0[:, :0:-1]], axis=1)
        whole = smooth(np.concatenate([half, -half], axis=1))
        return np.ascontiguousarray(whole[:, : p0.shape[1]])

    def p0_gradient(self, derivative: np.ndarray, grid: Grid) -> np.ndarray:
        """Convert derivatives with respect to the solver's initial pressure to those with respect to ``p0``.

        The solver's initial pressure includes an added PML, and is smoothed if ``smooth`` is set.
        """
        derivative = np.asarray(derivative, np.float64)
        if self.smooth:
            p0 = grid.to_memory(self.p0, "source.p0", outside="zero").astype(np.float64)
            smooth_p0 = smooth(p0, restore_max=False)
            highest, smoothed = np.abs(p0).argmax(), np.abs(smooth_p0).argmax()
            peak, top = (float(a.flat[i]) for a, i in ((p0, highest), (smooth_p0, smoothed)))
            if top:
                ratio, work = abs(peak / top), float(np.vdot(derivative, smooth_p0))
                derivative = derivative * ratio  # the scale that restores the peak depends on both peaks
                derivative.flat[smoothed] -= work * ratio / top
                derivative = smooth(derivative, restore_max=False)
                derivative.flat[highest] += work * np.sign(peak) / abs(top)
        return np.array(grid.from_memory(derivative))

    def _pressure(self, grid: Grid, sound_speed: float | np.ndarray, dt: float) -> PressureSource:
        choice("source.p_mode", self.p_mode, _MODES)
        index = grid.points(self.p_mask, "source.p_mask")
        scale = self.scale("p", grid, at_points(sound_speed, index), dt)
        return PressureSource(index, _scaled(self.p, scale, index.size, "source.p"), self.p_mode)

    def _velocity(self, grid: Grid, sound_speed: float | np.ndarray, dt: float) -> VelocitySource:
        for axis in "xyz"[grid.dimensions :]:
            actual = f"is given on a grid of {grid.dimensions} dimension{'s' * (grid.dimensions > 1)}"
            ensure(getattr(self, f"u{axis}") is None, f"source.u{axis}", actual, "None")
        choice("source.u_mode", self.u_mode, _MODES)
        index = grid.points(self.u_mask, "source.u_mask")
        c, signals = at_points(sound_speed, index), []
        for axis in "xyz"[: grid.dimensions]:
            u = getattr(self, f"u{axis}")
            scale = self.scale(f"u{axis}", grid, c, dt)
            signals.append(None if u is None else _scaled(u, scale, index.size, f"source.u{axis}"))
        return VelocitySource(index, tuple(signals), self.u_mode)

    def _transducer(
        self, transducer: Transducer, grid: Grid, sound_speed: float | np.ndarray, dt: float
    ) -> TransducerSource:
        key = "source.transducer"
        index = grid.points(transducer.mask, f"{key}.mask")
        signal = np.asarray(transducer.signal)
        if signal.ndim != 1 or signal.size == 0 or signal.dtype.kind not in "fiu":
            raise InputError(f"{key}.signal: has the shape {signal.shape}; allowed: real numbers, (samples,)")
        delay = np.zeros(index.size, np.int64) if transducer.delay is None else np.asarray(transducer.delay)
        if delay.shape == grid.shape:
            delay = delay.T[np.asarray(transducer.mask).T != 0]
        if delay.shape != index.shape or delay.dtype.kind not in "iu" or delay.min() < 0:
            allowed = f"whole numbers from 0, one for each of the {index.size} points"
            raise InputError(f"{key}.delay: allowed: {allowed}")
        steps, allowed = signal.size - int(delay.max()), f"below {signal.size}, the signal's samples"
        ensure(steps >= 1, f"{key}.delay", f"up to {delay.max()} steps", allowed)
        scale = self.scale("transducer", grid, at_points(sound_speed, index), dt)
        return TransducerSource(index, delay.astype(np.int64), signal * scale, steps)


def at_points(field: float | np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the values of ``field`` at flat indices, as float64; one value if ``field`` is a number."""
    return np.asarray(field.reshape(-1)[index] if isinstance(field, np.ndarray) else [field], np.float64)


def _scaled(values: Any, scale: np.ndarray, points: int, key: str) -> Signal:
    """Multiply signals by ``scale``; return (steps, points), or (steps, 1) if the points share one signal."""
    if isinstance(values, ProductSignal):
        count, allowed = len(values.weights), f"a number, or one for each of {points} points"
        require(count in (1, points), f"{key}.amplitude", count, allowed)
        weights = np.broadcast_to(values.weights, (points, values.weights.shape[1]))
        return replace(values, weights=weights * scale[:, None])
    signal = check_series(values, points, key, shared=True)
    if signal.dtype.kind != "f":
        signal = signal.astype(np.float64)
    signal = signal.astype(np.result_type(signal.dtype, np.float32), copy=False)
    if scale.size > 1 and np.ptp(scale) == 0:
        scale = scale[:1]
    # In the precision of the signal, as many long signals may be the largest array of all.
    return np.multiply(signal.T, scale.astype(signal.dtype), order="C")

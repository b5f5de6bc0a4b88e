"""Time-varying sources, made ready for the time step.

A source ends in one of three forms: values at points; a *pattern*, one field times a signal; or a field
that is made anew each step. The k-space correction cos(c_ref |k| Δt/2) spreads an additive source over the
grid, so it is a pattern where all points share a signal up to a factor, and a field otherwise.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from wavefabric.acoustics.problem import PressureSource, TransducerSource, VelocitySource
from wavefabric.acoustics.solver.coefficients import Constants


def rank_one(signal: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(weights (points,), signal (steps, 1)) if the columns of ``signal`` differ by a factor only.

    To the round-off of the samples, as one waveform times an apodisation gives; None otherwise.
    """
    if signal.shape[1] == 1:
        return np.ones(1), signal
    row, column = np.unravel_index(np.argmax(np.abs(signal)), signal.shape)
    peak = float(signal[row, column])
    if peak == 0.0:
        return np.zeros(signal.shape[1]), signal[:, :1]
    weights = signal[row].astype(np.float64) / peak
    wave = signal[:, column]
    limit = 2 * np.finfo(signal.dtype).eps * abs(peak) if signal.dtype.kind == "f" else 0.0
    for first in range(0, len(wave), 64):
        part = np.abs(signal[first : first + 64] - np.outer(wave[first : first + 64], weights))
        if part.max() > limit:
            return None
    return weights, wave[:, None]


@dataclass(frozen=True)
class Form:
    """How one signal enters a field; made from all its points, so that all ranks do the same transforms.

    Parameters
    ----------
    name : str
        ``"points"``, ``"pattern"`` or ``"field"``.
    weights : ndarray (points,) or (1,), optional
        Of a pattern.
    wave : ndarray (steps, 1), optional
        Signal of a pattern.
    key : bytes
        The same for patterns that are the same.
    """

    name: str
    weights: np.ndarray | None = None
    wave: np.ndarray | None = None
    key: bytes = b""


def form(index: np.ndarray, signal: np.ndarray, mode: str) -> Form:
    """The form of a signal at points ``index`` of the whole grid."""
    if mode != "additive":
        return Form("points")
    common = rank_one(signal)
    if common is None:
        return Form("field")
    weights, wave = common
    # Components of one velocity source often share weights; so do their patterns.
    key = hashlib.sha256(index.tobytes() + weights.tobytes()).digest()
    return Form("pattern", weights, wave, key)


@dataclass(frozen=True)
class PressurePart(PressureSource):
    """A rank's points of a pressure source, and the form that the whole source has."""

    form: Form | None = None


@dataclass(frozen=True)
class VelocityPart(VelocitySource):
    """A rank's points of a velocity source, and the forms that the whole one's components have."""

    forms: tuple[Form | None, ...] = ()


class Injection:
    """One source signal on its way into one or several fields.

    Parameters
    ----------
    constants : Constants
    index : ndarray of int64
        Points.
    signal : ndarray (steps, points or 1)
    mode : str
        See `problem.PressureSource`.
    transform : callable
        ``transform(field)`` multiplies a field by the k-space correction in place.
    patterns : dict
        Those made so far, by `Form.key`.
    given : Form, optional
        The form of the whole source, if these are some of its points.

    Attributes
    ----------
    form : str
        ``"points"``, ``"pattern"`` or ``"field"``.
    steps : int
        The source is on while the time step is below this.
    """

    def __init__(
        self,
        constants: Constants,
        index,
        signal,
        mode: str,
        transform,
        patterns: dict,
        given: Form | None = None,
    ):
        device, dtype = constants.device, constants.dtype
        self._device, self._kernels, self._transform = device, constants.kernels, transform
        self.steps, self.replace = len(signal), mode == "dirichlet"
        self.host_index, self.host_signal = index, np.ascontiguousarray(signal, dtype)
        self.index = device.asarray(index)
        how = given or form(index, signal, mode)
        self.form = how.name
        if self.form != "points":
            self.field = device.zeros(constants.shape, dtype)
        if self.form == "pattern":
            if how.key not in patterns:
                self._fill(self.field, np.broadcast_to(how.weights, index.shape))  # type: ignore[arg-type]
                patterns[how.key] = self.field
            self.field = patterns[how.key]
            self.host_signal = np.ascontiguousarray(how.wave, dtype)
        self.signal = device.asarray(self.host_signal)
        #: What multiplies the field at each step: the signal of a pattern, ones for a field made anew.
        self.wave = self.signal
        if self.form == "field":
            self.wave = device.asarray(np.ones((len(signal), 1), dtype))

    def _fill(self, field, values) -> None:
        flat = field.reshape(-1)
        flat[self.index] = self._device.asarray(np.ascontiguousarray(values, field.dtype))
        self._transform(field)

    def refresh(self, clock) -> None:
        """Make the field of this time step, if the form is ``"field"``."""
        if self.form == "field":
            self.field[...] = 0
            self._kernels.set_points(self.field, self.index, self.signal, clock, True)
            self._transform(self.field)

    def apply(self, target, clock) -> None:
        """Put the source into a field; `refresh` came before."""
        if self.form == "points":
            self._kernels.set_points(target, self.index, self.signal, clock, self.replace)
        elif self.form == "pattern":
            self._kernels.add_pattern(target, self.field, self.signal, clock)
        else:
            self._kernels.add_field(target, self.field)


class Delayed:
    """A transducer: one delayed signal added to the x velocity."""

    def __init__(self, constants: Constants, source: TransducerSource):
        device = constants.device
        self._kernels = constants.kernels
        self.steps = source.steps
        self.host_index, self.host_delay = source.index, source.delay
        self.host_signal = np.ascontiguousarray(source.signal, constants.dtype)
        self.index, self.delay = device.asarray(source.index), device.asarray(source.delay)
        self.signal = device.asarray(self.host_signal)

    def apply(self, target, clock) -> None:
        """Add this time step's values."""
        self._kernels.add_delayed(target, self.index, self.delay, self.signal, clock)


class Sources:
    """All time-varying sources of a problem.

    Parameters
    ----------
    constants : Constants
    transform : callable
        Multiplies a field by a real operator of |k|: ``transform(field, operator)``, in place.
    """

    def __init__(self, constants: Constants, transform):
        problem = constants.problem
        corrected = any(
            source is not None and source.mode == "additive"
            for source in (problem.pressure_source, problem.velocity_source)
        )
        kappa = constants.source_kappa() if corrected else None
        patterns: dict = {}

        def correct(field) -> None:
            transform(field, kappa)

        def inject(index, signal, mode, how: Form | None) -> Injection:
            return Injection(constants, index, signal, mode, correct, patterns, how)

        p, u = problem.pressure_source, problem.velocity_source
        whole_form = p.form if isinstance(p, PressurePart) else None
        forms = u.forms if isinstance(u, VelocityPart) else (None,) * problem.dimensions
        self.pressure = inject(p.index, p.signal, p.mode, whole_form) if p else None
        self.velocity: list[Injection | None] = [
            inject(u.index, signal, u.mode, how) if u and signal is not None else None
            for signal, how in zip(u.signals if u else (), forms, strict=False)
        ] or [None] * problem.dimensions
        self.delayed = Delayed(constants, problem.transducer) if problem.transducer else None

    def active(self, step: int) -> tuple[bool, ...]:
        """Which sources are on: pressure, each velocity component, transducer."""
        return tuple(
            source is not None and step < source.steps
            for source in (self.pressure, *self.velocity, self.delayed)
        )

    def add_velocity(self, u: list, clock, active: tuple[bool, ...]) -> None:
        """Put the sources that are on into the velocity components, the transducer last."""
        for source, on, component in zip(self.velocity, active[1:-1], u, strict=True):
            if source is not None and on:
                source.refresh(clock)
                source.apply(component, clock)
        if self.delayed is not None and active[-1]:
            self.delayed.apply(u[0], clock)

    def add_pressure(self, rho: list, clock, active: tuple[bool, ...]) -> None:
        """Put the pressure source, if on, into each split density."""
        if self.pressure is not None and active[0]:
            self.pressure.refresh(clock)
            for part in rho:
                self.pressure.apply(part, clock)

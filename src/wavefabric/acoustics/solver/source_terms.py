"""Time-varying sources, prepared for the time step.

A source has one of four forms: values at points; a *pattern*, one field times a signal; a *pair* of patterns;
or a field that is computed in each step. The k-space correction cos(c_ref |k| Δt/2) spreads an additive
source over the grid. The source is then a pattern if all points share a signal up to a factor, a pair for a
continuous wave of different phases, and a field otherwise.
"""

import copy
import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import PointSource, Problem, ProductSignal, Signal, TransducerSource
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields


def rank_one(signal: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Factor ``signal`` (steps, points) into weights (points,), waveform (steps, 1); None if impossible."""
    if signal.shape[1] == 1:
        return np.ones(1), signal
    row, column = np.unravel_index(np.argmax(np.abs(signal)), signal.shape)
    peak = float(signal[row, column])
    if peak == 0.0:
        return np.zeros(signal.shape[1]), signal[:, :1]
    weights = signal[row].astype(np.float64) / peak
    waveform = signal[:, column]
    limit = 2 * np.finfo(signal.dtype).eps * abs(peak) if signal.dtype.kind == "f" else 0.0
    for first in range(0, len(waveform), 64):
        rows = slice(first, first + 64)
        if np.abs(signal[rows] - np.outer(waveform[rows], weights)).max() > limit:
            return None
    return weights, waveform[:, None]


@dataclass(frozen=True)
class SourceForm:
    """Describes how a signal enters a field: as points, a pattern, a pair of patterns, or a computed field.

    The form is chosen from the source points of all ranks, so that all ranks make the same transforms.
    """

    name: str  # "points", "pattern", "pair" or "field"
    weights: np.ndarray | None = None  # pattern: (points,) or (1,); pair: (points, 2)
    waveform: np.ndarray | None = None  # pattern: (steps, 1); pair: (steps, 2)
    key: bytes = b""  # equal patterns have equal keys


def source_forms(source: PointSource) -> tuple[SourceForm | None, ...]:
    """Return the `SourceForm` of each signal of a source; None for a velocity component without a signal."""
    forms = (s if s is None else _form(source.index, s, source.mode) for s in source.signals)
    return source.forms or tuple(forms)


def _form(index: np.ndarray, signal: Signal, mode: str) -> SourceForm:
    if mode != "additive":
        return SourceForm("points")
    product = isinstance(signal, ProductSignal)
    if product and signal.waveforms.shape[1] == 2:
        return SourceForm("pair", signal.weights, signal.waveforms)
    if product and signal.waveforms.shape[1] == 1:
        common = signal.weights[:, 0], signal.waveforms
    else:
        common = rank_one(np.asarray(signal))
    if common is None:
        return SourceForm("field")
    weights, waveform = common
    import hashlib

    # Components of one velocity source often share weights; so do their patterns.
    key = hashlib.sha256(index.tobytes() + weights.tobytes()).digest()
    return SourceForm("pattern", weights, waveform, key)


class PointTerm:
    """A source that acts on fields at grid points while the number of the time step is below ``steps``."""

    #: Whether the source replaces field values, has one signal for all points, is k-space corrected.
    replace = common = corrected = False

    def __init__(self, coefficients: Coefficients, source: Any, signal: np.ndarray, steps: int):
        self._kernels, self._shape, self.steps = coefficients.kernels, coefficients.shape, steps
        self.host_index, self.index = source.index, coefficients.device.asarray(source.index)
        self.host_signal = np.ascontiguousarray(signal, coefficients.dtype)
        self.signal = coefficients.device.asarray(self.host_signal)

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return three arrays that sort the points by grid row; every call returns the same ones.

        They are the position of each row's first point among the sorted points (rows + 1,), the x index of
        each sorted point, and the sort order.
        """
        nz, ny, nx = self._shape
        order = np.argsort(self.host_index, kind="stable")
        row, inside = np.divmod(self.host_index[order], nx)
        return np.searchsorted(row, np.arange(ny * nz + 1)), inside, order

    def refresh(self, clock) -> None:
        """Compute the source's field for this time step, if the field changes from step to step."""

    def negative(self) -> Self:
        """Return a copy of this source with the opposite sign."""
        negative, name = copy.copy(self), "amplitude" if self.corrected else "signal"
        setattr(negative, name, -getattr(self, name))
        return negative


class SourceTerm(PointTerm):
    """A source that adds one signal to one or several fields, or replaces their values with it.

    ``correct(field)`` applies the k-space correction in place. ``patterns`` maps keys of `SourceForm` to
    patterns, so that sources with equal patterns share one.
    """

    def __init__(self, coefficients: Coefficients, source, signal, form: SourceForm, correct, patterns: dict):
        waveform = signal if form.waveform is None else form.waveform
        super().__init__(coefficients, source, waveform, len(signal))
        device, dtype = coefficients.device, coefficients.dtype
        self._correct, self._parts = correct, coefficients.dimensions
        self.form, self.weights, self.corrected = form.name, form.weights, form.name != "points"
        self.replace, self.common = source.mode == "dirichlet", signal.shape[1] == 1

        def spread(weights) -> Any:
            field = device.zeros(coefficients.shape, dtype)
            weights = np.broadcast_to(weights, source.index.shape)
            field.reshape(-1)[self.index] = device.asarray(np.ascontiguousarray(weights, dtype))
            correct(field)
            return field

        if self.form == "pattern":
            if form.key not in patterns:
                patterns[form.key] = spread(form.weights)
            self.field = patterns[form.key]
        elif self.form == "pair":
            self._pair = [spread(weights) for weights in form.weights.T]  # type: ignore[union-attr]
        #: Factor of the field in each step: the signal of a pattern; 1 for a field computed in each step.
        self.amplitude = self.signal
        if self.form in ("field", "pair"):
            self.field = device.zeros(coefficients.shape, dtype)
            self.amplitude = device.asarray(np.ones((len(signal), 1), dtype))

    def refresh(self, clock) -> None:
        if self.form == "pair":
            self._kernels.mix_patterns(self.field, *self._pair, self.signal, clock)
        if self.form == "field":
            self._kernels.clear(self.field)
            self._kernels.set_points(self.field, self.index, self.signal, clock, True)
            self._correct(self.field)

    def apply(self, target, clock) -> None:
        """Add the source to a field, or replace its values; call `refresh` first."""
        if self.form == "points":
            self._kernels.set_points(target, self.index, self.signal, clock, self.replace)
        else:
            self._kernels.add_pattern(target, self.field, self.amplitude, clock)

    def apply_to_density(self, fields: Fields) -> None:
        """Apply the source to all parts of the density, one per axis; call `refresh` first.

        Where only the sum of the parts is stored, the source is applied to the sum.
        """
        density, clock, parts = (fields.rho, fields.split_layers), fields.clock, self._parts
        if self.form == "points":
            points = self.index, self.signal, clock, self.replace, parts
            self._kernels.set_density_points(*density, *points)
        else:
            self._kernels.add_density_pattern(*density, self.field, self.amplitude, clock, parts)


class TransducerTerm(PointTerm):
    """A source that adds one signal, with a delay per point, to the x velocity."""

    def __init__(self, coefficients: Coefficients, source: TransducerSource):
        super().__init__(coefficients, source, source.signal, source.steps)
        self.host_delay, self.delay = source.delay, coefficients.device.asarray(source.delay)

    @cached_property
    def delays(self) -> np.ndarray:
        """Return the delay of each point, in steps, in the order of `rows`; the same array each time."""
        return np.ascontiguousarray(self.host_delay[self.rows[2]], np.int64)

    def apply(self, target, clock) -> None:
        """Add the values of this time step to ``target``."""
        self._kernels.add_delayed(target, self.index, self.delay, self.signal, clock)


class SourceTerms:
    """Applies all time-varying sources of a problem to the fields.

    ``transform(field, operator, axis)`` multiplies the spectrum of a field by ``operator``, a real function
    of |k|, in place; ``axis`` is the velocity component, None for the pressure.
    """

    def __init__(self, coefficients: Coefficients, transform):
        problem = coefficients.problem
        kappa = coefficients.source_kappa() if _additive(problem) else None
        patterns: dict = {}

        def terms(source, signals, axes) -> list[SourceTerm | None]:
            result = []
            for signal, form, axis in zip(signals, source_forms(source), axes, strict=True):
                if form is not None and problem.axisymmetric:  # the correction depends on the component
                    form = replace(form, key=form.key + bytes([axis == 1]))
                correct = partial(transform, operator=kappa, axis=axis)
                result.append(form and SourceTerm(coefficients, source, signal, form, correct, patterns))
            return result

        p, u = problem.pressure_source, problem.velocity_source
        self.pressure = terms(p, p.signals, [None])[0] if p else None
        self.velocity = terms(u, u.signals, range(3)[: len(u.signals)]) if u else [None] * problem.dimensions
        self.transducer = TransducerTerm(coefficients, problem.transducer) if problem.transducer else None

    @staticmethod
    def nbytes(problem: Problem, subdomain: Subdomain, dtype: np.dtype) -> int:
        """Return the bytes of the k-space correction and of 1 field per additive signal, 3 for a pair."""
        additive = _additive(problem)
        signals = [signal for source in additive for signal in source.signals]
        pairs = sum(isinstance(each, ProductSignal) and each.waveforms.shape[1] == 2 for each in signals)
        fields = len(signals) + 2 * pairs
        half = math.prod(subdomain.spectral_shape) if additive else 0
        return dtype.itemsize * (fields * math.prod(subdomain.size) + half)

    def active(self, step: int) -> tuple[bool, ...]:
        """Return whether each source is on: of the pressure, of each velocity component, the transducer."""
        return tuple(
            source is not None and step < source.steps
            for source in (self.pressure, *self.velocity, self.transducer)
        )

    def steps_alike(self, step: int, most: int) -> int:
        """Return for how many steps, beginning with ``step``, the same sources are active; up to ``most``."""
        ends = (source.steps for source in (self.pressure, *self.velocity, self.transducer) if source)
        return min(most, *(end - step for end in ends if end > step), most)

    def refresh(self, clock, active: tuple[bool, ...]) -> None:
        """Compute the source fields of this time step, before any of them is added."""
        for source, on in zip((self.pressure, *self.velocity), active[:-1], strict=True):
            if source is not None and on:
                source.refresh(clock)

    def active_velocity(self, active: tuple[bool, ...]) -> list[SourceTerm | None]:
        """Return the source of each velocity component, x first; None for a source that is off."""
        return [source if on else None for source, on in zip(self.velocity, active[1:-1], strict=True)]

    def add_velocity(self, u: list, clock, active: tuple[bool, ...]) -> None:
        """Apply the sources that are on to the velocity components, the transducer last."""
        for source, component in zip(self.active_velocity(active), u, strict=True):
            if source is not None:
                source.refresh(clock)
                source.apply(component, clock)
        if self.transducer is not None and active[-1]:
            self.transducer.apply(u[0], clock)

    def add_pressure(self, fields: Fields, active: tuple[bool, ...]) -> None:
        """Apply the pressure source to the density, if it is on."""
        if self.pressure is not None and active[0]:
            self.pressure.refresh(fields.clock)
            self.pressure.apply_to_density(fields)


def _additive(problem: Problem) -> list[PointSource]:
    """Return the additive sources of a problem, which get the k-space correction."""
    sources = (problem.pressure_source, problem.velocity_source)
    return [source for source in sources if source is not None and source.mode == "additive"]

"""A problem as one rank sees it: arrays cut at its points, sources at the points that it owns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wavefabric.acoustics.problem import PressureSource, Problem, TransducerSource, VelocitySource
from wavefabric.acoustics.solver.parts import Part
from wavefabric.acoustics.solver.source_terms import Form, PressurePart, VelocityPart, form


def localise(problem: Problem, part: Part) -> Problem:
    """The problem of a rank, of the shape ``part.size``.

    Sources keep the points that the rank owns, with indices into its own arrays, and are left out where there
    are none; but one whose application needs all ranks (``"additive"``, which is transformed) stays, with the
    form that the whole source has. The layer keeps the whole grid's description: see
    `operators.pml_factors`.

    Parameters
    ----------
    problem : Problem
        Of the whole grid.
    part : Part
    """

    def cut(value):
        return cut_array(value, part)

    return replace(
        problem,
        shape=part.size,
        sound_speed=cut(problem.sound_speed),
        density=cut(problem.density),
        density_staggered=tuple(map(cut, problem.density_staggered)),
        nonlinearity=cut(problem.nonlinearity),
        alpha_coeff=cut(problem.alpha_coeff),
        initial_pressure=cut(problem.initial_pressure),
        pressure_source=_pressure(problem.pressure_source, part),
        velocity_source=_velocity(problem.velocity_source, part),
        transducer=_transducer(problem.transducer, part),
    )


def cut_array(value, part: Part):
    """What a part holds of a whole-grid array (Nz, Ny, Nx), contiguous; scalars and None as they are."""
    if value is None or np.ndim(value) == 0:
        return value
    for axis, (first, size, n) in enumerate(zip(part.first, part.size, part.shape, strict=True)):
        at = 2 - axis
        if first >= 0 and first + size <= n:
            value = value[(slice(None),) * at + (slice(first, first + size),)]
        else:
            value = np.take(value, part.indices(axis), at)
    return np.ascontiguousarray(value)


def _columns(signal: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Signals of the points kept; one for all stays one for all."""
    return signal if signal.shape[1] == 1 else np.ascontiguousarray(signal[:, mask])


def _cut_form(whole: Form, mask: np.ndarray) -> Form:
    if whole.weights is None or whole.weights.size == 1:
        return whole
    return replace(whole, weights=whole.weights[mask])


def _pressure(source: PressureSource | None, part: Part) -> PressureSource | None:
    if source is None:
        return None
    mask, local = part.local_index(source.index)
    if source.mode != "additive" and not mask.any():
        return None
    how = _cut_form(form(source.index, source.signal, source.mode), mask)
    return PressurePart(local, _columns(source.signal, mask), source.mode, how)


def _velocity(source: VelocitySource | None, part: Part) -> VelocitySource | None:
    if source is None:
        return None
    mask, local = part.local_index(source.index)
    if source.mode != "additive" and not mask.any():
        return None
    forms = tuple(
        None if signal is None else _cut_form(form(source.index, signal, source.mode), mask)
        for signal in source.signals
    )
    signals = tuple(None if signal is None else _columns(signal, mask) for signal in source.signals)
    return VelocityPart(local, signals, source.mode, forms)


def _transducer(source: TransducerSource | None, part: Part) -> TransducerSource | None:
    if source is None:
        return None
    mask, local = part.local_index(source.index)
    return replace(source, index=local, delay=source.delay[mask]) if mask.any() else None

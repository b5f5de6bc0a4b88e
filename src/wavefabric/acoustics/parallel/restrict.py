"""Restricts a problem to one rank: arrays on its subdomain, sources at the points that the rank owns."""

from dataclasses import replace

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import PointSource, PressureSource, Problem, ProductSignal, Signal
from wavefabric.acoustics.solver.source_terms import source_forms

_ARRAYS = ("sound_speed", "density", "nonlinearity", "alpha_coeff", "initial_pressure")


def restrict_problem(problem: Problem, subdomain: Subdomain) -> Problem:
    """Return the part of a problem that one rank simulates, with the shape ``subdomain.size``.

    Sources keep the points that the rank owns, with indices into its local arrays. A source without points on
    the rank is left out, unless it is ``"additive"``: all ranks take part in the transforms of its k-space
    correction, so each rank keeps it, even without points. The `SourceForm` of a source is still chosen from
    its points on all ranks. The PML is still described for the whole grid: see `pml_factors`.
    """
    if subdomain.is_whole:
        return problem
    arrays = {name: restrict_array(getattr(problem, name), subdomain) for name in _ARRAYS}
    transducer = problem.transducer
    if transducer is not None:
        mask, index = subdomain.local_index(transducer.index)
        transducer = replace(transducer, index=index, delay=transducer.delay[mask]) if mask.any() else None
    return replace(
        problem,
        shape=subdomain.size,
        **arrays,
        density_staggered=tuple(restrict_array(rho, subdomain) for rho in problem.density_staggered),
        pressure_source=_restrict_source(problem.pressure_source, subdomain),
        velocity_source=_restrict_source(problem.velocity_source, subdomain),
        transducer=transducer,
    )


def restrict_array(value, subdomain: Subdomain):
    """Cut a rank's subdomain out of a whole-grid array (Nz, Ny, Nx); return numbers and None unchanged."""
    if value is None or np.ndim(value) == 0:
        return value
    axes = zip(subdomain.first, subdomain.size, subdomain.shape, strict=True)
    for axis, (first, size, n) in enumerate(axes):
        at = 2 - axis
        if first >= 0 and first + size <= n:
            value = value[(slice(None),) * at + (slice(first, first + size),)]
        else:
            value = np.take(value, subdomain.indices(axis), at)
    return np.ascontiguousarray(value)


def _restrict_signal(signal: Signal | None, mask: np.ndarray) -> Signal | None:
    """Return the signals of the source points in ``mask``; a signal shared by all points is not changed."""
    if isinstance(signal, ProductSignal):
        return replace(signal, weights=signal.weights[mask])
    if signal is None or signal.shape[1] == 1:
        return signal
    return np.ascontiguousarray(signal[:, mask])


def _restrict_source(source: PointSource | None, subdomain: Subdomain):
    if source is None:
        return None
    mask, index = subdomain.local_index(source.index)
    if source.mode != "additive" and not mask.any():
        return None
    forms = list(source_forms(source))
    for number, form in enumerate(forms):
        if form is not None and form.weights is not None and form.weights.size > 1:
            forms[number] = replace(form, weights=form.weights[mask])
    signals: tuple = tuple(_restrict_signal(signal, mask) for signal in source.signals)
    signal = {"signal": signals[0]} if isinstance(source, PressureSource) else {"signals": signals}
    return replace(source, index=index, forms=tuple(forms), **signal)

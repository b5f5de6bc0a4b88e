"""Converts k-wave-python's sources and transducers to a `Source`, and applies transmit apodization."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.kwave.values import (
    ObjectOptions,
    computed,
    fortran_positions,
    grid_mask,
    grid_values,
    real_array,
)
from wavefabric.acoustics.problem import Problem, VelocitySource
from wavefabric.acoustics.source import Source, Transducer
from wavefabric.base.errors import require


@dataclass(frozen=True)
class _UnscaledSource(Source):
    """A source whose signals are added without scaling in each time step, in the solver's units."""

    def scale(self, name: str, grid: Grid, c: np.ndarray, dt: float) -> np.ndarray:
        return np.ones(1)


def read_source(source: Any, grid: Grid, options: ObjectOptions) -> Source:
    """Return the `Source` for a kSource, or for a NotATransducer without the apodization."""
    kind = Source if options.scale_source_terms else _UnscaledSource
    if hasattr(source, "active_elements_mask"):
        return kind(transducer=_transducer(source))
    inputs: dict[str, Any] = {}
    for name in ("p_mask", "u_mask"):
        mask = getattr(source, name, None)
        inputs[name] = None if mask is None else grid_mask(mask, grid, f"source.{name}")
    for name in ("p", "ux", "uy", "uz"):
        signal, mask = getattr(source, name, None), inputs[f"{name[0]}_mask"]
        if signal is not None:
            signal = np.atleast_2d(real_array(signal, f"source.{name}"))
            in_c = options.signal_order == "C"  # `Source` needs Fortran order
            if in_c and mask is not None and len(signal) == np.count_nonzero(mask):
                signal = signal[np.argsort(fortran_positions(mask))]
        inputs[name] = signal
    for name in ("p_mode", "u_mode"):
        mode = getattr(source, name, None)
        mode = "additive" if mode is None else getattr(mode, "value", mode)
        allowed = "'additive', 'additive-no-correction' or 'dirichlet'"
        require(isinstance(mode, str), f"source.{name}", mode, allowed)
        inputs[name] = mode.replace("-", "_")
    p0 = grid_values(getattr(source, "p0", None), grid, "source.p0", allows_number=False)
    return kind(p0=p0, smooth=options.smooth_p0 and grid.dimensions > 1, **inputs)


def _transducer(source: Any) -> Transducer:
    allowed = "that of a NotATransducer with an input_signal"
    mask, signal, delay = (
        real_array(computed(source, name, f"source.{name}", allowed), f"source.{name}")
        for name in ("active_elements_mask", "input_signal", "delay_mask")
    )
    return Transducer(mask, signal.ravel(), delay)


def apodized(problem: Problem, source: Any) -> Problem:
    """Return the problem with transmit apodization: the transducer becomes a velocity source."""
    transducer, key = problem.transducer, "source.transmit_apodization"
    kind = getattr(source, "transmit_apodization", "Rectangular")
    if transducer is None or (isinstance(kind, str) and kind == "Rectangular"):
        return problem
    mask = np.asarray(source.active_elements_mask).T != 0
    if not isinstance(kind, str):
        allowed = "the name of a window, or one number for each active element"
        weights, elements = real_array(kind, key).ravel(), "indexed_active_elements_mask"
        element = np.asarray(computed(source, elements, f"source.{elements}", allowed)).T[mask]
        actual = f"{weights.size} numbers for {element.max()} active elements"
        right = weights.size == element.max() and np.isfinite(weights).all()
        require(right, key, actual, allowed)
        weights = weights[element - 1]
    elif getattr(source, "number_active_elements", None) == 1:  # as in MATLAB
        weights = np.ones(transducer.index.size)
    else:
        weights = computed(source, f"{key[7:]}_mask", f"{key}_mask", "a weight for each grid point")
        weights = real_array(weights, f"{key}_mask").T[mask]
    sample = np.arange(transducer.steps)[:, None] + transducer.delay
    signals = (transducer.signal[sample] * weights, None, None)[: problem.dimensions]
    pushed = VelocitySource(transducer.index, signals, "additive_no_correction")
    return replace(problem, transducer=None, velocity_source=pushed)

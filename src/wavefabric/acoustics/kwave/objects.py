"""Simulations described with k-wave-python's objects, which are read by their attributes alone."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.kwave.objects_record import Wanted
from wavefabric.acoustics.kwave.objects_signals import check_order, in_memory_order
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.result import Results
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.simulation import solve, to_problem
from wavefabric.acoustics.source import Source, Transducer
from wavefabric.errors import InputError
from wavefabric.units import show

_NOT_READ = {
    "medium": ("alpha_filter", "alpha_sign"),
    "source": ("p_frequency_ref", "u_frequency_ref", "s_mask", "sxx", "syy", "szz", "sxy", "sxz", "syz"),
    "sensor": ("directivity", "directivity_angle", "directivity_size", "frequency_response"),
}


def from_kwave(
    kgrid: Any,
    medium: Any,
    source: Any,
    sensor: Any = None,
    *,
    pml_size: Any = None,
    pml_alpha: Any = 2.0,
    pml_inside: bool = True,
    smooth_p0: bool = True,
    signal_order: Literal["C", "F"] = "C",
) -> tuple[Problem, Recording]:
    """The numbers the solver takes, from k-wave-python's objects.

    Parameters
    ----------
    kgrid : kWaveGrid
        2-D or 3-D, with ``dt`` and ``Nt`` set.
    medium : kWaveMedium
        ``sound_speed``, ``sound_speed_ref``, ``density`` (1000 kg/m³ if None), ``alpha_coeff``,
        ``alpha_power``, ``alpha_mode`` (``"no_dispersion"`` or ``"stokes"``), ``BonA``.
    source : kSource or NotATransducer
        ``p0``, ``p``, ``p_mask``, ``p_mode``, ``ux``, ``uy``, ``uz``, ``u_mask``, ``u_mode``. One row of
        signals for each point of the mask, in the order of `signal_order`. A transducer's elements, delays
        and signal are taken; it may not have an apodization.
    sensor : kSensor or None
        ``mask`` (binary, Cartesian in m, corners of cuboids counted from 1, or None for every point),
        ``record``, ``record_start_index``.
    pml_size, pml_alpha, pml_inside
        As in `Grid`. The defaults are those of MATLAB: 20 points in 2-D and 10 in 3-D, *inside* the grid.
        k-wave-python's ``kspaceFirstOrder`` puts 20 points *outside*, in 3-D too: give ``pml_size=20,
        pml_inside=False`` for the same.
    smooth_p0 : bool
        Smooth the initial pressure.
    signal_order : str
        How the rows of ``p``, ``ux``, ``uy`` and ``uz`` run through the points of their masks: ``"C"`` (last
        axis fastest), as ``kspaceFirstOrder`` takes them, or ``"F"`` (x fastest), as in MATLAB and as
        ``kWaveArray.get_distributed_source_signal`` gives them unless it is told ``order="C"``.

    Raises
    ------
    InputError
        If an attribute is set that has no counterpart here, or a value is wrong.

    Notes
    -----
    Only attributes are read, so that any object with the same names serves. Two differences from
    k-wave-python 0.6.2: ``sound_speed_ref`` is obeyed, and a pressure source on unequal spacings is scaled
    by that along x for all densities, as in MATLAB.
    """
    grid, parts, wanted, dt, steps = _translate(
        kgrid, medium, source, sensor, pml_size, pml_alpha, pml_inside, smooth_p0, signal_order
    )
    return to_problem(grid, *parts, wanted.sensor, dt, steps)


def simulate_kwave(
    kgrid: Any,
    medium: Any,
    source: Any,
    sensor: Any = None,
    *,
    pml_size: Any = None,
    pml_alpha: Any = 2.0,
    pml_inside: bool = True,
    smooth_p0: bool = True,
    signal_order: Literal["C", "F"] = "C",
    **options: Any,
) -> Results:
    """Run k-wave-python's objects on this solver; arrays come named and ordered as ``kspaceFirstOrder``'s.

    Parameters
    ----------
    kgrid, medium, source, sensor, pml_size, pml_alpha, pml_inside, smooth_p0, signal_order
        As in `from_kwave`.
    **options
        As in `simulate`, from ``device`` on.

    Returns
    -------
    Results
        Points of a binary mask are in the order of C. As in k-wave-python 0.6, ``ux`` is at the pressure's
        points and ``ux_staggered`` is where the solver has it (MATLAB calls them ``ux_non_staggered`` and
        ``ux``), and the statistics ``u_max``, ``u_min`` and ``u_rms`` are those of ``ux``. Whole-domain
        quantities, ``p_final`` among them, have the shape of `kgrid`, ``kgrid.N``, wherever the PML is.
        k-wave-python's ``p_final`` and ``u_final`` always lack the PML: with ``pml_inside=True`` they are
        smaller, ``kgrid.N`` less twice the PML along each axis, and are ours without their edges.
        Intensities differ a little: k-wave-python shifts the velocity by half a step as if the recording
        were periodic.
    """
    grid, parts, wanted, dt, steps = _translate(
        kgrid, medium, source, sensor, pml_size, pml_alpha, pml_inside, smooth_p0, signal_order
    )
    problem, recording = to_problem(grid, *parts, wanted.sensor, dt, steps)
    return solve(problem, recording, grid, adapt=wanted.adapt, **options)


def _translate(
    kgrid, medium, source, sensor, pml_size, pml_alpha, pml_inside, smooth_p0, signal_order
) -> tuple[Grid, tuple[Medium, Source], Wanted, float, int]:
    check_order(signal_order)
    _refuse(medium, "medium")
    _refuse(source, "source")
    grid, dt, steps = _grid(kgrid, pml_size, pml_alpha, pml_inside)
    parts = _medium(medium, grid), _source(source, grid, smooth_p0, signal_order)
    return grid, parts, _wanted(sensor, grid), dt, steps


def _grid(kgrid: Any, pml_size: Any, pml_alpha: Any, pml_inside: bool) -> tuple[Grid, float, int]:
    if getattr(kgrid, "nonuniform", False):
        raise InputError("kgrid.nonuniform: True; allowed: a uniform grid")
    shape = tuple(int(n) for n in np.ravel(kgrid.N))
    if len(shape) < 2:
        raise InputError("kgrid.N: of 1 dimension; allowed: 2 or 3")
    spacing = tuple(float(d) for d in np.ravel(kgrid.spacing))
    for name in ("dt", "Nt"):
        if isinstance(getattr(kgrid, name), str):
            raise InputError(
                f"kgrid.{name}: {show(getattr(kgrid, name))}; allowed: a number, see kgrid.makeTime"
            )
    return Grid(shape, spacing, pml_size, pml_alpha, pml_inside), float(kgrid.dt), int(kgrid.Nt)


def _medium(medium: Any, grid: Grid) -> Medium:
    mode = getattr(medium, "alpha_mode", None)
    mode = getattr(mode, "value", mode)
    if mode not in (None, "no_dispersion", "stokes"):
        raise InputError(f"medium.alpha_mode: {show(mode)}; allowed: None, 'no_dispersion' or 'stokes'")
    density = getattr(medium, "density", None)
    alpha = _values(getattr(medium, "alpha_coeff", None), grid)
    power = _values(getattr(medium, "alpha_power", None), grid)
    if isinstance(power, np.ndarray):
        raise InputError("medium.alpha_power: is an array; allowed: one number")
    stokes = mode == "stokes" or (power is not None and math.isclose(power, 2))
    speed = _values(medium.sound_speed, grid)
    reference = getattr(medium, "sound_speed_ref", None)
    if isinstance(reference, str):
        choices = {"min": np.min, "max": np.max, "mean": np.mean}
        if reference not in choices:
            raise InputError(
                f"medium.sound_speed_ref: {show(reference)}; allowed: a number, 'min', 'max' or 'mean'"
            )
        reference = choices[reference](speed)
    nonlinearity = _values(getattr(medium, "BonA", None), grid)
    return Medium(
        sound_speed=speed,
        density=1000.0 if density is None else _values(density, grid),
        alpha_coeff=alpha if np.any(alpha) else None,  # type: ignore[arg-type]
        alpha_power=2.0 if stokes else power,
        nonlinearity=nonlinearity if np.any(nonlinearity) else None,  # type: ignore[arg-type]
        absorption="stokes" if stokes else "power_law",
        dispersion=mode != "no_dispersion",
        reference_speed=None if reference is None else float(np.ravel(reference)[0]),
    )


def _source(source: Any, grid: Grid, smooth_p0: bool, order: str) -> Source:
    if hasattr(source, "active_elements_mask"):
        return _transducer(source)
    p_mask, u_mask = (
        _mask(getattr(source, f"{name}_mask", None), grid, f"source.{name}_mask") for name in "pu"
    )

    def signals(name: str, mask: np.ndarray | None) -> np.ndarray | None:
        return in_memory_order(getattr(source, name, None), mask, order)

    return Source(
        p0=_values(getattr(source, "p0", None), grid, alone=False),
        smooth=smooth_p0,
        p_mask=p_mask,
        p=signals("p", p_mask),
        p_mode=_mode(getattr(source, "p_mode", None)),
        u_mask=u_mask,
        ux=signals("ux", u_mask),
        uy=signals("uy", u_mask),
        uz=signals("uz", u_mask),
        u_mode=_mode(getattr(source, "u_mode", None)),
    )


def _transducer(source: Any) -> Source:
    apodization = getattr(source, "transmit_apodization", "Rectangular")
    if not (isinstance(apodization, str) and apodization == "Rectangular"):
        raise InputError("source.transmit_apodization: is set; allowed: 'Rectangular'")
    delay = np.asarray(source.delay_mask())
    return Source(transducer=Transducer(source.active_elements_mask, np.ravel(source.input_signal), delay))


def _wanted(sensor: Any, grid: Grid) -> Wanted:
    if hasattr(sensor, "active_elements_mask"):
        raise InputError(
            "sensor: is a transducer; allowed: a kSensor, e.g. with its active_elements_mask as mask"
        )
    _refuse(sensor, "sensor")
    # k-wave-python warns whoever reads the public name.
    reversal = getattr(sensor, "_time_reversal_boundary_data", None)
    if reversal is None and "time_reversal_boundary_data" in getattr(sensor, "__dict__", {}):
        reversal = sensor.time_reversal_boundary_data
    if reversal is not None:
        raise InputError(
            "sensor.time_reversal_boundary_data: is set; allowed: None (use it as a source instead)"
        )
    start = getattr(sensor, "record_start_index", None)
    start = 1 if start is None else int(start)
    if start < 1:
        raise InputError(f"sensor.record_start_index: {start}; allowed: from 1")
    place, order = _place(getattr(sensor, "mask", None), grid)
    return Wanted.of(getattr(sensor, "record", None), place, order, start - 1)


def _place(mask: Any, grid: Grid) -> tuple[Sensor, np.ndarray | None]:
    """A sensor at a mask, and where its points are found in the order of C (None if no mask)."""
    dims = grid.dimensions
    mask = np.ones(grid.shape, bool) if mask is None or np.size(mask) == 1 else np.asarray(mask)
    if mask.shape != grid.shape and mask.ndim == 2 and mask.shape[0] == dims:
        return Sensor.points(mask), None
    if mask.shape != grid.shape and mask.ndim == 2 and mask.shape[0] == 2 * dims:
        return Sensor.boxes(*mask.T.reshape(-1, 2, dims).astype(np.int64) - 1), None
    mask = _mask(mask, grid, "sensor.mask")
    rank = np.zeros(grid.shape, np.int64)
    rank.T[mask.T] = np.arange(np.count_nonzero(mask))
    return Sensor(mask), rank[mask]


def _values(value: Any, grid: Grid, alone: bool = True) -> Any:
    """None, one float (if ``alone`` may be), or an array of the grid's shape if it has as many values."""
    if value is None:
        return None
    array = np.asarray(value)
    if array.size == 1 and alone:
        return float(array.reshape(-1)[0])
    return array.reshape(grid.shape) if array.size == math.prod(grid.shape) else array


def _mask(mask: Any, grid: Grid, key: str) -> Any:
    if mask is None:
        return None
    mask = np.asarray(_values(mask, grid, alone=False))
    if mask.size == 1:
        mask = np.full(grid.shape, mask.reshape(-1)[0])
    if mask.shape != grid.shape:
        raise InputError(f"{key}: has the shape {mask.shape}; allowed: {grid.shape}, the grid's")
    if mask.dtype != np.bool_ and not np.isin(mask, (0, 1)).all():
        raise InputError(f"{key}: has other values than 0 and 1; allowed: a binary mask, no labels")
    return mask.astype(bool)


def _mode(mode: Any) -> Any:
    return "additive" if mode is None else str(mode).replace("-", "_")


def _refuse(thing: Any, name: str) -> None:
    for attribute in _NOT_READ[name]:
        if getattr(thing, attribute, None) is not None:
            raise InputError(
                f"{name}.{attribute}: is set; allowed: None, since Wavefabric has nothing like it"
            )

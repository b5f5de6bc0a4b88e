"""Simulates problems described with k-wave-python's objects, of which only the attributes are read."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.kwave.sources import apodized, read_source
from wavefabric.acoustics.kwave.values import (
    PROBLEM_NAMES,
    ObjectOptions,
    each_axis,
    fortran_positions,
    grid_mask,
    grid_shape,
    grid_values,
    kwave_names,
    plain,
    real_array,
    real_number,
    whole_number,
)
from wavefabric.acoustics.medium import Medium, stagger
from wavefabric.acoustics.problem import SOURCES, Problem, Recording
from wavefabric.acoustics.recording.quantities import components, is_field, record_names, vector_of
from wavefabric.acoustics.result import Results
from wavefabric.acoustics.run import identity
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.setup import Setup
from wavefabric.acoustics.simulation import ResultSettings, solve
from wavefabric.acoustics.smoothing import smooth
from wavefabric.acoustics.source import Source
from wavefabric.base.arguments import is_whole
from wavefabric.base.errors import InputError, ensure, require, show
from wavefabric.base.system.machine import host_memory
from wavefabric.runtime.exchange.launch import environment

_ELASTIC = "Wavefabric simulates fluids, not elastic media"
#: Attributes that raise an error if they are set, and the reason or the replacement in Wavefabric.
_NOT_READ = (
    ("medium", "alpha_filter alpha_sign", "Wavefabric has no filter or sign of absorption"),
    ("medium", "alpha_coeff_compression alpha_coeff_shear", _ELASTIC),
    ("medium", "sound_speed_compression sound_speed_shear", _ELASTIC),
    ("medium", "sound_speed_ref_compression sound_speed_ref_shear", _ELASTIC),
    ("source", "p_frequency_ref u_frequency_ref", "the modes 'additive' are corrected at all frequencies"),
    ("source", "s_mask s_mode sxx syy szz sxy sxz syz", _ELASTIC),
    (
        "sensor",
        "directivity directivity_angle directivity_size",
        "wavefabric.acoustics.Sensor.elements listens with the mean over the surface of a transducer",
    ),
    (
        "sensor",
        "frequency_response",
        "wavefabric.acoustics.frequency_response(signals, dt, centre, bandwidth) filters what was recorded",
    ),
    ("sensor", "time_reversal_boundary_data", "wavefabric.acoustics.time_reversal makes the image"),
)
#: k-wave-python 0.6 records "u" at the pressure points, and computes its statistics from that.
_U_RECORDED = {
    **dict.fromkeys(("u", "u_non_staggered", "u_max", "u_min", "u_rms"), "u_non_staggered"),
    "u_staggered": "u",
}
#: A PML has at most this number of points, or as many as the grid along its axis.
_THICKEST = 1000
_REDUCE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "max": lambda series: series.max(axis=0),
    "min": lambda series: series.min(axis=0),
    "rms": lambda series: np.sqrt(np.mean(series**2, axis=0)),
}


def from_kwave(
    kgrid: Any, medium: Any, source: Any, sensor: Any = None, **options: Any
) -> tuple[Problem, Recording]:
    """Return the problem and the recording that the solver needs, from k-wave-python's objects.

    `InputError`: an attribute is set that is not supported, or a value is wrong.

    Parameters
    ----------
    kgrid : kWaveGrid
        1-D, 2-D or 3-D, with ``dt`` and ``Nt`` set.
    medium : kWaveMedium
        ``sound_speed``, ``sound_speed_ref``, ``density`` (1000 kg/m³ if None), ``alpha_coeff``,
        ``alpha_power``, ``alpha_mode`` (``"no_dispersion"`` or ``"stokes"``), ``BonA``.
    source : kSource or NotATransducer
        ``p0``, ``p``, ``p_mask``, ``p_mode``, ``ux``, ``uy``, ``uz``, ``u_mask``, ``u_mode``. Of a
        transducer: elements, delays, signal and transmit apodization.
    sensor : kSensor, NotATransducer or None
        ``mask`` (binary, Cartesian in m, corners of cuboids counted from 1, or None for every point),
        ``record``, ``record_start_index``. Of a transducer: the points of its active elements.

    Other Parameters
    ----------------
    pml_size, pml_alpha, pml_inside : optional
        As in `Grid`; the defaults are those of MATLAB. k-wave-python's ``kspaceFirstOrder`` puts 20 points
        *outside*, in 3-D too: give ``pml_size=20, pml_inside=False`` for the same.
    smooth_p0 : bool
        Smooth the initial pressure, but never in 1-D, as in k-wave-python.
    smooth_c0, smooth_rho0 : bool
        Smooth an array of sound speeds or densities on the whole grid, PML included (False).
    scale_source_terms : bool
        False: ``p``, ``ux``, ``uy``, ``uz`` and a transducer's signal are added unscaled in each time step.
    signal_order : str
        Order of the rows of ``p``, ``ux``, ``uy`` and ``uz`` over the points of their masks: ``"C"`` (last
        axis fastest), as in ``kspaceFirstOrder``, or ``"F"`` (x fastest), as in MATLAB and in the result of
        ``kWaveArray.get_distributed_source_signal`` without ``order="C"``.
    use_sg, use_kspace : bool
        Staggered grid; k-space correction. Without a staggered grid the PML is not staggered either, as in
        MATLAB; in k-wave-python it still is.
    axisymmetric : bool
        As in `Grid`; absorption is Stokes absorption, as in ``kspaceFirstOrderAS``.

    Notes
    -----
    Only attributes are read, so any object with the same attribute names works. Two differences from
    k-wave-python 0.6.2: ``sound_speed_ref`` is used, and a pressure source on unequal spacings is scaled
    by the spacing along x for all densities, as in MATLAB.
    """
    with kwave_names():
        return _translate(kgrid, medium, source, sensor, ObjectOptions(**options))[1:3]


def simulate_kwave(kgrid: Any, medium: Any, source: Any, sensor: Any = None, **options: Any) -> Results:
    """Run k-wave-python's objects on this solver; arrays have the names and order of ``kspaceFirstOrder``.

    Objects, errors and options are those of `from_kwave`; ``output``, ``force`` and the keywords of
    `RunSettings` are as in `simulate`.

    Points of a binary mask are in C order. As in k-wave-python 0.6, ``ux`` is at the pressure points and
    ``ux_staggered`` is at the solver's velocity points (in MATLAB ``ux_non_staggered`` and ``ux``), and the
    statistics ``u_max``, ``u_min`` and ``u_rms`` are those of ``ux``. Whole-domain quantities have the shape
    of ``kgrid``, ``kgrid.N``, wherever the PML is. docs/kwave.md lists differences from k-wave-python.
    """
    own = {each.name: options.pop(each.name) for each in fields(ObjectOptions) if each.name in options}
    settings = ResultSettings(**options)
    with kwave_names():
        grid, problem, recording, adapt = _translate(kgrid, medium, source, sensor, ObjectOptions(**own))
        names = {"names": PROBLEM_NAMES, "first_index": 1}
        if environment.ranks() > 1 or settings.comm is not None:
            return solve(problem, recording, settings, grid, adapt, **names)
        return _LAST.solve(problem, recording, settings, grid, adapt, **names)


class _LastRun:
    """Keeps the fields and operators of the last run for a next run with the same grid, medium and time step.

    Scripts of k-wave-python loop over sources. Fields and operators are not kept if they are larger than the
    memory that is left beside them.
    """

    def __init__(self) -> None:
        self._digest = ""
        self._problem: Problem | None = None
        self._setup: Setup | None = None
        #: Whether the last time step is known to be stable.
        self._stable = False

    def solve(self, problem: Problem, recording: Recording, settings: Any, *rest: Any, **more: Any):
        """Run a problem as `simulation.solve` does; reuse the last run's fields and operators if possible."""
        silent = problem.with_medium(steps=1)
        options = settings.device, settings.threads, settings.precision
        digest, last = identity(silent, *options), self._problem
        # A script may have changed arrays of the last run in place since.
        if last is not None and digest == self._digest == identity(last, *options):
            sources = {name: getattr(problem, name) for name in SOURCES}
            problem = last.with_medium(steps=problem.steps, **sources)
            settings = replace(settings, check_stability=settings.check_stability and not self._stable)
        else:
            self._digest, self._problem, self._setup, self._stable = digest, silent, None, False
        settings = settings.with_ranks(problem.shape)
        setup, self._setup = self._setup or Setup(settings), None  # a run of another thread creates a new one
        results = solve(problem, recording, settings, *rest, setup=setup, **more)
        self._stable |= settings.check_stability
        if setup.nbytes <= settings.ranks.device.memory()[0]:
            self._setup = setup
        return results


_LAST = _LastRun()


def _translate(
    kgrid: Any, medium: Any, source: Any, sensor: Any, options: ObjectOptions
) -> tuple[Grid, Problem, Recording, Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]]:
    """Return grid, problem and recording, and a function that converts recorded arrays to requested ones."""
    objects = {"medium": medium, "source": source, "sensor": sensor}
    for part, names, instead in _NOT_READ:
        for name in names.split():
            ensure(_attribute(objects[part], name) is None, f"{part}.{name}", "is set", f"None ({instead})")
    grid, (dt, steps) = _grid(kgrid, options), _time(kgrid)
    try:
        translated, driven = _medium(medium, grid, options), read_source(source, grid, options)
        records, adapt = _record(sensor, grid)
        _check_memory(grid, translated, driven)
        problem = _smoothed(grid.silent_problem(translated, dt, steps), grid, options)
        problem = replace(problem, **driven.on(grid, problem.sound_speed, dt))
        return grid, apodized(problem, source), records.on(grid), adapt
    except MemoryError:
        raise InputError(f"kgrid.N: {show(kgrid.N)}; allowed: as many points as the memory holds") from None


def _smoothed(problem: Problem, grid: Grid, options: ObjectOptions) -> Problem:
    """Smooth the medium on the grid with its PML, and compute staggered densities, as ``options`` say."""
    wanted = {"sound_speed": options.smooth_c0, "density": options.smooth_rho0}
    arrays: dict[str, Any] = {name: getattr(problem, name) for name, smoothed in wanted.items() if smoothed}
    arrays = {name: smooth(a, restore_max=False) for name, a in arrays.items() if isinstance(a, np.ndarray)}
    density, axes = arrays.get("density", problem.density), range(problem.dimensions)
    # k-Wave's staggered means do not wrap around on periodic axes.
    if not options.use_sg or "density" in arrays or any(grid.periodic):
        staggered = (stagger(density, axis) if options.use_sg else density for axis in axes)
        arrays["density_staggered"] = tuple(staggered)
    return replace(problem, **arrays, k_space=options.use_kspace, staggered=options.use_sg)


def _attribute(described: Any, name: str) -> Any:
    """Return an attribute or None; k-wave-python's media raise NotImplementedError for elastic attributes."""
    if name == "time_reversal_boundary_data":  # k-wave-python warns when the public name is read
        private = getattr(described, f"_{name}", None)
        return getattr(described, "__dict__", {}).get(name) if private is None else private
    try:
        return getattr(described, name, None)
    except NotImplementedError:
        return None


def _time(kgrid: Any) -> tuple[float, int]:
    """Return the time step, s, and the number of time steps of a kWaveGrid."""
    for name in ("dt", "Nt"):
        value = getattr(kgrid, name)
        unset = "a number; call kgrid.makeTime(medium.sound_speed) or kgrid.setTime(Nt, dt) first"
        require(not isinstance(value, str), f"kgrid.{name}", value, unset)
    dt = real_number(kgrid.dt, "kgrid.dt")
    require(dt > 0, "kgrid.dt", kgrid.dt, "above 0")
    return dt, whole_number(kgrid.Nt, "kgrid.Nt")


def _grid(kgrid: Any, options: ObjectOptions) -> Grid:
    for name in ("N", "spacing", "dt", "Nt"):
        require(hasattr(kgrid, name), f"kgrid.{name}", None, "that of a kWaveGrid")
    uneven = getattr(kgrid, "nonuniform", False)
    require(isinstance(uneven, bool | np.bool_) and not uneven, "kgrid.nonuniform", uneven, "False")
    shape = grid_shape(kgrid)
    spacing = real_array(kgrid.spacing, "kgrid.spacing").ravel().tolist()
    size = options.pml_size
    if size is not None and not isinstance(size, str):
        size = each_axis(size, len(shape), "pml_size")
        for n, points in zip(size, shape, strict=True):
            thick = is_whole(n) and n > max(points, _THICKEST)
            require(not thick, "pml_size", plain(size), f"at most {max(points, _THICKEST)} points")
    alpha = each_axis(options.pml_alpha, len(shape), "pml_alpha")
    pml = (size, alpha, options.pml_inside)
    return Grid(shape, tuple(map(float, spacing)), *pml, axisymmetric=options.axisymmetric)


def _check_memory(grid: Grid, medium: Medium, source: Source) -> None:
    """Raise `InputError` if memory cannot hold the total grid, before its arrays are created."""
    arrays = (medium.sound_speed, medium.density, medium.alpha_coeff, medium.nonlinearity)
    copies = sum(isinstance(values, np.ndarray) for values in arrays)
    copies += 0 if source.p0 is None else 3 if source.smooth else 1
    if math.prod(grid.total_shape) * (1 + 8 * copies) > host_memory()[0]:
        actual = f"{list(grid.shape)} with a PML of {list(grid.pml_size)} points"
        raise InputError(f"kgrid.N: {actual}; allowed: as many points as the memory holds")


def _medium(medium: Any, grid: Grid, options: ObjectOptions) -> Medium:
    speed, density, alpha, power, nonlinearity = (
        grid_values(getattr(medium, name, None), grid, f"medium.{name}")
        for name in ("sound_speed", "density", "alpha_coeff", "alpha_power", "BonA")
    )
    mode = getattr(medium, "alpha_mode", None)
    mode = getattr(mode, "value", mode)  # of an enumeration
    require(speed is not None, "medium.sound_speed", None, "one number, or an array of the grid's shape")
    known = mode is None or (isinstance(mode, str) and mode in ("no_dispersion", "stokes"))
    require(known, "medium.alpha_mode", mode, "None, 'no_dispersion' or 'stokes'")
    ensure(not isinstance(power, np.ndarray), "medium.alpha_power", "is an array", "one number")
    stokes = mode == "stokes" or options.axisymmetric or (power is not None and math.isclose(power, 2))
    allowed = "None or 'stokes' on an axisymmetric grid"
    require(not options.axisymmetric or mode != "no_dispersion", "medium.alpha_mode", mode, allowed)
    reference = getattr(medium, "sound_speed_ref", None)
    if isinstance(reference, str):
        choices = {"min": np.min, "max": np.max, "mean": np.mean}
        allowed = "a number, 'min', 'max' or 'mean'"
        require(reference in choices, "medium.sound_speed_ref", reference, allowed)
        reference = choices[reference](speed)
    return Medium(
        sound_speed=speed,
        density=1000.0 if density is None else density,
        alpha_coeff=alpha if np.any(alpha) else None,  # type: ignore[arg-type]
        alpha_power=2.0 if stokes else power,
        nonlinearity=nonlinearity if np.any(nonlinearity) else None,  # type: ignore[arg-type]
        absorption="stokes" if stokes else "power_law",
        dispersion=mode != "no_dispersion",
        reference_speed=None if reference is None else real_number(reference, "medium.sound_speed_ref"),
    )


def _record(sensor: Any, grid: Grid) -> tuple[Sensor, Callable]:
    described = sensor is None or hasattr(sensor, "mask") or hasattr(sensor, "record")
    require(described or hasattr(sensor, "active_elements_mask"), "sensor", sensor, "a kSensor or None")
    start = getattr(sensor, "record_start_index", None)
    start = 1 if start is None else whole_number(start, "sensor.record_start_index")
    # The meaning of None in ``kspaceFirstOrder``.
    record = getattr(sensor, "record", None)
    record = ("p", "p_final") if record is None else record
    record = (record,) if isinstance(record, str) else plain(record)
    words = isinstance(record, list | tuple) and all(isinstance(name, str) for name in record)
    require(words, "sensor.record", record, "names of what to record")
    allowed = (*record_names(), "u_staggered")
    recorded: dict[str, None] = {}  # in the requested order, each once
    arrays: dict[str, None] = {}
    for name in record:
        stem = vector_of(name)
        axes = "xyz" if stem == name else name[1:2]
        require(stem in allowed, "sensor.record", name, f"{', '.join(allowed)}, or one axis of them")
        recorded[_U_RECORDED.get(stem, stem)] = None
        arrays |= dict.fromkeys(components(stem, axes))
    points, order = _sensor(getattr(sensor, "active_elements_mask", getattr(sensor, "mask", None)), grid)
    return replace(points, record=tuple(recorded), start=start - 1), partial(_adapted, tuple(arrays), order)


def _adapted(
    names: tuple[str, ...], order: np.ndarray | None, arrays: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the requested ``names`` as a dictionary of arrays, with the sensor's points in ``order``.

    ``arrays`` are the recorded ones. If ``order`` is None, the points stay in the order in which they were
    recorded.
    """
    adapted = {}
    for name in names:
        stem, _, kind = name.partition("_")
        source = _U_RECORDED.get(f"u_{kind}" if kind else "u") if stem[0] == "u" else None
        recorded = name if source is None else stem + source[1:]
        if recorded not in arrays:  # such as z in 2-D
            continue
        array = arrays[recorded]
        if source is not None and kind in _REDUCE:
            array = _REDUCE[kind](array)
        adapted[name] = array if is_field(name) or order is None else array[..., order]
    return adapted


def _sensor(mask: Any, grid: Grid) -> tuple[Sensor, np.ndarray | None]:
    """Return a sensor at ``mask``, and the indices that sort its grid points in C order.

    These are None for a mask of cuboids or Cartesian points.
    """
    dims = grid.dimensions
    mask = np.ones(grid.shape, bool) if mask is None else real_array(mask, "sensor.mask")
    mask = np.full(grid.shape, mask.reshape(-1)[0]) if mask.size == 1 else mask
    if mask.shape != grid.shape and mask.ndim == 2 and mask.shape[0] == dims:
        return Sensor.points(mask), None
    if mask.shape != grid.shape and mask.ndim == 2 and mask.shape[0] == 2 * dims:
        for first, last in mask.T.reshape(-1, 2, dims).tolist():
            right = all(1 <= a <= b <= n for a, b, n in zip(first, last, grid.shape, strict=True))
            actual = f"a cuboid from {plain(first)} to {plain(last)}"
            allowed = f"whole numbers, each corner from 1 to {list(grid.shape)}, the first the lower one"
            ensure(right and all(n == n // 1 for n in first + last), "sensor.mask", actual, allowed)
        return Sensor.boxes(*mask.T.reshape(-1, 2, dims).astype(np.int64) - 1), None
    mask = grid_mask(mask, grid, "sensor.mask")
    return Sensor(mask), fortran_positions(mask)

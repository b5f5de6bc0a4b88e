"""Simulations described with k-wave-python's objects, which are read by their attributes alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from wavefabric.acoustics.arguments import require
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium, stagger
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.quantities import components, is_field, vector_of
from wavefabric.acoustics.result import Results
from wavefabric.acoustics.sensor import Sensor, record_names
from wavefabric.acoustics.simulation import ResultSettings, solve, to_problem
from wavefabric.acoustics.source import Source, Transducer
from wavefabric.errors import InputError, show

_NOT_READ = {
    "medium": (
        *("alpha_filter", "alpha_sign", "alpha_coeff_compression", "alpha_coeff_shear"),
        *("sound_speed_compression", "sound_speed_shear"),
    ),
    "source": ("p_frequency_ref", "u_frequency_ref", "s_mask", "sxx", "syy", "szz", "sxy", "sxz", "syz"),
    "sensor": ("directivity", "directivity_angle", "directivity_size", "frequency_response"),
}
#: k-wave-python 0.6 takes "u" at the pressure's points, and its statistics from that.
_U_RECORDED = {
    **dict.fromkeys(("u", "u_non_staggered", "u_max", "u_min", "u_rms"), "u_non_staggered"),
    "u_staggered": "u",
}
_REDUCE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "max": lambda series: series.max(axis=0),
    "min": lambda series: series.min(axis=0),
    "rms": lambda series: np.sqrt(np.mean(series**2, axis=0)),
}


@dataclass(frozen=True, kw_only=True)
class ObjectOptions:
    """How k-wave-python's objects are read: keywords of `from_kwave`."""

    pml_size: Any = None
    pml_alpha: Any = 2.0
    pml_inside: bool = True
    smooth_p0: bool = True
    signal_order: Literal["C", "F"] = "C"
    use_sg: bool = True
    use_kspace: bool = True

    def __post_init__(self) -> None:
        order = self.signal_order
        require(isinstance(order, str) and order in ("C", "F"), "signal_order", order, "'C' or 'F'")
        for key in ("pml_inside", "smooth_p0", "use_sg", "use_kspace"):
            require(isinstance(getattr(self, key), bool), key, getattr(self, key), "True or False")


def from_kwave(
    kgrid: Any, medium: Any, source: Any, sensor: Any = None, **options: Any
) -> tuple[Problem, Recording]:
    """The numbers the solver takes, from k-wave-python's objects.

    Parameters
    ----------
    kgrid : kWaveGrid
        1-D, 2-D or 3-D, with ``dt`` and ``Nt`` set.
    medium : kWaveMedium
        ``sound_speed``, ``sound_speed_ref``, ``density`` (1000 kg/m³ if None), ``alpha_coeff``,
        ``alpha_power``, ``alpha_mode`` (``"no_dispersion"`` or ``"stokes"``), ``BonA``.
    source : kSource or NotATransducer
        ``p0``, ``p``, ``p_mask``, ``p_mode``, ``ux``, ``uy``, ``uz``, ``u_mask``, ``u_mode``. A transducer's
        elements, delays, signal and transmit apodization are taken.
    sensor : kSensor, NotATransducer or None
        ``mask`` (binary, Cartesian in m, corners of cuboids counted from 1, or None for every point),
        ``record``, ``record_start_index``. Of a transducer the points of its active elements.

    Other Parameters
    ----------------
    pml_size, pml_alpha, pml_inside : optional
        As in `Grid`. The defaults are those of MATLAB: 20 points in 1-D and 2-D, 10 in 3-D, *inside* the
        grid.
        k-wave-python's ``kspaceFirstOrder`` puts 20 points *outside*, in 3-D too: give ``pml_size=20,
        pml_inside=False`` for the same.
    smooth_p0 : bool
        Smooth the initial pressure; in 1-D it never is, as in k-wave-python.
    signal_order : str
        How the rows of ``p``, ``ux``, ``uy`` and ``uz`` run through the points of their masks: ``"C"`` (last
        axis fastest), as ``kspaceFirstOrder`` takes them, or ``"F"`` (x fastest), as in MATLAB and as
        ``kWaveArray.get_distributed_source_signal`` gives them unless it is told ``order="C"``.
    use_sg, use_kspace : bool
        Staggered grid; k-space correction. Without a staggered grid the PML is not staggered either, as in
        MATLAB; k-wave-python's still is.

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
    return _translate(kgrid, medium, source, sensor, ObjectOptions(**options))[1:3]


def simulate_kwave(kgrid: Any, medium: Any, source: Any, sensor: Any = None, **options: Any) -> Results:
    """Run k-wave-python's objects on this solver; arrays come named and ordered as ``kspaceFirstOrder``'s.

    Parameters
    ----------
    kgrid, medium, source, sensor
        As in `from_kwave`, as are errors.

    Other Parameters
    ----------------
    pml_size, pml_alpha, pml_inside, smooth_p0, signal_order, use_sg, use_kspace : optional
        As in `from_kwave`.
    output, force, device, threads, precision, progress, checkpoint : optional
        As in `simulate`.
    check_stability, comm, decomposition : optional
        As in `simulate`.

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
    own = {each.name: options.pop(each.name) for each in fields(ObjectOptions) if each.name in options}
    how = ResultSettings(**options)
    grid, problem, recording, adapt = _translate(kgrid, medium, source, sensor, ObjectOptions(**own))
    return solve(problem, recording, grid, how, adapt)


def _translate(
    kgrid: Any, medium: Any, source: Any, sensor: Any, options: ObjectOptions
) -> tuple[Grid, Problem, Recording, Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]]:
    """What is simulated, and what makes the arrays asked for of those recorded."""
    for name, described in (("medium", medium), ("source", source), ("sensor", sensor)):
        for attribute in _NOT_READ[name]:
            if _attribute(described, attribute) is not None:
                nothing = "None, since Wavefabric has nothing like it"
                raise InputError(f"{name}.{attribute}: is set; allowed: {nothing}")
    grid = _grid(kgrid, options)
    try:
        translated = _medium(medium, grid), _source(source, grid, options)
        records, adapt = _record(sensor, grid)
    except MemoryError:
        raise InputError(f"kgrid.N: {show(kgrid.N)}; allowed: as many points as the memory holds") from None
    dt, steps = _number(kgrid.dt, "kgrid.dt"), _whole(kgrid.Nt, "kgrid.Nt", 1)
    problem, recording = to_problem(grid, *translated, records, dt, steps)
    problem = replace(problem, k_space=options.use_kspace, staggered=options.use_sg)
    axes, rho = range(grid.dimensions), problem.density
    if not options.use_sg:
        problem = replace(problem, density_staggered=tuple(rho for _ in axes))
    elif any(grid.periodic):  # k-Wave's means do not wrap around
        problem = replace(problem, density_staggered=tuple(stagger(rho, axis) for axis in axes))
    return grid, problem, recording, adapt


def _attribute(described: Any, name: str) -> Any:
    """None if it is not there: k-wave-python's media raise NotImplementedError for what is elastic."""
    try:
        return getattr(described, name, None)
    except NotImplementedError:
        return None


def _grid(kgrid: Any, options: ObjectOptions) -> Grid:
    for name in ("N", "spacing", "dt", "Nt"):
        require(hasattr(kgrid, name), f"kgrid.{name}", None, "that of a kWaveGrid")
    uneven = getattr(kgrid, "nonuniform", False)
    require(isinstance(uneven, bool | np.bool_) and not uneven, "kgrid.nonuniform", uneven, "False")
    points = _numbers(kgrid.N, "kgrid.N").ravel()
    right = points.size in (1, 2, 3) and all(n == n // 1 and 2 <= n < 2**31 for n in points.tolist())
    require(right, "kgrid.N", kgrid.N, "1 to 3 whole numbers from 2")
    spacing = _numbers(kgrid.spacing, "kgrid.spacing").ravel().tolist()
    pml = map(_from_array, (options.pml_size, options.pml_alpha, options.pml_inside))
    return Grid(tuple(map(int, points)), tuple(map(float, spacing)), *pml)


def _from_array(value: Any) -> Any:
    """A number or numbers of Python, of NumPy's."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def _medium(medium: Any, grid: Grid) -> Medium:
    speed, density, alpha, power, nonlinearity = (
        _values(getattr(medium, name, None), grid, f"medium.{name}")
        for name in ("sound_speed", "density", "alpha_coeff", "alpha_power", "BonA")
    )
    mode = getattr(medium, "alpha_mode", None)
    mode = getattr(mode, "value", mode)  # of an enumeration
    require(speed is not None, "medium.sound_speed", None, "one number, or an array of the grid's shape")
    known = mode is None or (isinstance(mode, str) and mode in ("no_dispersion", "stokes"))
    require(known, "medium.alpha_mode", mode, "None, 'no_dispersion' or 'stokes'")
    if isinstance(power, np.ndarray):
        raise InputError("medium.alpha_power: is an array; allowed: one number")
    stokes = mode == "stokes" or (power is not None and math.isclose(power, 2))
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
        reference_speed=None if reference is None else _number(reference, "medium.sound_speed_ref"),
    )


def _source(source: Any, grid: Grid, options: ObjectOptions) -> Source:
    if hasattr(source, "active_elements_mask"):
        return _transducer(source)
    inputs: dict[str, Any] = {}
    for name in ("p_mask", "u_mask"):
        mask = getattr(source, name, None)
        inputs[name] = None if mask is None else _mask(mask, grid, f"source.{name}")
    for name in ("p", "ux", "uy", "uz"):
        signal, mask = getattr(source, name, None), inputs[f"{name[0]}_mask"]
        if signal is not None:
            signal = _in_memory_order(_numbers(signal, f"source.{name}"), mask, options.signal_order)
        inputs[name] = signal
    for name in ("p_mode", "u_mode"):
        mode = getattr(source, name, None)
        mode = "additive" if mode is None else getattr(mode, "value", mode)
        allowed = "'additive', 'additive-no-correction' or 'dirichlet'"
        require(isinstance(mode, str), f"source.{name}", mode, allowed)
        inputs[name] = mode.replace("-", "_")
    p0 = _values(getattr(source, "p0", None), grid, "source.p0", alone=False)
    return Source(p0=p0, smooth=options.smooth_p0 and grid.dimensions > 1, **inputs)


def _transducer(source: Any) -> Source:
    mask, signal = np.asarray(source.active_elements_mask), np.ravel(source.input_signal)
    delay = np.asarray(source.delay_mask())
    apodization = getattr(source, "transmit_apodization", "Rectangular")
    if isinstance(apodization, str) and apodization == "Rectangular":
        return Source(transducer=Transducer(mask, signal, delay))
    # A signal for each point.
    weights = getattr(source, "transmit_apodization_mask", None)
    require(weights is not None, "source.transmit_apodization_mask", None, "a weight for each grid point")
    weights = np.asarray(weights).T[mask.T != 0]
    delay = delay.T[mask.T != 0].astype(np.int64)
    sample = delay[:, None] + np.arange(signal.size - int(delay.max()))
    return Source(u_mask=mask, ux=weights[:, None] * signal[sample], u_mode="additive_no_correction")


def _record(sensor: Any, grid: Grid) -> tuple[Sensor, Callable]:
    described = sensor is None or hasattr(sensor, "mask") or hasattr(sensor, "record")
    require(described or hasattr(sensor, "active_elements_mask"), "sensor", sensor, "a kSensor or None")
    # k-wave-python warns whoever reads the public name.
    reversal = getattr(sensor, "_time_reversal_boundary_data", None)
    if reversal is None:
        reversal = getattr(sensor, "__dict__", {}).get("time_reversal_boundary_data")
    if reversal is not None:
        allowed = "None (use it as a source instead)"
        raise InputError(f"sensor.time_reversal_boundary_data: is set; allowed: {allowed}")
    start = getattr(sensor, "record_start_index", None)
    start = 1 if start is None else _whole(start, "sensor.record_start_index", 1)
    # What ``kspaceFirstOrder`` takes None for.
    record = getattr(sensor, "record", None)
    record = ("p", "p_final") if record is None else record
    record = (record,) if isinstance(record, str) else _from_array(record)
    words = isinstance(record, list | tuple) and all(isinstance(name, str) for name in record)
    require(words, "sensor.record", record, "names of what to record")
    recorded, arrays = _recorded(tuple(record))
    points, order = _sensor(getattr(sensor, "active_elements_mask", getattr(sensor, "mask", None)), grid)
    return replace(points, record=recorded, start=start - 1), partial(_adapted, arrays, order)


def _recorded(record: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to record for ``sensor.record``, and the names of the arrays asked for: ``p``, ``ux``, …"""
    allowed = (*record_names(), "u_staggered")
    recorded, arrays = [], []
    for name in record:
        stem = vector_of(name)
        axes = "xyz" if stem == name else name[1:2]
        require(stem in allowed, "sensor.record", name, f"{', '.join(allowed)}, or one axis of them")
        recorded.append(_U_RECORDED.get(stem, stem))
        arrays += components(stem, axes)
    return tuple(dict.fromkeys(recorded)), tuple(dict.fromkeys(arrays))


def _adapted(
    names: tuple[str, ...], order: np.ndarray | None, arrays: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The arrays asked for, from those recorded; points in the ``order`` asked for, if it is another."""
    adapted = {}
    for name in names:
        stem, _, kind = name.partition("_")
        source = _U_RECORDED.get(f"u_{kind}" if kind else "u") if stem[0] == "u" else None
        recorded = name if source is None else stem + source[1:]
        if recorded not in arrays:  # z in 2-D
            continue
        array = arrays[recorded]
        if source is not None and kind in _REDUCE:
            array = _REDUCE[kind](array)
        adapted[name] = array if is_field(name) or order is None else array[..., order]
    return adapted


def _sensor(mask: Any, grid: Grid) -> tuple[Sensor, np.ndarray | None]:
    """A sensor at a mask, and the places of its points in the order of C (None if no mask)."""
    dims = grid.dimensions
    mask = np.ones(grid.shape, bool) if mask is None else _numbers(mask, "sensor.mask")
    mask = np.full(grid.shape, mask.reshape(-1)[0]) if mask.size == 1 else mask
    if mask.shape != grid.shape and mask.ndim == 2 and mask.shape[0] == dims:
        return Sensor.points(mask), None
    if mask.shape != grid.shape and mask.ndim == 2 and mask.shape[0] == 2 * dims:
        whole = np.isfinite(mask).all() and (mask == mask // 1).all() and (abs(mask) < 2**31).all()
        require(whole, "sensor.mask", mask, "corners of cuboids as whole numbers from 1")
        return Sensor.boxes(*mask.T.reshape(-1, 2, dims).astype(np.int64) - 1), None
    mask = _mask(mask, grid, "sensor.mask")
    return Sensor(mask), _fortran_positions(mask)


def _numbers(value: Any, key: str) -> np.ndarray:
    """Any array of real numbers, at least one."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        array = np.zeros(0)
    require(array.dtype.kind in "biuf" and array.size, key, value, "real numbers")
    return array


def _number(value: Any, key: str) -> float:
    """One finite number, as k-wave-python may hold it: alone or in an array."""
    array = _numbers(value, key)
    require(array.size == 1 and np.isfinite(array).all(), key, value, "a number")
    return float(array.reshape(-1)[0])


def _whole(value: Any, key: str, least: int) -> int:
    number = _number(value, key)
    require(number == number // 1 and least <= number < 2**53, key, value, f"a whole number from {least}")
    return int(number)


def _values(value: Any, grid: Grid, key: str, alone: bool = True) -> Any:
    """None, one float (if ``alone`` may be), or an array of the grid's shape.

    k-wave-python also takes what is flattened in the order of C, and any other shape with as many values,
    which is refused here.
    """
    if value is None:
        return None
    array, points = _numbers(value, key), math.prod(grid.shape)
    if array.size == 1 and alone:
        return float(array.reshape(-1)[0])
    flat = tuple(n for n in array.shape if n > 1) in ((points,), grid.shape)
    what = f"{grid.shape}, that of the grid, or flattened" + (", or one number" if alone else "")
    require(array.shape == grid.shape or flat, key, f"shape {array.shape}", what)
    return array.reshape(grid.shape)


def _mask(mask: Any, grid: Grid, key: str) -> np.ndarray:
    """A mask as bool; one value serves all points."""
    mask = _values(mask, grid, key)
    return grid.mask(np.full(grid.shape, mask) if isinstance(mask, float) else mask, key)


def _fortran_positions(mask: np.ndarray) -> np.ndarray:
    """Points of a mask in the order of C: the place of each in the order of Fortran."""
    positions = np.zeros(mask.shape, np.int64)
    positions.T[mask.T] = np.arange(np.count_nonzero(mask))
    return positions[mask]


def _in_memory_order(values: np.ndarray, mask: np.ndarray | None, order: str) -> np.ndarray:
    """Signals, (points, Nt), (1, Nt) or (Nt,), with rows in the order of `Source`, that of Fortran."""
    signal = np.atleast_2d(values)
    if order == "F" or mask is None or signal.shape[0] != np.count_nonzero(mask):
        return signal
    return signal[np.argsort(_fortran_positions(mask))]

"""Defines `Problem`, the description of a simulation that files and the Python API pass to the solver.

The terms are k-Wave's (Treeby & Cox 2010, doi:10.1117/1.3360308; Treeby et al. 2012,
doi:10.1121/1.4712021). Grids are in memory order, x fastest: C-order ``(Nz, Ny, Nx)``, with Nz = 1 in
2-D and Ny = Nz = 1 in 1-D. Point indices are flat, int64 and 0-based in that order; k-Wave's are 1-based.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from wavefabric.acoustics.extremes import Extremes, find_extremes

Absorption = Literal["none", "power_law", "stokes"]
SourceMode = Literal["dirichlet", "additive_no_correction", "additive"]
#: Names of the sources of a `Problem`.
SOURCES = ("initial_pressure", "pressure_source", "velocity_source", "transducer")


@dataclass(frozen=True)
class ProductSignal:
    """Stores signals (steps, points) as ``waveforms @ weights.T``; indexing returns an array of values."""

    waveforms: np.ndarray  # (steps, terms)
    weights: np.ndarray  # (points, terms)

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape of the signals, (steps, points)."""
        return len(self.waveforms), len(self.weights)

    @property
    def dtype(self) -> np.dtype:
        """Return the type of the signals."""
        return np.result_type(self.waveforms, self.weights)

    ndim = 2

    def __len__(self) -> int:
        return len(self.waveforms)

    def __getitem__(self, index: Any) -> np.ndarray:
        rows, points = index if isinstance(index, tuple) else (index, slice(None))
        return self.waveforms[rows] @ self.weights[points].T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


#: Signals (steps, points), or (steps, 1) if all points share one.
Signal = np.ndarray | ProductSignal


@dataclass(frozen=True)
class PressureSource:
    """A mass source in the solver's units: its signal drives each of the split densities ρ_x, ρ_y and ρ_z."""

    index: np.ndarray  # grid points, each once
    signal: Signal  # kg/m³ per time step
    mode: SourceMode = "additive"  # additive: with k-space correction
    forms: tuple[Any, ...] = ()  # on a rank: `source_terms.source_forms` of the points of all ranks

    @property
    def signals(self) -> tuple[Signal]:
        """Return a tuple with the one signal of this source, like `VelocitySource.signals`."""
        return (self.signal,)


@dataclass(frozen=True)
class VelocitySource:
    """A force source in the solver's units: its signals act on the components of the velocity."""

    index: np.ndarray  # grid points, each once
    signals: tuple[Signal | None, ...]  # one per dimension, m/s per time step
    mode: SourceMode = "additive"
    forms: tuple[Any, ...] = ()  # as in a pressure source


#: A source that can have a different signal at each point.
PointSource = PressureSource | VelocitySource


@dataclass(frozen=True)
class TransducerSource:
    """A transducer: one signal, delayed per point, added to the x velocity without k-space correction."""

    index: np.ndarray  # grid points, each once
    delay: np.ndarray  # time steps: point i gets signal[delay[i] + step], nothing beyond the signal's end
    signal: np.ndarray  # m/s per time step, (samples,)
    steps: int  # time steps for which the source is on


@dataclass(frozen=True)
class Interpolation:
    """Sensor points between grid points: value = Σ weight · field over a cell's corners; weights sum to 1."""

    corners: np.ndarray  # flat indices of the cell around each point, (points, 2^dimensions)
    weights: np.ndarray  # linear, bi- or trilinear, same shape, float64


@dataclass(frozen=True)
class Elements:
    """Receiving elements of a transducer, each of which records a weighted sum over grid points.

    Element e has the entries ``bounds[e]`` to ``bounds[e + 1]`` − 1 of ``points`` and ``weights``.
    """

    bounds: np.ndarray  # (elements + 1,)
    points: np.ndarray  # flat indices, each element's ascending
    weights: np.ndarray  # float64, one per entry of ``points``


@dataclass(frozen=True)
class Cuboids:
    """Boxes of grid points: x, y, z of the lowest and highest corners, (boxes, 3), 0-based, both included."""

    first: np.ndarray
    last: np.ndarray

    def shapes(self) -> list[tuple[int, int, int]]:
        """Return the shape of each box in points, (Cz, Cy, Cx)."""
        return [tuple(int(n) for n in (b - a + 1)[::-1]) for a, b in zip(self.first, self.last, strict=True)]  # type: ignore[misc]

    def indices(self, shape: tuple[int, int, int]) -> np.ndarray:
        """Return flat grid indices of all points, box after box, x fastest; ``shape`` is (Nx, Ny, Nz)."""
        nx, ny, _ = shape
        parts = []
        for (x0, y0, z0), (x1, y1, z1) in zip(self.first, self.last, strict=True):
            z, y, x = np.ogrid[z0 : z1 + 1, y0 : y1 + 1, x0 : x1 + 1]
            parts.append(((z * ny + y) * nx + x).reshape(-1))
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def split(values: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Split values that are concatenated along the last axis into arrays of the given ``shapes``."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = np.split(values, ends, axis=-1)
    return [part.reshape(*values.shape[:-1], *shape) for part, shape in zip(parts, shapes, strict=True)]


@dataclass(frozen=True)
class Recording:
    """Says which quantities are recorded, at which points, and from which time step on (counted from 0).

    ``where`` holds grid points by flat index, boxes, points between grid points, or receiving elements. It is
    None if only fields of the whole domain are recorded.
    """

    quantities: tuple[str, ...] = ("p_raw",)  # of `acoustics.recording.quantities`
    where: np.ndarray | Cuboids | Interpolation | Elements | None = None
    start: int = 0
    tones: tuple[str, ...] = ()  # of `acoustics.recording.tones`, at the frequencies, Hz
    frequencies: tuple[float, ...] = ()

    @property
    def samples(self) -> int:
        """Return the number of sensor points, which is the number of values per row of a time series."""
        if self.where is None:
            return 0
        if isinstance(self.where, Cuboids):
            return int(np.prod(self.where.last - self.where.first + 1, axis=1).sum())
        if isinstance(self.where, Elements):
            return self.where.bounds.size - 1
        return len(self.where.corners if isinstance(self.where, Interpolation) else self.where)


@dataclass(frozen=True)
class Problem:
    """Describes one simulation: grid, medium and sources. Arrays may have any real dtype."""

    shape: tuple[int, int, int]  # Nx, Ny, Nz; Nz = 1 in 2-D, Ny = Nz = 1 in 1-D; in a stack Nz counts planes
    spacing: tuple[float, float, float]  # m; not used along missing axes
    dt: float  # s
    steps: int
    reference_speed: float  # c_ref of the k-space correction, m/s
    pml_size: tuple[int, int, int]  # points on each side, inside the grid; 0 for none
    pml_alpha: tuple[float, float, float]  # absorption in the PML, Np per grid point
    sound_speed: float | np.ndarray  # c₀, m/s
    density: float | np.ndarray  # ρ₀, kg/m³
    density_staggered: tuple[float | np.ndarray, ...]  # at the points of u_x, u_y(, u_z)
    nonlinearity: float | np.ndarray | None = None  # B/A; None for linear propagation
    absorption: Absorption = "none"  # power_law: fractional Laplacians
    alpha_coeff: float | np.ndarray = 0.0  # dB/(MHz^y cm)
    alpha_power: float = 0.0  # y; not 1 with dispersion
    dispersion: bool = True  # without it the power law absorbs but does not change the speed
    k_space: bool = True  # the k-space correction κ is applied; False: κ = 1
    staggered: bool = True  # velocities half a spacing from the pressure; else at the pressure points
    axisymmetric: bool = False  # x along the axis, y the radius from 0 on; 2-D
    stacked: bool = False  # each plane is a 2-D simulation by itself (`acoustics.stack`)
    initial_pressure: Any = None  # p₀, Pa: an array in host memory, or of the device of a run on one rank
    pressure_source: PressureSource | None = None
    velocity_source: VelocitySource | None = None
    transducer: TransducerSource | None = None

    @cached_property
    def facts(self) -> dict[Hashable, Any]:
        """Return the dictionary that caches results computed from the medium.

        Copies by `with_medium` share this dictionary.
        """
        return {}

    def fact(self, key: Hashable, find: Callable[[], Any]) -> Any:
        """Return the cached result for ``key``; the first time, compute it by calling ``find``."""
        if key not in self.facts:
            self.facts[key] = find()
        return self.facts[key]

    def with_medium(self, **changes: Any) -> "Problem":
        """Return a copy with this grid and medium, but without sources.

        ``changes`` are new values of ``dt``, ``steps`` and sources.
        """
        assert changes.keys() <= {"dt", "steps", *SOURCES}
        other = replace(self, **dict.fromkeys(SOURCES) | changes)
        vars(other)["facts"] = self.facts
        return other

    @property
    def extremes(self) -> Extremes:
        """Return the medium's `Extremes`; staggered densities are called ``density_staggered.x``, …"""
        return self.fact("extremes", self._find_extremes)

    def _find_extremes(self) -> Extremes:
        names = ("sound_speed", "density", "nonlinearity")
        medium = {name: getattr(self, name) for name in names}
        staggered = zip("xyz", self.density_staggered, strict=False)
        medium |= {f"density_staggered.{axis}": density for axis, density in staggered}
        power = 2.0 if self.absorption == "stokes" else self.alpha_power
        alpha = {} if self.absorption == "none" else {"alpha_coeff": self.alpha_coeff}
        return find_extremes(self.array_shape, medium | alpha, power)

    @property
    def dimensions(self) -> int:
        """Return the number of dimensions: 1, 2 or 3; a stack of planes has 2."""
        return 3 if self.shape[2] > 1 and not self.stacked else 2 if self.shape[1] > 1 else 1

    @property
    def points(self) -> int:
        """Return the number of grid points."""
        return math.prod(self.shape)

    @property
    def array_shape(self) -> tuple[int, int, int]:
        """Return (Nz, Ny, Nx), the C-order shape of every grid array."""
        return self.shape[::-1]  # type: ignore[return-value]

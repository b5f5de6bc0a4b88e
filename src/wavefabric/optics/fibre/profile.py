"""Compute the refractive index of glasses (Sellmeier, doped) and round fibres (power law, trench, table)."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from wavefabric.base.arguments import number, numbers, positive, within
from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.csv_files import Array, read_columns


@dataclass(frozen=True)
class ConstantIndex:
    """Describes a material of refractive index ``n`` (at least 1, else InputError) without dispersion."""

    n: float

    def __post_init__(self):
        if not (math.isfinite(self.n) and self.n >= 1):
            raise InputError(f"n: {self.n!r} is not a refractive index; give a number of at least 1")

    def index(self, wavelength: float) -> float:
        """Return the refractive index, which is the same at every wavelength (m)."""
        return self.n


@dataclass(frozen=True)
class Sellmeier:
    """Describes a glass: n² = 1 + Σ A_i λ² / (λ² − L_i²), strengths A_i, resonance wavelengths L_i in m."""

    strengths: tuple[float, ...]
    resonances: tuple[float, ...]
    name: str = "glass"

    def __post_init__(self):
        if len(self.strengths) != len(self.resonances) or not self.strengths:
            actual = f"{len(self.resonances)} given for {len(self.strengths)} strengths"
            raise InputError(f"resonances: {actual}; give as many of each, at least one")

    def index(self, wavelength: float) -> float:
        """Return the refractive index at a vacuum ``wavelength`` (m); InputError outside its validity."""
        square = within(wavelength, "m", "wavelength", 1e-8, 1e-3) ** 2
        terms = zip(self.strengths, self.resonances, strict=True)
        n2 = 1 + sum(a * square / (square - b**2) for a, b in terms)
        if not n2 >= 1:
            raise InputError(f"wavelength: {wavelength!r} m lies outside the validity of {self.name}")
        return math.sqrt(n2)


#: Types with a refractive index at a vacuum wavelength; hashable, so that solved modes can be cached.
Material = ConstantIndex | Sellmeier

#: Fused silica, Fleming 1984 (doi 10.1364/AO.23.004486), after Malitson 1965.
SILICA = Sellmeier(
    (0.69616630, 0.40794260, 0.89747940),
    (0.068404300e-6, 0.11624140e-6, 9.8961610e-6),
    "SiO2",
)
#: Vitreous germania, Fleming 1984 (doi 10.1364/AO.23.004486).
GERMANIA = Sellmeier(
    (0.80686642, 0.71815848, 0.85416831),
    (0.068972606e-6, 0.15396605e-6, 11.841931e-6),
    "GeO2",
)


def mix_n2(host: Sellmeier, dopant: Sellmeier, fraction: ArrayLike, wavelength: float) -> Array:
    """Return n² of a doped glass: Sellmeier coefficients linear in the molar ``fraction`` x of the dopant.

    A_i = A_host + x (A_dopant − A_host), and L_i likewise: J. W. Fleming, Appl. Opt. 23, 4486 (1984),
    doi 10.1364/AO.23.004486.
    """
    return _mix(host, dopant, np.asarray(fraction, dtype=float), wavelength)[0]


def fraction_of(host: Sellmeier, dopant: Sellmeier, n2: ArrayLike, wavelength: float) -> Array:
    """Return the molar fraction of dopant that gives the squared index ``n2``; InputError unless 0 … 1."""
    target = np.asarray(n2, dtype=float)
    low, high = (float(mix_n2(host, dopant, x, wavelength)) for x in (0.0, 1.0))
    tolerance = 1e-12
    if np.any(target < low - tolerance) or np.any(target > high + tolerance):
        worst = math.sqrt(float(target.max() if np.any(target > high + tolerance) else target.min()))
        fault = f"{worst:.6f} is out of reach of {host.name} doped with {dopant.name}"
        raise InputError(f"index: {fault}; allowed: {math.sqrt(low):.6f} to {math.sqrt(high):.6f}")
    x = (target - low) / (high - low)
    for _ in range(6):  # Newton: n²(x) is nearly straight
        value, slope = _mix(host, dopant, x, wavelength)
        x = x - (value - target) / slope
    return x


def _mix(host: Sellmeier, dopant: Sellmeier, x: Array, wavelength: float):
    """Return n² of the doped glass and its derivative with respect to the molar fraction ``x``."""
    if len(host.strengths) != len(dopant.strengths):
        has = f"{dopant.name} has {len(dopant.strengths)} Sellmeier terms"
        raise InputError(f"dopant: {has}; {host.name} needs {len(host.strengths)}")
    host.index(wavelength)  # refuses a wavelength beyond its validity
    square = wavelength**2
    value, slope = np.ones_like(x), np.zeros_like(x)
    for a, b, c, d in zip(host.strengths, dopant.strengths, host.resonances, dopant.resonances, strict=True):
        strength, resonance = a + x * (b - a), c + x * (d - c)
        pole = square / (square - resonance**2)
        value += strength * pole
        slope += (b - a) * pole + strength * pole**2 / square * 2 * resonance * (d - c)
    return value, slope


@dataclass(frozen=True)
class Trench:
    """Describes a ring of lower index, ``gap`` (m) outside the core, ``width`` (m) wide; lengths may be text.

    ``depth`` is the index difference below the cladding, the same at every wavelength.
    """

    gap: float
    width: float
    depth: float

    def __post_init__(self):
        gap, width = number(self.gap, "m", "trench gap"), positive(self.width, "m", "trench width")
        vars(self).update(gap=gap, width=width)
        positive(self.depth, "", "trench depth")
        if not (math.isfinite(self.gap) and self.gap >= 0):
            raise InputError(f"trench gap: {self.gap!r} m; give a length of 0 or more")


class Profile:
    """Base class of index profiles n(r); subclasses provide the refractive index at the design wavelength.

    Where the index exceeds that of the cladding, the glass is cladding doped with ``dopant``; the index at
    the design wavelength fixes the molar fraction. If ``dopant`` is None, or the cladding is not a Sellmeier
    glass, n² − n²_cladding is the same at every wavelength instead. Where the index is lower (a trench),
    n − n_cladding is the same at every wavelength.
    """

    cladding: Material
    dopant: Sellmeier | None
    design_wavelength: float

    def interfaces(self) -> tuple[float, ...]:
        """Return the radii (m, increasing) where the index or its slope jumps; outside lies the cladding."""
        raise NotImplementedError

    def _design_index(self, r: Array) -> Array:
        """Return the index at the design wavelength at radii ``r`` (m) inside the last interface."""
        raise NotImplementedError

    def index(self, r: ArrayLike, wavelength: float) -> Array:
        """Return the refractive index n(r) at a vacuum wavelength; r and the wavelength in m."""
        positive(wavelength, "m", "wavelength")
        radii = np.abs(np.asarray(r, dtype=float))
        clad = self.cladding.index(wavelength)
        n = np.full(radii.shape, clad)
        inside = radii < self.interfaces()[-1]
        design = self._design_index(radii[inside])
        if wavelength == self.design_wavelength:
            n[inside] = design
            return n
        clad_design = self.cladding.index(self.design_wavelength)
        index = clad + design - clad_design
        core = design > clad_design
        if isinstance(self.cladding, Sellmeier) and self.dopant is not None:
            x = fraction_of(self.cladding, self.dopant, design[core] ** 2, self.design_wavelength)
            index[core] = np.sqrt(mix_n2(self.cladding, self.dopant, x, wavelength))
        else:
            index[core] = np.sqrt(clad**2 + design[core] ** 2 - clad_design**2)
        n[inside] = index
        return n


@dataclass(frozen=True)
class IndexProfile(Profile):
    """Describes a profile of a power-law core n² = n_core² − NA² (r/R)^q, optional trench, uniform cladding.

    Lengths may be text. ``core_diameter`` is 2R in m; ``numerical_aperture`` NA = √(n_core² − n_cladding²) at
    ``design_wavelength`` (in vacuum, m); ``exponent`` q: 2 is a parabola, ``math.inf`` a step. ``dopant``
    raises the index of the core; None keeps n² − n²_cladding the same at every wavelength.
    """

    core_diameter: float
    numerical_aperture: float
    exponent: float
    trench: Trench | None = None
    cladding: Material = SILICA
    dopant: Sellmeier | None = GERMANIA
    design_wavelength: float = 1550e-9
    core_radius: float = field(init=False, repr=False)  # R, m

    def __post_init__(self):
        for key in ("core_diameter", "design_wavelength"):
            object.__setattr__(self, key, positive(getattr(self, key), "m", key))
        object.__setattr__(self, "core_radius", self.core_diameter / 2)
        positive(self.numerical_aperture, "", "numerical_aperture")
        object.__setattr__(self, "exponent", number(self.exponent, "", "exponent"))
        if not self.exponent > 0:
            raise InputError(f"exponent: {self.exponent!r}; give a positive number (inf for a step)")

    def interfaces(self) -> tuple[float, ...]:
        edges = [self.core_radius]
        if self.trench is not None:
            start = self.core_radius + self.trench.gap
            edges += [start] * (self.trench.gap > 0) + [start + self.trench.width]
        return tuple(edges)

    def _design_index(self, r: Array) -> Array:
        clad = self.cladding.index(self.design_wavelength)
        core = r < self.core_radius
        n = np.full(r.shape, clad)
        fall = (r[core] / self.core_radius) ** self.exponent
        n[core] = np.sqrt(clad**2 + self.numerical_aperture**2 * (1 - fall))
        if self.trench is not None:
            n[r >= self.core_radius + self.trench.gap] = clad - self.trench.depth
        return n


@dataclass(frozen=True)
class TableProfile(Profile):
    """Describes an index profile by a table over radius, linearly interpolated, with the cladding beyond it.

    ``radii`` are in m, from 0, non-decreasing; a radius given twice is a jump. ``indices``, of the same
    length, hold at the design wavelength; only differences to the last value matter, since the index of
    ``cladding`` replaces that value. Other options are as in `IndexProfile`.
    """

    radii: tuple[float, ...]
    indices: tuple[float, ...]
    cladding: Material = SILICA
    dopant: Sellmeier | None = GERMANIA
    design_wavelength: float = 1550e-9

    def __post_init__(self):
        wavelength = positive(self.design_wavelength, "m", "design_wavelength")
        r, n = numbers(self.radii, "m", "radii").ravel(), numbers(self.indices, "", "indices").ravel()
        if len(r) != len(n) or len(r) < 2:
            actual = f"{len(n)} given for {len(r)} radii"
            raise InputError(f"indices: {actual}; give as many, at least 2")
        vars(self).update(design_wavelength=wavelength, radii=tuple(r.tolist()), indices=tuple(n.tolist()))
        gaps = np.diff(r)
        if r[0] != 0 or not np.isfinite(r).all() or gaps.min() < 0 or gaps[0] == 0:
            raise InputError("radii: must start at 0, which stands once, and not decrease (m)")
        if np.any((gaps[1:] == 0) & (gaps[:-1] == 0)):
            raise InputError("radii: the same radius may stand at most twice (a jump)")
        if not (np.all(np.isfinite(n)) and np.all(n >= 1)):
            raise InputError("indices: every refractive index must be finite and at least 1")

    @classmethod
    def from_csv(cls, path: str | Path, **kwargs) -> "TableProfile":
        """Read a CSV file with columns ``radius_um`` (µm), ``index``; ``kwargs`` are options of the class."""
        columns = read_columns(path, ("radius_um", "index"))
        if (reach := float(columns["radius_um"].max())) < 0.2:
            fault = f"the radii reach only {reach:g} um (the header says micrometres)"
            raise InputError(f"{path}: radius_um: {fault}; allowed: 0.2 um or more")
        return cls(tuple(r * 1e-6 for r in columns["radius_um"]), tuple(columns["index"]), **kwargs)

    def interfaces(self) -> tuple[float, ...]:
        jumps = {a for a, b in pairwise(self.radii) if a == b and a > 0}
        return tuple(sorted(jumps | {self.radii[-1]}))

    def _design_index(self, r: Array) -> Array:
        radii, indices = np.array(self.radii), np.array(self.indices)
        right = np.clip(np.searchsorted(radii, r, side="right"), 1, len(radii) - 1)
        width = radii[right] - radii[right - 1]
        fraction = (r - radii[right - 1]) / np.where(width > 0, width, 1)
        n = indices[right - 1] + fraction * (indices[right] - indices[right - 1])
        return n + (self.cladding.index(self.design_wavelength) - indices[-1])


def profile_62_5() -> IndexProfile:
    """Return the 62.5 µm graded-index profile of Brehler et al., section 6, at 1550 nm.

    NA 0.275, exponent 1.94, trench 1.25 µm outside the core, 3.5 µm wide, 6.5e-3 below the silica cladding.
    The paper does not state the glass of the core; GeO2-doped silica is assumed.
    """
    return IndexProfile(62.5e-6, 0.275, 1.94, trench=Trench(1.25e-6, 3.5e-6, 6.5e-3))

"""Compute stimulated Raman scattering: the powers of channels and modes along a span."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np
import scipy  # its submodules load when first used
from numpy.typing import ArrayLike, NDArray

from wavefabric.base.arguments import instance, numbers, positive
from wavefabric.base.errors import InputError
from wavefabric.base.units import PLANCK, show
from wavefabric.optics.fibre.csv_files import Array
from wavefabric.optics.fibre.fibre import N2_SILICA, Fibre
from wavefabric.optics.fibre.spectra import LossSpectrum, RamanGain

#: Relative local error of ∫P dz per step (Dormand and Prince's method of eighth order).
TOLERANCE = 1e-9
#: Most times that waves of both directions are solved for, in turn; nodes along z for noise.
_ITERATIONS, _QUADRATURE = 100, 64
#: Distance of two frequencies, Hz, within which light scatters nothing: the Raman gain vanishes there.
_NEAR = 1e9
BOLTZMANN = 1.380_649e-23  # J/K
_KNOTS = 50e9  # spacing for the gain over a band, Hz: silica has no feature below 0.5 THz


@dataclass(frozen=True, eq=False)
class PowerEvolution:
    """Holds the powers of C channels in M modes along a span, as computed by `power_evolution`.

    Gains are those of stimulated Raman scattering alone: power over the power that loss alone would leave.
    They are equal for all modes of a group; there are G groups. Positions ``z`` are in m from 0 to
    ``length``: one number (by default the end), or Z positions, which are then the last axis of a result.
    """

    frequencies: Array  # (C,), Hz
    launch_power: Array  # (C, M), W
    alpha: Array  # (C, M), 1/m
    length: float  # m
    group: NDArray[np.int64]  # index from 0 of the group of each mode, (M,)
    overlap: Array  # intensity overlaps of the groups, (G, G), 1/m²
    gain: RamanGain
    _energy: Callable[[Array], Array]  # ∫₀^z P dz' by channel and group, (C·G, Z), W m
    backward: NDArray[np.bool_]  # whether a channel travels from the end to the beginning, (C,)

    def log_gain(self, z: ArrayLike | None = None, frequencies: ArrayLike | None = None) -> Array:
        """Return ln of the Raman power gain of each of G groups at F ``frequencies``: (F, G), or (F, G, Z).

        By default ``frequencies``, in Hz, are those of the channels; others are those of weak probes. Z is
        the number of positions ``z``, if these are an array.
        """
        z = self._positions(z)
        energy = self._energy(z.reshape(-1)).reshape(len(self.frequencies), len(self.overlap), -1)
        wanted = self.frequencies if frequencies is None else _optical(frequencies)
        coupling = self.gain.coupling(wanted, self.frequencies)
        gain = np.einsum("fc,cgz,hg->fhz", coupling, energy, self.overlap, optimize=True)
        return gain.reshape(*gain.shape[:2], *z.shape)

    def gain_db(self, z: ArrayLike | None = None) -> Array:
        """Return the Raman gain of each channel and mode, without loss, in dB: (C, M) or (C, M, Z)."""
        return 10 * math.log10(math.e) * self.log_gain(z)[:, self.group]

    def power(self, z: ArrayLike | None = None) -> Array:
        """Return the power of each channel and mode in W, (C, M) or (C, M, Z)."""
        z = self._positions(z)
        gain = self.log_gain(z)[:, self.group] - np.multiply.outer(self.alpha, z)
        if (back := self.backward).any():  # such a channel has got the gain from the end to z
            whole = self.log_gain()[:, self.group] - self.alpha * self.length
            gain[back] = (whole[back].reshape(*whole[back].shape, *[1] * z.ndim)) - gain[back]
        return (self.launch_power.T * np.exp(gain).T).T

    def noise_density(self, frequencies: ArrayLike, temperature: float = 300.0) -> Array:
        """Return the density of spontaneous Raman scattering at the end, W/Hz per field row: (F, G).

        Light at the frequency f gets hν K P (1 + η) from each channel above it and hν |K| P η from each
        below, per length, with the phonons η = 1/(exp(h Δf/(k T)) − 1), and then gain and loss to the end.
        ``temperature`` in K. V. E. Perlin, H. G. Winful, J. Lightwave Technol. 20 (2002) 250,
        doi 10.1109/50.983239.
        """
        f = _optical(frequencies)
        z = self.length / 2 * (1 + np.polynomial.legendre.leggauss(_QUADRATURE)[0])
        weights = self.length / 2 * np.polynomial.legendre.leggauss(_QUADRATURE)[1]
        members = np.equal.outer(self.group, np.arange(len(self.overlap))).astype(float)
        powers = np.einsum("cmz,mg->cgz", self.power(z), members)
        shift = np.subtract.outer(self.frequencies, f).T
        near = np.abs(shift) < _NEAR  # gain vanishes there, the phonons diverge
        energy = PLANCK * np.where(near, _NEAR, np.abs(shift)) / (BOLTZMANN * temperature)
        phonons = 1 / np.expm1(np.minimum(energy, 700.0))
        coupling = self.gain.coupling(f, self.frequencies)
        emitted = np.where(near, 0.0, abs(coupling) * (phonons + (shift > 0)))
        rate = PLANCK * f[:, None, None] * np.einsum("fc,cgz,hg->fhz", emitted, powers, self.overlap)
        order = np.argsort(self.frequencies)
        loss = np.array([np.interp(f, self.frequencies[order], each[order]) for each in self.alpha.T])
        loss = (members.T @ loss / members.sum(axis=0)[:, None]).T
        ahead = self.log_gain(frequencies=f)[..., None] - self.log_gain(z, f)
        return (rate * np.exp(ahead - loss[..., None] * (self.length - z))) @ weights

    def amplitude(self, frequencies: ArrayLike, start: float = 0.0, stop: float | None = None) -> Array:
        """Return each group's Raman field gain from ``start`` to ``stop`` (m) at F ``frequencies``: (G, F).

        A cubic spline through `log_gain`, with knots at most 50 GHz apart, gives the power gain; the field
        gain is its square root.
        """
        frequency, ends = _optical(frequencies), np.array([start, self.length if stop is None else stop])
        low, high = frequency.min() - _KNOTS, frequency.max() + _KNOTS
        knots = np.linspace(low, high, math.ceil((high - low) / _KNOTS) + 2)
        half = 0.5 * np.diff(self.log_gain(ends, knots))[..., 0]
        return np.exp(scipy.interpolate.CubicSpline(knots, half)(frequency)).T

    def _positions(self, z: ArrayLike | None) -> Array:
        z = numbers(self.length if z is None else z, "m", "z")
        if z.ndim > 1 or not np.all((z >= 0) & (z <= self.length)):
            raise InputError(f"z: {show(z.tolist())} m given; allowed: 0 to {self.length:g} m")
        return z


def power_evolution(
    frequencies: ArrayLike,
    launch_power: ArrayLike,
    length: float | str,
    alpha: ArrayLike,
    gain: RamanGain,
    *,
    overlap: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    backward: ArrayLike | None = None,
) -> PowerEvolution:
    """Compute the powers of C channels in M modes along a span under loss and stimulated Raman scattering.

        dP_ia/dz = −α_ia P_ia + P_ia Σ_j K_ij Σ_b f_ab P_jb,

    with K_ij of `RamanGain.coupling` and the intensity overlaps f_ab. Pumps are channels; those that are
    ``backward`` travel from the end to the beginning (dz < 0), and their launch power is that at the end.
    Quantities may be text with a unit. `InputError` if one is out of range or does not fit.

    - ``frequencies`` (C,): optical, Hz, in any order. ``length`` in m.
    - ``launch_power``: W; one number, (C,), or (C, M). Without ``groups`` the shape (C, M) sets M; else
      M = 1.
    - ``alpha``: power attenuation, 1/m; one number, (C,), (1, M) or (C, M).
    - ``overlap`` (G, G): f_ab = ∫F_a²F_b² dA, ∫F² dA = 1, means over the modes of groups a and b, 1/m²;
      symmetric. None: 1/A for all, with the area A of ``gain``.
    - ``groups`` (M,): whole numbers, equal for modes that share a row of ``overlap``; rows are in ascending
      order of these numbers. None: one row per mode, or a single row for all modes without ``overlap``.
    - ``backward`` (C,): whether a channel travels backward; None for none.

    Source for one mode: M. Zirngibl, Electron. Lett. 34, 789 (1998), doi 10.1049/el:19980555.
    """
    f, length = _optical(frequencies), positive(length, "m", "length")
    launch = numbers(launch_power, "W", "launch_power")
    single = np.arange(launch.shape[1] if launch.ndim == 2 else 1) * (overlap is not None)
    numbering = single if groups is None else np.asarray(groups)
    if numbering.ndim != 1 or not numbering.size or not np.issubdtype(numbering.dtype, np.integer):
        raise InputError(f"groups: {show(groups)} given; allowed: a whole number for each mode")
    shape, group = (len(f), len(numbering)), np.unique(numbering, return_inverse=True)[1]
    launch = _by_channel(launch, "launch_power", "W", shape)
    loss = _by_channel(numbers(alpha, "1/m", "alpha"), "alpha", "1/m", shape)
    square = (int(group.max()) + 1,) * 2
    matrix = np.full(square, 1 / gain.area) if overlap is None else numbers(overlap, "1/m^2", "overlap")
    fits = matrix.shape == square and np.all((matrix >= 0) & (matrix < np.inf))
    if not (fits and np.allclose(matrix, matrix.T, 1e-6, 0)):
        actual = f"{show(matrix.tolist())} of shape {matrix.shape}"
        raise InputError(f"overlap: {actual} given; allowed: shape {square}, symmetric, 0 or more")
    coupling, members = gain.coupling(f, f), np.equal.outer(group, np.arange(len(matrix))).astype(float)

    back = np.zeros(len(f), bool) if backward is None else np.asarray(backward, bool)
    if back.shape != f.shape:
        raise InputError(f"backward: shape {back.shape} given; allowed: {f.shape}")
    #: ∫P dz over the whole length, on which backward channels depend.
    whole = np.zeros((len(f), len(matrix)))
    if back.any():
        whole = (launch * length * np.exp(-loss * length / 2)) @ members

    def power(z, energy):
        energy, passed = energy.reshape(len(f), -1), z
        raman = coupling @ energy @ matrix.T
        if back.any():
            raman = np.where(back[:, None], coupling @ (whole - energy) @ matrix.T, raman)
            passed = np.where(back[:, None], length - z, z)
        return (launch * np.exp(-loss * passed) @ members * np.exp(raman)).reshape(-1)

    start = np.zeros(len(f) * len(matrix))
    floor = TOLERANCE * length * (float(power(0.0, start).max()) or 1.0)
    for _ in range(_ITERATIONS if back.any() else 1):
        with np.errstate(over="ignore", invalid="ignore"):  # a trial step that is too long is taken again
            how = {"method": "DOP853", "dense_output": True, "rtol": TOLERANCE, "atol": floor}
            result = scipy.integrate.solve_ivp(power, (0, length), start, **how)
        if not result.success:
            break
        before, whole = whole, result.y[:, -1].reshape(whole.shape)
        if np.abs(whole - before).max() <= 1e3 * TOLERANCE * np.abs(whole).max():
            break
        whole = (before + whole) / 2  # half of the change, so that it converges
    else:
        result.success = not back.any()
    if not result.success:
        raise InputError(f"launch_power: up to {launch.max():g} W given, not solvable; allowed: less")
    return PowerEvolution(f, launch, loss, length, group, matrix, gain, result.sol, back)


def _optical(frequencies: ArrayLike) -> Array:
    f = numbers(frequencies, "Hz", "frequencies")
    if f.ndim != 1 or not len(f) or not (np.all(np.isfinite(f)) and f.min() > 0):
        raise InputError(f"frequencies: {show(f.tolist())} given; allowed: a list of positive numbers in Hz")
    return f


def _by_channel(values: Array, key: str, unit: str, shape: tuple[int, int]) -> Array:
    """Expand ``values``, a number, (C,) or (C, M), to C channels and M modes; InputError unless 0 or more."""
    if not (np.all(np.isfinite(values)) and np.min(values, initial=0) >= 0):
        raise InputError(f"{key}: {np.min(values):g} {unit} given; allowed: finite, 0 or more")
    try:
        return np.broadcast_to(values[:, None] if values.ndim == 1 else values, shape)
    except ValueError:
        allowed = f"one number, {shape[:1]} or {shape} for channels and modes"
        raise InputError(f"{key}: shape {values.shape} given; allowed: {allowed}") from None


def intensity_overlap(fibre: Fibre, n2: float | str = N2_SILICA) -> Array:
    """Return f_ab = ∫F_a²F_b² dA (1/m²) for the groups or modes a, b of κ, from κ and γ: (G, G).

    This inverts the formulas for κ in `wavefabric.optics.fibre.sources`: f_ab = 3/4 κ_ab/A_ref between
    different groups, 3/4 · (2N+1)/(2N) · κ_aa/A_ref within a group of N modes, as means over modes. A single
    mode counts as N = 1. A_ref is n₂ω₀/(c₀γ), or if γ = 0 the A_eff of the first mode of group 1. If κ is by
    field rows, it is averaged over both polarisations of a mode. This is exact between modes, and within a
    mode if κ is 8/9; f is 6 % low there if κ is 1 for equal and 2/3 for different polarisations.
    `InputError` if the overlaps are undetermined: κ is 0, or γ is 0 and A_eff of group 1 is unknown.
    """
    kappa, size = fibre.kappa, fibre.group_sizes if fibre.kappa_of == "group" else np.array(1)
    if fibre.kappa_of == "row":
        kappa = kappa.reshape(fibre.modes, 2, fibre.modes, 2).mean(axis=(1, 3))
    f = 0.375 * (kappa + kappa.T)
    f[np.diag_indices(len(f))] *= (2 * size + 1) / (2 * size)
    area = fibre.a_eff[0] if fibre.groups[0] == 1 else math.nan
    if fibre.gamma > 0:
        area = 2 * math.pi * positive(n2, "m^2/W", "n2") / (fibre.gamma * fibre.wavelength)
    if math.isnan(area) or not f.any():
        fault = "no a_eff of group 1 for gamma = 0" if f.any() else "kappa = 0"
        raise InputError(f"overlap: not known, {fault} in {fibre.name}; allowed: one of the two, or overlap")
    return f / area


def raman_evolution(
    fibre: Fibre,
    frequencies: ArrayLike,
    launch_power: ArrayLike,
    length: float | str,
    gain: RamanGain | None = None,
    loss: LossSpectrum | None = None,
    *,
    overlap: ArrayLike | None = None,
    backward: ArrayLike | None = None,
) -> PowerEvolution:
    """Compute the powers of channels and modes along ``length`` m of a `Fibre`; see `power_evolution`.

    ``gain`` is by default silica's, ``overlap`` the `intensity_overlap` of the fibre. Without a spectrum
    ``loss`` the attenuation of the fibre holds at all frequencies.
    """
    instance("fibre", fibre, Fibre)
    instance("loss", loss, LossSpectrum, NoneType)
    groups = np.arange(fibre.modes) if fibre.kappa_of == "row" else fibre.kappa_index()[::2]
    matrix = intensity_overlap(fibre) if overlap is None else overlap
    alpha = fibre.alpha[None, :] if loss is None else loss.of_modes(frequencies, fibre)
    powers = frequencies, launch_power, length, alpha, gain or RamanGain.silica()
    return power_evolution(*powers, overlap=matrix, groups=groups, backward=backward)


def raman_tilt(
    fibre: Fibre, frequencies: ArrayLike, launch_power: ArrayLike, length: float | str, **options: Any
) -> float:
    """Return the largest Raman gain or loss, in dB, of any channel in any mode over a span.

    Arguments as for `raman_evolution`. A simulation without Raman scattering is wrong by up to this amount.
    """
    return float(np.abs(raman_evolution(fibre, frequencies, launch_power, length, **options).gain_db()).max())


def tilt_bound(fibre: Fibre, frequencies: ArrayLike, powers: Array, length: float, overlap: Array) -> float:
    """Return an upper bound (dB) of `raman_tilt`: all light acts on one channel at silica's peak gain."""
    gain, low, high = RamanGain.silica(), float(np.min(frequencies)), float(np.max(frequencies))
    most = gain.efficiency[: np.searchsorted(gain.shift, high - low) + 1].max() * gain.area
    most *= high / (gain.pump_frequency or high) * high / low * overlap.max() * powers.sum()
    z = np.linspace(0, length, 101)[:-1]  # a sum from the left is above the integral
    return 10 * math.log10(math.e) * float(most * np.exp(-fibre.alpha.min() * z).mean() * length)

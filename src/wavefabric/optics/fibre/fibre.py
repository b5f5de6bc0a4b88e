"""Describes a fibre for propagation: modes, groups, dispersion, loss and Kerr coupling."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.base.arguments import instance, numbers, positive, within
from wavefabric.base.errors import InputError, choice, quoted
from wavefabric.base.summary import one_line_repr
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.fibre.beta import BETA_UNITS, dispersion_coefficients

Array = NDArray[np.float64]

#: Nonlinear refractive index of silica in m²/W (Brehler et al., section 6).
N2_SILICA = 2.6e-20
#: 0.23 dB/km as power attenuation in 1/m (Brehler et al., section 6).
ATTENUATION = 0.23e-3 * math.log(10) / 10
#: Largest mode-group number that can be requested; graded-index groups 1 to 1000 have half a million modes.
MOST_GROUPS = 1000


class Labelling(TypedDict, total=False):
    """Types those keyword arguments of a `Fibre` that only describe it; propagation does not use them."""

    a_eff: Any
    wavelength: float | str
    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Fibre:
    """Describes a fibre of M spatial modes: 2M field rows, two polarisations per mode. Arrays are read-only.

    Quantities may be text with a unit (``"0.23 dB/km"``), also inside lists. `Fibre.from_coefficients` needs
    only β, κ and γ. `InputError` if a shape does not fit or a value is out of range.

    - ``labels`` (M,): ``"LP01"``, ``"LP11a"``, ``"LP11b"``, …
    - ``groups`` (M,): mode-group numbers from 1, non-decreasing; groups that were not selected are missing.
    - ``alpha`` (M,): power attenuation, 1/m; a single number applies to all modes.
    - ``beta`` (M, 4 to 15): β1, β2, … in s/m, s²/m, …; β1 relative to the fundamental mode (the DMGD).
    - ``gamma``: γ = n₂ω₀/(c₀A_eff,LP01), 1/(W m).
    - ``kappa`` (K, K): Kerr coupling; the phase of row a turns by γ Σ_b κ_ab P_b per metre. By ``kappa_of`` a
      row of κ stands for a mode "group", a "mode" or a field "row" b, and P_b is the total power (W) of b.
    - ``a_eff`` (M,): effective areas, m²; propagation uses only γ and κ. NaN: unknown; None: all unknown.
    - ``wavelength``: vacuum wavelength at which β and γ hold, m.
    - ``row_delays`` (2M,): group delay per length of each field row relative to its mode, s/m, for example
      from birefringence; None for none.
    """

    name: str
    labels: tuple[str, ...]
    groups: NDArray[np.int64]
    alpha: Array
    beta: Array
    gamma: float
    kappa: Array
    kappa_of: Literal["group", "mode", "row"]
    a_eff: Array
    wavelength: float
    row_delays: Array | None = None
    modes: int = field(init=False, repr=False)  # number of spatial modes, M
    rows: int = field(init=False, repr=False)  # number of field rows, 2M
    group_sizes: NDArray[np.int64] = field(init=False, repr=False)  # modes in each group present, (G,)

    __repr__ = one_line_repr

    def __post_init__(self):
        m, groups = len(self.labels), np.array(self.groups)
        if m == 0:
            raise InputError("labels: empty; a fibre needs at least one mode")
        if groups.shape != (m,) or not np.issubdtype(groups.dtype, np.integer):
            raise InputError(f"groups: {groups.dtype} of shape {groups.shape}; needs integers, shape ({m},)")
        if groups.min() < 1 or np.any(np.diff(groups) < 0):
            raise InputError("groups: group numbers must start at 1 or above and not decrease")
        choice("kappa_of", self.kappa_of, ("group", "mode", "row"))
        k = {"group": len(np.unique(groups)), "mode": m, "row": 2 * m}[self.kappa_of]
        alpha, gamma = numbers(self.alpha, "1/m", "alpha"), positive(self.gamma, "1/W/m", "gamma", zero=True)
        alpha = np.full(m, alpha) if alpha.ndim == 0 else alpha
        a_eff = np.full(m, np.nan) if self.a_eff is None else numbers(self.a_eff, "m^2", "a_eff")
        beta, kappa = dispersion_coefficients(self.beta), numbers(self.kappa, "", "kappa")
        arrays = {"alpha": alpha, "beta": beta, "kappa": kappa, "a_eff": a_eff}
        orders = min(max(beta.shape[-1] if beta.ndim else 0, 4), len(BETA_UNITS))
        for (key, value), shape in zip(arrays.items(), ((m,), (m, orders), (k, k), (m,)), strict=True):
            if value.shape != shape:
                raise InputError(f"{key}: shape {value.shape}; needs {shape} for {m} modes")
            if not np.all(np.isfinite(value) | (np.isnan(value) & (key == "a_eff"))):
                raise InputError(f"{key}: holds values that are not finite; each must be a finite number")
        if self.row_delays is not None:
            arrays["row_delays"] = delays = numbers(self.row_delays, "s/m", "row_delays")
            if delays.shape != (2 * m,) or not np.isfinite(delays).all():
                raise InputError(f"row_delays: shape {delays.shape}; needs {2 * m} finite numbers")
        if alpha.min() < 0:
            raise InputError(f"alpha: {alpha.min()!r} 1/m; attenuation must be 0 or more")
        if np.any(a_eff <= 0):
            raise InputError(f"a_eff: {np.nanmin(a_eff)!r} m²; effective areas must be positive")
        values: dict[str, Any] = {**arrays, "labels": tuple(self.labels), "groups": groups.astype(np.int64)}
        values |= {"gamma": gamma, "wavelength": positive(self.wavelength, "m", "wavelength")}
        values |= {"modes": m, "rows": 2 * m, "group_sizes": np.unique(groups, return_counts=True)[1]}
        for key, value in values.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, key, value)

    @classmethod
    def from_coefficients(
        cls,
        beta: ArrayLike,
        kappa: ArrayLike,
        gamma: float | str,
        alpha: ArrayLike | str = 0.0,
        *,
        groups: ArrayLike | None = None,
        labels: Iterable[str] | None = None,
        **labelling: Unpack[Labelling],
    ) -> "Fibre":
        """Create a fibre from its dispersion and Kerr coefficients; other arguments are those of `Fibre`.

        ``beta``, shape (M, 1) to (M, 15), holds β1, β2, … of each mode; omitted orders are 0. The size of
        ``kappa`` determines what its rows represent: M modes, 2M field rows, or the groups of ``groups``; for
        one mode it may be a number. By default each mode is a separate group, modes are called ``"M1"``,
        ``"M2"``, …, ``wavelength`` is 1550 nm and ``name`` "fibre".
        """
        taylor, coupling = dispersion_coefficients(beta), np.atleast_2d(numbers(kappa, "", "kappa"))
        if taylor.ndim != 2 or not (taylor.shape[0] and 1 <= taylor.shape[1] <= len(BETA_UNITS)):
            raise InputError(f"beta: shape {taylor.shape}; needs (modes, 1 to 15): β1, β2, … of each mode")
        m = len(taylor)
        sizes: dict[int, Any] = {2 * m: "row", m: "mode"}
        if groups is not None:
            sizes |= {len(np.unique(np.asarray(groups))): "group"}
        if len(coupling) not in sizes:
            allowed = ", ".join(f"{size} ({kind}s)" for size, kind in sorted(sizes.items()))
            raise InputError(f"kappa: shape {coupling.shape}; needs a square of {allowed}")
        values: dict[str, Any] = {"a_eff": None, "wavelength": 1550e-9, "name": "fibre", **labelling}
        return cls(
            labels=tuple(labels if labels is not None else (f"M{i + 1}" for i in range(m))),
            groups=np.arange(1, m + 1) if groups is None else np.asarray(groups),
            beta=np.pad(taylor, [(0, 0), (0, max(0, 4 - taylor.shape[1]))]),
            kappa=coupling,
            kappa_of=sizes[len(coupling)],
            alpha=alpha,  # type: ignore[arg-type]  # the constructor reads text and numbers
            gamma=gamma,  # type: ignore[arg-type]
            **values,
        )

    def kappa_index(self) -> NDArray[np.int64]:
        """Return each field row's index into κ, (2M,): kappa_rows()[a, b] == kappa[index[a], index[b]]."""
        row = np.arange(self.rows)
        group = np.unique(self.groups, return_inverse=True)[1].reshape(-1)
        return {"row": row, "mode": row // 2, "group": group[row // 2]}[self.kappa_of]

    def kappa_rows(self) -> Array:
        """Return κ for each pair of field rows a, b, (2M, 2M); element ab multiplies the power of row b."""
        index = self.kappa_index()
        return self.kappa[np.ix_(index, index)]

    def select_groups(self, groups: int | Iterable[int]) -> "Fibre":
        """Return a fibre of only the mode groups ``groups`` (a list, or g for 1 to g); β1 is unchanged."""
        present, selected = np.unique(self.groups), group_numbers(groups)
        if absent := [g for g in selected if g not in present]:
            allowed = f"{present[0]} to {present[-1]}"
            raise InputError(f"groups: {absent[0]} is not in {self.name}; allowed: {allowed}")
        keep = np.isin(self.groups, selected)
        rows = {"group": np.isin(present, selected), "mode": keep, "row": np.repeat(keep, 2)}[self.kappa_of]
        return replace(
            self,
            labels=tuple(np.array(self.labels)[keep].tolist()),
            groups=self.groups[keep],
            alpha=self.alpha[keep],
            beta=self.beta[keep],
            kappa=self.kappa[np.ix_(rows, rows)],
            a_eff=self.a_eff[keep],
            row_delays=None if self.row_delays is None else self.row_delays[np.repeat(keep, 2)],
        )


def gamma_of(a_eff: float, wavelength: float, n2: float = N2_SILICA) -> float:
    """Return γ = n₂ω₀/(c₀A_eff) = 2πn₂/(λA_eff) in 1/(W m); a_eff in m², wavelength in m, n2 in m²/W."""
    return 2 * math.pi * n2 / (wavelength * a_eff)


def group_numbers(groups: int | Iterable[int]) -> list[int]:
    """Return mode-group numbers, sorted: those of a list, or 1 to g for one number g; else InputError."""
    single = isinstance(groups, (int, np.integer)) and not isinstance(groups, bool)
    try:
        chosen: list[Any] = [groups] if single else list(groups)  # type: ignore[arg-type]
    except TypeError:
        chosen = []
    if not chosen or not all(isinstance(g, (int, np.integer)) and 1 <= g <= MOST_GROUPS for g in chosen):
        words = f"give a whole number from 1 to {MOST_GROUPS}, or a list of them"
        raise InputError(f"groups: {quoted(groups)}; {words}")
    return list(range(1, int(chosen[0]) + 1)) if single else sorted({int(g) for g in chosen})


def shift_expansion(beta: ArrayLike, shift: float) -> Array:
    """Expand the polynomial β(ω) about a centre ``shift`` rad/s higher: return the new β, (M, orders).

    β'_n = Σ_k β_{n+k} shift^k / k!, exact for the polynomial that the coefficients describe
    (G. P. Agrawal, Nonlinear Fiber Optics, section 2.3, for the series itself).
    """
    beta = np.asarray(beta, dtype=float)
    moved = np.zeros_like(beta)
    # Term by term, not as a matrix product: equal rows must stay equal to the last bit.
    for k in range(orders := beta.shape[1]):
        moved[:, : orders - k] += beta[:, k:] * (shift**k / math.factorial(k))
    return moved


def at_frequency(fibre: Fibre, frequency: float | str) -> Fibre:
    """Return the fibre expanded about another optical frequency (Hz, or text), e.g. the centre of a WDM grid.

    β1, β2, … become the coefficients of the same β(ω) about the new centre. Since the frame moves with the
    fundamental mode, β1 of the first mode does not change; the other modes keep their difference from it.
    γ = n₂ω₀/(c₀A_eff) grows in proportion to the frequency. A_eff and κ do not change: their frequency
    dependence is not known from one expansion (A_eff of a graded-index fibre falls by about 1 % when the
    frequency rises by 1 %). For a fibre from an index profile, solve the profile again at the new frequency.
    """
    instance("fibre", fibre, Fibre)
    frequency = within(frequency, "Hz", "frequency", 1e6, 1e18)
    before = SPEED_OF_LIGHT / fibre.wavelength
    beta, gamma = shift_expansion(fibre.beta, 2 * math.pi * (frequency - before)), fibre.gamma
    beta[:, 0] += fibre.beta[0, 0] - beta[0, 0]
    wavelength = SPEED_OF_LIGHT / frequency
    return replace(fibre, beta=beta, gamma=gamma * frequency / before, wavelength=wavelength)

"""Convert chromatic dispersion as data sheets and measurements give it (D, slope, tables) to β2, β3, ….

With ω = 2πc/λ and β2 = d²β/dω², D = dβ1/dλ = −2πc β2/λ² and its slope S = dD/dλ give

    β2 = −D λ²/(2πc),    β3 = (λ²/(2πc))² (S + 2D/λ)

(G. P. Agrawal, Nonlinear Fiber Optics, section 1.2.3; Recommendation ITU-T G.650.1 for D and S themselves).
"""

import math
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.arguments import number
from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT, show
from wavefabric.optics.fibre.beta import BETA_UNITS
from wavefabric.optics.fibre.csv_files import Array, read_columns

#: Ways to give dispersion: the key that each needs, and keys that may stand beside it.
FORMS = {"beta2": ("beta3", "beta4"), "betas": (), "dispersion_parameter": ("dispersion_slope",)}
FORMS["dispersion_csv"] = ()
#: All keys of dispersion.
KEYS = tuple(key for form, beside in FORMS.items() for key in (form, *beside))
_RULE = "allowed: beta2 (with beta3), betas, dispersion_parameter (with dispersion_slope), or dispersion_csv"
#: Highest degree of the polynomial through D, or β, of a table; largest part of D by which it may miss one.
_MOST_DEGREE, _TOLERANCE = 8, 0.01


def dispersion_form(keys: Mapping[str, Any]) -> str:
    """Return which of `FORMS` the keys that are not None use, "" if none; InputError if two do."""
    present = [key for key, value in keys.items() if value is not None]
    used = {form: [key for key in present if key in (form, *beside)] for form, beside in FORMS.items()}
    used = {form: each for form, each in used.items() if each}
    if len(used) > 1:
        first, second = list(used.values())[:2]
        raise InputError(f"{second[0]}: given together with {first[0]}; {_RULE}")
    if (form := next(iter(used), "")) == "dispersion_parameter" and form not in present:
        raise InputError(f"{form}: missing; dispersion_slope needs it")
    return form


def replaced(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments ``values`` with ``changes``; another form of dispersion replaces D and its slope."""
    d_and_slope = {"dispersion_parameter", "dispersion_slope"}
    drop = d_and_slope if {*KEYS} & {*changes} - d_and_slope else ()
    return {key: value for key, value in values.items() if key not in drop} | dict(changes)


def beta2_beta3(d: Any, slope: Any, wavelength: float) -> tuple[Any, Any]:
    """Return β2 (s²/m) and β3 (s³/m) from D (s/m²) and its slope (s/m³) at a vacuum ``wavelength`` (m)."""
    square = wavelength**2 / (2 * math.pi * SPEED_OF_LIGHT)
    return -d * square, square**2 * (slope + 2 * d / wavelength)


def taylor_coefficients(
    keys: Mapping[str, Any], wavelength: float, warn: Callable[[str], None] | None = None
) -> Array:
    """Return β2, β3, β4, … (SI) at a vacuum ``wavelength`` (m) from the ``keys`` of one of `FORMS`."""
    form = dispersion_form(keys)
    if form == "dispersion_csv":
        return table_coefficients(keys[form], wavelength, warn=warn)
    if form == "dispersion_parameter":
        slope = keys.get("dispersion_slope") or 0.0
        d, s = number(keys[form], "s/m^2", form), number(slope, "s/m^3", "dispersion_slope")
        return np.array([*beta2_beta3(d, s, wavelength), 0.0])
    if form == "betas":
        values = keys[form]
        values = values.tolist() if isinstance(values, np.ndarray) else values
        if not isinstance(values, (list, tuple)) or not 1 <= len(values) < len(BETA_UNITS):
            raise InputError(f"betas: {show(values)} given; allowed: a list of β2, β3, … up to β15")
        return np.array([number(*each, form) for each in zip(values, BETA_UNITS[1:], strict=False)])
    defaults = zip({"beta2": -21.7e-27, "beta3": 0.0, "beta4": 0.0}.items(), BETA_UNITS[1:4], strict=True)
    return np.array([number(x if keys.get(key) is None else keys[key], u, key) for (key, x), u in defaults])


def table_coefficients(
    path: str | Path,
    wavelength: float,
    band: tuple[float, float] | None = None,
    warn: Callable[[str], None] | None = None,
) -> Array:
    """Return β2, β3, … at a vacuum ``wavelength`` (m) from a CSV table of D or the effective index.

    Columns are ``wavelength_nm`` and ``dispersion_ps_per_nm_km`` or ``n_eff``. A polynomial in ω is fitted to
    β2 or β by least squares. Its degree is the lowest whose variance per degree of freedom is within a factor
    of 2 of the smallest, so noise is not followed. ``warn`` is called with a line if the polynomial misses D
    by over 1 % between the wavelengths ``band`` (m, by default the table's), if the scatter of n_eff leaves D
    so uncertain, or if the table does not cover ``band``. `InputError` if ``wavelength`` is outside it.
    """
    columns = read_columns(path, ("wavelength_nm",), ("dispersion_ps_per_nm_km", "n_eff"))
    if len(columns) != 2:
        raise InputError(f"{path}: needs wavelength_nm and either dispersion_ps_per_nm_km or n_eff")
    by_index, least = "n_eff" in columns, 5 if "n_eff" in columns else 2
    order = np.argsort(columns["wavelength_nm"])
    nm, values = columns.pop("wavelength_nm")[order], next(iter(columns.values()))[order]
    if len(nm) < least or not (nm[0] >= 100 and np.diff(nm).min() > 0 and nm[-1] <= 1e5):
        needs = f"{least} or more different wavelengths from 100 to 100000 nm"
        raise InputError(f"{path}: wavelength_nm: {len(nm)} from {nm[0]:g} to {nm[-1]:g}; needs {needs}")
    centre = 1e9 * wavelength
    if not nm[0] <= centre <= nm[-1]:
        reach = f"the table reaches from {nm[0]:g} to {nm[-1]:g} nm"
        raise InputError(f"{path}: wavelength_nm: {reach}; β is needed at {centre:.6g} nm")

    turn, metres = 2 * math.pi * SPEED_OF_LIGHT, nm * 1e-9
    x, per_d = turn / metres - turn / wavelength, -(metres**2) / turn  # β2 = per_d · D
    y, lowest, fault = values * per_d * 1e-6, 0, "the expansion misses D by"
    if by_index:  # a straight line changes only β0 and β1, and has most of the digits
        y, lowest, fault = values * turn / SPEED_OF_LIGHT / metres, 2, "the scatter of n_eff blurs D by"
        y = y - y[0] - (y[-1] - y[0]) * (x - x[0]) / (x[-1] - x[0])
    span = np.abs(x).max()
    solve, rest, variance = _fitted(x / span, y, lowest)
    k = np.arange(lowest, len(solve))
    taylor = (solve @ y)[lowest:] * [math.factorial(n) for n in k] / span**k
    # The matrix from y to β2 at each wavelength; its rows tell how uncertain β2 is.
    curve = (k * (k - 1)) ** by_index * (x / span)[:, None] ** (k - lowest) @ solve[lowest:] / span**lowest
    digits = next((k for k in range(16) if (values.round(k) == values).all()), 16)
    scatter = max(math.sqrt(variance), 10.0**-digits / math.sqrt(12) * 2 * math.pi / wavelength)
    miss = scatter * np.linalg.norm(curve, axis=1) if by_index else np.abs(rest)
    d, error = curve @ y / per_d * 1e6, miss / np.abs(per_d) * 1e6
    low, high = np.multiply(1e9, band) if band else (centre, centre) if by_index else (nm[0], nm[-1])
    inside = (nm >= low) & (nm <= high) | (np.arange(len(nm)) == np.argmin(np.abs(nm - centre)))
    worst, warn = int(np.argmax(error * inside)), warn or partial(warnings.warn, stacklevel=2)
    if error[worst] > _TOLERANCE * np.abs(d).max():
        where = f"at {nm[worst]:g} nm, where it is {d[worst]:.4g}"
        warn(f"dispersion_csv: {path}: {fault} {error[worst]:.2g} ps/(nm km) {where}")
    if low < nm[0] * (1 - 1e-9) or high > nm[-1] * (1 + 1e-9):
        limits = f"{nm[0]:g} to {nm[-1]:g} nm, the channels from {low:.6g} to {high:.6g} nm"
        warn(f"dispersion_csv: {path}: the table reaches from {limits}; dispersion is extrapolated")
    return np.pad(taylor, (0, max(0, 3 - len(taylor))))


def _fitted(x: Array, y: Array, lowest: int) -> tuple[Array, Array, float]:
    """Fit a polynomial of degree ``lowest`` or more to ``y`` at ``x``, |x| ≤ 1; up to four points are met.

    Return the matrix from y to the coefficients, the residuals, and the variance per degree of freedom.
    """
    fits = []
    most = min(len(x) - 2, _MOST_DEGREE + lowest)
    for degree in range(lowest, most + 1) if len(x) > 4 else [len(x) - 1]:
        powers = x[:, None] ** np.arange(degree + 1)
        solve = np.linalg.pinv(powers)
        rest = y - powers @ (solve @ y)
        fits.append((solve, rest, float(rest @ rest) / max(1, len(x) - 1 - degree)))
    smallest = min(variance for *_, variance in fits)
    return next(fit for fit in fits if fit[2] <= 2 * smallest)

"""All guided modes are in a fibre: near cut-off, in rings, behind trenches; what is left out is named."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import iv, ivp, jn_zeros, jv, jvp, kv, kvp, yv, yvp

from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics import IndexProfile, TableProfile, fibre_from_profile, graded_index_62_5
from wavefabric.optics.fibre.modes import LONGEST_DECAY, dispersion, extrapolate, solve_modes
from wavefabric.optics.fibre.profile import ConstantIndex
from wavefabric.optics.link.build import build_fibre
from wavefabric.optics.run_file.load import load

LAM, NA, CLAD = 1550e-9, 0.2, 1.444
K = 2 * math.pi / LAM
GLASS = ConstantIndex(CLAD)


def step_index(v):
    return IndexProfile(2 * v / (K * NA), NA, math.inf, cladding=GLASS, dopant=None)


def layers(radii_um, indices):
    """Uniform layers out to each radius in µm, and the cladding."""
    radii, index = [0.0], []
    for radius, value in zip(radii_um, indices, strict=True):
        radii += [radius * 1e-6] * 2
        index += [value] * 2
    return TableProfile(tuple(radii), (*index, CLAD), cladding=GLASS, dopant=None)


RING = layers((5, 8), (CLAD, CLAD + 0.02))
THICK_RING = layers((5, 12), (CLAD, CLAD + 0.02))
W = layers((4, 9), (CLAD + 6e-3, CLAD - 6e-3))


def mismatch(profile, order, square, k=K):
    """Jump of R'/R at the cladding, times the fields, for β² = (k n_clad)² + ``square``.

    R = J_l(0 …) is taken through the uniform layers by Bessel functions, and meets K_l.
    """
    radii = [0.0, *profile.interfaces()]
    field, slope = None, None
    for a, b in pairwise(radii):
        n = float(profile.index(np.array([(a + b) / 2]), 2 * math.pi / k)[0])
        kappa2 = k**2 * (n**2 - CLAD**2) - square
        kappa = math.sqrt(abs(kappa2))
        first, second, d_first, d_second = (jv, yv, jvp, yvp) if kappa2 > 0 else (iv, kv, ivp, kvp)
        if field is None:
            field, slope = first(order, kappa * b), kappa * d_first(order, kappa * b)
            continue
        at = kappa * a
        system = [[first(order, at), second(order, at)], [d_first(order, at), d_second(order, at)]]
        c = np.linalg.solve(system, [field, slope / kappa])
        field = c @ [first(order, kappa * b), second(order, kappa * b)]
        slope = kappa * (c @ [d_first(order, kappa * b), d_second(order, kappa * b)])
        field, slope = field / math.hypot(field, slope), slope / math.hypot(field, slope)
    w, last = math.sqrt(square), radii[-1]
    return slope * kv(order, w * last) - field * w * kvp(order, w * last)


def exact_modes(profile, k=K):
    """{(l, m): β² − (k n_clad)²} of the modes with a decay length below the limit."""
    top = k**2 * float((profile.index(np.linspace(0, 1, 2001) * profile.interfaces()[-1], LAM) ** 2).max())
    squares = np.append(
        np.geomspace(1 / LONGEST_DECAY**2, 1e9, 20), np.linspace(1e9, top - (k * CLAD) ** 2, 250)[1:-1]
    )
    result = {}
    for order in range(30):
        values = np.array([mismatch(profile, order, s) for s in squares])
        signs = np.flatnonzero(values[1:] * values[:-1] < 0)[::-1]
        for m, i in enumerate(signs, start=1):
            result[order, m] = brentq(
                lambda s, o=order: mismatch(profile, o, s, k), squares[i], squares[i + 1]
            )
        if not len(signs):
            break
    return result


def by_order(modes):
    keys = zip(modes.l.tolist(), modes.m.tolist(), strict=True)
    return dict(zip(keys, (modes.beta**2 - (K * CLAD) ** 2).tolist(), strict=True))


CUTOFFS = sorted(float(zero) for order in range(5) for zero in jn_zeros(order, 2))


@pytest.mark.parametrize(
    "profile",
    [
        *[pytest.param(step_index(v), id=f"step V={v}") for v in (2.4, 3.9, 3.92, 5.3)],
        *[pytest.param(step_index(v), id=f"step V={v}", marks=pytest.mark.slow) for v in (8.0, 12.0)],
        *[
            pytest.param(step_index(z * 1.001), id=f"just above V={z:.2f}", marks=[pytest.mark.slow][: z > 6])
            for z in CUTOFFS
        ],
        pytest.param(RING, id="ring"),
        pytest.param(THICK_RING, id="thick ring", marks=pytest.mark.slow),
        pytest.param(W, id="W"),
        pytest.param(layers((6, 8, 12), (CLAD + 0.01, CLAD, CLAD - 8e-3)), id="trench"),
        pytest.param(layers((4, 6, 8, 10), (CLAD, 1.46, 1.44, 1.455)), id="two rings"),
    ],
)
def test_all_modes_of_the_characteristic_equation_are_found(profile):
    exact, modes = exact_modes(profile), solve_modes(profile, LAM)
    result = by_order(modes)
    assert result.keys() == exact.keys()
    n_eff = {key: math.sqrt(CLAD**2 + square / K**2) for key, square in exact.items()}
    expected = [n_eff[key] for key in result]
    np.testing.assert_allclose(modes.n_eff, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(extrapolate(profile, LAM), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("diameter", "wavelength", "groups"), [(50e-6, 1550e-9, 10), (50e-6, 850e-9, 18)])
def test_a_graded_index_fibre_has_v_half_groups(diameter, wavelength, groups):
    """n_eff² = n_core² − 2g NA/(kR) > n_clad² for g < V/2; group g has g modes."""
    assert int(math.pi * diameter * NA / wavelength / 2) == groups
    modes = solve_modes(IndexProfile(diameter, NA, 2, cladding=GLASS), wavelength, 0.05e-6)
    assert modes.spatial_modes == groups * (groups + 1) // 2
    np.testing.assert_array_equal(modes.group, 2 * modes.m + modes.l - 1)


@pytest.mark.parametrize(
    ("v", "label", "l", "m"), [(2.41, "LP11", 1, 1), (3.9, "LP02", 0, 2), (5.3, "LP31", 3, 1)]
)
def test_derivatives_near_cut_off_match_the_characteristic_equation(v, label, l, m):  # noqa: E741
    profile = step_index(v)

    def beta(omega):
        k = omega / SPEED_OF_LIGHT
        v_there = v * k / K
        square = brentq(
            lambda s: mismatch(profile, l, s, k),
            1e-9 * (k * NA) ** 2,
            bracket(v_there, k),
            xtol=1e-3,
            rtol=1e-15,
        )
        return math.hypot(k * CLAD, math.sqrt(square))

    def bracket(v_there, k):
        # A mode begins at its cut-off, a zero of J_(l−1), so that its u is above it.
        cutoff = jn_zeros(abs(l - 1), m)[m - 1 - (l == 0)]
        return (1 - (cutoff / v_there) ** 2) * (k * NA) ** 2

    omega, h = 2 * math.pi * SPEED_OF_LIGHT / LAM, 1.2e11
    low, centre, high = (beta(omega + i * h) for i in (-1, 0, 1))
    result = dispersion(profile, LAM)
    row = result.modes.labels.index(label)
    assert result.beta[row, 1] == pytest.approx((high - low) / (2 * h), rel=1e-5)
    assert result.beta[row, 2] == pytest.approx((high - 2 * centre + low) / h**2, rel=1e-2)


@pytest.mark.parametrize("coupling", ["modes", "groups"])
@pytest.mark.parametrize(
    ("profile", "sizes"),
    [
        (RING, [1, 2, 2, 2, 2, 2]),
        (step_index(5.3), [1, 2, 3, 2]),
        (step_index(3.92), [1, 2, 3]),
        # LP02 and LP21 of a thick ring are far apart: other modes lie between them.
        (THICK_RING, [1, *[2] * 5, 1, *[2] * 8, 1, 2]),
    ],
    ids=["ring", "V=5.3", "V=3.92", "thick ring"],
)
def test_a_fibre_has_every_guided_mode(profile, sizes, coupling, recwarn):
    fibre = fibre_from_profile(profile, LAM, coupling=coupling, step="0.05 um")
    assert fibre.group_sizes.tolist() == sizes
    assert fibre.modes == solve_modes(profile, LAM, 0.05e-6).spatial_modes
    assert len(fibre.kappa) == (len(sizes) if coupling == "groups" else sum(sizes))
    assert np.isfinite(fibre.beta).all()
    assert not len(recwarn)
    part = fibre_from_profile(profile, LAM, 3, coupling=coupling, step="0.05 um")
    assert part.labels == fibre.labels[: sum(sizes[:3])]


@pytest.mark.parametrize(
    ("v", "words"),
    [
        (3.84, r"LP02 \(its field reaches more than 1 mm into the cladding\)"),
        (2.4049, r"LP11 \(cut off less than 8 GHz below\)"),
    ],
)
def test_modes_left_out_are_named(v, words):
    with pytest.warns(UserWarning, match=f"guided modes left out: {words}$"):
        fibre_from_profile(step_index(v), LAM)
    notes = []
    fibre = fibre_from_profile(step_index(v), LAM, [1], warn=notes.append)  # asked for without them
    assert (fibre.labels, notes) == (("LP01",), [])


def test_a_run_is_told_of_modes_left_out(tmp_path):
    table = f'core_diameter = "{2e6 * 3.84 / (K * NA):.6f} um"\nnumerical_aperture = 0.2\nexponent = inf\n'
    rest = """[link]
length = "1 km"
[signal]
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 4
launch_power = "0 dBm"
channels = 1
centre_frequency = "193.414489 THz"
[solver]
step = "1 km"
"""
    (tmp_path / "run.toml").write_text(f"[fibre.profile]\n{table}{rest}")
    notes = []
    fibre = build_fibre(load(tmp_path / "run.toml"), notes.append)
    assert fibre.labels == ("LP01", "LP11a", "LP11b", "LP21a", "LP21b")
    assert notes == [
        "fibre: guided modes left out: LP02 (its field reaches more than 1 mm into the cladding)"
    ]


def test_a_group_that_is_left_out_is_refused_with_the_reason():
    with pytest.raises(InputError, match=r"groups: 2 is left out: LP11 \(cut off .*\); allowed: 1 to 1$"):
        fibre_from_profile(step_index(2.4049), LAM, 2)
    with pytest.raises(InputError, match=r"no mode is guided at .* but LP01 \(its field reaches"):
        fibre_from_profile(step_index(0.5), LAM)


@pytest.mark.slow
def test_the_preset_keeps_its_modes():
    fibre = graded_index_62_5(17, "modes", "solver", step="0.1 um")
    assert fibre.group_sizes.tolist() == list(range(1, 18))

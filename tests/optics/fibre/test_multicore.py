"""Multicore fibres: coupling and supermodes against closed forms, quadrature and finite differences."""

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy
from fibre_cases import times

from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics import IndexProfile, Multicore, Trench, fibre_from_profile, multicore, propagate
from wavefabric.optics.fibre.fibre import gamma_of
from wavefabric.optics.fibre.modes import solve_modes
from wavefabric.optics.fibre.profile import ConstantIndex

LAM, RADIUS, NA = 1550e-9, 4e-6, 0.12
CORE = IndexProfile(2 * RADIUS, NA, math.inf)
K = 2 * math.pi / LAM


def ring(cores, distance):
    """Centres on a circle, neighbours ``distance`` m apart."""
    angle = 2 * np.pi * np.arange(cores) / cores
    return distance / (2 * np.sin(np.pi / cores)) * np.column_stack([np.cos(angle), np.sin(angle)])


def step_index(radius, aperture, clad, k=K):
    """U, W, V and β of LP01 from the characteristic equation of a step-index core."""
    jv, kv = scipy.special.jv, scipy.special.kv
    v = k * radius * aperture

    def equation(u):
        w = math.sqrt(v * v - u * u)
        return u * jv(1, u) / jv(0, u) - w * kv(1, w) / kv(0, w)

    u = scipy.optimize.brentq(equation, 1e-3, min(v, 2.404) - 1e-9)
    w = math.sqrt(v * v - u * u)
    return u, w, v, math.sqrt((k * clad) ** 2 + (w / radius) ** 2)


@pytest.mark.parametrize("distance", [8e-6, 12e-6, 20e-6, 40e-6])
@pytest.mark.parametrize(("radius", "aperture"), [(4e-6, 0.12), (2.5e-6, 0.16)])
def test_two_step_index_cores(distance, radius, aperture):
    """κ = U² K0(W d/a)/(β a² V² K1²(W)), i.e. √(2Δ)/a U²/V³ K0/K1² (Snyder and Love 1983); β ± κ."""
    profile = IndexProfile(2 * radius, aperture, math.inf)
    u, w, v, beta = step_index(radius, aperture, profile.cladding.index(LAM))
    kv = scipy.special.kv
    kappa = u**2 * kv(0, w * distance / radius) / (beta * radius**2 * v**2 * kv(1, w) ** 2)
    pair = Multicore([[0, 0], [0, distance]], profile, LAM)
    np.testing.assert_allclose(pair.coupling, kappa * np.array([[0, 1], [1, 0]]), rtol=3e-4)
    np.testing.assert_allclose(pair.beta - beta, [kappa, -kappa], atol=0.5)
    np.testing.assert_allclose(pair.beta - pair.core_beta, [kappa, -kappa], rtol=3e-4, atol=1e-8)
    np.testing.assert_allclose(pair.vectors, np.sqrt(0.5) * np.array([[1, 1], [1, -1]]), atol=1e-7)


def test_all_power_is_exchanged_after_half_a_beat():
    """P2 = sin²(κz), all of it at π/(2κ); unlike cores exchange 1/(1 + δ²/κ²) of it, δ = Δβ/2."""
    pair = Multicore([[0, 0], [15e-6, 0]], CORE, "1550 nm")
    kappa = pair.coupling[0, 1]
    for part in (0.25, 0.5, 1.0, 1.7):
        power = abs(pair.transfer(part * math.pi / (2 * kappa))) ** 2
        sine = math.sin(part * math.pi / 2) ** 2
        np.testing.assert_allclose(power, [[1 - sine, sine], [sine, 1 - sine]], atol=1e-9)
    unlike = Multicore([[0, 0], [15e-6, 0]], [CORE, IndexProfile(2.06 * RADIUS, NA, math.inf)], LAM)
    kappa, delta = unlike.coupling[0, 1], np.diff(unlike.core_beta)[0] / 2
    assert 0.5 < delta / kappa < 5
    length = math.pi / 2 / math.hypot(kappa, delta)
    assert abs(unlike.transfer(length)[1, 0]) ** 2 == pytest.approx(1 / (1 + (delta / kappa) ** 2), rel=1e-9)
    assert abs(unlike.transfer("3 m").conj().T @ unlike.transfer(3) - np.eye(2)).max() < 1e-12


@pytest.mark.parametrize("cores", [3, 6, 7])
def test_a_ring_has_the_eigenvalues_of_a_circulant_matrix(cores):
    """β_m = β + Σ_j κ_0j cos(2πmj/N); amplitudes are cosine and sine of the angle; pairs share a group."""
    fibre = Multicore(ring(cores, 13e-6), CORE, LAM)
    j = np.arange(cores)
    expected = [(fibre.coupling[0] * np.cos(2 * np.pi * m * j / cores)).sum() for m in j]
    shift = fibre.beta - fibre.core_beta.mean()
    np.testing.assert_allclose(shift, sorted(expected, reverse=True), atol=1e-6)
    np.testing.assert_array_equal(fibre.groups, 1 + np.arange(1, cores + 1) // 2)
    np.testing.assert_allclose(fibre.vectors[:, 0], 1 / np.sqrt(cores), atol=1e-9)
    angle = 2 * np.pi * j / cores
    np.testing.assert_allclose(fibre.vectors[:, 1], np.sqrt(2 / cores) * np.cos(angle), atol=1e-6)
    np.testing.assert_allclose(fibre.vectors[:, 2], np.sqrt(2 / cores) * np.sin(angle), atol=1e-6)
    # Far neighbours count too: 2κ of the nearest alone is not the answer to this accuracy.
    assert abs(shift[0] - 2 * fibre.coupling[0, 1]) > 1e-3 or cores == 3


TRENCHED = IndexProfile(8e-6, 0.13, 4.0, trench=Trench(2e-6, 2e-6, 3e-3))


@pytest.mark.parametrize(
    ("profiles", "distance"),
    [
        ([CORE, IndexProfile(7e-6, 0.125, math.inf)], 11e-6),
        ([TRENCHED, TRENCHED], 18e-6),
        ([TRENCHED, CORE], 15e-6),
    ],
)
def test_the_overlap_integral(profiles, distance):
    """k²/(2β) ∫(n_p² − n_cl²) F_p F_q dA by quadrature in polar coordinates about core p, mean of both."""
    pair = Multicore([[0, 0], [distance, 0]], profiles, LAM)
    radial, w = [], []
    for profile in profiles:
        modes = solve_modes(profile, LAM, 0.01e-6, (0,))
        radial.append((modes.r, modes.radial[0] / math.sqrt(2 * math.pi)))
        w.append(math.sqrt(modes.beta[0] ** 2 - (K * profile.cladding.index(LAM)) ** 2))
    integrals = []
    for p, q in ((0, 1), (1, 0)):
        profile = profiles[p]
        edges = [0.0, *profile.interfaces()]
        total = 0.0
        for low, high in pairwise(edges):
            x, weight = np.polynomial.legendre.leggauss(60)
            r, dr = (high + low) / 2 + (high - low) / 2 * x, weight * (high - low) / 2
            phi = 2 * np.pi * np.arange(64) / 64
            apart = np.sqrt(distance**2 + r[:, None] ** 2 - 2 * distance * r[:, None] * np.cos(phi))
            excess = profile.index(r, LAM) ** 2 - profile.cladding.index(LAM) ** 2
            here, there = np.interp(r, *radial[p]), np.interp(apart, *radial[q])
            total += (excess * here * r * dr * (there.mean(axis=1) * 2 * np.pi)).sum()
        integrals.append(K**2 * total / (2 * pair.core_beta[p]))
    assert pair.coupling[0, 1] == pytest.approx(np.mean(integrals), rel=2e-3)
    assert pair.coupling[0, 1] == pair.coupling[1, 0]


def quarter_plane(even: bool, distance: float, step: float) -> float:
    """β of a supermode of two cores by finite differences in a quarter of the plane, scalar wave equation."""
    nx, ny = round((distance / 2 + 13e-6) / step), round(13e-6 / step)
    clad = CORE.cladding.index(LAM)
    fine = (np.arange(8) + 0.5) / 8
    x = ((np.arange(nx)[:, None] + fine) * step).ravel()
    y = ((np.arange(ny)[:, None] + fine) * step).ravel()
    inside = np.hypot(x[:, None] - distance / 2, y) < RADIUS
    part = inside.reshape(nx, 8, ny, 8).mean(axis=(1, 3))

    def second(n, mirror):
        main = np.full(n, -2.0)
        main[0] += mirror  # 1: the field is even about the edge, −1: odd
        return scipy.sparse.diags([main, np.ones(n - 1), np.ones(n - 1)], [0, 1, -1]) / step**2

    laplacian = scipy.sparse.kronsum(second(ny, 1), second(nx, 1 if even else -1))
    matrix = (laplacian + scipy.sparse.diags(((K * NA) ** 2 * part).ravel())).tocsc()
    value = scipy.sparse.linalg.eigsh(matrix, 1, sigma=(K * NA) ** 2 * 0.6, return_eigenvectors=False)
    return math.sqrt((K * clad) ** 2 + float(value[0]))


@pytest.mark.parametrize(
    ("distance", "tolerance"), [(12e-6, 0.008), pytest.param(16e-6, 0.008, marks=pytest.mark.slow)]
)
def test_two_cores_by_finite_differences(distance, tolerance):
    """Half the difference of the β of the even and odd supermode; the theory is one of weak coupling."""
    kappa = Multicore([[0, 0], [distance, 0]], CORE, LAM).coupling[0, 1]
    halves = [
        (quarter_plane(True, distance, step) - quarter_plane(False, distance, step)) / 2
        for step in (0.2e-6, 0.1e-6)
    ]
    assert halves[0] == pytest.approx(halves[1], rel=0.002)
    assert kappa == pytest.approx(halves[1], rel=tolerance)


def test_dispersion_effective_areas_and_kerr_coupling():
    """β of the supermodes is that of a core ± κ(ω); A_eff is twice that of a core; κ by the overlaps."""
    distance = 25e-6
    fibre = multicore([["0 um", "0 um"], ["25 um", "0 um"]], "8 um", NA, attenuation="0.2 dB/km")
    single = fibre_from_profile(CORE, LAM)
    waves = SPEED_OF_LIGHT / (SPEED_OF_LIGHT / LAM + np.array([-1e12, 0, 1e12]))
    kappa = [Multicore([[0, 0], [distance, 0]], CORE, wave).coupling[0, 1] for wave in waves]
    slope, curve = (
        (kappa[2] - kappa[0]) / (4e12 * np.pi),
        (kappa[2] - 2 * kappa[1] + kappa[0]) / (2e12 * np.pi) ** 2,
    )
    assert fibre.beta[0, 0] == 0
    assert fibre.beta[1, 0] == pytest.approx(-2 * slope, rel=2e-3)
    np.testing.assert_allclose(fibre.beta[:, 1], single.beta[0, 1] + curve * np.array([1, -1]), rtol=1e-4)
    assert abs(fibre.beta[0, 1] / fibre.beta[1, 1] - 1) > 1e-3
    np.testing.assert_allclose(fibre.a_eff, 2 * single.a_eff[0], rtol=1e-2)
    assert fibre.gamma == pytest.approx(gamma_of(fibre.a_eff[0], LAM))
    np.testing.assert_allclose(fibre.kappa, [[8 / 9, 4 / 3], [4 / 3, 8 / 9]], rtol=1e-2)
    np.testing.assert_allclose(fibre.alpha, np.log(10) / 10 * 0.2e-3)
    assert (fibre.labels, fibre.groups.tolist(), fibre.kappa_of) == (("SM1", "SM2"), [1, 2], "group")


@pytest.mark.slow
def test_cores_and_strong_coupling():
    single = fibre_from_profile(CORE, LAM)
    fibre = Multicore(ring(6, 30e-6), CORE, LAM)
    cores = fibre.fibre("cores")
    np.testing.assert_allclose(cores.kappa, 8 / 9 * np.eye(6), atol=1e-4)
    np.testing.assert_allclose(cores.a_eff, single.a_eff[0], rtol=1e-3)
    assert cores.gamma == pytest.approx(single.gamma, rel=1e-3)
    # 4/3 · 12/13 · mean overlap: of the N² pairs only those of equal cores overlap, in sum 1/A for each.
    strong = fibre.fibre("strong", name="ccf")
    product = 4 / 3 * 12 / 13 / 6 * single.gamma
    assert strong.gamma * strong.kappa[0, 0] == pytest.approx(product, rel=2e-3)
    assert (strong.kappa_of, strong.groups.tolist(), strong.name) == ("group", [1] * 6, "ccf")
    for each in (cores, strong):
        assert np.ptp(each.beta, axis=0).max() == 0  # equal cores are equal to the last bit
        np.testing.assert_allclose(each.beta[:, 1:3], np.tile(single.beta[0, 1:3], (6, 1)), rtol=1e-6)
    pairs = fibre.fibre()
    assert pairs.groups.tolist() == [1, 2, 2, 3, 3, 4]
    assert (pairs.beta[1] == pairs.beta[2]).all()


def test_unlike_cores():
    """Each core has its own β; supermodes of unlike cores are these cores; nearly equal ones have none."""
    at = [[0, 0], [30e-6, 0]]
    wide = IndexProfile("9 um", 0.11, math.inf)
    cores, other = Multicore(at, [CORE, wide]), fibre_from_profile(wide, LAM)
    fibre = cores.fibre()
    order = np.argsort(fibre.a_eff)
    np.testing.assert_allclose(fibre.beta[order[1], 1], other.beta[0, 1], rtol=2e-4)
    np.testing.assert_allclose(fibre.a_eff[order[1]], other.a_eff[0], rtol=2e-3)
    delay = cores.fibre("cores").beta[:, 0]
    assert abs(fibre.beta[1, 0]) == pytest.approx(abs(delay[1]), rel=1e-4)
    # Another core of the same β at this wavelength alone.
    clad = CORE.cladding.index(LAM)
    beta = step_index(RADIUS, NA, clad)[3]
    equal = scipy.optimize.brentq(lambda a: step_index(5e-6, a, clad)[3] - beta, 0.09, 0.12)
    pair = Multicore([[0, 0], [25e-6, 0]], [CORE, IndexProfile(10e-6, equal, math.inf)])
    assert abs(np.diff(pair.core_beta)[0]) < pair.coupling[0, 1] / 5
    line = "coupling: supermodes given, but unlike cores change them within 8 THz; allowed: strong, cores"
    with pytest.raises(InputError, match=line):
        pair.fibre()
    assert pair.fibre("cores").modes == 2


def test_fields_and_picture(tmp_path):
    fibre = Multicore(ring(6, 12e-6), CORE, LAM)
    x, y, fields = fibre.fields()
    step = x[1] - x[0]
    gram = np.tensordot(fields, fields, ((1, 2), (1, 2))) * step**2
    # The modes of neighbouring cores are not orthogonal: ⟨F_p|F_q⟩ is what the theory leaves out.
    np.testing.assert_allclose(gram, np.diag(np.diagonal(gram)), atol=1e-3)
    assert np.diagonal(gram) == pytest.approx(1, abs=0.3)
    assert (fields[0] > 0).all()
    peak = np.unravel_index(fields[0].argmax(), fields[0].shape)
    assert np.hypot(x[peak[1]], y[peak[0]]) == pytest.approx(12e-6, abs=1e-6)
    assert fibre.draw(tmp_path / "sm.png").stat().st_size > 20_000


def test_light_in_supermodes_exchanges_between_cores(cpu):
    """A pulse in core 1, as supermodes, splits by their delay 2 κ' z: each half is half of the pulse."""
    pair = Multicore([[0, 0], [16e-6, 0]], CORE, LAM)
    fibre = pair.fibre(n2=0, attenuation=0)
    t = times(512, 20e-15)
    pulse = np.exp(-(t**2) / (2 * 0.2e-12**2))
    rows = np.zeros((4, 512), complex)
    rows[::2] = pair.vectors[0][:, None] * pulse  # amplitudes of the supermodes of light in core 1
    flat = np.zeros_like(fibre.beta)
    flat[:, 0] = fibre.beta[:, 0]
    length = 1e-12 / abs(fibre.beta[1, 0])
    fibre = type(fibre).from_coefficients(flat[:, :1], fibre.kappa, 0.0)
    out, _ = propagate(rows, fibre, length, sample_rate=1 / 20e-15, step=length, device=cpu)
    cores = pair.vectors @ out[::2]
    for shift in (0, np.sign(flat[1, 0]) * 1e-12):
        at = np.argmin(abs(t - shift))
        np.testing.assert_allclose(abs(cores[:, at]), 0.5, atol=2e-3)


AT = [[0, 0], [15e-6, 0]]


@pytest.mark.parametrize(
    ("inputs", "options", "line"),
    [
        (
            ([[0, 0], [6e-6, 0]], "8 um", 0.12),
            {},
            "positions: cores 1 and 2 are 6 um apart; allowed: 8 um or",
        ),
        (
            (["10 um", "20 um"], "8 um", 0.12),
            {},
            r"positions: shape \(2,\) given; allowed: finite x and y of 2",
        ),
        (([[0, 0]], "8 um", 0.12), {}, r"positions: shape \(1, 2\) given"),
        (([[0, 0, 0]] * 2, "8 um", 0.12), {}, r"positions: shape \(2, 3\) given"),
        (([[0, 0], [float("nan"), 0]], "8 um", 0.12), {}, "positions: shape"),
        (([["0 um", "0 um"], ["15 ps", "0 um"]], "8 um", 0.12), {}, 'positions: "15 ps" has the unit "ps"'),
        ((None, "8 um", 0.12), {}, "positions: null given; allowed: numbers in m"),
        ((AT, "0 um", 0.12), {}, "core_diameter: 0.0 m given; allowed: a positive number"),
        ((AT, ["8 um"] * 2, 0.12), {}, r"core_diameter: \["),
        ((AT, "8 um", -0.12), {}, "numerical_aperture: -0.12 given; allowed: 0.0001 to 1"),
        ((AT, "8 um", 0.12, "1550 Hz"), {}, 'design_wavelength: "1550 Hz" has the unit "Hz"'),
        ((AT, "8 um", 0.12, 1e-3), {}, "wavelength: 0.001 m given; allowed: 1e-07 to 1e-05 m"),
        ((AT, "1 um", 0.02), {}, "wavelength: no mode is guided"),
        ((AT, "8 um", 0.12), {"coupling": "weak"}, 'coupling: "weak" given'),
        ((AT, "8 um", 0.12), {"attenuation": "0.2 dB"}, 'attenuation: "0.2 dB"'),
        ((AT, "8 um", 0.12), {"n2": "2 W"}, 'n2: "2 W" has the unit "W"'),
    ],
)
def test_inputs_that_do_not_fit(inputs, options, line):
    with pytest.raises(InputError, match=line) as raised:
        multicore(*inputs, **options)
    assert "\n" not in str(raised.value)


def test_profiles_that_do_not_fit():
    other = IndexProfile(8e-6, 0.12, math.inf, cladding=ConstantIndex(1.45), dopant=None)
    for profiles, line in (
        ([CORE, other], "profiles: unlike claddings given; allowed: one cladding"),
        ([CORE, "8 um"], "profiles: '8 um' given; allowed: a Profile"),
        (7, "profiles: 7 given; allowed: a Profile"),
        ([CORE], "profiles: 1 given for 2 cores"),
    ):
        with pytest.raises(InputError, match=line):
            Multicore(AT, profiles)
    with pytest.raises(InputError, match='length: "1 s" has the unit "s"'):
        Multicore(AT, CORE).transfer("1 s")

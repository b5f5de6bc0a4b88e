"""Coefficients of the time step against closed forms and an evaluation apart from the package."""

import math
from dataclasses import replace

import numpy as np
import pytest
from emulated_device import EmulatedDevice
from random_problems import DX, C, problem

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.fused.fused_cuda import FusedCudaStages
from wavefabric.acoustics.parallel.restrict import restrict_problem
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.formulas import (
    absorption_factors,
    derivatives,
    eta_factor,
    neper_coefficient,
    pml,
    pml_factors,
    unstaggering,
)
from wavefabric.acoustics.solver.stages import PlainStages


def test_layer_at_its_ends():
    n, size, alpha, dt = 30, 6, 2.0, 2e-8
    strength = dt / 2 * alpha * C / DX
    plain = pml(n, size, alpha, C, DX, dt, staggered=False)
    moved = pml(n, size, alpha, C, DX, dt, staggered=True)
    # The outermost point on the left is a full layer deep, its inner neighbour one point less.
    assert plain[0] == math.exp(-strength)
    assert plain[size - 1] == pytest.approx(math.exp(-strength / size**4), rel=1e-15)
    # On the right the layer ends half-way between points of the two grids: depth counts from its inner edge.
    assert plain[-1] == math.exp(-strength)
    assert plain[n - size] == pytest.approx(math.exp(-strength / size**4), rel=1e-15)
    assert moved[0] == pytest.approx(math.exp(-strength * ((size - 0.5) / size) ** 4), rel=1e-15)
    assert moved[-1] == pytest.approx(math.exp(-strength * ((size + 0.5) / size) ** 4), rel=1e-15)
    for factor in (plain, moved):
        assert (factor[size : n - size] == 1).all()
        assert (np.diff(factor[:size]) > 0).all()
        assert (np.diff(factor[n - size :]) < 0).all()


def test_staggered_layer_is_the_same_curve_half_a_point_on():
    """A layer of twice the points at half the spacing holds both grids."""
    fine = pml(40, 10, 1.5, C, DX / 2, 1e-8, staggered=False)
    coarse = pml(20, 5, 1.5, C, DX / 2, 1e-8, staggered=False)
    moved = pml(20, 5, 1.5, C, DX / 2, 1e-8, staggered=True)
    np.testing.assert_allclose(coarse[:5], fine[:10:2], rtol=1e-15)
    np.testing.assert_allclose(moved[:5], fine[1:10:2], rtol=1e-15)
    np.testing.assert_allclose(coarse[15:], fine[31::2], rtol=1e-15)
    np.testing.assert_allclose(moved[15:-1], fine[32::2], rtol=1e-15)


@pytest.mark.parametrize("size", [0, 5])
def test_layer_of_any_size(size):
    factor = pml(10, size, 2.0, C, DX, 1e-8, staggered=False)
    assert (factor < 1).sum() == 2 * size


def test_layers_of_a_problem():
    inputs = problem((24, 20, 18))
    for staggered in (False, True):
        factors = pml_factors(inputs, staggered)
        for axis, factor in enumerate(factors):
            wanted = pml(
                inputs.shape[axis], inputs.pml_size[axis], inputs.pml_alpha[axis], inputs.reference_speed,
                inputs.spacing[axis], inputs.dt, staggered=staggered,
            )  # fmt: skip
            assert (factor == wanted).all()
    assert len(pml_factors(problem((24, 20, 1)), False)) == 2


def test_neper_coefficient():
    """1 dB/(MHz^y cm) at 1 MHz is 100 dB/m: a factor 1e-5 in amplitude over a metre."""
    for y in (0.5, 1.05, 1.5, 2.0):
        at_one_megahertz = neper_coefficient(y) * (2 * math.pi * 1e6) ** y
        assert math.exp(-at_one_megahertz) == pytest.approx(1e-5, rel=1e-12)
        at_three = neper_coefficient(y) * (2 * math.pi * 3e6) ** y
        assert at_three / at_one_megahertz == pytest.approx(3**y, rel=1e-12)


@pytest.mark.parametrize("y", [0.6, 1.1, 1.5, 1.9])
def test_absorption_factors_give_the_power_law(y):
    """The dispersion relation of the scheme's equation, k²c² = ω²(1 + …), evaluated apart.

    With p = c²(ρ + τ L1 ∂ρ/∂t·(−1) − η L2 ρ), ω² ρ = k² p: to first order in the loss the wavenumber is
    k = ω/c + i α₀ω^y + …: its imaginary part is the attenuation of Treeby & Cox 2010, eq. (6).
    """
    inputs = problem((8, 8, 8), absorption="power_law", alpha_power=y)
    alpha0 = 1e-3
    inputs = replace(inputs, alpha_coeff=alpha0)
    a, b = absorption_factors(inputs)
    tau, eta = a * alpha0 * C ** (y - 1), b * alpha0 * C**y
    k = 2 * math.pi * 1e6 / C
    # ρ ~ exp(−iωt + ikx): −iωρ = −ρ₀∇·u, so L1{ρ₀∇·u} = iω k^(y−2) ρ; and ω²ρ = k² p.
    omega = k * C
    for _ in range(200):
        omega = k * C * np.sqrt(1 + tau * k ** (y - 2) * 1j * omega - eta * k ** (y - 1))
    attenuation = -omega.imag / C  # a weak loss decays as fast in time as along the way
    coefficient = alpha0 * 100 / (20 * math.log10(math.e)) / (2 * math.pi * 1e6) ** y
    assert attenuation == pytest.approx(coefficient * (k * C) ** y, rel=2e-3)
    # The speed follows from the Kramers-Kronig relations: eq. (7) of the same paper, with c₀ at ω = 0.
    slowness = 1 / C + coefficient * math.tan(math.pi * y / 2) * (k * C) ** (y - 1)
    assert omega.real / k - C == pytest.approx(1 / slowness - C, rel=5e-3)


def test_absorption_without_dispersion_and_stokes():
    for more in (dict(absorption="power_law", dispersion=False), dict(absorption="stokes")):
        inputs = problem((8, 8, 8), **more)
        a, b = absorption_factors(inputs)
        assert b == eta_factor(inputs) == 0.0
        assert a == -2 * neper_coefficient(inputs.alpha_power)


def test_absorption_coefficients_of_mixed_media(cpu):
    for mixed in ("", "c", "a", "ca"):
        inputs = problem((9, 8, 7), absorption="power_law", mixed=mixed)
        c = Coefficients(cpu, inputs, np.float64)
        y, alpha = inputs.alpha_power, np.asarray(inputs.alpha_coeff, float)
        nepers = alpha * neper_coefficient(y)
        speed = np.asarray(inputs.sound_speed, float)
        assert c.tau.shape == (c.shape if mixed else (1, 1, 9))
        np.testing.assert_allclose(
            c.tau, np.broadcast_to(-2 * nepers * speed ** (y - 1), c.tau.shape), rtol=1e-14
        )
        eta = 2 * nepers * speed**y * math.tan(math.pi * y / 2)
        result = float(c.eta_factor) * np.asarray(c.tau) * speed
        np.testing.assert_allclose(result, np.broadcast_to(eta, result.shape), rtol=1e-14)
        assert absorption_factors(inputs)[1] == pytest.approx(
            eta_factor(inputs) * absorption_factors(inputs)[0], rel=1e-14
        )


@pytest.mark.parametrize("shape", [(24, 20, 18), (9, 7, 5), (9, 8, 1)])
def test_operators_of_k(cpu, shape):
    """k-space correction, source correction and fractional Laplacians, with 1/N in each."""
    inputs = problem(shape, absorption="power_law", alpha_power=1.3)
    c = Coefficients(cpu, inputs, np.float64)
    k = [
        2 * math.pi * np.fft.fftfreq(n, d) if n > 1 else np.zeros(1)
        for n, d in zip(shape, inputs.spacing, strict=True)
    ]
    half = shape[0] // 2 + 1
    k = np.sqrt(k[0][:half] ** 2 + k[1][:, None] ** 2 + k[2][:, None, None] ** 2)
    n, phase = inputs.points, inputs.reference_speed * inputs.dt / 2 * k
    np.testing.assert_allclose(n * c.kappa, np.sinc(phase / math.pi), rtol=1e-14)
    np.testing.assert_allclose(n * c.source_kappa(), np.cos(phase), rtol=0, atol=1e-14)
    assert c.nabla1[0, 0, 0] == c.nabla2[0, 0, 0] == 0
    k[0, 0, 0] = 1
    for operator, power in ((c.nabla1, 1.3 - 2), (c.nabla2, 1.3 - 1)):
        wanted = k**power
        wanted[0, 0, 0] = 0
        np.testing.assert_allclose(n * operator, wanted, rtol=1e-13)


def full_arrays(values):
    """Those among values, and in lists of them, that are more than a row or the vectors of an axis."""
    flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
    return {id(v): v for v in flat if isinstance(v, np.ndarray) and v.ndim == 3 and v.size > max(v.shape)}


@pytest.mark.parametrize(
    "more",
    [
        {},
        dict(mixed="crb", nonlinearity=True),
        dict(mixed="a", absorption="power_law"),
        dict(mixed="c", absorption="power_law", dispersion=False),
        dict(mixed="a", absorption="stokes"),
    ],
    ids=lambda more: more.get("absorption", "lossless"),
)
def test_bytes_without_kappa(cpu, more):
    """κ is an array only if it is asked for: stages that do so count it."""
    inputs = problem((10, 8, 6), **more)
    c = Coefficients(cpu, inputs, np.float64)
    held = full_arrays(vars(c).values())
    needed = Coefficients.nbytes(inputs, c.subdomain, c.dtype, cpu)
    assert sum(array.nbytes for array in held.values()) == needed
    assert id(c.kappa) not in held
    assert c.kappa is c.kappa
    grown = full_arrays(vars(c).values())
    assert sum(array.nbytes for array in grown.values()) == needed + 8 * 6 * 8 * (10 // 2 + 1)


def test_stages_that_store_kappa_count_it(cpu):
    """Plain stages store it before a step is captured; the fused ones of a GPU compute it in each."""
    inputs = problem((10, 8, 6))
    whole, kappa = Subdomain.whole(inputs.shape), 8 * 6 * 8 * (10 // 2 + 1)
    fields, spectra = 8 * inputs.points, 2 * kappa
    assert PlainStages.nbytes(inputs, np.dtype(float), cpu, whole) == 3 * fields + 3 * spectra + kappa
    assert FusedCudaStages.nbytes(inputs, np.dtype(float), EmulatedDevice(), whole) == 3 * spectra
    assert "kappa" in vars(make_stages(cpu, inputs, np.float64, plain=True).coefficients)


def test_derivatives_are_those_of_the_axes():
    inputs = problem((8, 7, 6))
    for sign in (1, -1):
        x, y, z = derivatives(inputs, sign)
        assert (x.size, y.size, z.size) == (5, 7, 6)
        for vector, n, spacing in zip((x, y, z), inputs.shape, inputs.spacing, strict=True):
            k = 2 * math.pi / (n * spacing)  # the lowest wave
            assert vector[1] == pytest.approx(1j * k * np.exp(sign * 1j * k * spacing / 2), rel=1e-14)
    assert len(derivatives(problem((8, 7, 1)), 1)) == 2
    assert len(unstaggering(problem((8, 7, 1)))) == 2


def test_a_uniform_medium_is_one_row(cpu):
    c = Coefficients(cpu, problem((9, 8, 7)), np.float32)
    assert c.speed.shape == c.density.shape == c.staggered[2].shape == (1, 1, 9)
    c = Coefficients(cpu, problem((9, 8, 7), mixed="r"), np.float32)
    assert c.density.shape == (7, 8, 9)
    assert c.speed.shape == (1, 1, 9)


def test_fields_by_name(cpu):
    for shape, names in (
        ((5, 4, 3), ["p", "ux", "uy", "uz", "rho"]),
        ((5, 4, 1), ["p", "ux", "uy", "rho"]),
    ):
        fields = Fields(Coefficients(cpu, problem(shape, pml=False), np.float32))
        assert list(fields.named()) == names
        assert all(field.shape == shape[::-1] and not field.any() for field in fields.named().values())
        assert len(fields.three(fields.u)) == 3


@pytest.mark.parametrize(("shape", "axes"), [((24, 20, 18), "xyz"), ((24, 20, 1), "xy")])
def test_parts_of_the_density_are_kept_in_the_layers(cpu, shape, axes):
    """Of x within the layers at the ends of x, the whole length of y and z; and so on."""
    inputs = problem(shape)
    c = Coefficients(cpu, inputs, np.float32)
    fields, total = Fields(c), math.prod(shape)
    named, count = fields.named(), 0
    assert [name for name in named if name.startswith("rho")] == ["rho", *(f"rho{axis}" for axis in axes)]
    for axis, name in enumerate(axes):
        wanted = list(shape[::-1])
        wanted[2 - axis] = 2 * inputs.pml_size[axis]
        assert named[f"rho{name}"].shape == tuple(wanted)
        count += math.prod(wanted)
    assert Fields.nbytes(inputs, c.subdomain, c.dtype) == 4 * ((2 + len(axes)) * total + count)
    assert sum(field.nbytes for field in named.values()) == 4 * ((2 + len(axes)) * total + count)


def test_layers_of_a_block_are_those_of_the_grid(cpu):
    """A block whose overlap reaches around the grid has layers amid its points; one inside has none."""
    inputs = problem((24, 20, 40))
    around, inside = decompose(inputs.shape, 4, Decomposition("local", (1, 1, 4), overlap=6)).subdomains[:2]
    split_layers = Fields(
        Coefficients(cpu, restrict_problem(inputs, around), np.float64, None, around)
    ).split_layers
    assert split_layers.z.shape[0] == 8
    assert (np.flatnonzero(split_layers.at_z >= 0) == 2 + np.arange(8)).all()
    split_layers = Fields(
        Coefficients(cpu, restrict_problem(inputs, inside), np.float64, None, inside)
    ).split_layers
    assert split_layers.z.size == 0
    assert (split_layers.at_z == -1).all()
    assert split_layers.runs.tolist() == [[0, 3, 0], [21, 24, 3]]

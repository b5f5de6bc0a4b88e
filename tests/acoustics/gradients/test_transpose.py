"""The gradient as a transpose, medium by medium and source by source, and its remainder of second order."""

from dataclasses import replace
from functools import cache

import gradient_cases as g
import numpy as np
import plain_step
import pytest
from emulated_device import CapturingDevice
from plain_solver import PlainSolver
from test_gradient import gradient_of

from wavefabric.acoustics import Grid, Sensor
from wavefabric.acoustics.fused.axis_blocks import usable
from wavefabric.runtime.device import get_device

POWER, STOKES = dict(alpha_power=1.4), dict(absorption="stokes")
#: Name to (what varies from point to point, other keywords of `Medium`).
LINEAR = {"lossless": ("cr", {}), "power law": ("cra", POWER), "Stokes": ("cra", STOKES)}
LINEAR["no dispersion"] = "cra", POWER | dict(dispersion=False)
MEDIA = LINEAR | {"nonlinear": ("crb", {}), "nonlinear Stokes": ("crab", STOKES), "uniform": ("", POWER)}
MEDIA["nonlinear power law"] = "crab", POWER
SOURCES = "p0", "additive", "dirichlet", "additive_no_correction", "transducer"
GRIDS = {"2-D": Grid((14, 11), (g.DX, 1.2 * g.DX), pml_size=(3, 2))}
GRIDS["plane"] = Grid((14, 10), (g.DX, 1.2 * g.DX), pml_size=(3, 2))
GRIDS["3-D"] = Grid((8, 5, 6), (g.DX, 1.1 * g.DX, 0.9 * g.DX), pml_size=2, pml_inside=False)
#: Largest change of a parameter, of its largest value: what the objective hardly feels is changed more.
CHANGES = dict(sound_speed=1e-2, density=1e-2, alpha_coeff=0.15, nonlinearity=30.0, p0=0.05, p=0.05, ux=0.05)

pytestmark = pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")
GPU = pytest.param("cuda", marks=pytest.mark.gpu)
grids = pytest.mark.parametrize("dimensions", ["2-D", pytest.param("3-D", marks=pytest.mark.slow)])
sources = pytest.mark.parametrize("source", SOURCES)


def some(media, *usual):
    """The others combine what these have."""
    cases = [pytest.param(name, marks=[pytest.mark.slow] * (name not in usual)) for name in media]
    return pytest.mark.parametrize("medium", cases)


@cache
def made(dimensions, medium, source, seed=0):
    """A case whose signals, and initial pressure, depend on a seed."""
    grid, (varies, more) = GRIDS[dimensions], MEDIA[medium]
    values = dict(sound_speed=g.C, density=g.RHO) | g._varied(grid.shape, varies, 3)
    values |= dict(alpha_coeff=4.0, nonlinearity=6.0) if medium == "uniform" else {}
    where, sensor = g._mask(grid.shape, 5, 8), g._mask(grid.shape, 6, 9)
    case = g.Case(grid, Sensor(sensor, ("p", "u", "p_final", "u_final")), values, more)
    if source == "p0":
        values["p0"] = g.PRESSURE * g.noise(grid.shape, 20 + seed)
        return replace(case, source=dict(smooth=False))
    if source == "transducer":
        values["transducer"] = 20 * g.noise(17, 21 + seed)
        return replace(case, transducer=dict(mask=where, delay=np.array([0, 3, 1, 16, 2])))
    values |= zip(("ux", "uy", "uz")[: grid.dimensions], g.noise((3, 5, g.STEPS), 22 + seed), strict=False)
    values |= dict(uy=values["uy"][0, :15], p=g.PRESSURE * g.noise((5, g.STEPS - 3), 23 + seed))
    masks = dict(p_mask=where, u_mask=where[..., ::-1])
    return replace(case, source=masks | dict(p_mode=source, u_mode=source))


def check(products, wanted, tolerance):
    """A sum is as wanted; its error is measured by what it sums."""
    size = np.linalg.norm(np.concatenate([np.ravel(product) for product in products]))
    assert abs(sum(map(np.sum, products)) - wanted) <= tolerance * size


def sources_of(case):
    return tuple(name for name in case.values if name in ("p0", "p", "ux", "uy", "uz", "transducer"))


def weighted(results):
    """Σ w r of all that is recorded, with weights w that are noise; and its derivatives."""
    by = g.mapped(lambda name, _, weights: weights / g._scale(name), results)
    return sum(np.sum(by[name] * results[name]) for name in by), by


@grids
@sources
@some(LINEAR, "power law", "Stokes")
def test_sources_of_a_linear_medium(dimensions, medium, source):
    """⟨A x, y⟩ = ⟨x, Aᵀ y⟩, where Aᵀ y is of a run with other sources."""
    case, other = (made(dimensions, medium, source, seed) for seed in (0, 50))
    gradient = gradient_of(other, sources_of(case), function=weighted)
    products = [gradient[name] * case.values[name] for name in sources_of(case)]
    check(products, weighted(case.results(case.values))[0], 1e-12)


class ComplexSolver(PlainSolver):
    """The plain solver of complex fields: an analytic function of medium and sources."""

    def __init__(self, problem, xp=np):
        super().__init__(problem, xp)
        self.p, self.u, self.rho = self.p + 0j, [u + 0j for u in self.u], [rho + 0j for rho in self.rho]

    def double(self, values):
        return np.asarray(values, complex)

    def multiplied(self, field, operator, symmetry="even"):
        real = super().multiplied(field.real, operator, symmetry)
        return real + 1j * super().multiplied(field.imag, operator, symmetry)


@grids
@sources
@some(MEDIA, "no dispersion", "nonlinear Stokes", "nonlinear power law")
def test_all_parameters_by_a_complex_step(dimensions, medium, source, monkeypatch):
    """⟨J x, y⟩ = ⟨x, Jᵀ y⟩: J x is Im f(a + i h x)/h of the plain solver, without truncation."""
    case = made(dimensions, medium, source)
    gradient = gradient_of(case, tuple(case.values))
    monkeypatch.setattr(plain_step, "PlainSolver", ComplexSolver)
    for name, value in case.values.items():
        change = np.max(np.abs(value)) * g.noise(np.shape(value), 70)
        moved = plain_step.plain_results(case, case.values | {name: value + 1e-30j * change})
        check([gradient[name] * change], g.objective(moved).imag / 1e-30, 1e-12)


@grids
@pytest.mark.parametrize("name", CHANGES)
def test_remainder_of_second_order(dimensions, name):
    """f(x + h d) − f(x) − h ⟨∇f, d⟩ falls as h², over five decades of h."""
    base, driven = (made(dimensions, "nonlinear power law", source) for source in ("p0", "additive"))
    case = replace(driven, values=base.values | driven.values, source=base.source | driven.source)
    value, steps, gradient = case.values[name], 10.0 ** -np.arange(6), gradient_of(case, (name,))
    change = CHANGES[name] * np.max(np.abs(value)) * g.noise(np.shape(value), 61)
    moved = [g.objective(case.results(case.values | {name: value + step * change})) for step in steps]
    rest = np.abs(np.array(moved) - gradient.value - steps * np.sum(gradient[name] * change))
    np.testing.assert_allclose(np.log10(rest[:-1] / rest[1:]), 2, atol=0.1)


@grids
@sources
def test_single_precision(dimensions, source):
    case = made(dimensions, "nonlinear power law", source)
    single = gradient_of(case, tuple(case.values), precision="single")
    for name, value in gradient_of(case, tuple(case.values)).items():
        assert 0 < np.abs(single[name] - value).max() < 1e-5 * np.abs(value).max(), name


@pytest.mark.parametrize("device", [pytest.param("emulated", marks=pytest.mark.slow), GPU])
@pytest.mark.parametrize("states", [9, None])
@pytest.mark.parametrize("medium", ["nonlinear power law", "nonlinear Stokes", "lossless"])
@pytest.mark.parametrize("dimensions", ["plane", "3-D"])
def test_fused_gpu_stages(dimensions, medium, states, device):
    """With all states stored the adjoint steps are graphs."""
    case = made(dimensions, medium, "additive" if medium == "lossless" else "p0")
    assert usable(*case.grid.total_shape, np.float64)
    emulated = CapturingDevice() if device == "emulated" else None
    fused = gradient_of(case, tuple(case.values), device=emulated or get_device(device), states=states)
    assert emulated is None or emulated.graphs > 2
    for name, value in gradient_of(case, tuple(case.values)).items():
        assert np.abs(fused[name] - value).max() <= 1e-11 * np.abs(value).max(), name

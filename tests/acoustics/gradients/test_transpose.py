"""The gradient as a transpose, medium by medium and source by source, and its remainder of second order."""

from dataclasses import replace
from functools import cache

import numpy as np
import plain_step
import pytest
from gradient_cases import (
    DX,
    PRESSURE,
    RHO,
    STEPS,
    VELOCITY,
    C,
    Case,
    _mask,
    _scale,
    _varied,
    mapped,
    noise,
    objective,
)
from plain_solver import PlainSolver
from test_gradient import gradient_of

from wavefabric.acoustics import Grid, Sensor
from wavefabric.acoustics.gradients.gradient import PARAMETERS
from wavefabric.acoustics.solver.adjoint_sources import SOURCES as SIGNALS

pytestmark = pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")

#: Largest change of a parameter, of its largest value: what the objective hardly feels is changed more.
CHANGES = dict(sound_speed=1e-2, density=1e-2, alpha_coeff=0.15, nonlinearity=30.0, p0=5e-2, p=5e-2, ux=5e-2)
POWER, SERIES = dict(alpha_power=1.4), ("p", "u", "p_final", "u_final")
#: Name to (what varies from point to point, other keywords of `Medium`).
LINEAR = {
    "lossless": ("cr", {}),
    "power law": ("cra", POWER),
    "no dispersion": ("cra", POWER | dict(dispersion=False)),
    "Stokes": ("cra", dict(absorption="stokes")),
}
MEDIA = LINEAR | {
    "nonlinear": ("crb", {}),
    "nonlinear Stokes": ("crab", dict(absorption="stokes")),
    "nonlinear power law": ("crab", POWER),
    "uniform": ("", POWER),
}
SOURCES = "p0", "additive", "dirichlet", "additive_no_correction", "transducer"
GRIDS = {
    "2-D": Grid((14, 11), (DX, 1.2 * DX), pml_size=(3, 2)),
    "3-D": Grid((8, 7, 6), (DX, 1.1 * DX, 0.9 * DX), pml_size=2, pml_inside=False),
}


@cache
def made(dimensions, medium, source, seed=0):
    """A case whose signals, and initial pressure, depend on a seed."""
    grid, (varies, more) = GRIDS[dimensions], MEDIA[medium]
    values = dict(sound_speed=C, density=RHO) | _varied(grid.shape, varies, 3)
    if medium == "uniform":
        values |= dict(alpha_coeff=4.0, nonlinearity=6.0)
    where, forms, sensor = _mask(grid.shape, 5, 8), {}, Sensor(_mask(grid.shape, 6, 9), SERIES)
    if source == "p0":
        values["p0"], forms = PRESSURE * noise(grid.shape, 20 + seed), dict(smooth=False)
    elif source == "transducer":
        values["transducer"] = 20 * VELOCITY * noise(17, 21 + seed)
        delay = dict(mask=where, delay=np.array([0, 3, 1, 16, 2]))
        return Case(grid, sensor, values, more, transducer=delay)
    else:
        names = "ux", "uy", "uz"
        signals = VELOCITY * noise((3, 5, STEPS), 22 + seed)
        values |= dict(zip(names[: grid.dimensions], signals, strict=False))
        values |= dict(uy=values["uy"][0, :15], p=PRESSURE * noise((5, STEPS - 3), 23 + seed))
        forms = dict(p_mask=where, u_mask=where[..., ::-1], p_mode=source, u_mode=source)
    return Case(grid, sensor, values, more, forms)


def check(products, wanted, tolerance):
    """A sum is as wanted; its error is measured by what it sums."""
    size = np.linalg.norm(np.concatenate([np.ravel(product) for product in products]))
    assert abs(sum(map(np.sum, products)) - wanted) <= tolerance * size


def sources_of(case):
    return tuple(name for name in case.values if name in PARAMETERS[: 1 + len(SIGNALS)])


def weighted(results):
    """Σ w r of all that is recorded, with weights w that are noise; and its derivatives."""
    by = mapped(lambda name, _, weights: weights / _scale(name), results)
    return sum(np.sum(by[name] * results[name]) for name in by), by


@pytest.mark.parametrize("dimensions", GRIDS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("medium", LINEAR)
def test_sources_of_a_linear_medium(dimensions, medium, source):
    """⟨A x, y⟩ = ⟨x, Aᵀ y⟩, where Aᵀ y is of a run with other sources."""
    case, other = (made(dimensions, medium, source, seed) for seed in (0, 50))
    gradient = gradient_of(other, sources_of(case), function=weighted)
    products = [gradient[name] * case.values[name] for name in sources_of(case)]
    check(products, weighted(case.results(case.values))[0], 1e-12)


class ComplexStepSolver(PlainSolver):
    """The plain solver of complex fields: an analytic function of medium and sources."""

    def __init__(self, problem, xp=np):
        super().__init__(problem, xp)
        self.p, self.u, self.rho = self.p + 0j, [u + 0j for u in self.u], [rho + 0j for rho in self.rho]

    def double(self, values):
        return np.asarray(values, complex)

    def multiplied(self, field, operator, symmetry="even"):
        real, imaginary = (super(ComplexStepSolver, self).multiplied(part, operator, symmetry)
                           for part in (field.real, field.imag))  # fmt: skip
        return real + 1j * imaginary


@pytest.mark.parametrize("dimensions", GRIDS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("medium", MEDIA)
def test_all_parameters_by_a_complex_step(dimensions, medium, source, monkeypatch):
    """⟨J x, y⟩ = ⟨x, Jᵀ y⟩: J x is Im f(a + i h x)/h of the plain solver, without truncation."""
    case, step = made(dimensions, medium, source), 1e-30
    gradient = gradient_of(case, tuple(case.values))
    monkeypatch.setattr(plain_step, "PlainSolver", ComplexStepSolver)
    for seed, (name, value) in enumerate(case.values.items()):
        change = np.max(np.abs(value)) * noise(np.shape(value), 70 + seed)
        moved = case.values | {name: value + 1j * step * change}
        slope = objective(plain_step.plain_results(case, moved)).imag / step
        check([gradient[name] * change], slope, 1e-12)


@pytest.mark.parametrize("dimensions", GRIDS)
@pytest.mark.parametrize("name", CHANGES)
def test_remainder_of_second_order(dimensions, name):
    """f(x + h d) − f(x) − h ⟨∇f, d⟩ falls as h², over five decades of h."""
    base, driven = (made(dimensions, "nonlinear power law", source) for source in ("p0", "additive"))
    case = replace(driven, values=base.values | driven.values, source=base.source | driven.source)
    value = case.values[name]
    direction = CHANGES[name] * np.max(np.abs(value)) * noise(np.shape(value), 60)
    gradient = gradient_of(case, (name,))
    slope = np.sum(gradient[name] * direction)
    steps = 10.0 ** -np.arange(6)
    moved = [objective(case.results(case.values | {name: value + step * direction})) for step in steps]
    rest = np.abs(np.array(moved) - gradient.value - steps * slope)
    np.testing.assert_allclose(np.log10(rest[:-1] / rest[1:]), 2, atol=0.1)


@pytest.mark.parametrize("dimensions", GRIDS)
@pytest.mark.parametrize("source", ["p0", "additive", "transducer"])
def test_single_precision(dimensions, source):
    case = made(dimensions, "nonlinear power law", source)
    single, double = (
        gradient_of(case, tuple(case.values), precision=precision) for precision in ("single", "double")
    )
    for name, value in double.items():
        error = np.abs(single[name] - value).max() / np.abs(value).max()
        assert 0 < error < 1e-5, name

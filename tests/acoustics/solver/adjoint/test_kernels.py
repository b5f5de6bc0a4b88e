"""Every kernel of the adjoint time step against plain NumPy in double precision, on CPU and CUDA."""

import itertools

import numpy as np
import pytest
from emulated_device import opened
from kernel_cases import DEVICES, TOLERANCE, Case, split
from random_problems import _along as along

from wavefabric.acoustics.solver.adjoint.kernels import TABLE

#: Nonlinear, lossy, Stokes, disperses.
KINDS = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 1, 0), (1, 1, 0, 0), (1, 1, 0, 1)]
kinds = pytest.mark.parametrize("kind", [tuple(map(bool, kind)) for kind in KINDS])
full = pytest.mark.parametrize("full", [True, False], ids=["full", "row"])
with_density = pytest.mark.parametrize("with_density", [True, False], ids=["gradient", "no gradient"])


@pytest.fixture(scope="module", params=["cpu 2", *DEVICES[2:]])
def device(request):
    return opened(request.param)


@pytest.fixture(
    params=[
        pytest.param((shape, dtype), marks=[pytest.mark.slow] * (shape[0] != 5))
        for shape, dtype in itertools.product(((1, 1, 40), (5, 7, 9), (2, 3, 301)), TOLERANCE)
    ],
    ids=str,
)
def case(device, request):
    return AdjointCase(device, *request.param)


@pytest.fixture
def kernels(device):
    return device.kernels(TABLE)


class AdjointCase(Case):
    """Random fields whose adjoint densities have no sum, and what is with_density for only at times."""

    def several_of(self, count, make=None, *arguments):
        return split([(make or self.real)(*arguments) for _ in range(count)])

    def gradient(self, with_density):
        return self.real() if with_density else self.pair(np.zeros((0, 1, 1)))

    def bars(self):
        """What no layer damps, the layers, and on the host that, all parts, and factors."""
        _, layers, parts, factors = self.split()
        total, bar = self.real()
        inside = [along(self.device.to_host(at) >= 0, axis) for axis, at in enumerate(layers[3:6])]
        whole = [np.where(here, part, bar) for here, part in zip(inside, parts, strict=False)]
        return total, layers, bar, whole, [along(f, axis) for axis, f in enumerate(factors)]

    def close(self, got, wanted, size=1.0):
        """To the round-off of terms of this size."""
        self.check(got, wanted, 16 * TOLERANCE[self.dtype] * max(size / abs(wanted).max(), 1))

    def check_bars(self, total, layers, bar, parts):
        self.close(total, bar)
        for axis, (at, part, wanted) in enumerate(zip(layers[3:6], layers.parts, parts, strict=False)):
            if (inside := self.device.to_host(at) >= 0).any():
                self.close(part, np.compress(inside, wanted, 2 - axis))


@full
@pytest.mark.parametrize("disperses", [True, False])
def test_adjoint_losses(case, kernels, full, disperses):
    (loss, shift, p), (_, kept, bar) = case.several_of(3)
    media, (c, tau) = case.several_of(2, case.parameter, full)
    kernels.adjoint_losses(loss, shift, p, *media, case.dtype(-1.75), disperses)
    case.close(loss, tau * c**2 * bar)
    case.close(shift, -1.75 * tau * c**3 * bar if disperses else kept)


@full
@kinds
def test_adjoint_pressure(case, kernels, full, kind):
    nonlinear, lossy, stokes, disperses = kind
    total, layers, bar, parts, _ = case.bars()
    media, (c, rho0, ratio, tau) = case.several_of(4, case.parameter, full)
    fields, (rate, p, rho, loss, shift) = case.several_of(5)
    kernels.adjoint_pressure(total, layers, *fields[:3], *media, *fields[3:], *kind)
    more = c**2 * p * (1 + nonlinear * ratio * rho / rho0) - disperses * shift
    case.check_bars(total, layers, bar + more, [part + more for part in parts])
    kernels.density_sum(fields[1], total, layers, case.dtype(case.axes))
    case.close(fields[1], sum(parts) + case.axes * more)
    case.close(fields[0], rho0 * (tau * c**2 * p if stokes else loss) if lossy else rate)


@full
@with_density
@kinds
def test_adjoint_density(case, kernels, full, with_density, kind):
    nonlinear, lossy, *_ = kind
    total, layers, bar, parts, factors = case.bars()
    (before, layers_before, b, _), (after, layers_after, a, _) = case.split(), case.split()
    (rho0, rho0_host), (slopes, rates) = case.parameter(full), split(case.several(case.real))
    (gradient, sums), differs = case.gradient(with_density), nonlinear or with_density
    forward = gradient, before, layers_before, after, layers_after
    kernels.adjoint_density(
        total, layers, *slopes, rho0, *forward, case.dtype(0.25), nonlinear, lossy, differs, case.axes
    )
    mass, each = rho0_host + 2 * nonlinear * sum(b), list(zip(parts, factors, strict=False))
    for got, (part, f) in zip(slopes, each, strict=False):
        case.close(got, lossy * rates[0] - 0.25 * mass * f * part)
    terms = [part * (x - f**2 * y) / mass for (part, f), x, y in zip(each, a, b, strict=False)]
    work, size = differs * sum(terms), max(abs(term).max() for term in terms)
    more = 2 * nonlinear * work
    case.check_bars(total, layers, bar + more, [f**2 * part + more for part, f in each])
    if with_density:
        case.close(gradient, sums + work, size)


@full
@with_density
@pytest.mark.parametrize("subtracts", [True, False])
def test_adjoint_velocity(case, kernels, full, with_density, subtracts):
    for axis in range(case.axes):
        fields, (u, g, before, after) = case.several_of(4)
        (rho, rho_host), (pml, f) = case.parameter(full), case.real((case.shape[2 - axis],))
        (gradient, sums), f, bar = case.gradient(with_density), along(f, axis), u - subtracts * g
        arguments = *fields[:2], rho, pml, gradient, *fields[2:], axis, case.dtype(0.25), subtracts
        kernels.adjoint_velocity(*arguments)
        case.close(fields[0], f**2 * bar)
        case.close(fields[1], f * 0.25 / rho_host * bar)
        if with_density:
            case.close(gradient, sums + bar * (f**2 * before - after) / rho_host)


@full
@pytest.mark.parametrize(
    ("which", "absorbs"), [((0, 1, 2, 3), True), ((0,), False), ((1, 2), False), ((3,), False)]
)
@kinds
def test_medium_gradients(case, kernels, full, which, absorbs, kind):
    (nonlinear, lossy, _, disperses), absorbs = kind, absorbs and kind[1]
    sums, more = [case.gradient(i in which) for i in range(4)], case.real()
    fields, (bar, p, rho) = case.several_of(3)
    media, (c, rho0, ratio, tau, unit) = case.several_of(5, case.parameter, full)
    gradients, constants = split(sums)[0], (case.dtype(1.5), case.dtype(-1.75))
    kernels.medium_gradients(
        fields[0], *gradients, *fields[1:], *media, more[0], *constants, nonlinear, lossy, disperses, absorbs
    )
    square, shift = nonlinear * rho**2 / (2 * rho0), disperses * -1.75 * more[1]
    absorbed = p / c**2 - rho - ratio * square
    wanted = [
        2 * bar * p / c + bar * c * (lossy * 0.5 * absorbed - c * tau * shift),
        -bar * c**2 * ratio * square / rho0,
        bar * c**2 * absorbed / unit if absorbs else -bar * c**3 * unit * shift,
        bar * c**2 * square,
    ]
    for i in which:
        case.close(gradients[i], sums[i][1] + wanted[i], 9)


@full
@with_density
@pytest.mark.parametrize("nonlinear", [True, False], ids=["nonlinear", "linear"])
def test_rate_and_alpha(case, kernels, full, with_density, nonlinear):
    """Where ρ_ξ,after = f (f ρ_ξ,before − Δt m ∂u), the rate is ρ₀ ∇·u."""
    (before, layers_before, b, _), (after, layers_after, a, factors) = case.split(), case.split()
    (media, (rho0, c, unit)), dt = case.several_of(3, case.parameter, full), case.dtype(0.25)
    (gradient, sums), (rate, _), (rate_bar, bar) = case.gradient(with_density), case.real(), case.real()
    forward = before, layers_before, after, layers_after
    kernels.forward_rate(rate, layers_after, rate_bar, media[0], gradient, *forward, dt, nonlinear)
    pairs = zip(b, a, map(along, factors, range(3)), strict=False)
    divergence = sum(f * x - y / f for x, y, f in pairs) / (0.25 * (rho0 + 2 * nonlinear * sum(b)))
    case.close(rate, rho0 * divergence, 30)
    if with_density:
        case.close(gradient, sums + bar * divergence / rho0, 30)
        kernels.alpha_gradient(gradient, rate_bar, *media[1:], rate)
        case.close(gradient, sums + bar * divergence * (1 / rho0 + c**2 * unit * rho0), 60)


@pytest.mark.parametrize("points", [9, 0])
def test_add_readings(case, kernels, points):
    (field, wanted), (values, rows), rng = case.real(), case.real((4, 6)), np.random.default_rng(1)
    index, bounds = rng.permutation(wanted.size)[:points], np.arange(points + 1) ** 2
    columns, weights = rng.integers(0, 6, points**2), rng.random(points**2)
    step = case.put(np.array([14]))  # the third of four rows
    kernels.add_readings(field, *map(case.put, (index, bounds, columns, weights)), values, step)
    for at, low, high in zip(index, bounds, bounds[1:], strict=False):
        wanted.reshape(-1)[at] += weights[low:high] @ rows[2, columns[low:high]]
    case.close(field, wanted)


@pytest.mark.parametrize(("firsts", "columns", "count"), [([2], 1, 9), ([2], 9, 1), (range(9), 9, 9)])
def test_accumulate_products(case, kernels, firsts, columns, count):
    """Nothing is added beyond the signal's end."""
    (sums, wanted), (field, host) = case.real((9,)), case.real()
    index, first = np.random.default_rng(1).permutation(host.size)[:9], np.array(firsts)
    (signal, s), (weights, w) = case.real((6, columns)), case.real((count,))
    kernels.accumulate_products(sums, field, case.put(index), signal, case.put(first), weights)
    values = np.vstack([s, np.zeros((3, columns))])[np.broadcast_to(first, 9), np.arange(9) % columns]
    case.close(sums, wanted + host.reshape(-1)[index] * w * values)

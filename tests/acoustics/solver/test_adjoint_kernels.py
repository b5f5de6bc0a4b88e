"""Every kernel of the adjoint time step against plain NumPy in double precision, on CPU and CUDA."""

import itertools

import numpy as np
import pytest
from kernel_cases import DEVICES, SHAPES, TOLERANCE, Case, opened, split

from wavefabric.acoustics.solver.adjoint_kernels import MediumGradients

FLAGS = [("lossless", False, False, False), ("nonlinear", True, False, False), ("Stokes", False, True, False)]
FLAGS += [("no dispersion", True, True, False), ("everything", True, True, True)]
kinds = pytest.mark.parametrize(("kind", "nonlinear", "lossy", "disperses"), FLAGS)
full = pytest.mark.parametrize("full", [True, False], ids=["full", "row"])


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    return opened(request.param)


@pytest.fixture(
    params=itertools.product(SHAPES, (np.float64, np.float32)), ids=lambda p: f"{p[0]} {p[1].__name__}"
)
def case(device, request):
    return Case(device, *request.param)


@pytest.fixture
def kernels(device):
    return device.kernels("wavefabric.acoustics.solver.adjoint_kernels")


def bars(case):
    """An adjoint density: what no layer damps, the layers, and on the host that, all parts, and factors."""
    _, layers, parts, factors = case.split()
    (total, bar), inside = case.real(), [case.device.to_host(at) >= 0 for at in layers[3:6]]
    along = [each.reshape([-1 if 2 - i == axis else 1 for i in range(3)]) for axis, each in enumerate(inside)]
    whole = [np.where(here, part, bar) for here, part in zip(along, parts, strict=False)]
    factors = [f.reshape(each.shape) for f, each in zip(factors, along, strict=True)]
    return total, layers, bar, whole, factors


def close(case, got, wanted, size=1.0):
    """To round-off of sums of terms of this size."""
    error = abs(case.device.to_host(got) - wanted).max()
    assert error <= 16 * TOLERANCE[case.dtype] * max(size, abs(wanted).max())


def check_bars(case, total, layers, bar, parts):
    close(case, total, bar)
    for axis, (at, part, wanted) in enumerate(zip(layers[3:6], layers.parts, parts, strict=False)):
        if (inside := case.device.to_host(at) >= 0).any():
            close(case, part, np.compress(inside, wanted, 2 - axis))


@full
@pytest.mark.parametrize("disperses", [True, False])
def test_adjoint_losses(case, kernels, full, disperses):
    (loss, _), (shift, kept), (p, bar) = case.real(), case.real(), case.real()
    (c, tau), (c_host, tau_host) = split([case.parameter(full) for _ in range(2)])
    kernels.adjoint_losses(loss, shift, p, c, tau, case.dtype(-1.7), disperses)
    close(case, loss, tau_host * c_host**2 * bar)
    close(case, shift, float(case.dtype(-1.7)) * tau_host * c_host**3 * bar if disperses else kept)


@full
@kinds
def test_adjoint_pressure(case, kernels, full, kind, nonlinear, lossy, disperses):
    total, layers, bar, parts, _ = bars(case)
    media, (c, rho0, ratio, tau) = split([case.parameter(full) for _ in range(4)])
    fields, (rate, p, rho, loss, shift) = split([case.real() for _ in range(5)])
    kernels.adjoint_pressure(
        total, layers, *fields[:3], *media, *fields[3:], nonlinear, lossy, kind == "Stokes", disperses
    )
    more = c**2 * p * (1 + nonlinear * ratio * rho / rho0) - disperses * shift
    check_bars(case, total, layers, bar + more, [part + more for part in parts])
    close(case, fields[0], rho0 * (tau * c**2 * p if kind == "Stokes" else loss) if lossy else rate)


@full
@pytest.mark.parametrize("asked", [True, False], ids=["gradient", "no gradient"])
@kinds
def test_adjoint_density(case, kernels, full, asked, kind, nonlinear, lossy, disperses):
    total, layers, bar, parts, factors = bars(case)
    (before, layers_before, b, _), (after, layers_after, a, _) = case.split(), case.split()
    (rho0, rho0_host), slopes = case.parameter(full), split(case.several(case.real))
    gradient, sums = case.real() if asked else case.pair(np.zeros((0, 1, 1)))
    dt, differs = case.dtype(0.3), nonlinear or asked
    kernels.adjoint_density(
        total, layers, *slopes[0], rho0, gradient, before, layers_before, after, layers_after,
        dt, nonlinear, lossy, differs, case.axes,
    )  # fmt: skip
    mass, each = rho0_host + 2 * nonlinear * sum(b), list(zip(parts, factors, strict=False))
    for got, rate, (part, f) in zip(slopes[0], [slopes[1][0]] * 3, each, strict=False):
        close(case, got, lossy * rate - float(dt) * mass * f * part)
    terms = [part * (x - f**2 * y) for (part, f), x, y in zip(each, a, b, strict=False)]
    work = sum(terms) / mass * differs
    more, size = 2 * nonlinear * work, 3 * max(abs(term).max() for term in terms)
    check_bars(case, total, layers, bar + more, [f**2 * part + more for part, f in each])
    if asked:
        close(case, gradient, sums + work, size)


@full
@pytest.mark.parametrize("asked", [True, False], ids=["gradient", "no gradient"])
@pytest.mark.parametrize("subtracts", [True, False])
def test_adjoint_velocity(case, kernels, full, asked, subtracts):
    for axis in range(case.axes):
        fields, (u, g, before, after) = split([case.real() for _ in range(4)])
        (rho, rho_host), (pml, f) = case.parameter(full), case.real((case.shape[2 - axis],))
        gradient, sums = case.real() if asked else case.pair(np.zeros((0, 1, 1)))
        f, bar, dt = (
            f.reshape([-1 if 2 - i == axis else 1 for i in range(3)]),
            u - subtracts * g,
            case.dtype(0.3),
        )
        kernels.adjoint_velocity(*fields[:2], rho, pml, gradient, *fields[2:], axis, dt, subtracts)
        close(case, fields[0], f**2 * bar)
        close(case, fields[1], f * float(dt) / rho_host * bar)
        if asked:
            close(case, gradient, sums + bar * (f**2 * before - after) / rho_host)


@full
@pytest.mark.parametrize("asked", [(0, 1, 2, 3), (0,), (1, 2), (3,)])
@kinds
def test_medium_gradients(case, kernels, full, asked, kind, nonlinear, lossy, disperses):
    sums = [case.real() if i in asked else case.pair(np.zeros((0, 1, 1))) for i in range(4)]
    fields, (bar, p, rho) = split([case.real() for _ in range(3)])
    media, (c, rho0, ratio, tau, unit) = split([case.parameter(full) for _ in range(5)])
    more, (loss, shift, flow, rate) = split([case.real() for _ in range(4)])
    y, eta = case.dtype(1.4), case.dtype(-1.7)
    gradients = MediumGradients(*split(sums)[0])
    kernels.medium_gradients(gradients, *fields, *media, *more, y, eta, nonlinear, lossy, disperses)
    y, eta = float(y), float(eta)
    wanted = [
        2 * bar * p / c + bar * c * tau * (lossy * (y - 1) * loss - disperses * c * y * eta * shift),
        lossy * flow * rate / rho0 - nonlinear * bar * c**2 * ratio * (rho / rho0) ** 2 / 2,
        bar * c**2 * unit * (loss - disperses * c * eta * shift),
        nonlinear * bar * c**2 * rho**2 / (2 * rho0),
    ]
    for i in asked:
        close(case, gradients[i], sums[i][1] + wanted[i], 4)


def test_density_sum(case, kernels):
    total, layers, _, parts, _ = bars(case)
    out = case.real()[0]
    kernels.density_sum(out, total, layers, case.dtype(case.axes))
    close(case, out, sum(parts))


@pytest.mark.parametrize("points", [9, 0])
def test_add_readings(case, kernels, points):
    (field, wanted), (values, rows), rng = case.real(), case.real((4, 6)), np.random.default_rng(1)
    index, bounds = rng.permutation(wanted.size)[:points], np.arange(points + 1) ** 2
    columns, weights = rng.integers(0, 6, points**2), rng.random(points**2)
    kernels.add_readings(field, *map(case.put, (index, bounds, columns, weights)), values, 2)
    by = weights * rows[2, columns]
    wanted.reshape(-1)[index] += [by[a:b].sum() for a, b in itertools.pairwise(bounds)]
    close(case, field, wanted)


@pytest.mark.parametrize(
    ("firsts", "columns", "several"), [([2], 1, True), ([2], 9, False), (range(9), 9, True)]
)
def test_accumulate_products(case, kernels, firsts, columns, several):
    (sums, wanted), (field, host) = case.real((9,)), case.real()
    index, first = np.random.default_rng(1).permutation(host.size)[:9], np.array(firsts)
    (signal, s), (weights, w) = case.real((6, columns)), case.real((9 if several else 1,))
    kernels.accumulate_products(sums, field, case.put(index), signal, case.put(first), weights)
    padded = np.vstack([s, np.zeros((9, columns))])[np.broadcast_to(first, 9)]
    close(
        case,
        sums,
        wanted + host.reshape(-1)[index] * w * (padded[:, 0] if columns == 1 else padded.diagonal()),
    )

"""Every kernel against plain NumPy in double precision: one test compares CPU and CUDA with one reference."""

import itertools

import numpy as np
import pytest
from emulated_device import opened
from kernel_cases import DEVICES, SHAPES, TOLERANCE, Case, split

from wavefabric.acoustics.solver.kernels import TABLE


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    return opened(request.param)


@pytest.fixture
def kernels(device):
    return device.kernels(TABLE)


@pytest.fixture(params=SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def shape(request):
    return request.param


@pytest.fixture(params=[np.float64, np.float32], ids=["double", "single"])
def dtype(request):
    return request.param


@pytest.fixture
def case(device, shape, dtype):
    return Case(device, shape, dtype)


full = pytest.mark.parametrize("full", [True, False], ids=["full", "row"])


@pytest.mark.parametrize(
    ("kind", "parameter", "formula"),
    [
        (0, 0.7, lambda k: np.sinc(0.7 * k / np.pi)),
        (1, 0.7, lambda k: np.cos(0.7 * k)),
        (2, -0.6, lambda k: np.where(k > 0, np.where(k > 0, k, 1.0) ** -0.6, 0.0)),
        (2, 0.5, lambda k: np.sqrt(k)),
        (2, 0.0, np.ones_like),
    ],
    ids=["sinc", "cosine", "negative power", "power", "power zero"],
)
def test_fill_operator(case, kernels, kind, parameter, formula):
    nz, ny, nx = case.half
    # Small arguments: the rounding of a large one would be that of its cosine.
    kx, ky, kz = 5 * np.arange(nx) / nx, 3 * np.arange(ny) / ny, 4 * np.arange(nz) / nz
    out = case.device.empty(case.half, case.dtype)
    kernels.fill_operator(out, *(case.put(k**2) for k in (kx, ky, kz)), kind, parameter, 0.25)
    k = np.sqrt(kz[:, None, None] ** 2 + ky[:, None] ** 2 + kx**2)
    case.check(out, 0.25 * formula(k))


@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True), (False, False)])
def test_fill_absorption(case, kernels, which):
    (c, c_host), (alpha, alpha_host) = map(case.parameter, which)
    out = case.device.empty(case.shape, case.dtype)
    kernels.fill_absorption(out, c, alpha, -3e-7, 1.4)
    case.check(out, np.broadcast_to(-3e-7 * alpha_host * c_host**1.4, case.shape))


def _vectors(case):
    nz, ny, nx = case.half
    return [case.spectrum((n,)) for n in (nx, ny, nz)]


def _laid(x, y, z):
    return x, y[:, None], z[:, None, None]


def test_gradient_spectra(case, kernels):
    (kappa, kappa_host), vectors = case.real(case.half), _vectors(case)
    (s0, p), others = case.spectrum(), [case.spectrum()[0] for _ in range(2)]
    kept = [case.device.to_host(other).copy() for other in others]
    kernels.gradient_spectra(s0, *others, kappa, *split(vectors)[0], case.axes)
    wanted = [p * kappa_host * d for d in _laid(*split(vectors)[1])]
    case.check(s0, wanted[0])
    for i, other in enumerate(others):
        if i + 1 < case.axes:
            case.check(other, wanted[i + 1])
        else:
            assert (case.device.to_host(other) == kept[i]).all()


def test_divergence_spectra(case, kernels):
    (kappa, kappa_host), vectors = case.real(case.half), _vectors(case)
    device, host = split([case.spectrum() for _ in range(3)])
    kernels.divergence_spectra(*device, kappa, *split(vectors)[0], case.axes)
    wanted = [u * kappa_host * d for u, d in zip(host, _laid(*split(vectors)[1]), strict=True)]
    wanted[case.axes :] = host[case.axes :]
    for got, expected in zip(device, wanted, strict=True):
        case.check(got, expected)


def test_ring_divergence_spectra(case, kernels):
    (kappa, k), vectors = case.real(case.half), _vectors(case)
    (axial, radial, quotient), (ux, ur, ratio) = split([case.spectrum() for _ in range(3)])
    dx, dr, _ = _laid(*split(vectors)[1])
    kernels.ring_divergence_spectra(axial, radial, quotient, kappa, *split(vectors)[0][:2])
    case.check(axial, ux * k * dx)
    case.check(radial, k * (ur * dr + ratio), 2 * TOLERANCE[case.dtype])


def test_scale_and_translate_spectrum(case, kernels):
    (s, host), (operator, factor) = case.spectrum(), case.real(case.half)
    kernels.scale_spectrum(s, operator)
    case.check(s, host * factor)
    for axis in range(3):
        (s, host), vectors = case.spectrum(), _vectors(case)
        kernels.translate_spectrum(s, vectors[axis][0], axis, case.dtype(0.125))
        case.check(s, host * 0.125 * _laid(*split(vectors)[1])[axis])


def test_apply_window(case, kernels):
    """A square beyond 1 gets the last value of the table."""
    (s, host), table = case.spectrum(), np.array([1.0, 0.7, 0.2, 0.0])
    squares = [np.linspace(0, 0.5, n) ** 2 for n in case.half]
    kernels.apply_window(s, *map(case.device.asarray, (*squares, table)))
    z, y, x = squares
    at = 3 * np.sqrt(z[:, None, None] + y[:, None] + x)
    case.check(s, host * np.interp(at, np.arange(4), table))
    kernels.apply_window(
        s, *[case.device.asarray(square + 1) for square in squares], case.device.asarray(table)
    )
    assert (case.device.to_host(s) == 0).all()


def test_squared_slopes(case, kernels):
    field, host = case.real()
    partials = case.device.zeros((5, 4), np.float64)
    kernels.squared_slopes(partials, field, *case.shape[::-1])
    wanted = [np.sum(np.diff(host, axis=2 - axis) ** 2) for axis in range(3)]
    sums = case.device.to_host(partials).sum(axis=0)
    np.testing.assert_allclose(sums, [*wanted, np.sum(host**2)], rtol=1e-6)


@full
def test_update_velocity(case, kernels, full):
    for axis in range(case.axes):
        (u, before), (slope, g), (rho, rho_host) = case.real(), case.real(), case.parameter(full)
        pml, f = case.real((case.shape[2 - axis],))
        kernels.update_velocity(u, slope, rho, pml, axis, case.dtype(0.3))
        f = f.reshape([-1 if 2 - i == axis else 1 for i in range(3)])
        case.check(u, f * (f * before - float(case.dtype(0.3)) / rho_host * g))


@full
@pytest.mark.parametrize("nonlinear", [True, False], ids=["nonlinear", "linear"])
def test_update_density(case, kernels, full, nonlinear):
    total, split_layers, before, layers = case.split()
    slopes, g = split(case.several(case.real))
    (rho, rho_host), d = case.parameter(full), case.axes
    kernels.update_density(total, split_layers, *slopes, rho, case.dtype(0.25), nonlinear, case.axes)
    mass = rho_host + (2 * sum(before) if nonlinear else 0.0)
    after = [f * (f * before[axis] - 0.25 * mass * g[axis]) for axis, f in enumerate(_laid(*layers)[:d])]
    case.check_split(total, split_layers, after)


@full
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "apart"])
def test_absorption_terms(case, kernels, full, in_place):
    sum_of_parts, total_host = case.real()
    slopes, g = split(case.several(case.real))
    (rho, rho_host), d = case.parameter(full), case.axes
    rate, total = case.real()[0], case.real()[0]
    if in_place:
        rate, total = slopes[0], slopes[1] if case.axes > 1 else total
    kernels.absorption_terms(total, rate, sum_of_parts, *slopes, rho, case.axes)
    case.check(total, total_host)
    case.check(rate, rho_host * sum(g[:d]))


@full
@pytest.mark.parametrize(
    ("nonlinear", "lossy", "disperses"),
    [
        (False, False, False),
        (True, False, False),
        (False, True, False),
        (False, True, True),
        (True, True, True),
    ],
)
def test_update_pressure(case, kernels, full, nonlinear, lossy, disperses):
    density, total = case.real()
    media, (c, rho, ratio, tau) = split([case.parameter(full) for _ in range(4)])
    (loss, l1), (shift, l2), p = case.real(), case.real(), case.real()[0]
    factor = case.dtype(-1.7)
    kernels.update_pressure(p, density, *media, factor, loss, shift, nonlinear, lossy, disperses)
    eta = float(factor) * tau * c
    wanted = total + nonlinear * ratio * total**2 / (2 * rho) + lossy * tau * l1 - disperses * eta * l2
    case.check(p, c**2 * wanted)


@pytest.mark.parametrize("which", [(True, False), (False, True)], ids=["c full", "rho full"])
def test_update_pressure_with_mixed_parameters(case, kernels, which):
    density, total = case.real()
    (c, c_host), (rho, rho_host) = map(case.parameter, which)
    (ratio, b), (tau, tau_host) = (case.parameter(w) for w in (which[1], which[0]))
    (loss, l1), (shift, l2), p = case.real(), case.real(), case.real()[0]
    kernels.update_pressure(p, density, c, rho, ratio, tau, case.dtype(0.5), loss, shift, True, True, True)
    extra = tau_host * l1 - 0.5 * tau_host * c_host * l2
    case.check(p, c_host**2 * (total + b * total**2 / (2 * rho_host) + extra))


@full
def test_split_density(case, kernels, full):
    total, split_layers, parts, _ = case.split()
    (p, p_host), (c, c_host), d = case.real(), case.parameter(full), len(parts)
    kernels.split_density(total, split_layers, p, c, case.dtype(d))
    case.check_split(total, split_layers, [p_host / (d * c_host**2)] * d)


# --- Sources -------------------------------------------------------------------------------------------


def _points(case, count):
    return np.random.default_rng(3).permutation(int(np.prod(case.shape)))[:count]


@pytest.mark.parametrize("replace", [True, False], ids=["replace", "add"])
@pytest.mark.parametrize("columns", [1, 11])
def test_set_points(case, kernels, replace, columns):
    (field, wanted), index = case.real(), _points(case, 11)
    wave, signal = case.real((4, columns))
    kernels.set_points(field, case.put(index), wave, case.put(np.array([2])), replace)
    flat = wanted.reshape(-1)
    flat[index] = signal[2] + (0 if replace else flat[index])
    case.check(field, wanted)


@pytest.mark.parametrize("replace", [True, False], ids=["replace", "add"])
@pytest.mark.parametrize("columns", [1, 31])
def test_set_density_points(case, kernels, replace, columns):
    total, split_layers, parts, _ = case.split()
    index, (wave, signal) = _points(case, 31), case.real((4, columns))
    clock, number = case.put(np.array([2])), case.dtype(len(parts))
    kernels.set_density_points(total, split_layers, case.put(index), wave, clock, replace, number)
    for part in parts:
        flat = part.reshape(-1)
        flat[index] = signal[2] + (0 if replace else flat[index])
    case.check_split(total, split_layers, parts)


def test_add_density_pattern(case, kernels):
    total, split_layers, parts, _ = case.split()
    (pattern, more), (wave, signal) = case.real(), case.real((4, 1))
    clock, number = case.put(np.array([3])), case.dtype(len(parts))
    kernels.add_density_pattern(total, split_layers, pattern, wave, clock, number)
    case.check_split(total, split_layers, [part + more * signal[3, 0] for part in parts])


def test_add_delayed(case, kernels):
    (field, wanted), index = case.real(), _points(case, 11)
    wave, signal = case.real((6,))
    delay = np.array([0, 1, 2, 3, 4, 5, 6, 7, 0, 3, 100])
    kernels.add_delayed(field, case.put(index), case.put(delay), wave, case.put(np.array([2])))
    wanted.reshape(-1)[index] += [signal[d + 2] if d + 2 < 6 else 0.0 for d in delay]
    case.check(field, wanted)


def test_add_pattern(case, kernels):
    (field, wanted), (other, more) = case.real(), case.real()
    wave, signal = case.real((4, 1))
    kernels.add_pattern(field, other, wave, case.put(np.array([3])))
    case.check(field, wanted + more * signal[3, 0])


def test_no_points_are_no_trouble(case, kernels):
    (field, wanted), none = case.real(), np.zeros(0, np.int64)
    clock = case.put(np.array([0]))
    kernels.set_points(field, case.put(none), case.real((2, 1))[0], clock, True)
    kernels.add_delayed(field, case.put(none), case.put(none), case.real((2,))[0], clock)
    case.check(field, wanted)


# --- Recording -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", [1, 4, 8])
def test_sample(case, kernels, each):
    field, host = case.real()
    count, target = 9, case.real((3, 9))[0]
    corners = np.random.default_rng(5).integers(0, host.size, (count, each))
    weights = np.random.default_rng(6).random((count, each)) if each > 1 else np.zeros((0, 1))
    before = case.device.to_host(target).copy()
    kernels.sample(target[1], field, case.put(corners), case.put(weights), each > 1)
    got = case.device.to_host(target)
    assert (got[[0, 2]] == before[[0, 2]]).all()
    values = host.reshape(-1)[corners]
    case.check(target[1], (values * (weights if each > 1 else 1.0)).sum(axis=1))


def test_sample_elements(case, kernels):
    field, host = case.real()
    rng, target = np.random.default_rng(7), case.real((2, 4))[0]
    counts = [3, 0, 700, 1]
    bounds = np.concatenate([[0], np.cumsum(counts)])
    points, weights = rng.integers(0, host.size, bounds[-1]), rng.random(bounds[-1]) / 30
    kernels.sample_elements(target[1], field, case.put(bounds), case.put(points), case.put(weights))
    products = host.reshape(-1)[points].astype(float) * weights
    case.check(target[1], np.array([products[a:b].sum() for a, b in itertools.pairwise(bounds)]))


def test_mix_patterns(case, kernels):
    (out, _), (one, first), (other, second) = case.real(), case.real(), case.real()
    signals, clock = case.dtype([[1, 2], [0.3, -0.7]]), np.array([1])
    kernels.mix_patterns(out, one, other, case.put(signals), case.put(clock))
    case.check(out, first * signals[1, 0] + second * signals[1, 1])


@pytest.mark.parametrize(("kernel", "combine"), [("keep_maximum", np.maximum), ("keep_minimum", np.minimum)])
def test_extremes(case, kernels, kernel, combine):
    for shape in (case.shape, (23,)):
        (target, before), (values, host) = case.real(shape), case.real(shape)
        getattr(kernels, kernel)(target, values)
        assert (case.device.to_host(target) == combine(before, host)).all()


def test_store_row(case, kernels):
    """Step 12 of a recording from step 5 on is row 7, the second of five that are used in turn: row 2."""
    (rows, before), (values, host) = case.real((5, 23)), case.real((23,))
    kernels.store_row(rows, values, case.put(np.array([12])), 5, 5)
    got = case.device.to_host(rows)
    assert (got[2] == host).all()
    assert (np.delete(got, 2, 0) == np.delete(before, 2, 0)).all()


def test_accumulate_tone(case, kernels):
    (values, host), cosine, sine = case.real(), case.dtype(-0.37), case.dtype(0.93)
    (one, before), (other, was) = case.real(), case.real()
    weights = np.array([[0.5, 0.5], [cosine, sine], [0.5, 0.5]], np.float64)
    kernels.accumulate_tone(one, other, values, case.put(weights), case.put(np.array([8])), 7)
    case.check(one, before + float(cosine) * host)
    case.check(other, was + float(sine) * host)


def test_squares_are_added_in_double_precision(case, kernels):
    values, host = case.real((23,))
    target = case.put(np.full(23, 1e6))
    kernels.add_squares(target, values)
    # Single precision sums would lose the last digits of 1e6 + 1.
    np.testing.assert_allclose(case.device.to_host(target) - 1e6, host**2, rtol=0, atol=3e-10)


def test_tick(device, kernels):
    clock = device.zeros(1, np.int64)
    for _ in range(3):
        kernels.tick(clock)
    assert device.to_host(clock).tolist() == [3]


def test_one_answer_on_any_number_of_threads(dtype):
    """No kernel sums over points, so sharing them among threads cannot change a bit."""
    answers = []
    for threads in (1, 2):
        cpu = opened(f"cpu {threads}")
        kernels = cpu.kernels(TABLE)
        case = Case(cpu, (5, 7, 9), dtype)
        slopes, (total, split_layers, *_) = split(case.several(case.real))[0], case.split()
        kernels.update_density(total, split_layers, *slopes, case.real()[0], dtype(0.1), True, True)
        p = case.real()[0]
        media = split([case.parameter(True) for _ in range(4)])[0]
        kernels.update_pressure(p, total, *media, dtype(-1.7), slopes[0], slopes[1], True, True, True)
        answers.append(b"".join(field.tobytes() for field in (total, *split_layers.parts, p)))
    assert answers[0] == answers[1]

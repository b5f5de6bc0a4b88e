"""What is compiled into the passes of the fused time step on a GPU, and κ as their kernels compute it."""

import math
import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import product

import numpy as np
import pytest
from emulated_cuda import Module
from emulated_device import EmulatedDevice
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_problems import problem

from wavefabric.acoustics.fused.axis_blocks import pitch, usable
from wavefabric.acoustics.fused.axis_kernels_cuda import MediumKind, index_macro, prelude, sinc_series
from wavefabric.acoustics.fused.fused_layout import axis_kernels, scaled_derivatives, scaled_squares
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.split_density import positions, runs_along
from wavefabric.runtime.spectral.axis_fft import (
    axis_radices,
    axis_table,
    row_points,
    row_space,
    transformed_points,
    twiddles,
)
from wavefabric.runtime.spectral.inplace_fft import radices

REALS = [np.float32, np.float64]

# --- Sizes ------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([2, 3, 5, 7]), min_size=1, max_size=10), st.sampled_from([8, 16]))
def test_radices_multiply_back(primes, most):
    n = math.prod(primes)
    result = radices(n, most)
    assert math.prod(result) == n
    assert set(result) <= {2, 3, 4, 5, 7, 8, most}
    # The largest are taken first, so a power of two has at most one radix that is not the largest.
    assert list(result) == sorted(result, reverse=True)
    assert sum(r % 2 == 0 and r < most for r in result) <= 1


@given(st.integers(1, 400), st.sampled_from([11, 13, 17, 19, 23, 29, 31, 37, 101]), st.sampled_from([8, 16]))
def test_other_primes_are_refused(factor, prime, most):
    assert radices(factor * prime, most) == ()


def test_one_point_is_no_transform():
    assert radices(1) == radices(1, 8) == ()


def test_usable_grids():
    assert usable(256, 256, 256, np.float64)
    assert usable(4, 27, 21, np.float32)
    assert usable(70, 35, 49, np.float32)
    assert usable(24, 25, 1, np.float32)  # a plane
    assert usable(202, 198, 206, np.float32)  # convolutions
    assert usable(26, 11, 1, np.float64)
    assert usable(35, 24, 24, np.float32)  # an odd number of points along x
    assert usable(211, 24, 1, np.float32)
    for shape in (
        (2, 24, 24),  # one complex number a row
        (1, 24, 24),
        (24, 1, 1),
        (2**16, 8, 8),
        (8, 8, 2**15),
        (24, 24, 2039),  # a prime, whose convolution does not fit
    ):
        assert not usable(*shape, np.float32)
        assert not usable(*shape, np.float64)


@pytest.mark.slow
@given(st.integers(2, 5000), st.sampled_from([8, 16]))
def test_points_of_a_convolution(n, most):
    """At least twice as many less one, or a circle of fewer points would add what lies beyond its ends."""
    inner = transformed_points(n, most)
    assert inner == n or inner >= 2 * n - 1
    assert math.prod(axis_radices(inner, most, 13 if inner == n else 7)) == inner
    assert (inner == n) == bool(axis_radices(n, most))


@given(st.integers(1, 2500), st.sampled_from([8, 16]))
def test_points_of_a_row(half, most):
    """Half of an even row; for an odd one all, or as many as values and frequencies, less one."""
    n = 2 * half + 1
    inner = row_points(n, most)
    assert inner == n or inner >= n + (n + 1) // 2 - 1
    assert math.prod(axis_radices(inner, most, 13 if inner == n else 7)) == inner
    assert row_points(2 * half, most) == transformed_points(half, most)


#: Lengths of 2, 3, 5 and 7, and some of 11 and 13.
SMOOTH = sorted(
    n
    for powers in product(range(15), range(9), range(7), range(6))
    if 1 < (n := math.prod(prime**power for prime, power in zip((2, 3, 5, 7), powers, strict=True))) <= 2**15
)


@pytest.mark.parametrize("real", REALS)
def test_blocks_that_a_gpu_can_launch(real):
    """At most 1024 threads a block, 2048 a multiprocessor; memory for its columns, or thrice its rows."""
    item, result = 2 * np.dtype(real).itemsize, set()
    for n in [*SMOOTH, 3, 127, 1023, 198, 286, 1001, 2 * 509, 2 * 1021, 997, 1511]:
        for nx, ny, nz in ((n, 4, 4), (4, n, n), (n, 1024, 1024), (2048, n, n)):  # small grids and large ones
            if not usable(nx, ny, nz, real):
                continue
            text = prelude((nz, ny, nx), real, MediumKind(True, "power_law"))
            numbers = {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)\n", text)}
            for axis in "XYZG":
                points = numbers[f"M{axis}"]
                threads, tile = numbers[f"P{axis}"], numbers[f"T{axis}"]
                assert threads * tile <= 1024
                assert threads * tile * numbers[f"B{axis}"] <= 2048
                values = 3 * row_space(points, threads) if axis == "X" else points
                assert tile * values * item <= 227 * 1024
                result.add((axis, points, points // threads))
    assert {("X", 2048), ("Y", 1024), ("Z", 1024), ("G", 1024)} <= {each[:2] for each in result}
    # A thread has fewer values of a small grid than of a large one.
    assert {
        ("X", 64, 4),
        ("X", 64, 8),
        ("Y", 256, 8),
        ("Y", 256, 32),
        ("Z", 256, 8),
        ("Z", 256, 32),
    } <= result


# --- Tables -----------------------------------------------------------------------------------------------


def exact_roots(n):
    angle = -2 * np.longdouble("3.14159265358979323846264338327950288") * np.arange(n) / n
    return np.cos(angle) + 1j * np.sin(angle)


def factors_of_stages(radices):
    """exp(−2πi q k/(M R)) of each stage but the first, k slowest, M the product of the radices before it."""
    parts, before = [], 1
    for radix in radices:
        if before > 1:
            roots = exact_roots(before * radix)
            parts += [roots[k * q] for k in range(radix) for q in range(before)]
        before *= radix
    return np.array(parts, np.clongdouble)


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("radices", [(7,), (2, 3), (16, 2, 2), (3, 5, 4), (8, 8, 8)])
def test_twiddles(radices, real):
    """Those of the stages forth, then of those back, and for rows what takes their spectra apart."""
    half = math.prod(radices)
    columns, rows = twiddles(radices, real), axis_table(2 * half, radices, real, True)
    wanted = np.concatenate(list(map(factors_of_stages, (radices, radices[::-1]))))
    assert columns.dtype == rows.dtype == np.result_type(real, np.complex64)
    assert columns.shape == wanted.shape
    assert abs(columns - wanted).max(initial=0) < np.finfo(real).eps
    assert (rows[: len(columns)] == columns).all()
    assert rows.size == columns.size + half
    assert abs(rows[len(columns) :] - exact_roots(2 * half)[:half]).max() < np.finfo(real).eps


@pytest.mark.parametrize("radices", [(8, 8, 8), (16, 16, 2), (5, 5, 5, 3)])
def test_twiddles_in_single_precision_have_no_mean_error(radices):
    """Of each leg of a stage the squared moduli sum up to their number, to one rounding of one of them."""
    half = math.prod(radices)
    result = axis_table(2 * half, radices, np.float32, True).astype(complex)
    errors, at = abs(result) ** 2 - 1, 0
    for order in (radices, radices[::-1]):
        for stage in range(1, len(order)):
            before = math.prod(order[:stage])
            legs = errors[at : at + before * order[stage]].reshape(order[stage], before)
            assert abs(legs.sum(axis=1)).max() < 1e-7
            at += legs.size
    assert errors[at:].size == half
    assert abs(errors[at:].sum()) < 1e-7


@settings(max_examples=200)
@given(st.integers(1, 5000), st.integers(1, 1024))
def test_space_of_a_row(points, threads):
    """The half spectrum of a row, from one word of 16 bytes to the next in complex numbers of 8."""
    space = row_space(points, threads)
    assert space >= points + 1
    if threads == 1 or threads % 2 == 0:
        assert space % 2 == 0


POSITIONS = """
template <int N, int P>
__device__ void note(int *&out) {{
    typedef Rows<N, P, 2> FieldLayout;
    *out++ = FieldLayout::space;
    for (int n = 0; n < N; ++n) *out++ = FieldLayout::at(n) - FieldLayout::transform() * FieldLayout::space;
}}
extern "C" __global__ void places(int *out) {{ {calls} }}
"""


def test_space_of_a_row_is_that_of_the_kernels():
    """And each point of a row has a place of its own there."""
    lengths, threads = (1, 2, 15, 16, 17, 30, 31, 64, 105, 128, 256, 625), (1, 2, 3, 4, 8, 14, 16, 32, 125)
    cases = list(product(lengths, threads))
    names = "butterflies.cu", "axis_fft.cu"
    source = "".join(files("wavefabric.runtime.spectral").joinpath(name).read_text("utf-8") for name in names)
    calls = " ".join(f"note<{n}, {p}>(out);" for n, p in cases)
    out = np.full(sum(n + 1 for n, _ in cases), -1, np.int32)
    Module(source + POSITIONS.format(calls=calls), ("-DREAL=float",)).kernel("places")((1,), (1,), (out,))
    for n, p in cases:
        (space, *at), out = out[: n + 1], out[n + 1 :]
        assert space == row_space(n, p)
        assert len(set(at)) == n
        assert 0 <= min(at) <= max(at) < space


# --- sin(x)/x ---------------------------------------------------------------------------------------------


def exact_sinc(squares):
    """sin(x)/x of x², in extended precision where there is one."""
    x = np.sqrt(np.asarray(squares, np.longdouble))
    return np.where(x > 0, np.sin(x) / np.where(x > 0, x, 1), 1)


@given(st.floats(0, math.pi**2), st.sampled_from(REALS))
@example(math.pi**2, np.float64)
@example(math.pi**2, np.float32)
@example(0.0, np.float64)
def test_series_of_the_sinc(largest, real):
    """By Horner's rule, as in the kernels: two or three roundings off at most, cut off below one."""
    terms = sinc_series(largest, real)
    assert len(terms) >= 2
    squares = np.linspace(0, largest, 301).astype(real)
    squares = np.minimum(squares, real(largest))
    wanted, eps = exact_sinc(squares), np.finfo(real).eps
    rounded, exact = np.zeros_like(squares), np.zeros(squares.shape, np.longdouble)
    for j in reversed(range(len(terms))):
        rounded = rounded * squares + real(terms[j])
        sign = np.longdouble((-1) ** j)
        exact = exact * squares + sign / math.factorial(2 * j + 1)
        assert terms[j] == pytest.approx((-1) ** j / math.factorial(2 * j + 1), rel=1e-14)
    assert abs(exact - wanted).max() < eps / 2
    assert rounded.dtype == real
    assert abs(rounded - wanted).max() < 2 * eps


def test_no_series_where_terms_would_cancel():
    for real in REALS:
        assert sinc_series(math.pi**2, real)
        for largest in (np.nextafter(math.pi**2, 10), 10.0, 1e3):
            assert sinc_series(largest, real) == []
        # Small squares need few terms.
        counts = [len(sinc_series(largest, real)) for largest in (1e-9, 1e-3, 1.0, 9.0)]
        assert counts == sorted(counts)
        assert counts[0] < counts[-1]


# --- The layers along x -----------------------------------------------------------------------------------


def value_at(expression, x):
    """Of a macro made of comparisons, sums and conditions, each with the next in its last branch."""
    assert re.fullmatch(r"[-+()x\d&<>=?: ]+", expression)
    inner, branches = expression[1:-1], []
    while " ? " in inner:
        condition, inner = inner.split(" ? ", 1)
        chosen, inner = inner.split(" : ", 1)
        branches.append(f"({chosen}) if ({condition.replace('&&', 'and')}) else ")
    return eval("".join(branches) + f"({inner})", {"x": x})


inside = st.lists(st.booleans(), min_size=1, max_size=40)


@given(inside)
@example([False] * 8)
@example([True] * 8)
@example([True, True, False, False, True])
def test_places_compiled_in(inside):
    """Any layers, not at the ends alone: a block of a grid has them amid its points."""
    at = positions(np.where(inside, 0.9, 1.0))
    macro = index_macro(runs_along(at))
    assert [value_at(macro, x) for x in range(len(inside))] == at.tolist()


LAYERS = [
    [0.9] * 3 + [1] * 10 + [0.8] * 4,
    [1] * 9,
    [0.5] * 7,
    [1, 1, 0.9, 0.9, 1, 0.7, 1, 1, 0.5],
]


def test_places_in_c():
    """Of an argument that is itself a sum, as the kernels give it."""
    text = "".join(
        f"#undef INDEX_X\n#define INDEX_X(x) {index_macro(runs_along(positions(np.array(layers))))}\n"
        f'extern "C" __global__ void layers_{k}(int *out) {{\n'
        f"    for (int j = 0; j < {len(layers)}; ++j) out[j] = 1 + INDEX_X(2 * j - j) * 2;\n}}\n"
        for k, layers in enumerate(LAYERS)
    )
    module = Module(text)
    for k, layers in enumerate(LAYERS):
        out = np.full(len(layers), -9, np.int32)
        module.kernel(f"layers_{k}")((1,), (1,), (out,))
        assert (out == 1 + 2 * positions(np.array(layers))).all()


def test_what_is_compiled_in():
    """Numbers of the series are exact; without one, sin is called."""
    for real in REALS:
        terms = sinc_series(3.0, real)
        runs = runs_along(positions(np.array(LAYERS[0])))
        text = prelude((6, 4, 18), real, MediumKind(True, "stokes"), "XYZG", terms, runs)
        series = re.search(r"#define SINC_SERIES (.*)", text)
        assert series
        assert [float(term) for term in re.findall(r"\(REAL\)([^,]+)", series[1])] == terms
        assert f"#define INDEX_X(x) {index_macro(runs)}\n" in text
    plain = prelude((6, 4, 18), np.float32, MediumKind(True, "stokes"))
    assert "SINC_SERIES" not in plain
    assert "#define INDEX_X(x) (-1)\n" in plain


# --- κ as it is computed in each step ---------------------------------------------------------------------


def with_time_step(shape, fraction):
    """A problem whose largest x of sin(x)/x is a share of π."""
    made = problem(shape, pml=False, initial=0)
    sizes = zip(shape, made.spacing, strict=True)
    k = math.sqrt(sum((2 * math.pi * (n // 2) / (n * spacing)) ** 2 for n, spacing in sizes))
    return replace(made, dt=2 * fraction * math.pi / (made.reference_speed * k))


@cache
def along_z(shape, fraction):
    """Coefficients on an emulated GPU, kernels along z as the stages make them, and (c_ref Δt/2)² k²."""
    c = Coefficients(
        EmulatedDevice(), with_time_step(shape, fraction), np.float64, pitch(shape[0], np.float64)
    )
    squares = scaled_squares(c)
    assert sum(float(k2.max()) for k2 in squares) == pytest.approx((fraction * math.pi) ** 2)
    kernels = axis_kernels(c, Fields(c), c.shape, "ZG")
    kernels.load()
    return c, kernels, [c.device.asarray(k2, np.float64) for k2 in squares]


def pulses(c, count):
    """Spectra of pulses at z = 0."""
    spectra = [c.device.zeros(c.half_shape, c.complex) for _ in range(count)]
    for spectrum in spectra:
        spectrum[0] = 1
    return spectra


def check_operator(c, spectrum, factor):
    """A pulse has become the operator factor κ along z, there and back, not divided by Nz."""
    half = c.subdomain.basis[0] // 2 + 1
    result = np.fft.fft(np.asarray(spectrum)[..., :half], axis=0) / len(spectrum)
    wanted = factor * c.subdomain.basis_points * np.asarray(c.kappa)[..., :half]
    assert abs(result - wanted).max() < 2e-15 * abs(factor).max()


#: Grid, and the largest x as a share of π: κ by its series up to 1, beyond by sin. Along z: few points, whose
#: two spectra stay in registers, and so many that they are read twice.
KAPPA = [
    ((10, 9, 12), 0.35),
    pytest.param((10, 9, 12), 1.6, marks=pytest.mark.slow),
    pytest.param((4, 2, 600), 0.9, marks=pytest.mark.slow),
    pytest.param((4, 2, 600), 1.6, marks=pytest.mark.slow),
    pytest.param((18, 5, 35), 0.999, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "fraction"), KAPPA)
def test_kappa_of_the_gradient(shape, fraction):
    c, kernels, squares = along_z(shape, fraction)
    (s0, s1), (_, _, z) = pulses(c, 2), scaled_derivatives(c, 1)
    kernels.run("z_gradient", s0, s1, *squares, z)
    check_operator(c, s0, np.ones(1))
    check_operator(c, s1, z[:, None, None])


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "fraction"), KAPPA)
def test_kappa_of_the_divergence(shape, fraction):
    c, kernels, squares = along_z(shape, fraction)
    spectra, (x, y, z) = pulses(c, 3), scaled_derivatives(c, -1)
    kernels.run("z_divergence", *spectra, *squares, x, y, z, 0, layers=3)
    # u_y, u_z and u_x lie in this order.
    for spectrum, factor in zip(spectra, (y[:, None], z[:, None, None], x), strict=True):
        check_operator(c, spectrum, factor)


def test_derivatives_carry_what_kappa_lacks(cpu):
    """i k e^{±i k Δ/2} with the 1/N of the transforms."""
    c = Coefficients(cpu, problem((10, 9, 12)), np.float64)
    for sign, plain in ((1, c.up), (-1, c.down)):
        for result, wanted in zip(scaled_derivatives(c, sign), plain, strict=True):
            np.testing.assert_allclose(result * (10 * 9 * 12), wanted, rtol=1e-15)

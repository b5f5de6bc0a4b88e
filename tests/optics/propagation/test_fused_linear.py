"""Three fused kernels over a field against NumPy in complex128: emulated on the CPU, and on a GPU."""

import math
from importlib.resources import files

import numpy as np
import pytest
from emulated_cuda import Module
from emulated_device import EmulatedDevice
from fibre_cases import distance
from linear_cases import (
    COEFFICIENTS,
    DOUBLE,
    ROWS,
    SINGLE,
    TOLERANCE,
    device_named,
    draw,
    fused_of,
    reference,
    to_device,
)

from wavefabric.optics.propagation.kernels.fused_linear_cuda import PACKAGE, FusedSteps
from wavefabric.optics.propagation.kernels.fused_plan import FusedPlan, Transforms, fused_plan
from wavefabric.runtime.device import get_device
from wavefabric.runtime.spectral.inplace_fft import SOURCES

SLOW = pytest.mark.slow


@pytest.fixture(scope="module", params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def gpu(request):
    """A device that takes kernels."""
    return device_named(request.param)


def check(device, plan, rows):
    """One length, and back by the opposite one."""
    dtype = plan.dtype.type
    field = draw(rows, plan.n, dtype)
    A, variant = to_device(device, field), fused_of(device, plan, rows)
    variant.propagate(A, 0.8)
    got = device.to_host(A).copy()
    assert got.dtype == dtype
    wanted = reference(field, 0.8)
    for mine, theirs in zip(got, wanted, strict=True):
        assert distance(mine, theirs) < TOLERANCE[dtype]
    variant.propagate(A, -0.8)
    assert distance(device.to_host(A), field) < 2 * TOLERANCE[dtype]


# --- The kernels -------------------------------------------------------------------------------------------

#: One kernel; columns of one stage; tiles with a rest; several radices over columns. The larger ones take
#: columns of several stages, and 2²¹ a gap in shared memory.
SIZES = [
    (16, DOUBLE),
    (210, DOUBLE),
    (4116, SINGLE),
    (6000, DOUBLE),
]
LENGTHS = [
    2, 3, 16, 64, 98, 210, 3000, 4096, 4116, 6000, 2**13, 12800, 2**14, 3**9, 2 * 7**5, 2**17, 2**21, 2058000,
]  # fmt: skip
SLOW_SIZES = [(n, dtype) for n in LENGTHS for dtype in (DOUBLE, SINGLE) if (n, dtype) not in SIZES]


def sized(n, dtype, *marks):
    return pytest.param(n, dtype, id=f"{n}-{np.dtype(dtype).name}", marks=marks)


@pytest.mark.parametrize(("n", "dtype"), [sized(*s) for s in SIZES] + [sized(*s, SLOW) for s in SLOW_SIZES])
def test_kernels(gpu, n, dtype):
    check(gpu, fused_plan(n, dtype), 6 if n < 2**20 else 2)


@pytest.mark.slow
def test_two_rows(gpu):
    for dtype in (DOUBLE, SINGLE):
        check(gpu, fused_plan(64, dtype), 2)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
@pytest.mark.parametrize("n", [2**22, 2**23])
def test_the_longest_rows(n, dtype):
    check(get_device("cuda"), fused_plan(n, dtype), 2)


#: Columns, columns a block, rows, rows a block: splits that `fused_plan` chooses for long rows only, and
#: blocks of several rows. Tiles that leave a rest, threads that do not divide the butterflies, gaps.
SMALL = [(20, 4, 18, 5), (32, 2, 21, 4), (49, 8, 35, 7), (54, 2, 96, 3), (7, 16, 40, 1), (16, 3, 2, 16)]


def small_plan(columns, tile, rows, side, dtype):
    item = np.dtype(dtype).itemsize
    return FusedPlan(Transforms(columns, tile, item), Transforms(rows, side, 16), np.dtype(dtype))


@pytest.mark.parametrize(
    "dtype", [pytest.param(DOUBLE, id="double"), pytest.param(SINGLE, id="single", marks=SLOW)]
)
@pytest.mark.parametrize(
    "split",
    [pytest.param(each, marks=[SLOW] * (each not in SMALL[:2])) for each in SMALL],
    ids=lambda split: "{}x{}".format(*split[::2]),
)
def test_other_splits(gpu, split, dtype):
    check(gpu, small_plan(*split, dtype), 6)


def test_small_plans_have_what_is_to_be_tested():
    plans = [small_plan(*split, DOUBLE) for split in SMALL]
    assert any(plan.rows.points % plan.columns.side for plan in plans)
    assert any(plan.column_gap and len(plan.columns.radices) > 1 for plan in plans)
    assert any(plan.rows.gap and len(plan.rows.radices) > 1 for plan in plans)
    assert any(len(plan.columns.radices) > 2 for plan in plans)
    assert any(plan.columns.points // plan.columns.radices[0] % plan.columns.threads for plan in plans)


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
def test_threads_in_any_order(seed):
    """A missing barrier, or two threads at one place, show when other threads come first."""
    for split, dtype in (((54, 2, 96, 3), DOUBLE), ((20, 4, 18, 5), DOUBLE)):
        check(EmulatedDevice(seed), small_plan(*split, dtype), 6)
    check(EmulatedDevice(seed), fused_plan(3000, SINGLE), 6)


def test_every_thread_order_gives_the_same_bits():
    plan, outs = small_plan(54, 2, 96, 3, DOUBLE), []
    for seed in (0, 5):
        device = EmulatedDevice(seed)
        A = to_device(device, draw(6, plan.n, DOUBLE))
        fused_of(device, plan, 6).propagate(A, 0.8)
        outs.append(A)
    assert (outs[0] == outs[1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
def test_more_than_four_orders(gpu, dtype):
    coefficients = np.column_stack(
        [COEFFICIENTS, [0.05, 0.0, -0.02], [0.0, 0.03, 0.01], [-0.004, 0.002, 0.0]]
    )
    plan, field = fused_plan(3000, dtype), draw(6, 3000, dtype)
    A = to_device(gpu, field)
    FusedSteps(gpu, plan, coefficients, np.array(ROWS[6], np.int32), 1.0).propagate(A, 0.8)
    for mine, theirs in zip(gpu.to_host(A), reference(field, 0.8, coefficients=coefficients), strict=True):
        assert distance(mine, theirs) < 2 * TOLERANCE[dtype]


def test_loss_alone(gpu):
    """Without dispersion a field keeps its shape; the transforms there and back hold no bias."""
    n, dtype = 210, DOUBLE
    coefficients = np.array([[0.25, 0, 0, 0, 0]])
    variant = FusedSteps(gpu, fused_plan(n, dtype), coefficients, np.zeros(2, np.int32), 1.0)
    field = draw(2, n, dtype)
    A = to_device(gpu, field)
    for _ in range(4):
        variant.propagate(A, 2.0)
    assert distance(gpu.to_host(A), field * math.exp(-0.25 / 2 * 8)) < 1e-14


@pytest.mark.slow
@pytest.mark.parametrize(("n", "error", "drift"), [(64, 7e-6, 4e-6), (1008, 1e-5, 4e-6)])
def test_many_steps_in_single_precision(gpu, n, error, drift):
    """Roundings differ from step to step and average out: constants and factors have no bias that adds up."""
    variant, field = fused_of(gpu, fused_plan(n, SINGLE), 6), draw(6, n, SINGLE)
    A = to_device(gpu, field)
    for _ in range(400):
        variant.propagate(A, 0.01)
    for mine, theirs in zip(gpu.to_host(A).astype(complex), reference(field, 4.0), strict=True):
        assert distance(mine, theirs) < error
        assert abs(np.linalg.norm(mine) / np.linalg.norm(theirs) - 1) < drift


def test_a_delay_moves_samples(gpu):
    """β1 of one sample time over the length: the field comes one sample later."""
    for dtype, shape in ((DOUBLE, (20, 4, 18, 5)), (SINGLE, None)):
        plan = small_plan(*shape, dtype) if shape else fused_plan(64, dtype)
        variant = FusedSteps(gpu, plan, np.array([[0, 1.0, 0, 0, 0]]), np.zeros(2, np.int32), 1.0)
        spectrum = np.fft.fft(draw(2, plan.n, dtype).astype(complex))
        spectrum[:, plan.n // 2] = 0  # half a turn between two samples has no sign
        field = np.fft.ifft(spectrum).astype(dtype)
        A = to_device(gpu, field)
        variant.propagate(A, 3.0)
        assert distance(gpu.to_host(A), np.roll(field, 3, axis=1)) < TOLERANCE[dtype]


def sources(plan):
    """What is compiled."""
    parts = [position.rsplit("/", 1) for position in (*SOURCES, f"{PACKAGE}/fused_linear.cu")]
    return (
        plan.prelude()
        + "#define ORDERS 4\n"
        + "\n".join(files(package).joinpath(name).read_text("utf-8") for package, name in parts)
    )


POSITIONS = """
extern "C" __global__ void places(Complex *field, int *first, int *here) {
    const Address place(field);
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    first[thread] = place.first - field;
    here[thread] = place.here;
}
"""


@pytest.mark.slow
def test_threads_without_a_column_read_inside_the_field():
    """Two rows in tiles of eight columns, the last of them with two."""
    plan = small_plan(54, 8, 42, 3, DOUBLE)
    threads, tiles = plan.columns.threads * 8, 6
    first, here = (np.full((2 * tiles, threads), -1, np.int32) for _ in range(2))
    field = np.zeros((2, plan.n), DOUBLE)
    Module(sources(plan) + POSITIONS).kernel("places")((2 * tiles,), (threads,), (field, first, here))
    line, tile, lane = np.arange(2)[:, None, None], np.arange(tiles)[:, None], np.arange(threads)
    column = 8 * tile + lane % 8 + 0 * line
    assert (here.reshape(column.shape) == (column < 42)).all()
    assert (first.reshape(column.shape) == line * plan.n + np.minimum(column, 41)).all()


SINE = """
extern "C" __global__ void turn(const double *x, double *s, double *c, int n) {
    for (int k = threadIdx.x; k < n; k += blockDim.x) sine_cosine_of_pi(x[k], s + k, c + k, REAL());
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "allowed"), [(SINGLE, 4e-12), pytest.param(DOUBLE, 1e-15, marks=pytest.mark.slow)]
)
def test_sine_and_cosine(dtype, allowed):
    """In single precision by polynomials, of π times a number: every quarter, both signs, many turns."""
    text = sources(fused_plan(16, dtype)) + SINE
    x = np.concatenate([np.linspace(-2.5, 2.5, 4001), np.arange(-9, 9) / 4, [1000.1, -777.77, 5e9 + 0.375]])
    s, c = np.empty_like(x), np.empty_like(x)
    Module(text).kernel("turn")((1,), (1,), (x, s, c, np.int32(x.size)))
    angle = np.longdouble("3.14159265358979323846264338327950288") * (x % 2)
    assert abs(s - np.sin(angle)).max() < allowed
    assert abs(c - np.cos(angle)).max() < allowed


@pytest.mark.slow
def test_single_precision_neither_gains_nor_loses(gpu):
    """What every step does alike adds up: with plainly rounded constants an amplitude loses 8e-8 a time."""
    n, rows = 4096, 32
    field = draw(rows, n, SINGLE)
    variant = FusedSteps(gpu, fused_plan(n, SINGLE), np.zeros((1, 5)), np.zeros(rows, np.int32), 1.0)
    A = to_device(gpu, field)
    variant.propagate(A, 1.0)
    field = field.astype(complex)
    gain = np.vdot(field, gpu.to_host(A).astype(complex)) / np.vdot(field, field) - 1
    assert abs(gain) < 6e-9  # the mean of 131 072 errors of 1.7e-7 each, random, is 5e-10


PRODUCTS = """
extern "C" __global__ void products(Complex *v, const double *s, const double *c, int n) {
    for (int k = 0; k < n; ++k) v[k] = swapped(product(v[k], RowFactor{*s, *c}));
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "allowed"), [(SINGLE, 4e-9), (DOUBLE, 1e-17)])
def test_factors_of_the_transfer_function_have_no_bias(dtype, allowed):
    """Errors of many products with one factor average out."""
    sent, kernel = (
        draw(1, 4000, dtype)[0],
        Module(sources(fused_plan(16, dtype)) + PRODUCTS).kernel("products"),
    )
    for angle in (0.1, 0.7, 1.3, 2.9, -2.2):
        s, c = math.sin(angle), math.cos(angle)
        v, exact = sent.copy(), sent.astype(np.clongdouble) * np.clongdouble(complex(c, s))
        kernel((1,), (1,), (v, np.array([s]), np.array([c]), np.int32(v.size)))
        assert abs(((v - exact) / exact).mean()) < allowed

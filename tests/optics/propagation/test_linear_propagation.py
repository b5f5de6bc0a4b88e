"""Linear propagation by three sweeps and by whole transforms, against NumPy in complex128.

The sweeps run as CUDA kernels emulated on the CPU, and on a GPU.
"""

import math

import numpy as np
import pytest
from emulated_device import EmulatedDevice
from fibre_cases import ALL, FIBRE, RATE, distance, launch, make_fibre, propagator, put, smooth_field

from wavefabric.device import get_device
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.kernels.sweep_plan import SweepPlan, Transforms, sweep_plan
from wavefabric.optics.propagation.linear_propagation import (
    MOST_LENGTHS,
    Sweeps,
    TransformsAndTable,
    linear_nbytes,
    swept,
)
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.optics.propagation.propagate import PropagationOptions, memory_needed

CUDA = pytest.param("cuda", marks=pytest.mark.gpu)
SLOW = pytest.mark.slow
DOUBLE, SINGLE = np.complex128, np.complex64
TOLERANCE = {DOUBLE: 2e-14, SINGLE: 3e-7}
#: α and β1…β4 of three kinds of rows, for a sample rate and a length of 1: phases of tens of radians at the
#: highest frequencies, loss and gain.
COEFFICIENTS = np.array(
    [[0.3, 2.0, -0.8, 0.2, -0.1], [-0.2, -1.0, 2.5, 0.3, 0.4], [0.0, 3.0, 0.0, -1.4, 0.0]]
)
#: Which of them each of two and of six rows has.
ROWS = {2: [1, 1], 6: [2, 2, 0, 0, 1, 1]}


def device_named(name, seed=0):
    return EmulatedDevice(seed) if name == "emulated" else get_device(name, threads=1)


@pytest.fixture(scope="module", params=["emulated", CUDA])
def gpu(request):
    """A device that takes sweeps."""
    return device_named(request.param)


def draw(rows, n, dtype):
    """White noise, rounded to ``dtype``."""
    rng = np.random.default_rng(n)
    return (rng.standard_normal((rows, n, 2)).view(complex)[..., 0]).astype(dtype)


def place(device, field):
    A = device.empty(field.shape, field.dtype)
    A[...] = device.asarray(field)
    return A


def reference(field, length, rate=1.0, coefficients=COEFFICIENTS):
    """F⁻¹ exp(length L̂) F of every row, L̂ = −α/2 + i Σ iⁿ/n! βₙ (iω)ⁿ."""
    omega = 2 * np.pi * np.fft.fftfreq(field.shape[1], 1 / rate)
    spectrum = np.fft.fft(field.astype(complex))
    for row, kind in zip(spectrum, ROWS[len(field)], strict=True):
        alpha, *beta = coefficients[kind]
        operator = sum(1j * 1j**m / math.factorial(m) * b * (1j * omega) ** m for m, b in enumerate(beta, 1))
        row *= np.exp(length * (operator - alpha / 2))
    return np.fft.ifft(spectrum)


def sweeps_of(device, plan, rows):
    return Sweeps(device, plan, COEFFICIENTS, np.array(ROWS[rows], np.int32), 1.0)


def table_of(device, n, dtype, rows):
    kernels = device.kernels("wavefabric.optics.propagation.kernels.kerr")
    table_row = np.array(ROWS[rows], np.int32)
    plan = lambda: device.row_fft(rows, n, dtype)  # noqa: E731
    return TransformsAndTable(device, kernels, COEFFICIENTS, table_row, n, 1.0, plan)


def check(device, plan, rows, seed_of_data=0):
    """One length, and back by the opposite one."""
    dtype = plan.dtype.type
    field = draw(rows, plan.n, dtype)
    A, way = place(device, field), sweeps_of(device, plan, rows)
    way.propagate(A, 0.8)
    got = device.to_host(A).copy()
    assert got.dtype == dtype
    wanted = reference(field, 0.8)
    for mine, theirs in zip(got, wanted, strict=True):
        assert distance(mine, theirs) < TOLERANCE[dtype]
    way.propagate(A, -0.8)
    assert distance(device.to_host(A), field) < 2 * TOLERANCE[dtype]


# --- The sweeps -------------------------------------------------------------------------------------------

#: One sweep; columns of one stage; tiles with a rest; several radices over columns. The larger ones take
#: columns of several stages, and 2²¹ a gap in shared memory.
SIZES = [
    (16, DOUBLE),
    (64, DOUBLE),
    (64, SINGLE),
    (210, DOUBLE),
    (3000, DOUBLE),
    (3000, SINGLE),
    (4096, DOUBLE),
    (4116, SINGLE),
    (6000, DOUBLE),
    (8192, DOUBLE),
    (16384, SINGLE),
    (19683, DOUBLE),
    (33614, DOUBLE),
    (33614, SINGLE),
]
SLOW_SIZES = [
    (n, dtype)
    for n in (2, 3, 16, 98, 210, 4096, 4116, 6000, 8192, 12800, 16384, 19683, 2**17, 2**20, 2**21, 2058000)
    for dtype in (DOUBLE, SINGLE)
    if (n, dtype) not in SIZES
]


def sized(n, dtype, *marks):
    return pytest.param(n, dtype, id=f"{n}-{np.dtype(dtype).name}", marks=marks)


@pytest.mark.parametrize(("n", "dtype"), [sized(*s) for s in SIZES] + [sized(*s, SLOW) for s in SLOW_SIZES])
def test_sweeps(gpu, n, dtype):
    check(gpu, sweep_plan(n, dtype), 6 if n < 2**20 else 2)


def test_two_rows(gpu):
    for dtype in (DOUBLE, SINGLE):
        check(gpu, sweep_plan(64, dtype), 2)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
@pytest.mark.parametrize("n", [2**22, 2**23])
def test_the_longest_rows(n, dtype):
    check(get_device("cuda"), sweep_plan(n, dtype), 2)


#: Columns, columns a block, rows, rows a block: splits that `sweep_plan` chooses for long rows only, and
#: blocks of several rows. Tiles that leave a rest, threads that do not divide the butterflies, gaps.
SMALL = [(20, 4, 18, 5), (32, 2, 21, 4), (49, 8, 35, 7), (54, 2, 96, 3), (7, 16, 40, 1), (16, 3, 2, 16)]


def small_plan(columns, tile, rows, side, dtype):
    item = np.dtype(dtype).itemsize
    return SweepPlan(Transforms(columns, tile, item), Transforms(rows, side, 16), np.dtype(dtype))


@pytest.mark.parametrize(
    "dtype", [pytest.param(DOUBLE, id="double"), pytest.param(SINGLE, id="single", marks=SLOW)]
)
@pytest.mark.parametrize("split", SMALL, ids=lambda split: "{}x{}".format(*split[::2]))
def test_other_splits(gpu, split, dtype):
    check(gpu, small_plan(*split, dtype), 6)


def test_small_plans_have_what_is_to_be_tested():
    plans = [small_plan(*split, DOUBLE) for split in SMALL]
    assert any(plan.rows.points % plan.columns.side for plan in plans)
    assert any(plan.column_gap and len(plan.columns.radices) > 1 for plan in plans)
    assert any(plan.rows.gap and len(plan.rows.radices) > 1 for plan in plans)
    assert any(len(plan.columns.radices) > 2 for plan in plans)
    assert any(plan.columns.points // plan.columns.radices[0] % plan.columns.threads for plan in plans)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_threads_in_any_order(seed):
    """A missing barrier, or two threads at one place, show when other threads come first."""
    for split, dtype in (((54, 2, 96, 3), DOUBLE), ((20, 4, 18, 5), DOUBLE)):
        check(EmulatedDevice(seed), small_plan(*split, dtype), 6)
    check(EmulatedDevice(seed), sweep_plan(3000, SINGLE), 6)


def test_every_thread_order_gives_the_same_bits():
    plan, outs = small_plan(54, 2, 96, 3, DOUBLE), []
    for seed in (0, 5):
        device = EmulatedDevice(seed)
        A = place(device, draw(6, plan.n, DOUBLE))
        sweeps_of(device, plan, 6).propagate(A, 0.8)
        outs.append(A)
    assert (outs[0] == outs[1]).all()


def test_loss_alone(gpu):
    """Without dispersion a field keeps its shape; the transforms there and back hold no bias."""
    n, dtype = 210, DOUBLE
    coefficients = np.array([[0.25, 0, 0, 0, 0]])
    way = Sweeps(gpu, sweep_plan(n, dtype), coefficients, np.zeros(2, np.int32), 1.0)
    field = draw(2, n, dtype)
    A = place(gpu, field)
    for _ in range(4):
        way.propagate(A, 2.0)
    assert distance(gpu.to_host(A), field * math.exp(-0.25 / 2 * 8)) < 1e-14


def test_a_delay_moves_samples(gpu):
    """β1 of one sample time over the length: the field comes one sample later."""
    for dtype, shape in ((DOUBLE, (20, 4, 18, 5)), (SINGLE, None)):
        plan = small_plan(*shape, dtype) if shape else sweep_plan(64, dtype)
        way = Sweeps(gpu, plan, np.array([[0, 1.0, 0, 0, 0]]), np.zeros(2, np.int32), 1.0)
        spectrum = np.fft.fft(draw(2, plan.n, dtype).astype(complex))
        spectrum[:, plan.n // 2] = 0  # half a turn between two samples has no sign
        field = np.fft.ifft(spectrum).astype(dtype)
        A = place(gpu, field)
        way.propagate(A, 3.0)
        assert distance(gpu.to_host(A), np.roll(field, 3, axis=1)) < TOLERANCE[dtype]


SINE = """
extern "C" __global__ void turn(const double *x, double *s, double *c, int n) {
    for (int k = threadIdx.x; k < n; k += blockDim.x) sine_cosine_of_pi(x[k], s + k, c + k, REAL());
}
"""


@pytest.mark.parametrize(("dtype", "allowed"), [(SINGLE, 4e-12), (DOUBLE, 1e-15)])
def test_sine_and_cosine(dtype, allowed):
    """In single precision by polynomials, of π times a number: every quarter, both signs, many turns."""
    import emulated_cuda

    from wavefabric.optics.propagation.kernels.linear_sweeps_cuda import PACKAGE
    from wavefabric.optics.propagation.kernels.sweep_plan import BEFORE

    plan = sweep_plan(16, dtype)
    text = plan.prelude() + source_of(*BEFORE, f"{PACKAGE}/linear_sweeps.cu") + SINE
    x = np.concatenate([np.linspace(-2.5, 2.5, 4001), np.arange(-9, 9) / 4, [1000.1, -777.77, 5e8 + 0.375]])
    s, c = np.empty_like(x), np.empty_like(x)
    emulated_cuda.Module(text).kernel("turn")((1,), (1,), (x, s, c, np.int32(x.size)))
    angle = np.longdouble("3.14159265358979323846264338327950288") * (x % 2)
    assert abs(s - np.sin(angle)).max() < allowed
    assert abs(c - np.cos(angle)).max() < allowed


def source_of(*places):
    from importlib.resources import files

    parts = [place.rsplit("/", 1) for place in places]
    return "\n".join(files(package).joinpath(name).read_text("utf-8") for package, name in parts)


# --- Both ways --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
def test_both_ways_agree(gpu, dtype):
    field = draw(6, 210, dtype)
    outs = []
    for way in (sweeps_of(gpu, sweep_plan(210, dtype), 6), table_of(gpu, 210, dtype, 6)):
        A = place(gpu, field)
        for length in (0.8, -0.3, 0.8):
            way.propagate(A, length)
        outs.append(gpu.to_host(A))
    assert distance(*outs) < 3 * TOLERANCE[dtype]


@pytest.fixture(
    scope="module",
    params=[
        ("cpu", "table"),
        ("emulated", "table"),
        ("emulated", "sweeps"),
        pytest.param(("cuda", "table"), marks=pytest.mark.gpu),
        pytest.param(("cuda", "sweeps"), marks=pytest.mark.gpu),
    ],
    ids="-".join,
)
def way(request):
    """Makes a linear propagation of two rows of 64 samples, with its device."""
    name, kind = request.param
    device = device_named(name)

    def make():
        if kind == "table":
            return table_of(device, 64, DOUBLE, 2)
        return sweeps_of(device, sweep_plan(64, DOUBLE), 2)

    return device, make


def address(device, table):
    """Where a transfer function lies."""
    return table.ctypes.data if device.xp is np or isinstance(table, np.ndarray) else table.data.ptr


def test_a_transfer_function_is_made_once(way):
    device, make = way
    propagation = make()
    table = propagation.prepare(0.5)
    assert propagation.prepare(0.5) is table
    assert list(propagation.kept) == [0.5]
    propagation.propagate(place(device, draw(2, 64, DOUBLE)), 0.5)
    assert propagation.prepare(0.5) is table
    assert propagation.replaced == 0


def test_the_least_recently_used_gives_way(way):
    device, make = way
    propagation = make()
    lengths = [0.1 * k for k in range(1, MOST_LENGTHS + 1)]
    tables = {length: propagation.prepare(length) for length in lengths}
    assert propagation.replaced == 0
    assert len({address(device, table) for table in tables.values()}) == MOST_LENGTHS
    propagation.prepare(lengths[0])
    A = place(device, draw(2, 64, DOUBLE))
    propagation.propagate(A, lengths[1])
    # The third is now the one not used for longest.
    new = propagation.prepare(9.0)
    assert propagation.replaced == 1
    assert list(propagation.kept) == [*lengths[3:], lengths[0], lengths[1], 9.0]
    # It was made where the third was: a step captured with that one would read this.
    assert address(device, new) == address(device, tables[lengths[2]])
    fresh = make().prepare(9.0)
    assert (device.to_host(new) == device.to_host(fresh)).all()
    for length in [*lengths[3:], *lengths[:2]]:
        assert propagation.prepare(length) is tables[length]
    assert propagation.replaced == 1
    propagation.prepare(lengths[2])
    assert propagation.replaced == 2


def test_lengths_come_and_go(way):
    device, make = way
    propagation, field = make(), draw(2, 64, DOUBLE)
    A = place(device, field)
    for length in np.tile(np.linspace(-0.9, 0.9, 8), 2):
        propagation.propagate(A, float(length))
    assert len(propagation.kept) == MOST_LENGTHS
    assert propagation.replaced > 0
    assert distance(device.to_host(A), field) < 1e-13


class CapturingDevice(EmulatedDevice):
    """Repeats a step as a CUDA graph does, with the transfer functions of its capture."""

    operators = None

    def graph(self, work):
        propagation = self.operators.propagation
        tables = dict(propagation.kept)

        def replay():
            propagation.prepare = tables.__getitem__
            work()
            del propagation.prepare

        return replay


def test_captured_steps_when_lengths_give_way():
    """Four lengths a step, four more to measure its error: when one is gone, a step is captured again."""
    outs = []
    for device in (EmulatedDevice(), CapturingDevice()):
        runner = propagator(device, 16, integrator="blanes_moan", step=50.0)
        assert isinstance(runner.operators.propagation, Sweeps)
        device.operators = runner.operators
        A = put(runner, launch(16, power=30e-3))
        for length in (150.0, 150.0, 140.0):
            runner.run(A, length)
        assert runner.operators.propagation.replaced > 0
        outs.append(A)
    assert (outs[0] == outs[1]).all()


# --- Which way, and what it needs -------------------------------------------------------------------------


def operators_for(device, n, dtype=DOUBLE):
    return FibreOperators(device, FIBRE, n, RATE, dtype)


def test_which_way_is_taken(cpu):
    emulated = EmulatedDevice()
    for n in (22, 1):
        assert swept(emulated, n, DOUBLE) is None
        assert isinstance(operators_for(emulated, n).propagation, TransformsAndTable)
    assert swept(emulated, 60, SINGLE) == sweep_plan(60, SINGLE)
    assert isinstance(operators_for(emulated, 60).propagation, Sweeps)
    assert swept(cpu, 60, DOUBLE) is None
    assert isinstance(operators_for(cpu, 60).propagation, TransformsAndTable)


@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
def test_memory_beside_the_field(cpu, dtype):
    emulated, item = EmulatedDevice(), np.dtype(dtype).itemsize
    tables = 16 * 3 * 4
    assert linear_nbytes(cpu, 6, 64, dtype, 3, 4) == 64 * tables
    assert linear_nbytes(emulated, 6, 64, dtype, 3, 4) == 0
    assert linear_nbytes(emulated, 6, 22, dtype, 3, 4) == 22 * tables + 6 * 22 * item


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("precision", ["double", "single"])
def test_memory_needed(cpu, precision, integrator):
    """The same but for tables and work areas; a step that varies fills the store."""
    emulated, control = EmulatedDevice(), {"step": 10.0}
    for control, lengths in (
        ({"step": 10.0}, len(set(INTEGRATORS[integrator].lengths(1.0)))),
        ({"max_phase": 0.1}, MOST_LENGTHS),
    ):
        options = PropagationOptions(integrator, precision=precision, **control)

        def needed(device, n, options=options):
            return memory_needed(FIBRE, n, options, device)

        tables, item = 16 * 3 * lengths, 16 if precision == "double" else 8
        assert needed(cpu, 4096) - needed(emulated, 4096) == 4096 * tables
        assert needed(emulated, 4097) - needed(cpu, 4097) == 6 * 4097 * item


def test_bytes_of_a_transfer_function(cpu):
    assert operators_for(cpu, 60).propagation.table_bytes == 16 * 3 * 60
    assert operators_for(EmulatedDevice(), 60).propagation.table_bytes == 0
    assert operators_for(EmulatedDevice(), 22).propagation.table_bytes == 16 * 3 * 22


# --- Whole steps ------------------------------------------------------------------------------------------

BETA = np.array(
    [[0, -20e-27, 0.1e-39, 2e-54], [0.4e-15, -22e-27, 0.1e-39, 2e-54], [-0.7e-15, -19e-27, 0.1e-39, 2e-54]]
)


@pytest.mark.parametrize(("dtype", "allowed"), [(DOUBLE, 1e-13), (SINGLE, 2e-6)], ids=["double", "single"])
@pytest.mark.parametrize("integrator", ALL)
def test_integrators(cpu, gpu, integrator, dtype, allowed):
    """A few steps by sweeps, and on the CPU by whole transforms."""
    kappa = [[0.9, 0.5, 0.4], [0.6, 1.1, 0.3], [0.4, 0.3, 0.8]]
    fibre = make_fibre(kappa, beta=BETA, alpha=[0.04e-3, 0.06e-3, 0.05e-3])
    field, outs = smooth_field(6, 60, 60e-3, width=0.2), []
    for device in (cpu, gpu):
        operators = FibreOperators(device, fibre, 60, RATE, dtype)
        A = place(device, field.astype(dtype))
        INTEGRATORS[integrator](operators).advance(A, 400.0, 3)
        outs.append(device.to_host(A).copy())
    assert distance(outs[0], field) > 0.1
    assert distance(outs[1], outs[0]) < allowed

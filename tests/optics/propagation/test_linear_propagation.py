"""Which way linear propagation takes, what it keeps and needs; whole steps by kernels and by transforms."""

from dataclasses import replace

import numpy as np
import pytest
from emulated_device import EmulatedDevice
from fibre_cases import (
    ALL,
    FIBRE,
    RATE,
    distance,
    launch,
    make_fibre,
    propagator,
    put,
    repeated_as_captured,
    smooth_field,
)
from linear_cases import (
    COEFFICIENTS,
    DOUBLE,
    ROWS,
    SINGLE,
    TOLERANCE,
    device_named,
    draw,
    fused_of,
    to_device,
)

from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.kernels.fused_linear_cuda import FusedSteps
from wavefabric.optics.propagation.kernels.fused_plan import fused_plan
from wavefabric.optics.propagation.linear_propagation import (
    MOST_LENGTHS,
    ProductsInTransforms,
    TransformsAndTable,
)
from wavefabric.optics.propagation.operators import FibreOperators, fused_plan_of, linear_nbytes
from wavefabric.optics.propagation.propagate import PropagationOptions, memory_needed


@pytest.fixture(scope="module", params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def gpu(request):
    """A device that takes kernels."""
    return device_named(request.param)


def table_of(device, n, dtype, rows):
    kernels = device.kernels("wavefabric.optics.propagation.kernels.kerr")
    table_row = np.array(ROWS[rows], np.int32)
    kind = ProductsInTransforms if device.name == "cpu" else TransformsAndTable
    fft = device.row_fft(rows, n, dtype)
    return kind(device, kernels, COEFFICIENTS, device.asarray(table_row), n, 1.0, fft)


# --- Both ways --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
def test_both_ways_agree(gpu, dtype):
    field = draw(6, 210, dtype)
    outs = []
    for variant in (fused_of(gpu, fused_plan(210, dtype), 6), table_of(gpu, 210, dtype, 6)):
        A = to_device(gpu, field)
        for length in (0.8, -0.3, 0.8):
            variant.propagate(A, length)
        outs.append(gpu.to_host(A))
    assert distance(*outs) < 3 * TOLERANCE[dtype]


@pytest.fixture(
    scope="module",
    params=[
        ("cpu", "table"),
        ("emulated", "table"),
        ("emulated", "fused"),
        pytest.param(("cuda", "table"), marks=pytest.mark.gpu),
        pytest.param(("cuda", "fused"), marks=pytest.mark.gpu),
    ],
    ids="-".join,
)
def variant(request):
    """Makes a linear propagation of two rows of 64 samples, with its device."""
    name, kind = request.param
    device = device_named(name)

    def make():
        if kind == "table":
            return table_of(device, 64, DOUBLE, 2)
        return fused_of(device, fused_plan(64, DOUBLE), 2)

    return device, make


def address(table):
    """Where a transfer function lies."""
    return table.ctypes.data if isinstance(table, np.ndarray) else table.data.ptr


def test_a_transfer_function_is_made_once(variant):
    device, make = variant
    propagation = make()
    table = propagation.prepare(0.5)
    assert propagation.prepare(0.5) is table
    assert list(propagation.factors) == [0.5]
    propagation.propagate(to_device(device, draw(2, 64, DOUBLE)), 0.5)
    assert propagation.prepare(0.5) is table
    assert propagation.replaced == 0


def test_the_least_recently_used_gives_way(variant):
    device, make = variant
    propagation = make()
    lengths = [0.1 * k for k in range(1, MOST_LENGTHS + 1)]
    tables = {length: propagation.prepare(length) for length in lengths}
    assert propagation.replaced == 0
    assert len({address(table) for table in tables.values()}) == MOST_LENGTHS
    propagation.prepare(lengths[0])
    A = to_device(device, draw(2, 64, DOUBLE))
    propagation.propagate(A, lengths[1])
    # The third is now the one not used for longest.
    new = propagation.prepare(9.0)
    assert propagation.replaced == 1
    assert list(propagation.factors) == [*lengths[3:], lengths[0], lengths[1], 9.0]
    # It was made where the third was: a step captured with that one would read this.
    assert address(new) == address(tables[lengths[2]])
    fresh = make().prepare(9.0)
    assert (device.to_host(new) == device.to_host(fresh)).all()
    for length in [*lengths[3:], *lengths[:2]]:
        assert propagation.prepare(length) is tables[length]
    assert propagation.replaced == 1
    propagation.prepare(lengths[2])
    assert propagation.replaced == 2


def test_lengths_come_and_go(variant):
    device, make = variant
    propagation, field = make(), draw(2, 64, DOUBLE)
    A = to_device(device, field)
    for length in np.tile(np.linspace(-0.9, 0.9, 8), 2):
        propagation.propagate(A, float(length))
    assert len(propagation.factors) == MOST_LENGTHS
    assert propagation.replaced > 0
    assert distance(device.to_host(A), field) < 1e-13


class CapturingDevice(EmulatedDevice):
    """Repeats a step as a CUDA graph does, with the transfer functions of its capture."""

    operators = None

    def graph(self, work, kernels_alone=False):
        return repeated_as_captured(self.operators.propagation, work)


@pytest.mark.slow
def test_captured_steps_when_lengths_give_way():
    """Four lengths a step, four more to measure its error: when one is gone, a step is captured again."""
    outs = []
    for device in (EmulatedDevice(), CapturingDevice()):
        runner = propagator(device, 16, integrator="blanes_moan", step=50.0)
        assert isinstance(runner.operators.propagation, FusedSteps)
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
        assert fused_plan_of(emulated, n, DOUBLE) is None
        assert isinstance(operators_for(emulated, n).propagation, TransformsAndTable)
    assert fused_plan_of(emulated, 60, SINGLE) == fused_plan(60, SINGLE)
    assert isinstance(operators_for(emulated, 60).propagation, FusedSteps)
    assert fused_plan_of(cpu, 60, DOUBLE) is None
    emulated.block_memory = 512
    assert fused_plan_of(emulated, 60, SINGLE) is None
    assert isinstance(operators_for(cpu, 60).propagation, ProductsInTransforms)


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


@pytest.mark.parametrize(("emulated", "tables"), [(False, 6 * 16 * 3 * 64), (True, 0)])
def test_the_local_error_is_measured_where_there_is_space(cpu, monkeypatch, emulated, tables):
    """Space for two fields and for the transfer functions that may be made."""
    device, measured = EmulatedDevice() if emulated else cpu, []
    runner = propagator(device, 64, integrator="rk4ip", step=50.0)
    for free in (2 * 6 * 64 * 16 + tables - 1, 2 * 6 * 64 * 16 + tables):
        monkeypatch.setattr(device, "memory", lambda free=free: (free, free))
        runner.run(put(runner, launch(64, power=30e-3)), 100.0)
        measured.append(runner.report.local_error)
    assert np.isnan(measured).tolist() == [True, False]


# --- Whole steps ------------------------------------------------------------------------------------------

BETA = np.array(
    [[0, -20e-27, 0.1e-39, 2e-54], [0.4e-15, -22e-27, 0.1e-39, 2e-54], [-0.7e-15, -19e-27, 0.1e-39, 2e-54]]
)


@pytest.mark.parametrize(
    ("dtype", "allowed"),
    [(DOUBLE, 1e-13), pytest.param(SINGLE, 2e-6, marks=pytest.mark.slow)],
    ids=["double", "single"],
)
@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("apart", [False, True], ids=["", "polarisations-apart"])
def test_integrators(cpu, gpu, integrator, dtype, allowed, apart):
    """A few steps by kernels, and on the CPU by whole transforms."""
    kappa = [[0.9, 0.5, 0.4], [0.6, 1.1, 0.3], [0.4, 0.3, 0.8]]
    fibre = make_fibre(kappa, beta=BETA, alpha=[0.04e-3, 0.06e-3, 0.05e-3])
    if apart:
        fibre = replace(fibre, row_delays=1e-15 * np.array([1, -1, 2, 0.5, 0, 0]))
    field, outs = smooth_field(6, 60, 60e-3, width=0.2), []
    for device in (cpu, gpu):
        operators = FibreOperators(device, fibre, 60, RATE, dtype)
        A = to_device(device, field.astype(dtype))
        INTEGRATORS[integrator](operators).advance(A, 400.0, 3)
        outs.append(device.to_host(A).copy())
    assert distance(outs[0], field) > 0.1
    assert distance(outs[1], outs[0]) < allowed

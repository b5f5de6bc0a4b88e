"""Devices that tests run on (``cuda`` only with ``-m gpu``), and tests that need several ranks.

A test marked ``parallel(n)`` (or ``parallel([2, 4])``) runs on every rank of ``mpiexec -n n``. A plain run
leaves these to `test_ranks.py`, which starts mpiexec once for each number.
"""

import gc
import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest

from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange.launch import environment

_CUDA = pytest.param("cuda", marks=pytest.mark.gpu)
# Else a kernel is loaded when it is first launched, which waits for kernels that run: see `one_gpu.py`.
os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
# The user's own list of fonts may name some that are gone.
os.environ.setdefault("MPLCONFIGDIR", str(Path(__file__).parents[1] / ".pytest_cache" / "matplotlib"))
_TIMEOUT = 60.0

if find_spec("hypothesis"):
    from hypothesis import HealthCheck, settings

    # No test depends on how busy the machine is.
    settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy machine")

# In the background of a script SIGINT is ignored, and what tests start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", params=["cpu", _CUDA])
def device(request):
    """The CPU, and the first GPU."""
    return get_device(request.param, threads=1)


@pytest.fixture(scope="session", params=["cpu", "emulated", _CUDA])
def kernel_device(request):
    """The CPU, CUDA kernels emulated on the CPU, and the first GPU."""
    if request.param == "emulated":
        from emulated_device import EmulatedDevice

        return EmulatedDevice()
    return get_device(request.param, threads=1)


@pytest.fixture(scope="session")
def cpu():
    """The CPU with one thread: small fields gain nothing from more, and tests share the machine."""
    return get_device("cpu", threads=1)


@pytest.fixture(scope="session")
def comm():
    """All ranks of this run: one CPU thread each, through MPI, or as the environment says on GPUs.

    WAVEFABRIC_TEST_TRANSPORT names a transport, or is ``emulated`` for GPUs emulated on the CPU.
    """
    from wavefabric.runtime.exchange import TRANSPORTS, world

    if os.environ.get("WAVEFABRIC_TEST_TRANSPORT") == "emulated":
        from emulated_device import emulated_world

        return emulated_world()
    if name := os.environ.get("WAVEFABRIC_TEST_TRANSPORT"):
        return world(name, device="cuda" if TRANSPORTS[name].cuda else get_device("cpu", threads=1))
    return world("mpi", device=get_device("cpu", threads=1))


@pytest.fixture(scope="module")
def transports():
    """The modules of the transports between GPUs, over a fake CuPy whose GPUs are threads."""
    from fake_gpus import fake_cupy

    with fake_cupy() as modules:
        yield modules


@pytest.fixture(params=["emulated", _CUDA])
def one_sided_ranks(request, monkeypatch):
    """Runs a function of a communicator on so many ranks whose kernels store in each other's memory."""
    if request.param == "cuda":
        from one_gpu import together_on_one_gpu

        if os.environ.get("WAVEFABRIC_TEST_GRAPHS") == "no":
            from wavefabric.acoustics.solver.layout import FieldLayout

            monkeypatch.setattr(FieldLayout, "captured", False)
        return together_on_one_gpu
    from fake_gpus import EmulatedGpu, together

    transports = request.getfixturevalue("transports")  # not on a GPU, where CuPy is needed
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    return lambda size, work: together(transports, "p2p", size, work, make=EmulatedGpu)


@pytest.fixture
def ranks_apart():
    """For ranks that a test starts: this worker's cores alone, since one that waits takes others' time."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = sorted(os.sched_getaffinity(0))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    os.sched_setaffinity(0, cores[number :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))] or cores)
    yield
    os.sched_setaffinity(0, cores)


def _wanted(item) -> list[int]:
    mark = item.get_closest_marker("parallel")
    if mark is None:
        return []
    (ranks,) = mark.args
    return [ranks] if isinstance(ranks, int) else list(ranks)


def pytest_collection_modifyitems(config, items):
    here = environment.ranks()
    keep = [item for item in items if (here in _wanted(item) if here > 1 else not _wanted(item))]
    kept = set(keep)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    # The longest first; one alone when most kernels are compiled, or each of its ranks would wait for them.
    longest = [item for item in keep if "test_ranks.py::test_parallel" in item.nodeid]
    others = [item for item in keep if item not in longest]
    before = len(others) // 3 if len(longest) == 1 else 0
    items[:] = others[:before] + longest + others[before:]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """The garbage collector need not look through thousands of tests again and again: all of them stay."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" and environment.ranks() > 1:
        _agree(item, report)
    return report


_channel = []


def _agree(item, report) -> None:
    """A test that fails on one rank fails on all; where others hang, everything ends."""
    from mpi4py import MPI

    from wavefabric.runtime.exchange.control import MPIControl

    if not _channel:
        # Collective, and nothing before it can hang: the first test of a run is where all ranks meet.
        _channel.append(MPIControl(MPI.COMM_WORLD))
    control = _channel[0]
    text = str(report.longrepr) if report.failed else ""
    result = control.gather_failures(text[-3500:], int(report.failed), _TIMEOUT)
    if result is None:
        print(f"rank {control.rank} of {control.size}: {item.nodeid}: others hang\n{text}", flush=True)
        os._exit(1) if control.size == 1 else control.abort(1)
    bad = [rank for rank, (_, failed) in enumerate(result or []) if failed]
    if bad and not report.failed:
        report.outcome = "failed"
        report.longrepr = f"failed on rank {bad[0]}: {result[bad[0]][0]}"


def pytest_runtest_setup(item):
    if environment.ranks() > 1 and not _channel:
        from mpi4py import MPI

        from wavefabric.runtime.exchange.control import MPIControl

        _channel.append(MPIControl(MPI.COMM_WORLD))

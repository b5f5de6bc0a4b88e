"""What every device offers, on the CPU (and the same on a GPU), and the choice of a device."""

import os
import threading
from importlib.util import find_spec

import numpy as np
import pytest
from emulated_device import opened

from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.runtime.device import describe, get_device
from wavefabric.runtime.device.cpu import CpuDevice

TYPES = [np.complex128, np.complex64]
TOLERANCE = {np.complex128: 1e-14, np.complex64: 2e-6}


def noise(shape, dtype=np.complex128):
    rng = np.random.default_rng(1)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def put(device, array):
    out = device.empty(array.shape, array.dtype)
    out[...] = device.asarray(array)
    return out


def close(got, wanted, dtype):
    assert abs(got - wanted).max() < TOLERANCE[dtype] * abs(wanted).max()


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 3, 4), (0, 7)])
@pytest.mark.parametrize("dtype", [np.complex64, np.float64, np.uint8])
def test_arrays(device, shape, dtype):
    for make in (device.empty, device.zeros):
        array = make(shape, dtype)
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        assert array.flags.c_contiguous
    assert (device.to_host(device.zeros(shape, dtype)) == 0).all()


def test_arrays_are_aligned_for_vectors(cpu):
    for size in range(1, 40):
        assert cpu.empty((size,), np.complex64).ctypes.data % 64 == 0


def test_to_and_from_the_host(device):
    host = noise((3, 4))
    there = device.asarray(host)
    np.testing.assert_array_equal(device.to_host(there), host)
    assert device.asarray(there) is there
    assert device.asarray(host, np.complex64).dtype == np.complex64


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (3, 1 << 19)])
def test_copies_between_device_and_host(device, shape):
    device = CpuDevice(2) if device.name == "cpu" else device
    array, on_host = put(device, np.asarray(noise(shape))), device.host_empty(shape, complex)
    back, second = device.zeros(shape, complex), device.zeros(shape, complex)
    for target, source in ((on_host, array), (back, on_host), (second, back)):
        device.copy(target, source)
    assert isinstance(on_host, np.ndarray)
    np.testing.assert_array_equal(device.to_host(second), device.to_host(array))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 64, 625, 1037])
def test_out_of_place_transforms(device, n, dtype):
    host = noise((3, n), dtype)
    array = device.asarray(host)
    for mine, theirs in ((device.fft, np.fft.fft), (device.ifft, np.fft.ifft)):
        for axis in (-1, 0):
            out = mine(array, axis=axis)
            assert out.dtype == dtype
            close(device.to_host(out), theirs(host.astype(complex), axis=axis), dtype)
    np.testing.assert_array_equal(device.to_host(array), host)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 64, 625, 1037])
def test_row_transforms_in_place(device, n, dtype):
    host = noise((5, n), dtype)
    rows, plan = put(device, host), device.row_fft(5, n, dtype)
    plan.forward(rows)
    close(device.to_host(rows), np.fft.fft(host.astype(complex)), dtype)
    # The inverse is not scaled.
    plan.backward(rows)
    close(device.to_host(rows), n * host.astype(complex), dtype)
    # Fewer rows, or one by itself; the others stay.
    some = put(device, host)
    plan.forward(some[1:3])
    plan.forward(some[4])
    wanted = host.astype(complex)
    wanted[[1, 2, 4]] = np.fft.fft(wanted[[1, 2, 4]])
    close(device.to_host(some), wanted, dtype)


def test_rows_are_independent_of_the_batch_and_of_threads():
    host = noise((6, 1037))
    outs = []
    for threads in (1, 2):
        device = opened(f"cpu {threads}")
        rows, plan = put(device, host), device.row_fft(6, 1037, host.dtype)
        device.map_rows(6, lambda part, rows=rows, plan=plan: plan.forward(rows[part]))
        outs.append(rows)
    assert (outs[0] == outs[1]).all()


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_every_row_is_worked_on_once(device, rows):
    seen = []
    device.map_rows(rows, lambda part: seen.extend(range(rows)[part]))
    assert sorted(seen) == list(range(rows))


def test_an_error_in_a_thread_comes_out():
    device = CpuDevice(min(2, os.cpu_count() or 1))

    def work(part):
        if part.start == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        device.map_rows(2, work)


def test_threads_are_used():
    try:
        device = CpuDevice(2)
    except InputError:
        pytest.skip("this machine has one core")
    meet = threading.Barrier(2, timeout=120)
    device.map_rows(2, lambda part: meet.wait() and None)


def test_graph_repeats_work(device):
    count = device.zeros((1,), np.float64)

    def work():
        count[...] += 1

    again = device.graph(work)
    before = float(device.to_host(count)[0])
    for _ in range(3):
        again()
    device.synchronize()
    assert float(device.to_host(count)[0]) == before + 3


def test_memory(device):
    free, total = device.memory()
    assert 0 < free <= total


def test_memory_within_a_control_group(monkeypatch, tmp_path):
    monkeypatch.setattr("wavefabric.base.system.machine._CGROUP", tmp_path)
    device = CpuDevice(1)
    assert 0 < device.memory()[0] <= device.memory()[1]
    (tmp_path / "memory.current").write_text("1000000\n")
    for limit, wanted in (("3000000", (2_000_000, 3_000_000)), ("500000", (0, 500_000))):
        (tmp_path / "memory.max").write_text(limit + "\n")
        assert device.memory() == wanted
    (tmp_path / "memory.max").write_text("max\n")
    assert device.memory()[1] > 3_000_000


def test_kernels_of_a_module(cpu):
    """Made for the device, or the module itself."""
    from wavefabric.optics.propagation.kernels import kerr
    from wavefabric.runtime.device import products

    assert isinstance(cpu.kernels("wavefabric.optics.propagation.kernels.kerr"), kerr.CpuKerrKernels)
    assert cpu.kernels("wavefabric.runtime.device.products") is products


@pytest.mark.parametrize("name", ["gpu", "cpu:1", "cuda:x", "cuda:-1", "", "CUDA"])
def test_unknown_devices(name):
    with pytest.raises(InputError, match="device"):
        get_device(name)


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_bad_thread_counts(threads):
    with pytest.raises(InputError, match="threads"):
        get_device("cpu", threads)


@pytest.mark.skipif(find_spec("cupy") is not None, reason="CuPy is installed")
def test_without_cupy():
    with pytest.raises(MissingExtra, match=r"wavefabric\[cuda\]"):
        get_device("cuda")
    assert get_device("auto").name == "cpu"
    assert describe()["cuda"] == "not installed"


@pytest.mark.gpu
def test_a_gpu_that_is_not_there():
    with pytest.raises(InputError, match="device"):
        get_device("cuda:1000")


def test_description():
    result = describe()
    assert result["cpu"]["threads"] >= 1
    assert result["cpu"]["model"]

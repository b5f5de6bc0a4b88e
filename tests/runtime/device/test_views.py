"""Arrays of other libraries seen by a device: the same memory, or refused."""

import sys
import weakref
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from dlpack_arrays import DLPack

from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.runtime.device import get_device, host_array
from wavefabric.runtime.device.bfloat16 import bfloat16, named
from wavefabric.runtime.device.user_arrays import as_array


class Interface:
    """Offers a NumPy array by ``__array_interface__`` alone."""

    def __init__(self, array):
        self.array, self.__array_interface__ = array, array.__array_interface__


class OldDLPack(DLPack):
    """As before DLPack 1.0, which knows nothing of read-only memory."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


@pytest.mark.parametrize("exporter", [lambda array: array, Interface, DLPack, OldDLPack])
@pytest.mark.parametrize("part", [np.s_[...], np.s_[::2, 1:], np.s_[1, 1]])
def test_a_view_is_the_same_memory(cpu, exporter, part):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    shown = array[part] if not isinstance(array[part], np.float32) else array[1:2, 1].reshape(())
    view = cpu.view(exporter(shown), write=True)
    assert (view.shape, view.dtype, view.tolist()) == (shown.shape, shown.dtype, shown.tolist())
    view[...] = -1
    assert (shown == -1).all()
    assert (array == -1).sum() == shown.size


@pytest.mark.parametrize("exporter", [lambda array: array, Interface, DLPack])
def test_read_only_memory_is_read_alone(cpu, exporter):
    array = np.arange(3.0)
    array.flags.writeable = False
    assert cpu.view(exporter(array)).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        cpu.view(exporter(array), write=True)


def test_numbers_and_lists_are_no_memory(cpu):
    assert cpu.view(np.float64(3)) == 3
    with pytest.raises(ValueError, match="read-only"):
        cpu.view(np.float64(3), write=True)
    assert cpu.view(3.0) is None
    assert cpu.view([1, 2]) is None


@pytest.mark.parametrize("exporter", [DLPack, OldDLPack])
def test_a_view_keeps_what_it_shows(cpu, exporter):
    array = np.arange(1000.0)
    watched = weakref.ref(array)
    view = cpu.view(exporter(array), write=True)
    del array
    assert watched() is not None
    assert view.sum() == 499500
    del view
    assert watched() is None


def test_what_is_borrowed_is_the_memory_but_does_not_keep_it(cpu):
    array = np.arange(6.0).reshape(2, 3)
    borrowed = cpu.borrow(array)
    borrowed[4] = -1
    assert (array[1, 1], borrowed.shape) == (-1, (6,))
    assert cpu.address(borrowed) == cpu.address(array) == array.ctypes.data
    watched = weakref.ref(array)
    del array
    assert watched() is None


def test_a_tensor_of_pytorch(cpu):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(4.0)
    cpu.view(tensor, write=True)[1] = 7
    assert tensor.tolist() == [0, 7, 2, 3]
    with pytest.raises((BufferError, RuntimeError)):
        cpu.view(torch.ones(2, requires_grad=True))


@pytest.mark.gpu
def test_memory_of_a_gpu():
    device = get_device("cuda")
    array = device.xp.arange(12, dtype=np.float32).reshape(3, 4)
    fixed = SimpleNamespace(__cuda_array_interface__=dict(array.__cuda_array_interface__))
    offered = SimpleNamespace(__cuda_array_interface__=array[1:].__cuda_array_interface__, kept=array)
    for number, each in enumerate((array[1:], offered, DLPack(array[1:]))):
        view = device.view(each, write=True)
        assert (view.shape, view.dtype) == ((2, 4), np.float32)
        view[...] = -number
        assert (array[1:] == -number).all()
    fixed.__cuda_array_interface__["data"] = (device.address(array), True)
    assert device.address(device.view(fixed)) == device.address(array)
    with pytest.raises(ValueError, match="read-only"):
        device.view(fixed, write=True)
    assert device.view(np.zeros(3)) is None
    assert device.view(DLPack(np.zeros(3))) is None
    borrowed = device.borrow(array)
    borrowed[5] = 7
    assert (float(array[1, 1]), borrowed.shape, device.address(borrowed)) == (7, (12,), device.address(array))


class _Torch:
    """A tensor of bfloat16 as PyTorch has it: offered by its words alone."""

    dtype = "torch.bfloat16"

    def __init__(self, array):
        self._array = array

    @property
    def __array_interface__(self):
        raise TypeError("Got unsupported ScalarType BFloat16")

    def view(self, dtype):
        return Interface(self._array.view(dtype))


def test_bfloat16(cpu, monkeypatch):
    array = np.arange(6).astype(bfloat16())
    for offered in (array, _Torch(array)):
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(int16=np.int16))
        view = cpu.view(offered, write=True)
        assert (view.dtype, view.tolist()) == (np.dtype(ml_dtypes.bfloat16), array.tolist())
        borrowed = cpu.borrow(view)
        assert borrowed.dtype == bfloat16()
        borrowed += borrowed
    assert array.tolist() == [0, 4, 8, 12, 16, 20]


class OnGpu:
    """An array of a GPU: NumPy cannot read it."""

    def __init__(self, array):
        self.array = array

    def __array__(self, *_):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


class Shared(OnGpu):
    __cuda_array_interface__ = {}  # noqa: RUF012


class Exported(OnGpu):
    def __dlpack_device__(self):
        return 2, 0


@pytest.mark.parametrize("kind", [Shared, Exported])
def test_an_array_of_a_gpu_is_copied(monkeypatch, kind):
    """By CuPy, by the protocol that the array has."""
    calls = {Shared: "asarray", Exported: "from_dlpack"}
    module = SimpleNamespace(asnumpy=lambda array: array.copy(), **{calls[kind]: lambda each: each.array})
    monkeypatch.setitem(sys.modules, "cupy", module)
    array = np.arange(6.0).reshape(2, 3)
    copied = host_array(kind(array))
    assert copied is not array
    assert (copied == array).all()
    assert (as_array(kind(array), "p0") == array).all()


def test_what_is_in_host_memory_stays_as_it_is():
    for array in (np.ones(3), [1, 2], 5.0, DLPack(np.ones(3))):
        assert host_array(array) is array


def test_what_numpy_cannot_read_is_refused():
    with pytest.raises(
        InputError, match=r"p0: Implicit conversion to a NumPy array is not allowed\.; allowed"
    ):
        as_array(OnGpu(np.ones(3)), "p0")


def test_bfloat16_needs_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    bfloat16.cache_clear()
    try:
        with pytest.raises(
            MissingExtra, match=r"^bfloat16 needs an optional package: pip install 'wavefabric\[bfloat16\]'"
        ):
            named("bfloat16")
        assert named("float32") == np.float32
    finally:
        bfloat16.cache_clear()

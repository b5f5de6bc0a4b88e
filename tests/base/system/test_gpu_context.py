"""The context of a GPU is begun on a thread; on machines without a driver nothing happens."""

import ctypes
import threading

import pytest

from wavefabric.base.system.gpu_context import begin_context


@pytest.fixture(autouse=True)
def first_call():
    begin_context.cache_clear()


class Driver:
    """libcuda: notes its calls and the threads that they come from."""

    def __init__(self, devices):
        self.devices, self.calls, self.threads = devices, [], set()

    def _called(self, name, *values):
        self.calls.append((name, *values))
        self.threads.add(threading.current_thread())

    def cuInit(self, flags):
        self._called("cuInit", flags)
        return 0 if self.devices else 100

    def cuDeviceGet(self, device, index):
        self._called("cuDeviceGet", index)
        device._obj.value = index + 40
        return 0 if index < self.devices else 101

    def cuDevicePrimaryCtxRetain(self, context, device):
        self._called("cuDevicePrimaryCtxRetain", device.value)
        return 0


@pytest.mark.parametrize(
    ("devices", "calls"),
    [
        (2, [("cuInit", 0), ("cuDeviceGet", 1), ("cuDevicePrimaryCtxRetain", 41)]),
        (1, [("cuInit", 0), ("cuDeviceGet", 1)]),
        (0, [("cuInit", 0)]),
    ],
)
def test_the_context_is_made_on_a_thread(monkeypatch, devices, calls):
    driver = Driver(devices)
    monkeypatch.setattr(ctypes, "CDLL", {"libcuda.so.1": driver}.__getitem__)
    thread = begin_context(1)
    thread.join()
    assert begin_context(1) is thread
    assert (driver.calls, driver.threads) == (calls, {thread})


def test_without_a_driver_nothing_happens(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert begin_context(0) is None

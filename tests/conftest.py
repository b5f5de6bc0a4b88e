"""Devices that tests run on; ``cuda`` only with ``-m gpu``."""

import pytest

from wavefabric.device import get_device

_CUDA = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(scope="session", params=["cpu", _CUDA])
def device(request):
    """The CPU, and the first GPU."""
    return get_device(request.param, threads=1)


@pytest.fixture(scope="session")
def cpu():
    """The CPU with one thread: small fields gain nothing from more, and tests share the machine."""
    return get_device("cpu", threads=1)

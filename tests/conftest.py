"""Devices that tests run on; ``cuda`` only with ``-m gpu``."""

import pytest

from wavefabric.device import get_device

_CUDA = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(scope="session", params=["cpu", _CUDA])
def device(request):
    """The CPU with all its threads, and the first GPU."""
    return get_device(request.param)


@pytest.fixture(scope="session")
def cpu():
    """The CPU with all its threads."""
    return get_device("cpu")

"""Communicators of the tests of exchange."""

import pytest

from wavefabric.runtime.exchange import Communicator


@pytest.fixture
def on_cpu(comm):
    """Tests of what only NumPy's arrays show."""
    if comm.device.name != "cpu":
        pytest.skip("NumPy's arrays")


@pytest.fixture
def fresh(comm):
    """A communicator that has made nothing ready yet."""
    return Communicator(comm.control, comm.device, comm._transport)

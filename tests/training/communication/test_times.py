"""Time of calls: closed forms, exactness in the number of bytes, calls that run together."""

from math import ceil, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.collectives import verify
from wavefabric.collectives.registry import build
from wavefabric.errors import InputError
from wavefabric.fabric import check_plan, cost, load
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.photonic.budget import LinkBudget  # noqa: F401
from wavefabric.training.calls import Call
from wavefabric.training.communication.times import Communication, FreeCommunication, communication

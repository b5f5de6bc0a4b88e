"""Planted faults: whatever goes wrong in some interleaving of a plain interpreter is refused."""

import json
import random
from pathlib import Path

import pytest
from mscclpp_machine import mutants, wrong

from wavefabric.base.errors import InputError
from wavefabric.collectives import ScheduleError, build
from wavefabric.collectives.formats.mscclpp.read import from_mscclpp
from wavefabric.collectives.formats.mscclpp.write import to_mscclpp

DATA = Path(__file__).parents[3] / "data" / "mscclpp"
#: Plans, and how many faults of theirs do harm at least.
FILES = {"allreduce": 5, "allreduce_packet": 24, "allreduce_pipeline": 5, "reduce": 16, "reduce_pack": 16}
FILES |= {"reduce_pack_tbg": 16, "transfer_pack": 12, "transfer_pack_tbg": 16}
FILES |= {"packets_plain_scratch": 12, "two_nodes_packets": 8}
RING, NVLS = ("ring", "all-reduce", 3), ("nvls", "all-reduce", 3)
WRITTEN = [(RING, "Simple"), (RING, "LL"), (("direct", "all-gather", 3), "Simple"), (NVLS, "Simple")]


def _harmful(plan, sample):
    """How many of a sample of faults do harm in some order, or have no meaning: all must be refused."""
    faults, harmful = list(mutants(plan)), 0
    for what, mutant in random.Random(1).sample(faults, min(sample, len(faults))):
        try:
            from_mscclpp(json.dumps(mutant))
        except ScheduleError:
            harmful += wrong(mutant, 4) is not None
        except InputError:
            harmful += 1
        else:
            assert wrong(mutant, 30) is None, what
    return harmful


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * ("pipeline" in name)) for name in FILES]
)
def test_faults_of_public_plans_are_refused(name):
    plan = json.loads((DATA / f"{name}.json").read_text())
    assert _harmful(plan, 2 * FILES[name]) >= FILES[name]


@pytest.mark.parametrize(("algorithm", "proto"), WRITTEN)
def test_faults_of_written_plans_are_refused(algorithm, proto):
    plan = json.loads(to_mscclpp(build(*algorithm, 2 * algorithm[2]), proto=proto))
    assert _harmful(plan, 24) >= 12

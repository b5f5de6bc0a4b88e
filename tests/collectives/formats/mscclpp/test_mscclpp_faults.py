"""Planted faults: whatever goes wrong in some interleaving of a plain interpreter is refused."""

import json
import random
from pathlib import Path

import pytest
from mscclpp_machine import mutants, wrong

from wavefabric.collectives import build
from wavefabric.collectives.formats.mscclpp.read import from_mscclpp
from wavefabric.collectives.formats.mscclpp.write import to_mscclpp
from wavefabric.errors import InputError

DATA = Path(__file__).parents[3] / "data" / "mscclpp"
#: Plans, and how many faults of theirs do harm at least.
FILES = {
    "allreduce_packet": 24,
    "reduce": 16,
    "reduce_pack": 16,
    "reduce_pack_tbg": 16,
    "transfer_pack": 12,
    "transfer_pack_tbg": 16,
    "allreduce_pipeline": 5,
    "allreduce": 5,
}
WRITTEN = [
    (("ring", "all-reduce", 3), "Simple"),
    (("ring", "all-reduce", 3), "LL"),
    (("recursive", "all-reduce", 4), "LL"),
    (("direct", "all-gather", 3), "Simple"),
    (("nvls", "all-reduce", 3), "Simple"),
]


def _harmful(plan, sample):
    """Of a sample of faults, how many do harm; all those must be refused."""
    assert wrong(plan, 5) is None
    faults = list(mutants(plan))
    harmful = 0
    for what, mutant in random.Random(1).sample(faults, min(sample, len(faults))):
        try:
            from_mscclpp(json.dumps(mutant))
        except InputError:
            harmful += wrong(mutant, 4) is not None
        else:
            assert wrong(mutant, 30) is None, what
    return harmful


@pytest.mark.parametrize("name", FILES)
def test_faults_of_public_plans_are_refused(name):
    plan = json.loads((DATA / f"{name}.json").read_text())
    assert _harmful(plan, 2 * FILES[name]) >= FILES[name]


@pytest.mark.parametrize(("algorithm", "proto"), WRITTEN)
def test_faults_of_written_plans_are_refused(algorithm, proto):
    plan = json.loads(to_mscclpp(build(*algorithm, 2 * algorithm[2]), proto=proto))
    assert _harmful(plan, 24) >= 12

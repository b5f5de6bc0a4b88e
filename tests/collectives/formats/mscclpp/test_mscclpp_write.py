"""What is written runs, and is read back as the same schedule."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mscclpp_machine import wrong
from schedule_cases import builds, ends

from wavefabric.collectives import build, levels, verify
from wavefabric.collectives.conditions import operation
from wavefabric.collectives.formats.mscclpp.read import from_mscclpp
from wavefabric.collectives.formats.mscclpp.write import save_mscclpp, to_mscclpp
from wavefabric.errors import InputError


def _moved(schedule, names):
    """Moves of single chunks, with level, kind, and whether a switch does them."""
    rows = Counter()
    for row, level in zip(schedule.transfers, levels(schedule).tolist(), strict=True):
        for src, dst in ends(row):
            at = [
                (rank, names.get(schedule.buffers[b], schedule.buffers[b]), chunk)
                for rank, b, chunk in (src, dst)
            ]
            rows[level, *at, bool(row["reduce"]), row["switch"] > 0] += 1
    return rows


@settings(max_examples=200, deadline=None)
@given(case=builds(ranks=st.integers(2, 8), pieces=2), proto=st.sampled_from(("Simple", "LL")))
def test_round_trip(case, proto):
    (name, collective, ranks, _), options = case
    schedule = build(name, collective, ranks, 8 * 27 * 25 * 49 * ranks * options.get("pieces", 1), **options)
    try:
        back = from_mscclpp(to_mscclpp(schedule, proto=proto))
    except InputError as error:  # chunks of several sizes, or a switch that adds up for one GPU alone
        assert "chunks: " in str(error) or "what a switch does" in str(error)
        return
    verify(back)
    wanted, result = operation(schedule), operation(back)
    assert (result.collective, result.root) == (wanted.collective, wanted.root)
    names = {"recv": "output", "send": "input"} if "recv" not in back.buffers else {}
    if "data" in back.buffers or "recv" in back.buffers:
        assert _moved(back, {}) == _moved(schedule, names)


def test_a_plan_by_its_operations():
    plan = json.loads(to_mscclpp(build("ring", "all-reduce", 2, 2)))
    (block,) = plan["gpus"][0]["threadblocks"]
    assert [op["name"] for op in block["ops"]] == []

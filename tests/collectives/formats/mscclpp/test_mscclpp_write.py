"""What is written runs, and is read back as the same schedule."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mscclpp_machine import wrong
from schedule_cases import builds, ends

from wavefabric.base.errors import InputError
from wavefabric.collectives import build, verify
from wavefabric.collectives.conditions import operation
from wavefabric.collectives.formats.mscclpp.read import from_mscclpp
from wavefabric.collectives.formats.mscclpp.write import save_mscclpp, to_mscclpp


def _moved(schedule, names):
    """Moves of single chunks, their kinds, and whether a switch does them."""
    for row in schedule.transfers:
        for pair in ends(row):
            at = [(rank, names.get(name := schedule.buffers[b], name), chunk) for rank, b, chunk in pair]
            yield *at, bool(row["reduce"]), bool(row["switch"])


@pytest.mark.slow
@settings(max_examples=200)
@given(case=builds(ranks=st.integers(2, 8), pieces=2), proto=st.sampled_from(("Simple", "LL")))
def test_round_trip(case, proto):
    (name, collective, ranks, _), options = case
    schedule = build(name, collective, ranks, 25200 * ranks * options.get("pieces", 1), **options)
    try:
        back = from_mscclpp(to_mscclpp(schedule, proto=proto))
    except InputError as error:
        # Sums of one GPU alone; a mesh of one; more semaphores than the executor has.
        refusals = "what a switch does", "chunks: none", "its executor takes"
        if not any(text in str(error) for text in refusals):
            raise
        return
    verify(back)
    wanted, result = operation(schedule), operation(back)
    assert (result.collective, result.root) == (wanted.collective, wanted.root)
    # An all-to-all of one rank is read back as a copy.
    names = {} if "send" in back.buffers else {"send": "input", "recv": "output"}
    assert Counter(_moved(back, {})) == Counter(_moved(schedule, names))
    assert back.communication_rounds <= schedule.communication_rounds


@pytest.mark.slow
def test_instances_and_thread_blocks():
    schedule = build("ring", "all-reduce", 8, 8)
    plan = json.loads(to_mscclpp(schedule, instances=2))
    blocks = plan["gpus"][3]["threadblocks"]
    # Two of each instance, to the left and right.
    assert (len(blocks), plan["gpus"][3]["input_chunks"]) == (4, 16)
    assert wrong(json.loads(to_mscclpp(build("nvls", "all-reduce", 3, 3), instances=2)), 4) is None
    longer = json.loads(to_mscclpp(build("ring", "all-reduce", 17, 17)))
    assert {len(block["ops"]) <= 64 for gpu in longer["gpus"] for block in gpu["threadblocks"]} == {True}
    assert len(longer["gpus"][0]["threadblocks"]) > 2
    assert longer["requires"] == "MSCCL++ 0.8.0"
    assert json.loads(to_mscclpp(build("nvls", "broadcast", 4, 4)))["requires"] == "MSCCL++ after 0.9.0"


def test_ranks_of_a_round_do_not_wait_for_one_another():
    block = json.loads(to_mscclpp(build("ring", "all-reduce", 4, 4)))["gpus"][1]["threadblocks"][0]
    names = [
        "rlxwait",
        "nop",
        *["rre", "nop", "signal", "wait", "nop"] * 2,
        "rre",
        "nop",
        "sem_release",
        "wait",
    ]
    assert [op["name"] for op in block["ops"]] == names


@pytest.mark.parametrize("proto", ["Simple", "LL"])
@pytest.mark.parametrize("name", ["ring", "direct", "double-tree"])
def test_written_plans_run(name, proto):
    plan = json.loads(to_mscclpp(build(name, "all-reduce", 4, 8), proto=proto))
    assert wrong(plan, 8) is None


def test_what_cannot_be_written(tmp_path):
    for schedule, options, message in (
        (
            build("ring", "all-reduce", 3, 4),
            {},
            "chunks: 1 to 2 elements; allowed by MSCCL++: all of one size",
        ),
        (build("ring", "all-reduce", 2, 2), {"proto": "LL128"}, "proto: 'LL128'; allowed: Simple, LL"),
        (build("ring", "all-reduce", 2, 2), {"instances": 0}, "instances: 0; allowed: whole numbers from 1"),
        (build("nvls", "reduce", 3, 3), {}, "MSCCL++: what a switch does; allowed: multicasts"),
        (build("ring", "all-reduce", 73, 73), {}, "ranks: 73; allowed: whole numbers from 1 to 72"),
    ):
        with pytest.raises(InputError) as caught:
            save_mscclpp(tmp_path / "plan.json", schedule, **options)
        assert str(caught.value).startswith(message)
    assert not list(tmp_path.iterdir())

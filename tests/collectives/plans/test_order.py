"""Orders: which signals and waits a plan needs, and no others."""

import pytest

from wavefabric.collectives import build
from wavefabric.collectives.plans.moves import Address, Move, StagingBuffer
from wavefabric.collectives.plans.order import Barrier, Signal, Wait, ordered
from wavefabric.collectives.plans.plan import compile_plan


def words(plan, rank=0):
    """A rank's instructions in short: what is not a move by its text."""
    return ["move" if isinstance(each, Move) else str(each) for each in plan.instructions[rank]]


def test_a_put_into_a_buffer_waits_until_its_owner_has_begun():
    plan = compile_plan(build("direct", "all-gather", 3, 6))
    signal, begun, come = Signal((1, 2)), Wait(((1, 1), (2, 1))), Wait(((1, 2), (2, 2)))
    assert words(plan) == [str(signal), str(begun), "move", str(signal), str(come)]


def test_a_put_into_a_staging_buffer_waits_for_nothing():
    plan = compile_plan(build("direct", "all-reduce", 2, 6))
    assert words(plan) == ["move", str(Signal((1,))), str(Wait(((1, 1),))), "move"]
    # With one slot its receiver must have begun: it has read what was there in the call before.
    plan = compile_plan(build("direct", "all-reduce", 2, 6), slots=1)
    begin = [str(Signal((1,))), str(Wait(((1, 1),)))]
    assert words(plan) == [*begin, "move", str(Signal((1,))), str(Wait(((1, 2),))), "move"]


def test_a_put_after_a_signal_needs_no_other():
    """The owner's signal that its data are there says too that it has begun."""
    plan = compile_plan(build("ring", "all-reduce", 2, 8))
    assert plan.slots == 1
    assert words(plan) == [
        "move", str(Signal((1,))), str(Wait(((1, 1),))), "move", str(Signal((1,))), str(Wait(((1, 2),))),
    ]  # fmt: skip


def test_flags_of_packets_order_them_but_not_other_threads():
    plan = compile_plan(build("ring", "all-reduce", 2, 8), "packets")
    assert words(plan) == ["move", "move", str(Barrier()), "move"]


def test_what_one_rank_says_another_passes_on():
    """Rank 2 hears from rank 1 alone, which has heard from rank 0: it needs no signal of rank 0."""
    plan = compile_plan(build("ring", "broadcast", 3, 6))
    assert set(plan.signals) == {(1, 0), (0, 1), (2, 1), (1, 2)}


def test_several_puts_share_one_signal():
    plan = compile_plan(build("recursive", "all-reduce", 4, 16, radix=4))
    signals = [each for each in plan.instructions[0] if isinstance(each, Signal)]
    assert [each.to for each in signals] == [(1, 2, 3)] * 2
    assert plan.signals == {(a, b): 2 for a in range(4) for b in range(4) if a != b}


def address(rank, buffer, key):
    return Address(rank, buffer, 0, key)


@pytest.mark.parametrize("packets", [False, True])
def test_moves_of_a_rank_that_touch_are_apart(packets):
    """a to b and then b to c in one level: a barrier, since other threads wrote b."""
    a, b, c, d = (address(0, buffer, buffer) for buffer in range(4))
    one, two, three = (Move(0, 0, 1, (x,), (y,), 4) for x, y in ((a, b), (b, c), (c, d)))
    code = {
        "chain": (one, two, three),
        "apart": (one, three),
        "write after read": (two, one),
        "both write": (one, Move(0, 0, 1, (d,), (b,), 4)),
    }
    result = {}
    for name, moves in code.items():
        ((result[name],), signals, slots) = ordered(list(moves), (), 1, packets, None)
        assert (signals, slots) == ({}, 1 + packets)
    stop = Barrier()
    assert result == {
        "chain": (one, stop, two, stop, three),
        "apart": (one, three),
        "write after read": (two, stop, one),
        "both write": (one, stop, code["both write"][1]),
    }


def test_one_slot_only_where_its_staging_buffers_are_known_to_be_read():
    """Rank 1 answers after it has read: rank 0 may write there again; without an answer it may not."""
    staging = (StagingBuffer(1, 0, 4, 0),)
    stride, mine, there, back = address(1, -1, -1), address(0, 0, 0), address(1, 0, 1), address(0, 1, 2)
    put, read = Move(0, 0, 0, (mine,), (stride,), 4), Move(1, 0, 1, (stride,), (there,), 4)
    answer = Move(1, 1, 0, (there,), (back,), 4)
    *_, slots = ordered([put, read, answer], staging, 2, False, None)
    assert slots == 1
    codes, signals, slots = ordered([put, read], staging, 2, False, None)
    assert (signals, slots) == ({(0, 1): 1, (1, 0): 1}, 2)
    assert codes[0] == (put, Signal((1,)), Wait(((1, 1),)))
    codes, signals, slots = ordered([put, read], staging, 2, False, 1)
    assert (signals, slots) == ({(0, 1): 1, (1, 0): 1}, 1)
    assert codes[0] == (Wait(((1, 1),)), put, Signal((1,)))

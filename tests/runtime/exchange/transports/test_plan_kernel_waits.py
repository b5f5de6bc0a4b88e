"""The kernel's barriers, signals and waits, on the emulator: what is missing shows, who is late is named."""

from itertools import pairwise

import numpy as np
import pytest
from emulated_cuda import find_compiler
from emulated_plan import Ranks
from plan_cases import messages, noise, wrong
from plan_mutants import with_code

from wavefabric.collectives import build
from wavefabric.collectives.plans.moves import Move
from wavefabric.collectives.plans.order import Barrier, Wait
from wavefabric.collectives.plans.plan import compile_plan

#: Nanoseconds; the emulator's clock ticks once for each look at it.
SHORT = 3


@pytest.fixture(autouse=True)
def compiler():
    return find_compiler()


def wrong_on_noise(plan, calls=2, seed=0, **options):
    rng, schedule = np.random.default_rng(seed), plan.schedule
    ranks = Ranks(plan, "f4", **options)
    return ranks.wrong_after(
        calls,
        lambda result, data: wrong(schedule, result, data),
        lambda call: noise(schedule, "f4", rng),
        seed,
    )


def shows(plan):
    """Whether some order of threads and blocks gives wrong data."""
    return any(wrong_on_noise(plan, 2, seed, blocks=2, threads=64) for seed in range(30))


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("ring", "all-reduce"),
        pytest.param("direct", "all-reduce", marks=pytest.mark.slow),
        pytest.param("tree", "reduce", marks=pytest.mark.slow),
    ],
)
def test_a_missing_wait_shows(name, collective):
    """Each that is there for what the next move reads; all ranks have begun, and end before the next call."""
    plan, result = compile_plan(build(name, collective, 2, 96), "signals", 2), 0
    for rank, code in enumerate(plan.instructions):
        for at, (wait, move) in enumerate(pairwise(code)):
            if isinstance(wait, Wait) and isinstance(move, Move) and len(move.sources) > 1:
                assert shows(with_code(plan, rank, code[:at] + code[at + 1 :]))
                result += 1
    assert result
    assert not shows(plan)


@pytest.mark.slow
def test_a_missing_barrier_shows():
    """Packets are put by other threads than those that then overwrite what they were made of, in vectors."""
    plan = compile_plan(messages([(0, "0a", "1b"), (1, "0c", "0a")], elements=700), "packets")
    code = plan.instructions[0]
    (at,) = (k for k, each in enumerate(code) if each == Barrier())
    assert shows(with_code(plan, 0, code[:at] + code[at + 1 :]))
    assert not shows(plan)


@pytest.mark.parametrize("protocol", ["signals", pytest.param("packets", marks=pytest.mark.slow)])
def test_fewer_threads_than_ranks_that_are_waited_for(protocol):
    plan = compile_plan(build("direct", "all-reduce", 8, 21), protocol)
    gather = compile_plan(build("direct", "all-gather", 8, 21))
    for each in (plan, gather):
        assert not any(wrong_on_noise(each, 2, seed, blocks=2, threads=3) for seed in range(5))


@pytest.mark.parametrize(
    ("protocol", "slots"),
    [
        ("signals", 1),
        pytest.param("signals", 2, marks=pytest.mark.slow),
        pytest.param("packets", 2, marks=pytest.mark.slow),
    ],
)
def test_counts_of_calls_go_round(protocol, slots):
    for name in ("ring", "direct"):
        plan = compile_plan(build(name, "all-reduce", 3, 50), protocol, slots)
        for seed in range(3):
            assert not wrong_on_noise(plan, 5, seed, blocks=2, before=2**32 - 3)


def run_without(plan, absent, seed=0, blocks=2, calls=1):
    """Ranks after some calls to which some rank does not come, and what the others then hold."""
    ranks = Ranks(plan, "f4", blocks=blocks, timeout=SHORT)
    data = noise(plan.schedule, "f4", np.random.default_rng(0))
    here = [rank for rank in range(plan.schedule.ranks) if rank != absent]
    for call in range(calls):
        result = ranks.run(data, seed + call, here)
    return ranks, result, data


@pytest.mark.parametrize(("protocol", "slots"), [("signals", 1), ("signals", 2), ("packets", 2)])
@pytest.mark.parametrize("absent", [0, 1, 2])
def test_a_rank_that_does_not_come_is_named(protocol, slots, absent):
    """All others end, and their calls do not count."""
    plan = compile_plan(build("direct", "all-reduce", 3, 70), protocol, slots)
    for seed in range(3):
        ranks, _, _ = run_without(plan, absent, seed)
        for rank in range(3):
            assert ranks.late[rank][0] == (0 if rank == absent else 1 + absent)
            assert not ranks.calls[rank].any()


@pytest.mark.parametrize(("protocol", "slots"), [("signals", 2), ("packets", 2)])
@pytest.mark.parametrize("pieces", [1, 3])
def test_what_has_not_come_is_not_passed_on(protocol, slots, pieces):
    """Along a chain each rank that waits in vain names the one before it; none takes anything for data."""
    plan = compile_plan(build("ring", "broadcast", 4, 60, pieces=pieces), protocol, slots)
    for seed in range(5):
        ranks, result, data = run_without(plan, 0, seed)
        assert [int(late[0]) for late in ranks.late] == [0, 1, 2, 3]
        assert np.array_equal(result[3][0], data[3][0])


def test_a_rank_that_is_told_to_stop_does():
    """By its host, through the word in which it names others; it looks there eight times in its limit."""
    plan = compile_plan(build("direct", "all-reduce", 2, 70), "packets")
    ranks = Ranks(plan, "f4", blocks=2, timeout=100 * SHORT)
    ranks.late[0][0] = 77
    ranks.run(noise(plan.schedule, "f4", np.random.default_rng(0)), ranks=[0])
    assert ranks.late[0][0] == 77
    assert not ranks.calls[0].any()


@pytest.mark.parametrize("protocol", ["signals", pytest.param("packets", marks=pytest.mark.slow)])
def test_nobody_gives_up_before_time(protocol):
    """The emulator does, after a million turns, each with a look at the clock now and then."""
    ranks = Ranks(compile_plan(build("direct", "all-reduce", 2, 2), protocol), "f4", threads=1)
    with pytest.raises(AssertionError, match="blocks wait for one another in vain"):
        ranks.run(noise(build("direct", "all-reduce", 2, 2), "f4", np.random.default_rng(0)), ranks=[0])
    assert not ranks.late[0][0]


# --- Packets -----------------------------------------------------------------------------------------------


def packets_of(ranks, rank):
    """(slot, packet, word) of a rank's staging buffers: data, flag, data, flag."""
    return ranks.staging[rank].view(np.uint32).reshape(2, -1, 4)


def test_slots_take_turns():
    """A packet is 8 bytes of data between flags that say of which call it is."""
    plan = compile_plan(build("direct", "broadcast", 2, 6), "packets")
    ranks, inputs = Ranks(plan, "f4"), {}
    for call in (1, 2, 3):
        inputs[call] = noise(plan.schedule, "f4", np.random.default_rng(call))
        ranks.run(inputs[call])
    stride = packets_of(ranks, 1)[:, :3]
    for which, call in ((1, 3), (0, 2)):
        assert (stride[which][:, [1, 3]] == call).all()
        assert stride[which][:, [0, 2]].ravel().view(np.float32).tolist() == inputs[call][0][0].tolist()


@pytest.mark.parametrize("flags", [(1, 1), (0, 1), (1, 0), (2, 2)])
def test_half_a_packet_is_not_taken(flags):
    """Both flags must be those of the call: halves of 8 bytes may come one after the other."""
    plan = compile_plan(build("direct", "broadcast", 2, 4), "packets")
    ranks = Ranks(plan, "f4", timeout=SHORT)
    packets_of(ranks, 1)[1, :2] = np.array([7, flags[0], 8, flags[1]], np.uint32)
    zeros = [[np.zeros(4, np.float32)] for _ in range(2)]
    result = ranks.run(zeros, ranks=[1])[1][0].view(np.uint32).tolist()
    come = flags == (1, 1)
    assert result == ([7, 8, 7, 8] if come else [0, 0, 0, 0])
    assert int(ranks.late[1][0]) == (0 if come else 1)

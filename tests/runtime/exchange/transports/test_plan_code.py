"""Encoding: what the kernel is told, number by number, and where staging buffers lie."""

import re
from importlib.resources import files

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives import build
from wavefabric.collectives.plans.moves import STAGING, Move
from wavefabric.collectives.plans.order import Barrier, Signal, Wait
from wavefabric.collectives.plans.plan import compile_plan
from wavefabric.runtime.exchange.transports import plan_code
from wavefabric.runtime.exchange.transports.plan_code import (
    INSTRUCTION,
    MARK,
    MOST_BLOCKS,
    OPERAND,
    RankMemory,
    StagingLayout,
    element_type,
    encode,
    has_sums,
)

KINDS = {Move: 0, Signal: 1, Wait: 2, Barrier: 3}


def memory_of(plan):
    """Addresses that say what they are: rank, then buffer, staging or counters."""
    return [
        RankMemory([(r + 1) << 40 | b << 32 for b in range(len(plan.schedule.buffers))], at, at | 1 << 36)
        for r in range(plan.schedule.ranks)
        for at in [(r + 1) << 40 | 1 << 38]
    ]


@pytest.mark.parametrize("protocol", ["signals", "packets"])
@pytest.mark.parametrize(("dtype", "numbers"), [("f2", 1), ("f4", 1), ("c8", 2), ("c16", 2), ("i8", 1)])
@pytest.mark.parametrize("name", ["ring", "direct", "recursive-exchange"])
def test_every_number(protocol, dtype, numbers, name):
    plan, itemsize = compile_plan(build(name, "all-reduce", 4, 13), protocol), np.dtype(dtype).itemsize
    memory, memories = memory_of(plan), [StagingLayout(plan, rank, itemsize) for rank in range(4)]
    for rank, instructions in enumerate(plan.instructions):
        code = encode(plan, rank, dtype, memory)
        assert (code.instructions.dtype, code.operands.dtype, code.marks.dtype) == (
            INSTRUCTION,
            OPERAND,
            MARK,
        )
        operands, marks, sent = 0, 0, dict.fromkeys(range(4), 0)
        assert len(code.instructions) == len(instructions)
        for one, each in zip(code.instructions, instructions, strict=True):
            assert one["kind"] == KINDS[type(each)]
            if isinstance(each, Move):
                assert one["first"] == operands
                assert (one["sources"], one["targets"]) == (len(each.sources), len(each.targets))
                assert one["size"] == numbers * each.size
                packed = [
                    sum(1 << k for k, address in enumerate(addresses) if address.buffer == STAGING)
                    for addresses in (each.sources, each.targets)
                ]
                wanted = packed if protocol == "packets" else [0, 0]
                assert [one["packed_sources"], one["packed_targets"]] == wanted
                for address in (*each.sources, *each.targets):
                    at, stride, sender = code.operands[operands]
                    if address.buffer == STAGING:
                        here, number = memories[address.rank], -1 - address.key
                        assert at == memory[address.rank].staging + here.offsets[number]
                        assert (stride, sender) == (here.nbytes, plan.staging[number].sender)
                    else:
                        assert at == memory[address.rank].buffers[address.buffer] + itemsize * address.first
                        assert stride == 0
                    operands += 1
                continue
            ends = []
            if isinstance(each, Signal):
                for peer in each.to:
                    sent[peer] += 1
                    ends.append((peer, sent[peer], memory[peer].counters + 4 * MOST_BLOCKS * rank))
            elif isinstance(each, Wait):
                ends = [(p, n, memory[rank].counters + 4 * MOST_BLOCKS * p) for p, n in each.signals]
            assert one["sources"] == len(ends)
            for peer, number, counters in ends:
                variant = (rank, peer) if isinstance(each, Signal) else (peer, rank)
                assert one["first"] <= marks < one["first"] + one["sources"]
                assert tuple(code.marks[marks]) == (counters, plan.signals[variant], number, peer)
                marks += 1
        assert (operands, marks) == (len(code.operands), len(code.marks))


def test_structures_are_those_of_the_kernel():
    """The same members in the same order, laid out as C does: each at a multiple of its size."""
    text = files("wavefabric.runtime.exchange.transports").joinpath("plan.cu").read_text(encoding="utf-8")
    for name, dtype in (("Instruction", INSTRUCTION), ("Operand", OPERAND), ("Mark", MARK)):
        body = text.split(f"struct {name} {{")[1].split("}")[0]
        members = re.findall(r"(\w+)(?=[,;])", re.sub("//.*", "", body))
        assert members == list(dtype.names)
        assert np.dtype([(member, dtype[member]) for member in members], align=True) == dtype
    kinds = re.search(r"enum Kind { ([\w, ]+) }", text)
    assert kinds is not None
    assert [getattr(plan_code, f"_{kind}") for kind in kinds[1].split(", ")] == list(range(5))


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("protocol", ["signals", "packets"])
def test_staging_buffers_have_memory_of_their_own(protocol, itemsize):
    plan = compile_plan(build("recursive", "all-reduce", 4, 37, radix=4), protocol)
    for rank in range(4):
        memory, end = StagingLayout(plan, rank, itemsize), 0
        assert sorted(memory.offsets) == [n for n, a in enumerate(plan.staging) if a.rank == rank]
        for number, at in sorted(memory.offsets.items(), key=lambda item: item[1]):
            nbytes = plan.staging[number].size * itemsize
            if protocol == "packets":
                assert at % 16 == 0
                nbytes = -(-nbytes // 8) * 16
            else:
                assert at % 16 == plan.staging[number].first * itemsize % 16
            assert end <= at < end + 32
            end = at + nbytes
        assert end <= memory.nbytes < end + 128
        assert memory.nbytes % 128 == 0


@pytest.mark.parametrize("name", ["ring", "direct", "recursive", "recursive-exchange"])
@pytest.mark.parametrize("elements", [36, 37, 39])
def test_sums_are_taken_in_vectors_whatever_the_size(name, elements):
    """All places of a pass begin alike in a vector, so that it can be read and written as vectors."""
    plan = compile_plan(build(name, "all-reduce", 4, elements))
    memories = [StagingLayout(plan, rank, 4) for rank in range(4)]

    def begins(address):
        if address.buffer == STAGING:
            return memories[address.rank].offsets[-1 - address.key] % 16
        return 4 * address.first % 16

    for each in (each for code in plan.instructions for each in code if isinstance(each, Move)):
        assert len({begins(address) for address in (*each.sources, *each.targets)}) == 1


def test_memory_that_a_rank_does_not_reach_is_not_needed():
    plan = compile_plan(build("ring", "all-reduce", 4, 8))
    memory = memory_of(plan)
    code = encode(plan, 0, "f4", [memory[0], memory[1], None, memory[3]])
    assert np.array_equal(code.operands, encode(plan, 0, "f4", memory).operands)


@pytest.mark.parametrize(
    ("dtype", "sums", "wanted"),
    [
        ("f2", True, ("float16", 1)),
        ("f4", True, ("float", 1)),
        ("c8", True, ("float", 2)),
        ("c16", True, ("double", 2)),
        ("i8", True, ("long long", 1)),
        ("u4", True, ("unsigned", 1)),
        ("f4", False, ("int", 1)),
        ("c16", False, ("long long", 2)),
        ("?", False, ("unsigned char", 1)),
        ("f2", False, ("unsigned short", 1)),
        (">f4", False, ("int", 1)),
    ],
)
def test_types(dtype, sums, wanted):
    assert element_type(dtype, sums) == wanted


@pytest.mark.parametrize(
    ("dtype", "sums", "message"),
    [
        (
            "?",
            True,
            "dtype: bool given; allowed for sums: float16, float32, float64, complex64, complex128, int32, ",
        ),
        ("i2", True, "dtype: int16 given; allowed for sums: "),
        (">f4", True, "dtype: >f4 given; allowed for sums: "),
        ("V3", False, "dtype: |V3 given; allowed: elements of 1, 2, 4, 8 or 16 bytes"),
    ],
)
def test_types_that_are_refused(dtype, sums, message):
    with pytest.raises(InputError) as error:
        element_type(dtype, sums)
    assert str(error.value).startswith(message)


def test_copies_alone_take_any_type():
    gather, sums = (compile_plan(build("ring", kind, 2, 8)) for kind in ("all-gather", "all-reduce"))
    assert (has_sums(gather), has_sums(sums)) == (False, True)
    assert encode(gather, 0, "i2", memory_of(gather)).instructions["size"].max() == 4
    with pytest.raises(InputError, match="int16"):
        encode(sums, 0, "i2", memory_of(sums))

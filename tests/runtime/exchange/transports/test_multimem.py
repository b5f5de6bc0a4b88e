"""Kernels of plans with multicasts and sums by a switch; one address stands for those of all ranks."""

import numpy as np
import pytest
from emulated_plan import Ranks
from fake_gpus import buffers_of, together
from plan_cases import noise, wrong

from wavefabric.base.errors import InputError
from wavefabric.collectives import build
from wavefabric.collectives.plans.plan import compile_plan
from wavefabric.collectives.registry import ALGORITHMS
from wavefabric.collectives.schedule import TRANSFER, Schedule
from wavefabric.fabric.execution.timed_schedule import count_wrong, fill
from wavefabric.runtime.exchange.transports.plan_code import check_switched

#: Without trees of nodes, whose switches serve some ranks each: multicast memory has all.
KINDS = [
    (name, collective)
    for name, each in ALGORITHMS.items()
    if each.switched and "grid" not in each.options
    for collective in each.collectives
]


@pytest.mark.parametrize(
    "dtype", ["f4", *(pytest.param(each, marks=pytest.mark.slow) for each in ("f8", "i4", "i8", "c8"))]
)
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_kernels_leave_what_the_schedule_says(kind, dtype):
    """In any order of blocks, call after call; sizes with words before and behind whole vectors."""
    for ranks, elements, blocks in ((2, 1, 1), (3, 101, 2), (5, 64, 1)):
        schedule = build(*kind, ranks, elements, pieces=2)
        on_ranks = Ranks(compile_plan(schedule), dtype, blocks, threads=64)
        rng = np.random.default_rng(ranks)
        for call in range(3):
            data = noise(schedule, dtype, rng)
            assert wrong(schedule, on_ranks.run(data, call), data) == []
        assert not any(late[0] for late in on_ranks.late)


def test_exchanges_in_multicast_memory(transports, monkeypatch):
    """Through the driver's calls: objects shared by descriptors, copies in and out, memory used again."""
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    schedules = [build(*kind, 3, 48, pieces=2) for kind in KINDS]

    def work(comm):
        result = 0
        for schedule in schedules:
            for protocol in ("auto", "signals"):
                buffers = buffers_of(comm, schedule, "float32")
                exchange = comm.bind(schedule, buffers, protocol)
                for _ in range(2):
                    fill(comm, schedule, buffers, "float32")
                    exchange.run()
                    result += count_wrong(comm, schedule, buffers, "float32")
                del exchange
        return result

    assert together(transports, "p2p", 3, work) == [0, 0, 0]
    assert all(len(gpus) == 3 for gpus in transports.driver.devices.values())
    assert len(transports.driver.copies) < len(schedules)


def test_what_nothing_writes_stays(transports, monkeypatch):
    """Also in buffers that are copied back; and calls take the protocol that can, whatever others take."""
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "packets")
    rows = [(0, 0, r, 0, 0, 0, 0, 1, False, 1) for r in (0, 1)]
    held = {(0, 0, 0): (0, 1)}
    sizes = (np.full((2, 2), 4, np.int64),)
    schedule = Schedule("half", 2, ("data",), sizes, np.array(rows, TRANSFER), held, {(1, 0, 0): (0, 1)})

    def work(comm):
        buffers = buffers_of(comm, schedule, "float32")
        buffers["data"][...] = comm.rank + 1.0
        comm.bind(schedule, buffers, "signals").run()
        ones = comm.allocate((8,), np.dtype("float32"))
        ones[...] = 1.0
        return buffers["data"].tolist(), comm.all_reduce(ones, algorithm="nvls").tolist()

    half = [1.0] * 4, [1.0] * 4, [2.0] * 4
    assert together(transports, "p2p", 2, work) == [
        ([*half[0], *half[1]], [2.0] * 8),
        ([*half[0], *half[2]], [2.0] * 8),
    ]


@pytest.mark.parametrize(
    ("off", "lacks", "fault"),
    [
        (
            "0",
            set(),
            "NCCL_NVLS_ENABLE: 0 given for a schedule of multicasts; allowed: 1, or other algorithms",
        ),
        ("1", {1}, "schedule: the GPU of rank 1 has no multicast; allowed: GPUs on NVSwitches (H100)"),
    ],
)
def test_machines_without_multicast_are_refused_on_all_ranks(transports, monkeypatch, off, lacks, fault):
    monkeypatch.setenv("NCCL_NVLS_ENABLE", off)
    transports.driver.lacks = lacks
    schedule = build("nvls", "all-reduce", 2, 8)

    def work(comm):
        with pytest.raises(InputError) as caught:
            comm.bind(schedule, buffers_of(comm, schedule, "float32"), "signals")
        with pytest.raises(InputError) as other:
            comm.bind(schedule, buffers_of(comm, schedule, "float32"), "copies")
        assert "allowed for p2p (signals of p2p can)" in str(other.value)
        with pytest.raises(InputError, match=fault[:16]):  # calls take that protocol by themselves
            comm.all_reduce(np.ones(8, np.float32), algorithm="nvls")
        return str(caught.value)

    assert together(transports, "p2p", 2, work) == [fault, fault]


REFUSED = {
    "parts of float16 that are not whole words of 4 bytes": (build("nvls", "all-reduce", 2, 6), "f2"),
    "operations of a switch on some ranks": (build("nvls-tree", "all-reduce", 4, 64, grid=(2, 2)), "f4"),
    "parts of uint8 that are not whole words of 4 bytes": (build("nvls", "all-gather", 2, 10), "u1"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_multicast_memory_cannot_do_is_refused(fault):
    schedule, dtype = REFUSED[fault]
    with pytest.raises(InputError, match=fault):
        check_switched(compile_plan(schedule), np.dtype(dtype))


def test_other_plans_need_none():
    assert not check_switched(compile_plan(build("ring", "all-reduce", 3, 30)), np.dtype("f4"))
    assert check_switched(compile_plan(build("nvls", "all-reduce", 2, 8)), np.dtype("f2"))

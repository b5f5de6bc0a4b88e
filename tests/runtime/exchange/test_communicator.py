"""Schedules run between ranks, against what they mean."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives import (
    direct_all_gather,
    direct_all_reduce,
    point_to_point,
    ring_all_gather,
    ring_all_reduce,
)
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo, world


@pytest.mark.parallel([2, 3, 4, 8])
@pytest.mark.parametrize("build", [ring_all_gather, direct_all_gather])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_all_gather_of_uneven_parts(comm, build, dtype):
    sizes = [5 + 3 * rank if rank != 1 else 0 for rank in range(comm.size)]
    schedule = build(sizes)
    data = comm.allocate((sum(sizes),), dtype)
    first = np.concatenate(([0], np.cumsum(sizes)))
    exchange = comm.bind(schedule, {"data": data})
    for turn in range(3):
        # A stale word would be that of another turn; what is received is not touched before.
        data[first[comm.rank] : first[comm.rank + 1]] = 100 * comm.rank + turn
        exchange.start()
        for peer in range(comm.size):
            (exchange.arrived if turn == 0 else exchange.wait_for)(peer)  # `arrived`: the former name
            result = comm.device.to_host(data[first[peer] : first[peer + 1]])
            assert (result == 100 * peer + turn).all()
        exchange.finish()


@pytest.mark.parallel([2, 3, 4])
@pytest.mark.parametrize("build", [ring_all_reduce, direct_all_reduce])
@pytest.mark.parametrize("elements", [1, 7, 64])
def test_all_reduce(comm, build, elements):
    schedule = build(comm.size, elements)
    data = comm.allocate((elements,), np.float64)
    parts = [np.random.default_rng(rank).normal(size=elements) for rank in range(comm.size)]
    data[...] = comm.device.asarray(parts[comm.rank])
    buffers = {name: comm.allocate((int(schedule.sizes[i][comm.rank].sum()) or 1,), np.float64)
               for i, name in enumerate(schedule.buffers)}  # fmt: skip
    buffers["data"] = data
    for _ in range(2):
        data[...] = comm.device.asarray(parts[comm.rank])
        comm.run(schedule, buffers)
    result = comm.device.to_host(data)
    np.testing.assert_allclose(result, np.sum(parts, axis=0), rtol=1e-13, atol=1e-13)
    everywhere = comm.control.all_gather(result.tobytes())
    assert len(set(everywhere)) == 1


@pytest.mark.parallel([2, 3, 4])
def test_messages_larger_than_a_piece_and_several_exchanges_at_once(comm, monkeypatch):
    from wavefabric.runtime.exchange.transports import mpi

    monkeypatch.setattr(mpi, "_PIECE", 1000)
    size = 1001
    messages = [(s, d, size) for s in range(comm.size) for d in range(comm.size) if s != d]
    schedule = point_to_point("all", comm.size, messages)
    exchanges = []
    for number in range(3):
        total = size * (comm.size - 1)
        send, recv = comm.allocate((total,), np.float64), comm.allocate((total,), np.float64)
        send[...] = comm.device.asarray(comm.rank + 10 * number + np.arange(total) / total / 2)
        exchange = comm.bind(schedule, {"send": send, "recv": recv})
        exchange.start()
        exchanges.append((exchange, recv))
    for number, (exchange, recv) in enumerate(exchanges):
        exchange.finish()
        others = [rank for rank in range(comm.size) if rank != comm.rank]
        for address, peer in enumerate(others):
            part = recv[address * size : (address + 1) * size]
            slot = [rank for rank in range(comm.size) if rank != peer].index(comm.rank)
            expected = (
                peer + 10 * number + np.arange(slot * size, (slot + 1) * size) / (size * len(others)) / 2
            )
            np.testing.assert_array_equal(comm.device.to_host(part), expected)


@pytest.mark.parallel(2)
def test_control_plane(comm):
    control, me = comm.control, comm.rank
    assert control.bcast({"a": me}) == {"a": 0}
    assert control.all_gather(me) == [0, 1]
    assert control.gather(me, 1) == ([0, 1] if me == 1 else None)
    assert control.max(float(me)) == 1.0
    assert control.sum(np.arange(3) + me).tolist() == [1, 3, 5]
    assert np.isnan(control.max(np.nan if me else 1.0))
    if me == 0:
        control.send_array(1, np.arange(10.0))
    else:
        got = np.empty(10)
        control.recv_array(0, got)
        assert got.tolist() == list(range(10))


@pytest.mark.parallel(2)
def test_bad_requests_are_refused(comm):
    with pytest.raises(InputError, match="is for 3 ranks; here are 2"):
        comm.bind(direct_all_gather([1, 1, 1]), {"data": np.zeros(3)})
    with pytest.raises(InputError, match="allowed: 4 elements in a row"):
        comm.bind(direct_all_gather([2, 2]), {"data": comm.allocate((3,), np.float64)})
    exchange = comm.bind(direct_all_gather([2, 2]), {"data": comm.allocate((4,), np.float64)})
    exchange.start()
    with pytest.raises(RuntimeError, match="started again"):
        exchange.start()
    exchange.finish()
    swap = point_to_point("swap", 2, [(0, 1, 4), (1, 0, 4)])
    whole = {name: comm.allocate((8,), "float32") for name in swap.buffers}
    for inputs, words in (
        ({"recv": whole["recv"][::2]}, "buffers: 'recv' has gaps; allowed: contiguous arrays"),
        ({"recv": whole["recv"].astype("float64")}, "buffers: float32, float64 given; allowed: one dtype"),
    ):
        with pytest.raises(InputError, match=words):
            comm.bind(swap, whole | inputs)
    with pytest.raises(InputError, match="needs GPUs"):
        world("nccl", device=get_device("cpu", 1))


def test_one_rank_needs_no_mpi(cpu):
    comm = solo(cpu)
    data = comm.allocate((4,), np.float64)
    data[...] = np.arange(4)
    comm.run(direct_all_gather([4]), {"data": data})
    assert data.tolist() == [0, 1, 2, 3]
    assert comm.describe() == {"ranks": 1, "transport": "solo", "device": "cpu"}


def test_unknown_transport_is_refused(cpu):
    with pytest.raises(InputError, match=r'transport: "udp" given; allowed: auto, mpi, mpi-cuda, nccl, p2p'):
        world("udp", device=cpu)

"""Boxes that kernels put into other ranks' memory, on emulated GPUs that are threads, and on one GPU."""

import numpy as np
import pytest
from fake_gpus import EmulatedGpu, together
from hypothesis import given
from hypothesis import strategies as st
from one_gpu import some_examples

from wavefabric.base.errors import InputError
from wavefabric.runtime.exchange.halos_transposes import (
    Message,
    OneSidedRegionExchange,
    RegionExchange,
    region_exchange,
)

SEND, RECEIVE = (4, 5, 6), (7, 6, 8)


def box(first, size):
    return tuple(slice(a, a + n) for a, n in zip(first, size, strict=True))


@st.composite
def exchanges(draw):
    """Ranks, and messages of all pairs of some ranks, each rank's to planes of their own."""
    size = draw(st.integers(2, 4))
    pairs = draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), min_size=1))
    messages, planes = [], [0] * size
    for src, dst in sorted(pairs | {(b, a) for a, b in pairs}):
        shape = (1, draw(st.integers(1, 3)), draw(st.integers(1, 4)))
        here = [draw(st.integers(0, n - k)) for n, k in zip(SEND, shape, strict=True)]
        there = [
            planes[dst],
            *(draw(st.integers(0, n - k)) for n, k in zip(RECEIVE[1:], shape[1:], strict=True)),
        ]
        planes[dst] += 1
        messages.append(Message(src, dst, box(here, shape), box(there, shape)))
    return size, messages


def field(rank, number, call, dtype):
    values = np.random.default_rng([rank, number, call]).normal(size=(2, *SEND))
    return (
        (values[0] + 1j * values[1]).astype(dtype) if np.dtype(dtype).kind == "c" else values[0].astype(dtype)
    )


DRAWN = given(
    exchanges(),
    st.integers(1, 3),
    st.sampled_from([(np.float32, True), (np.float64, True), (np.complex64, False), (np.complex128, False)]),
)


@pytest.mark.slow
@pytest.mark.parametrize("one_sided_ranks", ["emulated"], indirect=True)
@some_examples(40)
@DRAWN
def test_boxes_arrive_call_after_call(one_sided_ranks, inputs, fields, kind):
    check_boxes(one_sided_ranks, inputs, fields, kind)


@pytest.mark.gpu
@pytest.mark.parametrize("one_sided_ranks", ["cuda"], indirect=True)
@some_examples(6)
@DRAWN
def test_boxes_arrive_on_one_gpu(one_sided_ranks, inputs, fields, kind):
    """Few examples: each compiles kernels of its own."""
    check_boxes(one_sided_ranks, inputs, fields, kind)


def check_boxes(one_sided_ranks, inputs, fields, kind):
    (size, messages), (dtype, weighted) = inputs, kind
    real = np.finfo(dtype).dtype
    weights = [np.linspace(0.5, 1.5, n).astype(real) for n in RECEIVE] if weighted else None

    def work(comm):
        device, calls = comm.device, range(4)
        exchange = region_exchange(comm, messages, SEND, RECEIVE, dtype, fields)
        assert isinstance(exchange, OneSidedRegionExchange)
        on_device = weights and [device.asarray(each) for each in weights]
        data = [[device.asarray(field(comm.rank, n, call, dtype)) for n in range(fields)] for call in calls]
        result = [[device.zeros(RECEIVE, dtype) for _ in range(fields)] for _ in calls]
        sources, targets = ([device.zeros(shape, dtype) for _ in range(fields)] for shape in (SEND, RECEIVE))
        # On one GPU taking memory waits for all kernels that run: for those, too, that wait for this rank.
        comm.control.barrier()
        for call in calls:
            for source, values in zip(sources, data[call], strict=True):
                source[...] = values
            for target in targets:
                target[...] = 0
            exchange.start(sources)
            exchange.finish(targets, on_device)
            for kept, target in zip(result[call], targets, strict=True):
                kept[...] = target
        comm.check()
        return [[device.to_host(each).copy() for each in kept] for kept in result]

    for rank, result in enumerate(one_sided_ranks(size, work)):
        for call, targets in enumerate(result):
            for number, target in enumerate(targets):
                wanted = np.zeros(RECEIVE, dtype)
                for message in messages:
                    if message.dst == rank:
                        wanted[message.dst_box] = field(message.src, number, call, dtype)[message.src_box]
                if weights:
                    wanted *= weights[0][:, None, None] * weights[1][:, None] * weights[2]
                np.testing.assert_array_equal(target, wanted)


def one_each_direction(size):
    return [
        Message(a, b, box((0, 0, 0), (1, 2, 3)), box((a, 0, 0), (1, 2, 3)))
        for a in range(size)
        for b in range(size)
    ]


@pytest.mark.slow
def test_a_rank_that_does_not_send_is_named(transports, monkeypatch):
    """And what has not come is not written."""
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    waiting = transports.p2p_plan
    monkeypatch.setattr(waiting, "TIMEOUT", 1e-6)

    def work(comm):
        exchange = region_exchange(comm, one_each_direction(2), SEND, RECEIVE, np.float64)
        if comm.rank == 1:
            return None
        target = comm.device.zeros(RECEIVE, np.float64)
        target[...] = 7  # none of what is there before, either
        exchange.start([comm.device.asarray(field(0, 0, 0, np.float64))])
        with pytest.raises(RuntimeError, match="an exchange was started again"):
            exchange.start([target[:4, :5, :6]])
        exchange.finish([target])
        with pytest.raises(waiting.LateRank, match=r"^boxes of fields: rank 1 did not come"):
            comm.check()
        assert (target[1] == 7).all()
        assert (target[0] != 7).any()
        return True

    assert together(transports, "p2p", 2, work, make=EmulatedGpu)[0]


@pytest.mark.slow
def test_what_goes_one_way_alone_is_copied(transports, monkeypatch):
    """Nothing would say that there is space again."""
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    messages = [m for m in one_each_direction(3) if (m.src, m.dst) != (2, 0)]

    def work(comm):
        exchange = region_exchange(comm, messages, SEND, RECEIVE, np.float64)
        target = comm.device.zeros(RECEIVE, np.float64)
        exchange.run([comm.device.asarray(field(comm.rank, 0, 0, np.float64))], [target])
        return type(exchange), np.array(target)

    for rank, (kind, target) in enumerate(together(transports, "p2p", 3, work, make=EmulatedGpu)):
        assert kind is RegionExchange
        for message in messages:
            if message.dst == rank:
                wanted = field(message.src, 0, 0, np.float64)[message.src_box]
                np.testing.assert_array_equal(target[message.dst_box], wanted)


def test_ranks_that_share_a_gpu_are_refused(transports, monkeypatch):
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "packets")

    def work(comm):
        with pytest.raises(InputError, match="ranks 0, 1 share a GPU; allowed: copies"):
            region_exchange(comm, one_each_direction(2), SEND, RECEIVE, np.float64)
        return True

    assert all(together(transports, "p2p", 2, work, gpus=[0, 0], make=EmulatedGpu))

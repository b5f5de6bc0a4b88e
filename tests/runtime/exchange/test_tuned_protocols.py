"""Calls that run with the protocol of a tuning, without GPUs: see `fake_gpus`."""

from collections import OrderedDict
from functools import partial

import numpy as np
import pytest
from fake_gpus import fake_cupy, together

from wavefabric.base.errors import InputError
from wavefabric.collectives.tuning import Choice, TimedChoice, TunedCollective, TunedSize, Tuning
from wavefabric.runtime.exchange import prepared_calls

#: Elements of float32: below 64 KiB, and above.
SMALL, LARGE = 300, 40_000


@pytest.fixture(scope="module")
def transports():
    with fake_cupy() as modules:
        yield modules


def tuning(ranks, small="packets", large="copies"):
    """One protocol up to 64 KiB, another from 256 KiB on."""

    def sizes(algorithm):
        pairs = (1 << 16, small), (1 << 18, large)
        return tuple(TunedSize(n, (TimedChoice(Choice(algorithm, protocol=p)),)) for n, p in pairs)

    algorithms = {"all-reduce": "ring", "all-gather": "direct", "reduce-scatter": "ring"}
    algorithms |= {"all-to-all": "direct", "broadcast": "double-tree"}
    tables = (TunedCollective(name, sizes(each), "p2p") for name, each in algorithms.items())
    return Tuning(ranks, tuple(tables))


def watched(comm):
    """Protocols of all bindings from now on; ``None``: what the transport does by itself."""
    transport, seen = comm._transport, []
    bind, bind_plan = transport.bind, transport.bind_plan

    def noted(program, buffers, scratch):
        seen.append(None)
        return bind(program, buffers, scratch)

    def noted_plan(program, buffers, protocol, *blocks):
        seen.append(protocol)
        assert all(transport.address(each) is not None for each in buffers)
        return bind_plan(program, buffers, protocol, *blocks)

    transport.bind, transport.bind_plan = noted, noted_plan
    return seen


def ours(comm, array):
    """In memory that peers map, not at its beginning."""
    space = comm.allocate((array.size + 1,), array.dtype)
    space[1:] = array.ravel()
    return space[1:].reshape(array.shape)


def anybodys(comm, array):
    return array.copy()


def every_other(comm, array):
    return np.repeat(array, 2).reshape(*array.shape, 2)[..., 0]


def five_calls(comm, made, values):
    """Each operation on this rank's values, shape (ranks, elements)."""
    mine = values[comm.rank]
    return [
        comm.all_reduce(made(comm, mine)),
        comm.all_gather(made(comm, mine[0]), made(comm, np.zeros_like(mine))),
        comm.reduce_scatter(made(comm, mine), made(comm, np.zeros_like(mine[0]))),
        comm.all_to_all(made(comm, mine), made(comm, np.zeros_like(mine))),
        comm.broadcast(made(comm, mine), comm.size - 1),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["packets", "signals"])
@pytest.mark.parametrize("size", [2, 3])
def test_small_calls_by_kernels_and_large_ones_by_copies(transports, protocol, size):
    """Noise: sums are equal only if they are taken in the same order."""
    rng = np.random.default_rng(size)
    kinds = [rng.standard_normal((size, size, n // size)).astype("float32") for n in (SMALL, LARGE)]

    def work(comm):
        seen, result = watched(comm), []
        # Small and large in turn, and once more with what was made ready.
        for made in (ours, anybodys, every_other):
            for _ in range(2):
                for values in kinds:
                    result += [each.tobytes() for each in five_calls(comm, made, values)]
        return seen, result

    tuned, by_copies = (
        together(transports, "p2p", size, work, tunings=[tuning(size, small)] * size)
        for small in (protocol, "copies")
    )
    for (seen, result), (copied, expected), rank in zip(tuned, by_copies, range(size), strict=True):
        assert seen[:10] == [protocol] * 5 + [None] * 5
        assert set(seen[10:]) == {protocol, None}
        assert set(copied) == {None}
        assert result == expected
        assert result[:10] * 6 == result
        assert result[0] == tuned[0][1][0]
        np.testing.assert_array_equal(
            np.frombuffer(result[3], "float32"), kinds[0][:, rank].ravel(), strict=True
        )


@pytest.mark.slow
def test_types_and_odd_sizes(transports):
    def work(comm):
        for dtype in ("float16", "float64", "int32", "int64", "complex64", "complex128"):
            for shape in ((), (1,), (7,), (3, 5), (0,)):
                array = np.full(shape, comm.rank + 1, dtype)
                assert (comm.all_reduce(array) == 6).all()
                assert (comm.all_gather(array) == 6).all()
        return True

    assert all(together(transports, "p2p", 3, work, tunings=[tuning(3)] * 3))


@pytest.mark.parametrize(("transport", "gpus"), [("nccl", None), ("p2p", [0, 1, 0])])
def test_what_cannot_serve_here_is_not_taken(transports, transport, gpus):
    """NCCL has no such protocol; kernels of ranks that share a GPU would wait for each other."""
    values = np.random.default_rng(1).integers(-9, 9, (3, 3, 4)).astype("float32")

    def work(comm):
        seen = watched(comm)
        return five_calls(comm, anybodys, values), set(seen)

    for rank, (result, seen) in enumerate(together(transports, transport, 3, work, gpus, [tuning(3)] * 3)):
        expected = [values.sum(0), values[:, 0], values.sum(0)[rank], values[:, rank], values[-1]]
        for one, wanted in zip(result, expected, strict=True):
            np.testing.assert_array_equal(one, wanted)
        assert seen == {None}


@pytest.mark.slow
def test_without_a_tuning_and_with_a_named_algorithm_the_transport_chooses(transports):
    def work(comm, **options):
        seen = watched(comm)
        assert (comm.all_reduce(np.ones(8), **options) == 2).all()
        return seen

    named = partial(work, algorithm="direct")
    assert together(transports, "p2p", 2, named, tunings=[tuning(2)] * 2) == [["packets"]] * 2
    assert together(transports, "p2p", 2, work) == [["packets"]] * 2
    # Ranks that share a GPU have no kernels.
    assert together(transports, "p2p", 2, work, [0, 0]) == [[None]] * 2


def test_ranks_that_would_run_different_protocols_are_told_so(transports):
    def work(comm):
        with pytest.raises(InputError) as refused:
            comm.all_reduce(np.ones(8))
        return str(refused.value)

    told = together(transports, "p2p", 2, work, tunings=[tuning(2, "packets"), tuning(2, "signals")])
    wanted = "algorithm: rank 0 has ring, packets, rank 1 has ring, signals; allowed: the same on all ranks"
    assert told == [wanted] * 2


class Noted(OrderedDict):
    """Tells when all that it has is given up."""

    def __init__(self, events):
        super().__init__()
        self._events = events

    def clear(self):
        self._events.append("clear")
        super().clear()


def test_kernels_that_go_and_come_again(transports, monkeypatch):
    """Bindings are given up for others, and when buffers grow; they are made anew as they are needed."""
    monkeypatch.setattr(prepared_calls, "MOST_BOUND", 2)

    def work(comm):
        seen, events = watched(comm), []
        comm.device.synchronize = lambda: events.append("synchronize")
        comm._prepared._bound = Noted(events)
        for turn in range(2):
            for n in (10, 20, 30, 10):
                assert (comm.all_reduce(np.full(n, 1.0 + turn + comm.rank)) == 3 + 2 * turn).all()
                events.append("called")
            assert len(comm._prepared._bound) == 2
        return seen, events, set(comm._prepared._buffers)

    seen, events, purposes = together(transports, "p2p", 2, work, tunings=[tuning(2)] * 2)[0]
    # 10 twice at first, since its buffer has been replaced; then it is there, and 20 and 30 are not.
    assert seen == ["packets"] * 7
    # Buffers and flags are not given up while the device may be at work on them.
    assert [events[at - 1] for at, event in enumerate(events) if event == "clear"] == ["synchronize"] * 2
    assert events[2] == "called"
    assert "scratch" not in purposes

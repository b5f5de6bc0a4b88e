"""P2P and NCCL without GPUs: ranks are threads, and host memory stands in for the devices'."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
from fake_gpus import buffers_of, together

from wavefabric.base.errors import InputError
from wavefabric.collectives import point_to_point
from wavefabric.collectives.conditions import COLLECTIVES, ROOTED
from wavefabric.collectives.registry import ALGORITHMS, build, why_refused
from wavefabric.fabric.execution.timed_schedule import count_wrong, fill


def _wrong(comm, schedule, protocol, dtype="float32"):
    buffers = buffers_of(comm, schedule, dtype)
    exchange = comm.bind(schedule, buffers, protocol)
    wrong = 0
    for _ in range(2):
        fill(comm, schedule, buffers, dtype)
        exchange.start()
        exchange.finish()
        wrong += count_wrong(comm, schedule, buffers, dtype)
    return wrong


def _schedules(ranks):
    for algorithm in (each for each in ALGORITHMS.values() if not each.switched):
        for collective in algorithm.collectives:
            options = {"root": ranks - 1} if collective in ROOTED and "root" in algorithm.options else {}
            options |= {"radix": 4} if "radix" in algorithm.options else {}
            options |= {"pieces": 2} if "pieces" in algorithm.options else {}
            if why_refused(algorithm.name, collective, ranks, **options) is None:
                yield build(algorithm.name, collective, ranks, 3 * ranks + 2, **options)
    # Even shares, of one chunk and of several: NCCL gathers them itself.
    for pieces in (1, 3):
        yield build("direct", "all-gather", ranks, 6 * ranks, pieces=pieces)
    yield point_to_point("twice", ranks, [(0, 1, 3), (0, 1, 4), (1, 0, 5), (1, 1, 2)])


@pytest.mark.parametrize(
    ("transport", "protocol"),
    [
        ("p2p", "copies"),
        pytest.param("p2p", "signals", marks=pytest.mark.slow),
        pytest.param("p2p", "packets", marks=pytest.mark.slow),
        ("p2p", "auto"),
        ("nccl", "auto"),
    ],
)
@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_every_algorithm_moves_and_adds_the_right_data(transports, transport, protocol, size):
    schedules = list(_schedules(size))
    assert len({schedule.name for schedule in schedules}) > 20

    def work(comm):
        result = [(schedule.name, _wrong(comm, schedule, protocol)) for schedule in schedules]
        return [each for each in result if each[1]]

    assert together(transports, transport, size, work) == [[]] * size


@pytest.mark.parametrize("transport", ["p2p", "nccl"])
@pytest.mark.parametrize("size", [2, 3])
def test_calls_on_anybodys_arrays(transports, transport, size):
    values = np.random.default_rng(0).integers(-9, 9, (size, size, 4)).astype("float32")
    total = values.sum(axis=0)

    def work(comm):
        def anybodys(array):
            return array.copy()

        def ours(array):
            space = comm.allocate((array.size + 1,), array.dtype)
            space[1:] = array.ravel()
            return space[1:].reshape(array.shape)  # not its beginning

        def every_other(array):
            return np.repeat(array, 2).reshape(*array.shape, 2)[..., 0]

        result, buffers = [], []
        for made in (ours, anybodys, every_other):
            # Once more with what was made ready, and other memory.
            for _ in range(2):
                mine = values[comm.rank]
                result += [
                    comm.all_reduce(made(mine)),
                    comm.all_gather(made(mine), made(np.zeros((size, *mine.shape), mine.dtype))),
                    comm.reduce_scatter(made(mine), made(mine[0])),
                    comm.all_to_all(made(mine), made(mine)),
                    comm.broadcast(made(mine), size - 1),
                ]
            buffers.append(sum(held.size for held in comm._prepared._buffers.values()))
        return result, buffers

    for rank, (result, buffers) in enumerate(together(transports, transport, size, work)):
        expected = [total, values, total[rank], values[:, rank], values[-1]] * 6
        for one, wanted in zip(result, expected, strict=True):
            np.testing.assert_array_equal(one, wanted)
        # Memory that is not ours takes buffers with P2P; what is not contiguous does with any.
        assert (buffers[0] < buffers[1]) == (transport == "p2p")
        assert (buffers[1] < buffers[2]) == (transport == "nccl")


def test_memory_that_was_given_back_is_not_taken_for_what_it_was(transports, monkeypatch):
    """Addresses come again, numbers do not."""
    module, memories = transports.p2p, []

    def memory(size):
        memories.append(np.zeros(size, np.uint8))
        return SimpleNamespace(ptr=memories[-1].ctypes.data, size=size)

    names = {"Memory": memory, "UnownedMemory": lambda ptr, size, owner: owner}
    names["MemoryPointer"] = lambda held, offset: held
    for name, value in names.items():
        monkeypatch.setattr(module.cupy.cuda, name, value, raising=False)
    # An array is what keeps its allocation from being lent again.
    monkeypatch.setattr(module.cupy, "ndarray", lambda shape, dtype, held: held, raising=False)
    monkeypatch.setattr(module.runtime, "ipcGetMemHandle", lambda ptr: b"%d" % ptr, raising=False)
    monkeypatch.setattr(module.runtime, "deviceSynchronize", lambda: None, raising=False)
    pool = transports.real_pool()
    first = pool.allocate((10,), "float32")
    (start,) = (each.ctypes.data for each in memories)
    assert (pool.loan(start), pool.loan(start + 36)) == ((0, 0), (0, 36))
    assert pool.locate(start + 36) == (b"%d" % start, 36)
    del first
    second = pool.allocate((10,), "float32")
    assert len(memories) == 1
    assert pool.loan(start + 4) == (1, 4)
    assert pool.loan(np.zeros(3).ctypes.data) is None
    with pytest.raises(ValueError, match="does not come from the communicator's allocate"):
        pool.locate(np.zeros(3).ctypes.data)
    del second


class _Post:
    """What carries pieces between ranks out of reach, in order, as `StagedTransport` does."""

    def __init__(self, control):
        self._mail, self._rank = control._shared.mail, control.rank

    def enqueue(self, sends, receives, ready):
        for address, size, peer in sends:
            self._mail[self._rank, peer].put(bytes((ctypes.c_char * size).from_address(address)))
        return list(receives)

    def await_pieces(self, transfer, peer):
        for each in [each for each in transfer if peer in (None, each[2])]:
            transfer.remove(each)
            address, size, source = each
            ctypes.memmove(address, self._mail[source, self._rank].get(timeout=10), size)


@pytest.mark.parametrize("algorithm", ["direct", "ring", "recursive"])
def test_ranks_that_do_not_reach_each_other_go_another_way(transports, monkeypatch, algorithm):
    """Of four ranks two pairs reach each other: copies and messages of one exchange, sums in its order."""
    size = 4
    monkeypatch.setattr(
        transports.p2p.P2PTransport,
        "_try",
        lambda self, _: [p // 2 == self.control.rank // 2 for p in range(size)],
    )
    schedule = build(algorithm, "all-reduce", size, 3 * size)

    def work(comm):
        comm._transport.staged = _Post(comm.control)
        return _wrong(comm, schedule, "auto")

    assert together(transports, "p2p", size, work) == [0] * size


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_nccls_own_operations_do_what_ours_do(transports, collective):
    root = 2 if collective in ROOTED else 0
    schedule = build("direct", collective, 3, 12, root=root)

    def work(comm):
        buffers = buffers_of(comm, schedule, "float32")
        # Scratch is ours alone.
        own = {name: buffers[name] for name in ("data", "send", "recv") if name in buffers}
        fill(comm, schedule, own, "float32")
        run = comm.own_collective(collective, list(own.values()), root)
        run()
        return count_wrong(comm, schedule, own, "float32")

    assert together(transports, "nccl", 3, work) == [0, 0, 0]


def test_what_nccl_has_no_operation_for_is_refused(transports):
    def work(comm):
        result = []
        for collective, elements, dtype in (
            ("all-gather", 7, "float32"),
            ("all-reduce", 8, "complex64"),
            ("halo", 8, "float32"),
        ):
            with pytest.raises(InputError) as refused:
                comm.own_collective(collective, [comm.allocate((elements,), dtype)])
            result.append(str(refused.value))
        return result

    uneven, complex_, halo = together(transports, "nccl", 2, work)[1]
    assert uneven == "elements: 7 on 2 ranks; allowed for NCCL: equal shares"
    assert complex_.startswith("dtype: complex64 given; allowed for NCCL's sums: float16,")
    assert halo.startswith("collective: 'halo' given; allowed for NCCL: all-gather,")

    def other(comm):
        with pytest.raises(InputError, match="transport: 'p2p' has no collective operations of its own"):
            comm.own_collective("all-gather", [comm.allocate((8,), "float32")])

    together(transports, "p2p", 2, other)

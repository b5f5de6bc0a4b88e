"""Calls made ready: which memory they use and keep, when ranks talk, and which algorithm is taken."""

import weakref

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives.tuning import Choice, TimedChoice, TunedCollective, TunedSize, Tuning, save_tuning
from wavefabric.runtime.exchange import Communicator, prepared_calls, solo, world
from wavefabric.runtime.exchange.transports.base import Transport
from wavefabric.runtime.exchange.transports.mpi import MPITransport


def summed(comm, array):
    """An all-reduce of ``array`` plus the rank's number, checked."""
    before = array.copy()
    array += array.dtype.type(comm.rank)
    comm.all_reduce(array)
    n = comm.size
    assert (array == n * before + array.dtype.type(n * (n - 1) // 2)).all()


def buffered(comm):
    """Bytes of the buffers that all calls share."""
    return sum(held.size for held in comm._prepared._buffers.values())


# --- memory ---------------------------------------------------------------------------------------------


@pytest.mark.parallel([2, 3, 4])
def test_arrays_that_come_and_go_are_not_kept(fresh):
    shape = fresh.size, 1000
    kept = fresh.device.zeros(shape, float)
    for turn in range(prepared_calls.MOST_BOUND):
        # Rank 0 gives the same one each time, others new ones: bound again, and nobody else hears of it.
        array = kept if fresh.rank == 0 else fresh.device.empty(shape, float)
        array[...] = turn + fresh.rank
        result = fresh.all_to_all(array)
        assert all((result[rank] == turn + rank).all() for rank in range(fresh.size))
        fresh.all_reduce(array)
        assert (array == sum(turn + rank for rank in range(fresh.size))).all()
        watched = [weakref.ref(each if each.base is None else each.base) for each in (array, result)]
        del array, result
        assert [each() for each in watched[fresh.rank == 0 :]] == [None] * (2 - (fresh.rank == 0))
    assert len(fresh._prepared._bound) <= prepared_calls.MOST_BOUND
    assert len(fresh._prepared._prepared) == 2


@pytest.mark.parallel([2, 3])
@pytest.mark.parametrize("ready", [1, 2])
def test_ranks_whose_memory_is_new_bind_alone(fresh, monkeypatch, ready):
    """Operations stay ready, or are made ready again each time."""
    monkeypatch.setattr(prepared_calls, "MOST_PREPARED", ready)
    arrays = {size: [fresh.device.zeros(size, float) for _ in range(4)] for size in (3, 4)}
    for turn in range(8):
        for size in (3, 4):
            array = arrays[size][turn % 4 if fresh.rank else 0]
            array[...] = turn
            summed(fresh, array)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parallel(2)
def test_of_many_arrays_those_given_last_stay_bound(fresh, monkeypatch):
    monkeypatch.setattr(prepared_calls, "MOST_BOUND", 2)
    binds, bind = [], fresh._transport.bind
    monkeypatch.setattr(fresh._transport, "bind", lambda *inputs: binds.append(1) or bind(*inputs))
    a, b, c = np.zeros((3, 5))
    for array, so_far in ((a, 1), (b, 2), (a, 2), (c, 3), (a, 3), (b, 4)):
        summed(fresh, array)
        assert len(binds) == so_far


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parallel([2, 3])
def test_an_address_that_is_used_again(fresh):
    memory = fresh.device.empty(64, np.uint8)
    for _ in range(2):
        for dtype, shape in (("f4", 16), ("i4", 16), ("f8", 8), ("f8", (2, 4)), ("i4", (4, 4)), ("f4", 7)):
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            array = memory[:size].view(dtype).reshape(shape)
            array[...] = 3
            summed(fresh, array)
            # Neither contiguous nor the whole of it.
            array[..., ::2] = 2
            summed(fresh, array[..., ::2])


@pytest.mark.parallel([2, 3])
def test_buffers_are_few_and_grow_seldom(fresh, monkeypatch):
    made, allocate = [], fresh._transport.allocate

    def noted(shape, dtype):
        if dtype == np.uint8:  # those of calls
            made.append(shape)
        return allocate(shape, dtype)

    monkeypatch.setattr(fresh._transport, "allocate", noted)
    for size in (*range(3, 400, 12), 3, 51, 399):
        wide = fresh.device.xp.ones((size, 2))
        summed(fresh, wide[:, 0])  # not contiguous, so through a buffer
        assert (wide[:, 1] == 1).all()
    assert len(made) < (60 if fresh.one_sided else 30)  # kernels have staging buffers besides
    # The array, a copy of it from each of the others, and what is added on arrival.
    assert buffered(fresh) <= 1.5 * 399 * 8 * 2 * fresh.size
    made.clear()
    summed(fresh, fresh.device.xp.ones(399))
    assert made == []


@pytest.mark.parallel([2, 3])
@pytest.mark.usefixtures("on_cpu")
def test_buffers_that_grew_leave_nothing_behind(fresh, monkeypatch):
    memory, allocate = [], fresh._transport.allocate

    def noted(shape, dtype):
        array = allocate(shape, dtype)
        memory.append(weakref.ref(array.base))
        return array

    monkeypatch.setattr(fresh._transport, "allocate", noted)
    for size in (10, 100, 10, 1000, 20):
        summed(fresh, np.ones((size, 2))[:, 0])
    assert len(memory) >= 6
    assert sum(each() is not None for each in memory) == len(fresh._prepared._buffers)


@pytest.mark.parallel([2, 3])
def test_contiguous_arrays_need_no_buffer_but_for_sums(fresh):
    if fresh._transport.talks_in_bind:
        pytest.skip("memory that peers map")
    zeros = fresh.device.xp.zeros
    fresh.all_gather(zeros((1000, 10)), algorithm="ring")
    fresh.broadcast(zeros((1000, 10)), algorithm="tree")
    fresh.all_to_all(zeros((fresh.size, 1000)), algorithm="direct")
    assert buffered(fresh) == 8  # an element of scratch, which must have an address


@pytest.mark.parallel([2, 3])
def test_of_many_operations_those_called_last_are_kept(fresh, monkeypatch):
    monkeypatch.setattr(prepared_calls, "MOST_PREPARED", 3)
    monkeypatch.setattr(prepared_calls, "MOST_BOUND", 4)
    prepared = fresh._prepared
    for turn in range(3):
        for size in range(1, 6):
            summed(fresh, fresh.device.xp.full(size, float(turn)))
            assert (len(prepared._prepared), len(prepared._bound)) <= (3, 4)
        assert [request.shape for request in prepared._prepared] == [(3,), (4,), (5,)]
        summed(fresh, fresh.device.xp.zeros(3))  # the oldest is the youngest again
        summed(fresh, fresh.device.xp.zeros(9))
        assert [request.shape for request in prepared._prepared] == [(5,), (3,), (9,)]


# --- transports whose peers map memory ------------------------------------------------------------------


class Mapped(MPITransport):
    """Peers reach what is from `allocate` alone, and all hear of each binding."""

    name, talks_in_bind = "mapped", True

    def __init__(self, control, comm, device):
        super().__init__(comm, device)
        self._control, self._all, self.binds = control, [], 0

    def allocate(self, shape, dtype):
        self._all.append(super().allocate(shape, dtype))
        return self._all[-1]

    def address(self, array):
        address = array.ctypes.data
        for number, own in enumerate(self._all):
            if own.ctypes.data <= address < own.ctypes.data + max(1, own.nbytes):
                return number, address - own.ctypes.data
        return None

    def bind(self, program, buffers, scratch):
        self.binds += 1
        assert len(set(self._control.all_gather(self.binds))) == 1
        assert all(self.address(each) is not None for each in (*buffers, scratch))
        return super().bind(program, buffers, scratch)


@pytest.fixture
def mapped(comm, on_cpu):
    transport = Mapped(comm.control, comm._transport.comm, comm.device)
    return Communicator(comm.control, comm.device, transport)


@pytest.mark.parallel([2, 3, 4])
def test_memory_that_peers_map_is_used_as_it_is(mapped):
    own = mapped.allocate((3, 4), np.float64)
    for part in (own, own[1:], own[2], own[1:], own):
        part[...] = 1
        summed(mapped, part)
    binds = mapped._transport.binds
    assert binds == 3
    assert buffered(mapped) <= 1.5 * 3 * own.nbytes  # scratch alone
    out = mapped.allocate((mapped.size, 2), np.int32)
    local_part = np.full(2, mapped.rank, np.int32)
    for _ in range(2):
        mapped.all_gather(local_part, out)
        assert (out == np.arange(mapped.size)[:, None]).all()
    assert mapped._transport.binds == binds + 1


@pytest.mark.parallel([2, 3, 4])
def test_memory_that_peers_do_not_map_goes_through_buffers_of_ours(mapped):
    transport, small, large = mapped._transport, 10, 1000
    for size in (small, large, small, large):
        for _ in range(3):
            summed(mapped, np.ones(size))
    # A call for each size; when buffers grew the first was bound again.
    assert transport.binds == 3
    # Some have memory that is mapped and some have not, and they change places.
    own = mapped.allocate((5 * large,), np.float64)
    for turn in range(4):
        array = own if (mapped.rank + turn) % 2 else np.zeros(5 * large)
        array[...] = turn
        summed(mapped, array)
    assert transport.binds == 5
    # Buffers grew on some; on all what was bound to them is bound again.
    summed(mapped, np.ones(small))
    assert transport.binds == 6
    values = np.arange(mapped.size * 3.0).reshape(mapped.size, 3)
    for function in (mapped.all_to_all, mapped.reduce_scatter, mapped.all_gather, mapped.broadcast):
        expected = {
            "all_to_all": np.stack([values[mapped.rank]] * mapped.size),
            "reduce_scatter": mapped.size * values[mapped.rank],
            "all_gather": np.stack([values] * mapped.size),
            "broadcast": values,
        }
        np.testing.assert_array_equal(function(values.copy()), expected[function.__name__])


class Silent(Transport):
    """Moves nothing; a binding is for one array."""

    talks_in_bind = True

    def address(self, array):
        return id(array)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parallel([2, 3])
def test_ranks_that_bind_at_different_calls_are_told_so(comm):
    silent = Communicator(comm.control, comm.device, Silent(comm.device))
    first, second = np.zeros(4), np.zeros(4)
    silent.all_reduce(first)
    if silent.rank == 0:
        silent.all_reduce(first)
        second = np.zeros(5)
    with pytest.raises(InputError, match=r"calls so far: rank 0 has 3, rank 1 has 2; allowed: the same"):
        silent.all_reduce(second)


# --- tunings --------------------------------------------------------------------------------------------


def _tuning(ranks, **algorithms):
    """Direct up to 1000 bytes, and above what is given for each operation."""
    tables = [
        TunedCollective(
            name.replace("_", "-"),
            (
                TunedSize(1000, (TimedChoice(Choice("direct"), 1.0),)),
                TunedSize(10**7, (TimedChoice(Choice(each), 1.0),)),
            ),
        )
        for name, each in algorithms.items()
    ]
    return Tuning(ranks, tuple(tables))


@pytest.fixture
def built(monkeypatch):
    """Names of the schedules that calls make."""
    names, build = [], prepared_calls.build

    def noted(*inputs, **options):
        names.append(build(*inputs, **options).name)
        return build(*inputs, **options)

    monkeypatch.setattr(prepared_calls, "build", noted)
    return names


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parallel([2, 3])
def test_a_tuning_chooses(comm, built, tmp_path):
    tuning = _tuning(comm.size, all_reduce="ring", all_gather="bidirectional-ring")
    path = tmp_path / "tuning.json"
    if comm.rank == 0:  # it alone reads the file
        save_tuning(path, tuning)
    for inputs in (tuning, comm.control.bcast(str(path))):
        tuned = world("mpi", comm.device, tuning=inputs)
        built.clear()
        for elements in (10, 10**5):
            assert (tuned.all_reduce(np.ones(elements)) == comm.size).all()
            tuned.all_gather(np.zeros(elements))
        # For what is not tuned, the rule.
        tuned.all_to_all(np.zeros((comm.size, 3)))
        assert built == [
            *("direct all-reduce", "direct all-gather", "ring all-reduce", "bidirectional-ring all-gather"),
            "direct all-to-all",
        ]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parallel([2, 3])
def test_without_a_tuning_a_rule_chooses(fresh, built):
    for elements in (10, 10**5):
        fresh.all_reduce(np.zeros(elements))
    if fresh.size == 2:
        assert built == ["recursive-exchange all-reduce, radix 2", "recursive all-reduce, radix 2"]
    else:
        assert built == ["direct all-reduce", "ring all-reduce"]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parallel([2, 3])
def test_tunings_that_do_not_fit_are_refused(comm):
    with pytest.raises(InputError, match=rf"^tuning: for 5 ranks; allowed here: {comm.size}$"):
        world("mpi", comm.device, tuning=_tuning(5, all_reduce="ring"))
    with pytest.raises(InputError, match=r"tuning: .*nowhere\.json \(No such file"):
        world("mpi", comm.device, tuning="nowhere.json")
    other = None if comm.rank else _tuning(comm.size, all_reduce="ring")
    with pytest.raises(InputError, match=r"tuning: rank 0 has Tuning.*, rank 1 has None; allowed: the same"):
        world("mpi", comm.device, tuning=other)


def test_a_tuning_of_several_ranks_is_refused_by_one(cpu):
    with pytest.raises(InputError, match="tuning: for 2 ranks; allowed here: 1"):
        solo(cpu, tuning=_tuning(2, all_reduce="ring"))
    assert solo(cpu, tuning=_tuning(1, all_reduce="ring")).all_reduce(np.ones(2)).tolist() == [1, 1]

"""Collective operations as calls on arrays, against NumPy on what all ranks gave."""

import math
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from dlpack_arrays import DLPack
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import TRANSFER, Schedule, build, direct_all_gather, ring_all_reduce, verify
from wavefabric.collectives.registry import ALGORITHMS, why_refused
from wavefabric.runtime.device.bfloat16 import bfloat16
from wavefabric.runtime.exchange import collective_calls, solo

DTYPES = (*collective_calls.DTYPES, bfloat16())
OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
#: All ranks draw the same examples, whatever the clock says.
SAME = settings(derandomize=True, database=None, suppress_health_check=list(HealthCheck), max_examples=60)


def call(comm, collective, array, out=None, root=0, **options):
    if collective == "broadcast":
        return comm.broadcast(array, root, **options)
    if collective == "all-reduce":
        return comm.all_reduce(array, **options)
    return getattr(comm, collective.replace("-", "_"))(array, out, **options)


def expected(collective, inputs, rank, root=0):
    """The result on a rank, of what all ranks gave."""
    if collective == "broadcast":
        return inputs[root]
    if collective == "all-gather":
        return np.stack(inputs)
    if collective == "all-to-all":
        return np.stack([each[rank] for each in inputs])
    total = reduce(np.add, inputs)
    return total if collective == "all-reduce" else total[rank]


def shape_for(comm, collective, shape):
    return (comm.size, *shape) if collective in ("reduce-scatter", "all-to-all") else tuple(shape)


def whole_numbers(shape, dtype, ranks, seed=0):
    """Of each rank, with exact sums."""
    draw = np.random.default_rng(seed)
    return [np.asarray(draw.integers(-9, 9, shape)).astype(dtype) for _ in range(ranks)]


def array_of(comm, values):
    """A copy on the communicator's device."""
    return comm.device.asarray(values).copy()


def same(comm, array, values):
    return np.array_equal(comm.device.to_host(array), values)


def all_alike(comm, value):
    return len(set(comm.control.all_gather(value))) == 1


def _algorithms(collective, ranks):
    for name, algorithm in ALGORITHMS.items():
        if algorithm.switched:
            continue
        for radix in (None, 3, 4) if "radix" in algorithm.options else (None,):
            for pieces in (1, 3) if "pieces" in algorithm.options else (1,):
                if why_refused(name, collective, ranks, radix=radix, pieces=pieces) is None:
                    yield {"algorithm": name, "radix": radix, "pieces": pieces}


@pytest.mark.parallel([2, 3, 4])
def test_every_operation_shape_dtype_and_algorithm(comm):
    xp = comm.device.xp

    @SAME
    @given(
        st.sampled_from(OPERATIONS),
        st.lists(st.integers(0, 5), max_size=3),
        st.sampled_from(DTYPES),
        st.sampled_from(["contiguous", "columns", "every other", "allocated"]),
        st.booleans(),
        st.integers(0, comm.size - 1),
        st.data(),
    )
    def check(collective, shape, dtype, layout, with_out, root, data):
        options = data.draw(st.sampled_from([{}, *_algorithms(collective, comm.size)]))
        shape = shape_for(comm, collective, shape)
        values = whole_numbers(shape, dtype, comm.size, seed=sum(shape))

        def laid_out(like):
            """An array of that shape, of which another part must stay as it is; and that part."""
            if layout == "columns":
                return xp.full(like.shape[::-1], -99, dtype).T, xp.zeros(0)
            if layout == "every other":
                wide = xp.full((*like.shape, 2), -99, dtype)
                return wide[..., 0], wide[..., 1]
            if layout == "allocated":
                wide = comm.allocate((like.size + 2,), dtype)
                wide[...] = -99
                return wide[1:-1].reshape(like.shape), wide[:: wide.size - 1]
            return xp.full(like.shape, -99, dtype), xp.zeros(0)

        mine, beside = laid_out(values[comm.rank])
        mine[...] = comm.device.asarray(values[comm.rank])
        wanted = expected(collective, values, comm.rank, root if collective == "broadcast" else 0)
        in_place = collective in ("all-reduce", "broadcast")
        out, beside_out = laid_out(wanted) if with_out and not in_place else (None, xp.zeros(0))
        result = call(comm, collective, mine, out, root, **options)
        right = (
            result is (mine if in_place else out if out is not None else result)
            and (result.shape, result.dtype) == (wanted.shape, dtype)
            and same(comm, result, wanted)
            and bool((beside == -99).all() and (beside_out == -99).all())
            and (in_place or same(comm, mine, values[comm.rank]))
        )
        # One rank alone must not shrink its example while the others go on.
        assert comm.control.all_gather(bool(right)) == [True] * comm.size

    check()


@pytest.mark.parallel([2, 3, 4])
@pytest.mark.parametrize(
    "dtype",
    [
        "float16",
        pytest.param("float32", marks=pytest.mark.slow),
        pytest.param("float64", marks=pytest.mark.slow),
        pytest.param("complex64", marks=pytest.mark.slow),
        "complex128",
    ],
)
def test_sums_have_the_same_bits_on_all_ranks_and_in_every_run(comm, dtype):
    parts = [np.random.default_rng(rank).normal(size=37).astype(dtype) for rank in range(comm.size)]
    for options in _algorithms("all-reduce", comm.size):
        first, again = (
            comm.device.to_host(comm.all_reduce(array_of(comm, parts[comm.rank]), **options))
            for _ in range(2)
        )
        assert first.tobytes() == again.tobytes()
        assert all_alike(comm, first.tobytes()), options
    direct = comm.all_reduce(array_of(comm, parts[comm.rank]), algorithm="direct")
    assert comm.device.to_host(direct).tobytes() == reduce(np.add, parts).tobytes()  # in the order of ranks


# --- arrays ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parallel([2, 3])
def test_arrays_of_other_libraries_are_changed_where_they_are(comm):
    mine = DLPack(np.arange(5.0) + comm.rank)
    assert comm.all_reduce(mine) is mine
    ranks = range(comm.size)
    assert mine.array.tolist() == [sum(i + rank for rank in ranks) for i in range(5)]
    part, out = DLPack(np.full(2, comm.rank, np.int32)), DLPack(np.zeros((comm.size, 2), np.int32))
    assert comm.all_gather(part, out) is out
    assert out.array.tolist() == [[rank, rank] for rank in ranks]
    # A number of NumPy's is a share of shape ().
    assert comm.all_gather(np.float32(comm.rank)).tolist() == list(ranks)


@pytest.mark.parallel([2, 3])
def test_results_may_lie_in_what_is_given(comm):
    # So long that MPI does not take a copy.
    values = whole_numbers((comm.size, 100_000), np.int64, comm.size)
    for collective in ("all-to-all", "reduce-scatter"):
        mine = array_of(comm, values[comm.rank])
        out = mine if collective == "all-to-all" else mine[comm.rank]
        assert same(comm, call(comm, collective, mine, out), expected(collective, values, comm.rank))
    whole = comm.device.zeros((comm.size, *values[0].shape), np.int64)
    last = whole[-1]
    last[...] = comm.device.asarray(values[comm.rank])
    comm.all_gather(last, whole)
    assert same(comm, whole, np.stack(values))


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parallel([2, 3])
def test_the_root_of_a_broadcast_may_be_read_only(comm):
    mine = np.full(4, comm.rank)
    mine.flags.writeable = comm.rank != 1
    comm.broadcast(mine, root=1)
    assert mine.tolist() == [1] * 4


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parallel([2, 3])
def test_read_only_memory_is_not_written_by_a_schedule_that_sends_back(comm, tmp_path):
    n, everywhere = comm.size, range(comm.size)
    rows = [(0, 0, r, 0, 0, 0, 0, 1, False) for r in range(1, n)] + [(1, 1, 0, 0, 0, 0, 0, 1, False)]
    held = {(r, 0, 0): (0, 1) for r in everywhere}
    sizes = (np.full((n, 1), 4),)
    back = Schedule(
        "back",
        n,
        ("data",),
        sizes,
        np.array([(*row, 0) for row in rows], TRANSFER),
        {(0, 0, 0): (0, 1)},
        held,
    )
    mine = np.zeros(4)
    if comm.rank == 0:
        np.arange(4.0).tofile(tmp_path / "given")
        mine = np.memmap(tmp_path / "given", float, "r")  # to write there would end the process
    assert comm.broadcast(mine, algorithm=back).tolist() == [0, 1, 2, 3]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parallel([2, 3])
@pytest.mark.parametrize("collective", OPERATIONS)
def test_bad_arrays_are_refused(fresh, collective):
    def refused(array, out=None, root=0):
        with pytest.raises(InputError) as error:
            call(fresh, collective, array, out, root)
        assert all_alike(fresh, str(error.value))
        return str(error.value)

    n, shape = fresh.size, shape_for(fresh, collective, (2,))
    key = "part" if collective == "all-gather" else "array"
    assert refused([1.0, 2.0]).startswith(f"{key}: a list given; allowed: arrays on cpu")
    assert refused(np.zeros(shape, np.int8)).startswith(f"{key}: int8 given; allowed: float16, float32,")
    assert ">f4 given" in refused(np.zeros(shape, ">f4"))
    if collective == "all-reduce":
        fixed = np.zeros(shape)
        fixed.flags.writeable = False
        wrong = refused(fixed)
        assert wrong == (
            "array: a numpy.ndarray (read-only) given; allowed: arrays on cpu that may be written"
        )
        assert "a numpy.float64 (read-only) given" in refused(np.float64(1))
    elif collective == "broadcast":
        assert refused(np.zeros(2), root=9) == f"root: 9; allowed: whole numbers from 0 to {n - 1}"
    else:
        wrong = refused(np.zeros(shape), np.zeros(9, np.float32))
        assert wrong.startswith("out: float32 of shape (9,) given; allowed: float64 of shape (")
    if collective in ("reduce-scatter", "all-to-all"):
        assert f"shape () given; allowed: ({n}, ...)" in refused(np.float64(1))
        assert f"shape (7, 2) given; allowed: ({n}, ...)" in refused(np.zeros((7, 2)))


def test_an_object_whose_own_code_fails_is_refused_in_one_line(cpu):
    class Broken:
        def __dlpack__(self, **options):
            raise BufferError("cannot export\nthis")

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(InputError, match=r"\.Broken \(cannot export this\) given; allowed: arrays on cpu"):
        solo(cpu).all_reduce(Broken())


def test_one_rank(cpu):
    comm = solo(cpu)
    for collective in OPERATIONS:
        for shape in ((), (3,), (2, 0)):
            for options in ({}, *_algorithms(collective, 1)):
                inputs = whole_numbers(shape_for(comm, collective, shape), np.float32, 1)
                mine = inputs[0].copy()
                result = call(comm, collective, mine, **options)
                wanted = expected(collective, inputs, 0)
                assert (result.shape, result.tolist()) == (wanted.shape, wanted.tolist())


# --- algorithms -----------------------------------------------------------------------------------------


def _out_of_place(collective, ranks, spoils=False):
    """From a buffer ``input`` to a buffer ``output``; perhaps with something else in ``input`` at the end."""
    rows, cells = [], range(ranks)
    chunks = ranks if collective == "all-gather" else 1
    everybody = (1 << ranks) - 1
    for r in cells:
        if collective == "all-gather":
            rows += [(0, r, d, 0, 0, 1, r, 1, False) for d in cells]
            rows += [(1, r, r, 1, (r + 1) % ranks, 0, 0, 1, False)] if spoils else []
        elif spoils:
            rows += [(0, r, r, 0, 0, 2, 0, 1, False)]
            rows += [(k, (r + k) % ranks, r, 2, 0, 0, 0, 1, True) for k in range(1, ranks)]
            rows += [(ranks, r, r, 0, 0, 1, 0, 1, False)]
        else:
            rows += [(0, r, r, 0, 0, 1, 0, 1, False)]
            rows += [(k, (r + k) % ranks, r, 0, 0, 1, 0, 1, True) for k in range(1, ranks)]
    sizes = [np.full((ranks, 1), 2), np.full((ranks, chunks), 2), np.full((ranks, 1), 2)]
    pre = {(r, 0, 0): (r if chunks > 1 else 0, 1 << r) for r in cells}
    if chunks > 1:
        post = {(r, 1, c): (c, 1 << c) for r in cells for c in cells}
    else:
        post = {(r, 1, 0): (0, everybody) for r in cells}
    ordered = np.array([(*row, 0) for row in sorted(rows, key=lambda row: row[0])], TRANSFER)
    return Schedule("mine", ranks, ("input", "output", "spare"), tuple(sizes), ordered, pre, post)


@pytest.mark.parallel([2, 3])
@pytest.mark.parametrize("collective", ["all-gather", "all-reduce"])
@pytest.mark.parametrize("spoils", [False, True])
def test_a_schedule_of_ones_own(comm, collective, spoils):
    schedule = _out_of_place(collective, comm.size, spoils)
    verify(schedule)
    for elements in (2, 6):
        values = whole_numbers((elements,), np.float64, comm.size)
        for step in (1, 2):
            mine = array_of(comm, np.repeat(values[comm.rank], step))[::step]
            result = call(comm, collective, mine, algorithm=schedule)
            assert same(comm, result, expected(collective, values, comm.rank))
            if collective == "all-gather":
                assert same(comm, mine, values[comm.rank])


@pytest.mark.parallel([2, 3])
def test_schedules_that_do_not_fit_are_refused(fresh):
    data, n = fresh.device.zeros(2 * fresh.size, float), fresh.size

    def refused(schedule, collective="all-reduce", **options):
        with pytest.raises(InputError) as error:
            call(fresh, collective, data.copy(), algorithm=schedule, **options)
        assert all_alike(fresh, str(error.value))
        return str(error.value)

    assert refused(ring_all_reduce(5, 10)) == f"algorithm: ring all-reduce is for 5 ranks; allowed here: {n}"
    wrong = refused(direct_all_gather([2] * n))
    assert wrong == "algorithm: direct all-gather does all-gather; allowed: all-reduce"
    wrong = refused(build("tree", "broadcast", n, 4), "broadcast", root=1)
    assert wrong == "algorithm: tree broadcast does broadcast from rank 0; allowed: broadcast from rank 1"
    wrong = refused(ring_all_reduce(n, 2 * n + 1))
    assert wrong == f"algorithm: ring all-reduce for {2 * n} elements; allowed: a multiple of its {2 * n + 1}"
    uneven = build("direct", "all-gather", n, 2 * n - 1)
    assert f"has shares of 2, {'2, ' * (n - 2)}1 elements; allowed: equal ones" in refused(
        uneven, "all-gather"
    )
    ring = ring_all_reduce(n, 2 * n)
    assert "must hold" in refused(replace(ring, transfers=ring.transfers[:-1]))
    assert refused(ring, radix=2) == "radix: 2 given; allowed: none, but with the name of an algorithm"
    assert refused("auto", pieces=3).startswith("pieces: 3 given; allowed: none")
    assert refused("torus").startswith('collective: "all-reduce" given; allowed: halo')
    assert refused("nothing").startswith('algorithm: "nothing" given; allowed: ring,')
    assert refused(7) == "algorithm: 7 given; allowed: auto, a name, a Schedule"
    assert refused("ring", pieces=0).startswith("pieces: 0; allowed: whole numbers from 1")
    assert refused("recursive", radix=1).startswith("radix: 1; allowed: whole numbers from 2")
    # And then it goes on.
    assert fresh.all_reduce(data + 1, algorithm=ring).tolist() == [n] * data.size


# --- what ranks do not agree on -------------------------------------------------------------------------


@pytest.mark.parallel([2, 3])
def test_ranks_that_differ_are_told_so_on_all_ranks(fresh):
    zeros, ones = fresh.device.xp.zeros, fresh.device.xp.ones
    last, other = fresh.size - 1, fresh.rank == fresh.size - 1
    ring = ring_all_reduce(fresh.size, 4)
    shrunk = replace(ring, name="other", transfers=ring.transfers[:-1])
    cases = {
        "shape: rank 0 has (4,), rank N has (5,)": lambda: fresh.all_reduce(zeros(5 if other else 4)),
        "dtype: rank 0 has float64, rank N has int32": lambda: fresh.all_reduce(
            zeros(4, np.int32 if other else float)
        ),
        "collective: rank 0 has all-reduce, rank N has all-gather": lambda: call(
            fresh, "all-gather" if other else "all-reduce", zeros(4)
        ),
        "root: rank 0 has 0, rank N has 1": lambda: fresh.broadcast(zeros(4), int(other)),
        "algorithm: rank 0 has ring, rank N has direct": lambda: fresh.all_reduce(
            zeros(4), algorithm="direct" if other else "ring"
        ),
        "algorithm: rank 0 has ring, rank N has ring, 3 pieces": lambda: fresh.all_reduce(
            zeros(4), algorithm="ring", pieces=3 if other else 1
        ),
        "algorithm: rank 0 has ring all-reduce": lambda: fresh.all_reduce(
            zeros(4), algorithm=shrunk if other else ring
        ),
        "array: int8 given": lambda: fresh.reduce_scatter(
            zeros((fresh.size, 2), np.int8 if other else float)
        ),
        "root: 'x'": lambda: fresh.broadcast(zeros(3), "x" if other else 0),
    }
    for message, make in cases.items():
        with pytest.raises(InputError) as error:
            make()
        assert str(error.value).startswith(message.replace("rank N", f"rank {last}"))
        assert all_alike(fresh, str(error.value))
    assert str(error.value).endswith(f"(rank {last})")
    assert fresh.all_reduce(ones(4)).tolist() == [fresh.size] * 4


@pytest.mark.parallel([2, 3])
def test_later_calls_send_nothing_but_data(fresh, monkeypatch):
    if fresh._transport.talks_in_bind:
        pytest.skip("of new memory, which peers map, ranks must tell one another")
    xp = fresh.device.xp
    arrays = [xp.full((fresh.size, 2), 1.0 + n) for n in range(3)]
    for collective in OPERATIONS:
        call(fresh, collective, arrays[0].copy())

    def nothing(*_):
        raise AssertionError("ranks talked")

    with monkeypatch.context() as patch:
        patch.setattr(fresh.control, "all_gather", nothing)
        for collective in OPERATIONS:
            # Other memory, on one rank alone.
            array = arrays[fresh.rank if fresh.rank < 3 else 0].copy("CF"[fresh.rank % 2])
            call(fresh, collective, array)
            result = call(fresh, collective, xp.ones((fresh.size, 2)))
            assert set(result.ravel().tolist()) <= {1.0, float(fresh.size)}


def test_schedules_that_are_the_same_are_one(cpu):
    comm = solo(cpu)
    for _ in range(3):
        comm.all_reduce(np.zeros(4), algorithm=ring_all_reduce(1, 4))
    assert len(comm._prepared._prepared) == 1
    assert math.prod(comm.all_reduce(np.full(4, 2.0), algorithm=ring_all_reduce(1, 2))) == 16

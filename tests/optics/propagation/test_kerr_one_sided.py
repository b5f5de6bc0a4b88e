"""Kerr operators over ranks that are one kernel each, on emulated GPUs (threads), against NumPy."""

import re
from functools import partial
from importlib.resources import files
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from emulated_device import EmulatedDevice
from fake_gpus import EmulatedGpu, together
from hypothesis import given
from hypothesis import strategies as st
from one_gpu import some_examples

from wavefabric.base.errors import InputError
from wavefabric.optics.propagation import operators
from wavefabric.optics.propagation.kernels import kerr_one_sided_cuda
from wavefabric.optics.propagation.kernels.kerr_one_sided_cuda import (
    OPERATORS,
    PEERS,
    KerrSizes,
    OneSidedKerr,
    distribute_parts,
)

TOLERANCE = {np.complex128: 1e-13, np.complex64: 5e-6}
#: Rows of the parts of each rank.
RANKS = {
    "two": [[1, 2], [3, 1, 1]],
    "dense": [[1] * 7, [1] * 6],
    "three": [[2], [1, 1, 4], [5, 2]],
    "many parts": [[1] * 19, [1] * 20],
}


class Case:
    """Fields of all ranks, γκ between all parts, and the operators in NumPy."""

    def __init__(self, sizes, n, dtype, seed=0):
        rng = np.random.default_rng(seed)
        self.sizes, self.dtype = sizes, dtype
        rows, parts = sum(map(sum, sizes)), sum(map(len, sizes))
        draw = 0.3 * rng.standard_normal((2, rows, n, 2)).view(complex)[..., 0]
        self.a, self.k = draw.astype(dtype).astype(complex)
        self.matrix = rng.uniform(-1, 1, (parts, parts)).astype(np.zeros(1, dtype).real.dtype).astype(float)
        self.row_part = np.repeat(np.arange(parts), np.concatenate(sizes))
        self.rows = np.cumsum([0, *map(sum, sizes)])

    def coupling(self, rank):
        ends = np.cumsum([0, *map(len, self.sizes)])
        own = slice(ends[rank], ends[rank + 1])
        blocks = [self.matrix[own, a:b] for a, b in pairwise(ends)]
        start = np.cumsum([0, *self.sizes[rank]])
        parts = tuple(map(len, self.sizes))
        return SimpleNamespace(own_groups=len(self.sizes[rank]), parts=parts, start=start, blocks=blocks)

    def rates(self, field):
        powers = np.zeros((len(self.matrix), field.shape[1]))
        np.add.at(powers, self.row_part, abs(field) ** 2)
        return (self.matrix @ powers)[self.row_part]

    def middle(self, h):
        b = self.a + h / 2 * self.k
        k2 = 1j * h * self.rates(b) * b
        third = self.a + k2 / 2
        k3 = 1j * h * self.rates(third) * third
        self.a, self.k = self.a + k3, self.a + h * self.k / 6 + k2 / 3 + k3 / 3

    def last(self, h):
        k4 = 1j * h * self.rates(self.a) * self.a
        self.a = self.k + k4 / 6
        self.k = 1j * self.rates(self.a) * self.a
        return h**2 / 100 * (abs(k4 / h - self.k) ** 2).sum()

    def derivative(self):
        self.k = 1j * self.rates(self.a) * self.a

    def rotate(self, h):
        self.a = self.a * np.exp(1j * h * self.rates(self.a))

    def run(self, ranks, calls, tile=(16, 2), blocks=None, **options):
        """What each rank's kernels leave of all fields after some calls, and the errors they measured."""
        a, k = self.a.astype(self.dtype), self.k.astype(self.dtype)

        def work(comm):
            own = slice(self.rows[comm.rank], self.rows[comm.rank + 1])
            A, K = (comm.device.asarray(np.ascontiguousarray(field[own])) for field in (a, k))
            kernels = OneSidedKerr(
                comm.device,
                comm,
                self.coupling(comm.rank),
                a.shape[1],
                self.dtype,
                tile=tile,
                blocks=blocks,
                **options,
            )
            error = comm.device.zeros((1,), np.float64)
            for name, *numbers in calls:
                operator = getattr(operators, name.upper())
                second = A if name == "rotate" else K
                kernels.kerr(operator, A, second, *numbers or (0,), error if name == "rk4ip_last" else None)
            comm.check()
            return *map(comm.device.to_host, (A, K)), float(error[0])

        result = ranks(len(self.sizes), work)
        A, K, errors = zip(*result, strict=True)
        return np.concatenate(A), np.concatenate(K), sum(errors)

    def check(self, A, K):
        for got, wanted in ((A, self.a), (K, self.k)):
            assert abs(got - wanted).max() < TOLERANCE[self.dtype] * max(1, abs(wanted).max())


@pytest.mark.parametrize(
    "dtype", [np.complex128, pytest.param(np.complex64, marks=pytest.mark.slow)], ids=["double", "single"]
)
@pytest.mark.parametrize(
    "sizes", [pytest.param(each, marks=[pytest.mark.slow] * (each in ("two", "dense"))) for each in RANKS]
)
@pytest.mark.parametrize("n", [pytest.param(16, marks=pytest.mark.slow), 100])
def test_a_step_and_a_rotation(one_sided_ranks, sizes, n, dtype):
    """All operators one after another, three of them more than once: slots and counters go on."""
    case = Case(RANKS[sizes], n, dtype)
    h = 0.02
    calls = [
        ("derivative",),
        *[("rk4ip_middle", h), ("rk4ip_last", h)] * 2,
        ("rotate", -h),
        ("rotate", 2 * h),
    ]
    A, K, error = case.run(one_sided_ranks, calls, blocks=2)
    case.derivative()
    for _ in range(2):
        case.middle(h)
        expected = case.last(h)
    case.rotate(-h)
    case.rotate(2 * h)
    case.check(A, K)
    assert error == pytest.approx(expected, rel=1e-9 if dtype == np.complex128 else 1e-2)


DRAWN = given(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=5), min_size=2, max_size=4),
    st.integers(1, 90),
    st.integers(1, 3),
    st.sampled_from([(8, 2), (16, 1), (4, 8)]),
    st.lists(
        st.sampled_from([name for names in OPERATORS.values() for name in names]), min_size=1, max_size=5
    ),
    st.integers(0, 99),
)


@pytest.mark.slow
@pytest.mark.parametrize("one_sided_ranks", ["emulated"], indirect=True)
@some_examples(10)
@DRAWN
def test_any_ranks_tiles_and_order_of_operators(one_sided_ranks, sizes, n, blocks, tile, names, seed):
    check_order(one_sided_ranks, sizes, n, blocks, tile, names, seed)


@pytest.mark.gpu
@pytest.mark.parametrize("one_sided_ranks", ["cuda"], indirect=True)
@some_examples(6)
@DRAWN
def test_any_order_of_operators_on_one_gpu(one_sided_ranks, sizes, n, blocks, tile, names, seed):
    """Few examples: each compiles kernels of its own."""
    check_order(one_sided_ranks, sizes, n, blocks, tile, names, seed)


def check_order(one_sided_ranks, sizes, n, blocks, tile, names, seed):
    case = Case(sizes, n, np.complex128, seed)
    calls = [(name,) if name == "derivative" else (name, 0.01) for name in names]
    A, K, _ = case.run(one_sided_ranks, calls, tile=tile, blocks=blocks)
    for name, *numbers in calls:
        getattr(case, name.removeprefix("rk4ip_"))(*numbers)
    case.check(A, K)


def test_a_rank_that_does_not_come_is_named(transports, monkeypatch):
    """And nothing is done with what has not come."""
    waiting = transports.p2p_plan
    monkeypatch.setattr(waiting, "TIMEOUT", 1e-6)
    case = Case(RANKS["three"], 40, np.complex128)

    def work(comm):
        kernels = OneSidedKerr(comm.device, comm, case.coupling(comm.rank), 40, case.dtype, tile=(8, 2))
        comm.check()
        if comm.rank != 1:
            return None
        rows = slice(case.rows[1], case.rows[2])
        A, K = (comm.device.asarray(np.ascontiguousarray(field[rows])) for field in (case.a, case.k))
        comm.device.launch = partial(EmulatedDevice.launch, comm.device)  # by this rank alone
        kernels.kerr(operators.RK4IP_MIDDLE, A, K, 0.1)
        with pytest.raises(waiting.LateRank, match=r"^Kerr operator over ranks: rank [02] did not come"):
            comm.check()
        assert (case.a[rows] == A).all()
        assert (case.k[rows] == K).all()
        return True

    assert together(transports, "p2p", 3, work, make=EmulatedGpu)[1]


def test_ranks_that_share_a_gpu_are_refused(transports):
    case = Case(RANKS["two"], 40, np.complex128)

    def work(comm):
        with pytest.raises(InputError) as refused:
            OneSidedKerr(comm.device, comm, case.coupling(comm.rank), 40, case.dtype)
        return str(refused.value)

    result = together(transports, "p2p", 2, work, gpus=[0, 0], make=EmulatedGpu)
    assert set(result) == {"protocol: ranks 0, 1 share a GPU; allowed: copies, or a GPU for each rank"}


def test_what_others_send_may_be_left_out(one_sided_ranks):
    """Or not sent at all: what is left is the work of each rank on its own rows."""
    case = Case(RANKS["three"], 50, np.complex128)
    calls = [("rk4ip_middle", 0.02), ("rotate", 0.1)]
    A, K, _ = case.run(one_sided_ranks, calls, received=False)
    ends = np.cumsum([0, *map(len, case.sizes)])
    for first, last in pairwise(ends):
        case.matrix[first:last, :first] = case.matrix[first:last, last:] = 0
    case.middle(0.02)
    case.rotate(0.1)
    case.check(A, K)


@pytest.mark.slow
@pytest.mark.parametrize("one_sided_ranks", ["emulated"], indirect=True)
def test_more_parts_than_shared_memory_has_space_for(one_sided_ranks, monkeypatch):
    """The last lot of them is not whole."""
    monkeypatch.setattr(kerr_one_sided_cuda, "_PARTS", 4)
    case = Case(RANKS["three"], 40, np.complex128)
    A, K, _ = case.run(one_sided_ranks, [("rk4ip_middle", 0.02), ("rotate", 0.1)])
    case.middle(0.02)
    case.rotate(0.1)
    case.check(A, K)


@pytest.mark.parametrize("dtype", [np.complex128, pytest.param(np.complex64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("one_sided_ranks", ["emulated"], indirect=True)
def test_what_is_not_a_number_reaches_all_ranks(one_sided_ranks, dtype):
    """Also where all its bits are set, as in CUDA's own; other samples are as they were."""
    case = Case(RANKS["two"], 40, dtype)
    case.a[1, 7] = np.frombuffer(b"\xff\xff\xff\x7f" * 2, np.complex64)[0]
    A, _, _ = case.run(one_sided_ranks, [("rotate", 0.1)])
    lost = np.isnan(A).any(axis=0)
    assert np.flatnonzero(lost).tolist() == [7]
    assert np.isnan(A[:, 7]).all()


@pytest.mark.slow
@pytest.mark.parametrize("one_sided_ranks", ["emulated"], indirect=True)
def test_marks_do_not_make_powers_smaller_on_average(one_sided_ranks):
    """An error of one sign would add up: in single precision 3e-8 to 6e-8 of each power."""
    n = 4000
    case = Case([[1], [1]], n, np.complex64)
    case.a = (0.5 + np.random.default_rng(5).random((2, n))).astype(np.float32).astype(complex)
    case.matrix = np.array([[0.0, 1.0], [1.0, 0.0]])
    _, K, _ = case.run(one_sided_ranks, [("derivative",)], tile=(16, 2), blocks=8)
    power = case.a[::-1].real.astype(np.float32) ** 2  # as the kernel rounds it
    error = K.imag / case.a.real / power - 1
    assert abs(error).max() < 4e-7
    assert abs(error.mean()) < 6e-9


@given(
    st.integers(1, 1000),
    st.integers(1, 300),
    st.integers(1, 8),
    st.sampled_from([np.complex64, np.complex128]),
    st.sampled_from([48, 99, 163, 227]),
)
def test_blocks_of_any_rows_fit_a_multiprocessor(rows, own, ranks, dtype, kilobytes):
    sizes = KerrSizes(rows, min(own, rows), ranks * min(own, rows), kilobytes * 1024)
    tilings = [sizes.tiling(fields, dtype) for fields in OPERATORS]
    for fields, chosen in zip(OPERATORS, tilings, strict=True):
        item = np.dtype(dtype).itemsize
        if chosen is None:  # not even two of the smallest tiles fit
            small = 128 // item * 2  # samples of 128 bytes; two blocks of them, and 16 KiB of weights
            each = (fields * rows * 2 + 4 * sizes.local_parts + 64) * small * item / 2 + (1 << 14)
            assert 2 * (each + 1024) > (kilobytes + 1) * 1024
            continue
        assert chosen.samples * chosen.lanes == 128
        assert chosen.shared >= fields * rows * chosen.samples * item
        assert chosen.blocks * (chosen.shared + 1024) <= (kilobytes + 1) * 1024
        assert chosen.outputs * chosen.lanes >= min(sizes.local_parts, 8 * chosen.lanes)
    assert tilings[0] or not tilings[1]


def test_rows_that_do_not_fit_in_shared_memory_have_no_kernel(transports):
    def work(comm):
        comm.device.block_memory = 1024
        kernels = OneSidedKerr(
            comm.device, comm, Case(RANKS["two"], 40, np.complex128).coupling(comm.rank), 40, np.complex128
        )
        return [
            kernels.serves(getattr(operators, name.upper())) for names in OPERATORS.values() for name in names
        ]

    assert together(transports, "p2p", 2, work, make=EmulatedGpu) == [[False] * 4] * 2


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 9))
def test_parts_are_shared_out_evenly(sizes, lanes):
    start, parts = distribute_parts(sizes, lanes)
    assert (start[0], start[-1], start.size) == (0, len(sizes), lanes + 1)
    assert sorted(parts) == list(range(len(sizes)))
    loads = [sum(sizes[part] for part in parts[a:b]) for a, b in pairwise(start)]
    # No row of threads has more than the least busy and one part.
    assert max(loads) <= min(loads) + max(sizes)


def test_the_structure_is_that_of_the_kernel():
    """The same members in the same order, laid out as C does."""
    text = files("wavefabric.optics.propagation.kernels").joinpath("kerr_one_sided.cu").read_text("utf-8")
    body = re.sub("//.*", "", text.split("struct Peers {")[1].split("};")[0])
    members = [name for line in body.split(";") for name in re.findall(r"(\w+)(?=,|$)", line.strip())]
    assert members == list(PEERS.names)
    pointers = [*re.findall(r"\*(?:const \*)?(\w+)", body), "timeout"]
    assert [name for name in members if PEERS[name] == np.uint64] == pointers
    assert np.dtype([(name, PEERS[name]) for name in members], align=True) == PEERS

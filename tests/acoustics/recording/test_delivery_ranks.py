"""Columns and blocks of all ranks come together in the right places, one whole field at a time."""

import gc
import time
import weakref

import numpy as np
import pytest

from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.acoustics.recording.delivery import Delivery, RankParts, broadcast
from wavefabric.acoustics.recording.sinks import RecordingLayout, Report

SAMPLES, SHAPE = 23, (12, 10, 9)
OWNERS = {
    "mixed": np.random.default_rng(1).integers(0, 3, SAMPLES),
    "one after the other": np.sort(np.random.default_rng(2).integers(0, 3, SAMPLES)),
    "rank 1 has all": np.ones(SAMPLES, int),
    "rank 0 has all": np.zeros(SAMPLES, int),
}


def mine(comm, owners):
    return np.flatnonzero(OWNERS[owners] == comm.rank)


@pytest.mark.parallel(3)
@pytest.mark.parametrize("owners", OWNERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns(comm, owners, dtype):
    whole = np.random.default_rng(4).standard_normal((5, SAMPLES)).astype(dtype)
    here = mine(comm, owners)
    columns = RankParts.of_columns(comm, here, SAMPLES)
    for values in (whole[:, here], np.asfortranarray(whole[:, here]), whole[2, here]):
        result = columns.gather(values)
        if comm.rank:
            assert result is None
        else:
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, whole if values.ndim == 2 else whole[2])


@pytest.mark.parallel(3)
def test_shares_are_added_in_the_order_of_ranks(comm):
    """In double precision; a sum in another order would give 0, not 1."""
    parts = np.array([1e17, -1e17, 1.0])
    columns = RankParts.of_columns(comm, np.array([4, 1]), 6)
    result = columns.summed(np.array([parts[comm.rank], comm.rank], np.float64))
    if comm.rank == 0:
        np.testing.assert_array_equal(result, [0, 3, 0, 0, 1, 0])
    narrow = columns.summed(np.full(2, 0.1, np.float32))
    if comm.rank == 0:
        sum_of_three = 3 * float(np.float32(0.1))
        assert narrow.dtype == np.float64
        np.testing.assert_allclose(narrow, [0, sum_of_three, 0, 0, sum_of_three, 0], rtol=1e-15)


@pytest.mark.parallel(3)
@pytest.mark.parametrize(
    "options", [Decomposition(), Decomposition(grid=(1, 3, 1)), Decomposition("local", (3, 1, 1), 2)]
)
def test_blocks(comm, options):
    parts = decompose(SHAPE, comm.size, options).subdomains
    part, whole = parts[comm.rank], np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE[::-1])
    local = whole[np.ix_(part.indices(2), part.indices(1), part.indices(0))]
    result = RankParts.of_blocks(comm, parts).gather(local[part.owned])
    assert (result is None) == (comm.rank > 0)
    if result is not None:
        np.testing.assert_array_equal(result, whole)


class Careful:
    """Takes each array out, and looks that none but the last is alive."""

    def __init__(self, delay=0.0):
        self.delay, self.got, self.calls, self.alive = delay, {}, [], 0

    def begin(self, layout, rows_done):
        self.calls.append(("begin", dict(layout.series), rows_done))

    def write_rows(self, name, first, block):
        time.sleep(self.delay)
        self.calls.append((name, first, block.copy()))

    def flush(self):
        self.calls.append("flush")

    def finish(self, arrays, report):
        last = []
        for name, array in arrays:
            self.alive = max(self.alive, sum(reference() is not None for reference in last))
            last.append(weakref.ref(array))
            self.got[name] = array[..., :1].copy(), array.shape
            del array
            gc.collect()
        assert len(self.got) == 5

    def abandon(self, keep):
        self.calls.append(keep)


@pytest.mark.parallel(3)
@pytest.mark.parametrize("delay", [0.0, 0.01])
def test_a_sink_for_all_ranks(comm, delay):
    parts = decompose(SHAPE, comm.size).subdomains
    here = mine(comm, "mixed")
    fields = ("p_final", "ux_final", "uy_final", "p_max_all")
    layout = RecordingLayout({"p": (6, SAMPLES)}, {"p_max": SAMPLES}, fields, np.dtype(np.float32))
    real = Careful(delay) if comm.rank == 0 else None
    columns, blocks = RankParts.of_columns(comm, here, SAMPLES), RankParts.of_blocks(comm, parts)
    delivery = Delivery(real, layout, comm, columns, blocks)
    series = np.random.default_rng(5).standard_normal((6, SAMPLES)).astype(np.float32)
    delivery.begin("", 0)
    block = np.empty((2, here.size), np.float32)
    for first in (0, 2, 4):
        block[...] = series[first : first + 2, here]
        assert delivery.put_rows("p", first, lambda: block) is None
    block[...] = np.nan  # it is the recorder's again as soon as it was handed over
    delivery.flush()
    owned = tuple(slice(n) for n in parts[comm.rank].owned_size[::-1])
    makers = {name: lambda i=i: np.full(SHAPE[::-1], i)[owned] for i, name in enumerate(fields)}
    delivery.finish({"p_max": lambda: series.max(axis=0)[here], **makers}, Report())
    delivery.close()
    if real is not None:
        assert real.calls[0] == ("begin", {"p": (6, SAMPLES)}, 0)
        assert [call[:2] for call in real.calls[1:4]] == [("p", 0), ("p", 2), ("p", 4)]
        np.testing.assert_array_equal(np.concatenate([call[2] for call in real.calls[1:4]]), series)
        assert real.calls[4:] == ["flush"]
        assert real.alive <= 1
        for i, name in enumerate(fields):
            first, shape = real.got[name]
            assert shape == SHAPE[::-1]
            assert (first == i).all()


@pytest.mark.parallel(3)
def test_broadcast(comm):
    inputs = {"a": np.arange(12.0).reshape(3, 4).T, "b": np.zeros((0, 3), np.float32), "c": np.array(2)}
    result = broadcast(comm, inputs if comm.rank == 0 else {})
    assert result.keys() == inputs.keys()
    for name, array in inputs.items():
        assert (result[name].shape, result[name].dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(result[name], array)

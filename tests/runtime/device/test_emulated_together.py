"""Several launches on the emulator whose blocks take turns, wait for one another, and share some memory."""

import emulated_cuda
import numpy as np
import pytest
from emulated_cuda import Module, empty

#: Each launch adds 1 to a word in its turn, `rounds` times, while its other threads are at a barrier.
RELAY = """
extern "C" __global__ void relay(volatile unsigned *word, unsigned turn, unsigned turns,
                                 unsigned rounds, int *seen) {
    __shared__ unsigned mine;
    for (unsigned k = 0; k < rounds; ++k) {
        if (threadIdx.x == 0) {
            while (*word % turns != turn) __nanosleep(0);
            mine = *word;
            *word = *word + 1;
        }
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) seen[k] = mine;
        __syncthreads();
    }
}
"""


@pytest.fixture(autouse=True)
def compiler():
    return emulated_cuda.find_compiler()


def zeros(size, dtype):
    array = empty((size,), dtype)
    array[...] = 0
    return array


def relay(turns, threads=40, rounds=5, first=0, seed=0):
    """What each of several launches has seen, and the word at the end."""
    word, seen = zeros(1, np.uint32), [zeros(rounds, np.int32) for _ in range(turns)]
    word[0] = first
    kernel = Module(RELAY).kernel("relay")
    kernel.together(
        [((1,), (threads,), (word, *map(np.uint32, (n, turns, rounds)), seen[n])) for n in range(turns)],
        seed=seed,
    )
    return np.array(seen), int(word[0])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("turns", [1, 2, 5])
def test_launches_wait_for_one_another(turns, seed):
    seen, word = relay(turns, seed=seed)
    assert word == 5 * turns
    assert np.array_equal(seen, np.arange(5) * turns + np.arange(turns)[:, None])


ORDER = """
extern "C" __global__ void order(unsigned *next, unsigned *place, int own) {
    __shared__ unsigned mine[64];
    __shared__ int where;
    const unsigned threads = blockDim.x * blockDim.y, thread = threadIdx.x + blockDim.x * threadIdx.y;
    if (thread == 0) where = own + blockIdx.x;
    mine[thread] = 1000 * own + 100 * blockIdx.x + thread;
    __syncthreads();
    if (where != own + (int)blockIdx.x || __syncthreads_count(thread % 2) != threads / 2) __trap();
    place[atomicAdd(next, 1)] = mine[threads - 1 - thread];
}
"""


def order(seed):
    """Words of 3 blocks of 32 and 2 of 64 threads in the order in which threads came."""
    upcoming, position = zeros(1, np.uint32), zeros(3 * 32 + 2 * 64, np.uint32)
    grids = [((3,), (32,), 1), ((2, 1), (8, 8), 2)]
    launches = [(grid, block, (upcoming, position, np.int32(own))) for grid, block, own in grids]
    Module(ORDER).kernel("order").together(launches, seed=seed)
    return position.tolist()


def test_every_block_keeps_its_own_shared_memory_and_votes():
    """Each thread of each block once, in an order that follows from the seed alone and mixes the launches."""
    wanted = [1000 + 100 * b + t for b in range(3) for t in range(32)]
    wanted += [2000 + 100 * b + t for b in range(2) for t in range(64)]
    result = {seed: order(seed) for seed in range(3)}
    for words in result.values():
        assert sorted(words) == wanted
    assert result[0] == order(0) != result[1]
    launches = [word // 1000 for word in result[0]]
    assert launches not in (sorted(launches), sorted(launches, reverse=True))


def test_those_that_wait_in_vain_are_reported():
    """The second of two, without the first."""
    kernel = Module(RELAY).kernel("relay")
    word, seen = zeros(1, np.uint32), zeros(1, np.int32)
    launch = (1,), (1,), (word, *map(np.uint32, (1, 2, 1)), seen)
    with pytest.raises(AssertionError, match="relay: blocks wait for one another in vain"):
        kernel.together([launch])


def test_as_many_threads_as_can_take_turns():
    """A launch that is refused leaves the emulator as it was."""
    relay(32, threads=32, rounds=1)
    for turns, threads in ((33, 32), (17, 33)):
        with pytest.raises(AssertionError, match="more threads than can take turns"):
            relay(turns, threads=threads, rounds=1)
        module = Module(RELAY)
        word, seen = zeros(1, np.uint32), zeros(2, np.int32)
        module.kernel("relay")((1,), (1024,), (word, np.uint32(0), np.uint32(1), np.uint32(2), seen))
        assert (int(word[0]), seen.tolist()) == (2, [0, 1])


WRITE = 'extern "C" __global__ void write(int *out, int at) { __syncthreads(); out[at] = 1 + at; }'


def test_arrays_come_back_and_are_guarded():
    kernel = Module(WRITE).kernel("write")
    out = [np.zeros(4, np.int32) for _ in range(2)]
    kernel.together([((1,), (1,), (out[n], np.int32(2 * n))) for n in range(2)])
    assert [each.tolist() for each in out] == [[1, 0, 0, 0], [0, 0, 3, 0]]
    with pytest.raises(AssertionError, match="wrote outside argument 0"):
        kernel.together([((1,), (1,), (out[n], np.int32(4 * n))) for n in range(2)])


def test_arrays_that_launches_share_must_be_made_by_empty():
    kernel, out = Module(WRITE).kernel("write"), np.zeros(4, np.int32)
    for parts in ((out, out), (out[:3], out[2:]), (out, out[1:2])):
        with pytest.raises(
            ValueError, match=r"launches 0 and 1 share an array that is not made by empty\(\)"
        ):
            kernel.together([((1,), (1,), (part, np.int32(0))) for part in parts])
    kernel.together([((1,), (1,), (part, np.int32(0))) for part in (out[:2], out[2:])])
    assert out.tolist() == [1, 0, 1, 0]
    shared = zeros(4, np.int32)
    kernel.together([((1,), (1,), (shared, np.int32(n))) for n in range(2)])
    assert shared.tolist() == [1, 2, 0, 0]

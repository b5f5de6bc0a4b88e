"""The emulation of CUDA itself: barriers, warps, shared memory, arguments and what it reports."""

import emulated_cuda
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("compiler")

SUM = """
extern __shared__ double shared[];
extern "C" __global__ void __launch_bounds__(THREADS) sum(const double *x, double *out, int n) {
    double mine = 0;
    for (int k = blockIdx.x * THREADS + threadIdx.x; k < n; k += THREADS * gridDim.x) mine += x[k];
    shared[threadIdx.x] = mine;
    for (int k = THREADS / 2; k > 0; k >>= 1) {
        BARRIER;
        if (threadIdx.x < k) shared[threadIdx.x] += shared[threadIdx.x + k];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = shared[0];
}
"""


@pytest.fixture
def compiler():
    return emulated_cuda.find_compiler()


def launch(source, name, grid, block, *arguments, shared_mem=0, seed=0):
    emulated_cuda.Module(source, seed=seed).kernel(name)(grid, block, arguments, shared_mem)


def block_sums(barrier, seed=0):
    """Sums over three blocks of 128 threads of the whole numbers below 1000."""
    x, out = np.arange(1000.0), np.zeros(3)
    module = emulated_cuda.Module(SUM, ("-DTHREADS=128", f"-DBARRIER={barrier}"), seed)
    module.kernel("sum")((3,), (128,), (x, out, np.int32(x.size)), shared_mem=128 * 8)
    return out


@pytest.mark.parametrize("seed", range(4))
def test_sum_with_barriers(seed):
    wanted = np.zeros((3, 384))
    wanted.reshape(-1)[:1000] = np.arange(1000)
    wanted = wanted.reshape(3, 3, 128).sum(axis=(0, 2))
    assert np.array_equal(block_sums("__syncthreads()", seed), wanted)


@pytest.mark.parametrize("barrier", ["", pytest.param("__syncwarp()", marks=pytest.mark.slow)])
def test_a_missing_barrier_shows(barrier):
    """Sums of what has not been written are NaN: shared memory begins so, in every block."""
    assert not np.array_equal(block_sums(barrier), block_sums("__syncthreads()"))
    assert not np.array_equal(block_sums(barrier, seed=1), block_sums(barrier))


@pytest.mark.slow
def test_shared_memory_is_new_to_every_block():
    source = """
    template <class T> __device__ __forceinline__ T *space() { __shared__ T values[2]; return values; }
    extern "C" __global__ void old(float *out) {
        __shared__ float before[1];
        out[3 * blockIdx.x] = before[0];
        out[3 * blockIdx.x + 1] = space<float>()[1];
        before[0] = space<float>()[1] = 1;
        out[3 * blockIdx.x + 2] = before[0];
    }"""
    out = np.zeros((4, 3), np.float32)
    launch(source, "old", (4,), (1,), out)
    assert np.isnan(out[:, :2]).all()
    assert (out[:, 2] == 1).all()


SHUFFLES = """
extern "C" __global__ void shuffle(const T *x, T *out) {
    const unsigned i = threadIdx.y * blockDim.x + threadIdx.x, n = blockDim.x * blockDim.y;
    const T mine = x[i];
    out[i] = __shfl_sync(0xffffffffu, mine, 3, 8);
    out[n + i] = __shfl_xor_sync(0xffffffffu, mine, 5);
    out[2 * n + i] = __shfl_down_sync(0xffffffffu, mine, 2, 16);
    out[3 * n + i] = __shfl_up_sync(0xffffffffu, mine, 3, 8);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("letter", "dtype"),
    [
        ("float", np.float32),
        pytest.param("double", np.float64, marks=pytest.mark.slow),
        pytest.param("int", np.int32, marks=pytest.mark.slow),
        pytest.param("unsigned", np.uint32, marks=pytest.mark.slow),
        ("float2", "c8"),
    ],
)
def test_shuffles(letter, dtype):
    x, out = np.arange(64).astype(dtype), np.zeros((4, 64), dtype)
    module = emulated_cuda.Module(SHUFFLES, (f"-DT={letter}",))
    module.kernel("shuffle")((1,), (8, 8), (x, out))
    lanes = np.arange(64)
    assert np.array_equal(out[0], lanes // 8 * 8 + 3)
    assert np.array_equal(out[1], lanes ^ 5)
    assert np.array_equal(out[2], np.where(lanes % 16 < 14, lanes + 2, lanes))
    assert np.array_equal(out[3], np.where(lanes % 8 >= 3, lanes - 3, lanes))


@pytest.mark.slow
def test_lanes_that_are_not_named_show_nothing():
    source = """
    extern "C" __global__ void halves(float *out, unsigned *votes) {
        const int lane = threadIdx.x;
        if (lane == 31) return;
        const unsigned mask = lane < 16 ? 0xffffu : 0xffff0000u;
        float sum = lane;
        for (int k = 8; k > 0; k >>= 1) sum += __shfl_xor_sync(mask, lane < 16 ? sum : 1.0f, k);
        out[lane] = sum;
        votes[lane] = __ballot_sync(mask, lane % 2);
    }"""
    out, votes = np.zeros(32, np.float32), np.zeros(32, np.uint32)
    launch(source, "halves", (1,), (32,), out, votes)
    assert (out[:16] == 120).all()
    # Lane 31 has returned; the others of its half miss what it would show them.
    reached = np.isin(np.arange(16, 31), [31 ^ 8, 31 ^ 4, 31 ^ 2, 31 ^ 1])
    assert np.array_equal(np.isnan(out[16:31]), reached)
    assert (votes[:16] == 0xAAAA).all()
    assert (votes[16:31] == 0x2AAA0000).all()


@pytest.mark.slow
def test_barriers_that_count():
    source = """
    extern "C" __global__ void count(int *out) {
        const int i = threadIdx.x;
        if (i >= 40) return;  // threads that have left do not count
        const int some = __syncthreads_count(i % 3 == 0), all = __syncthreads_and(i < 40);
        out[i] = some + 100 * all + 200 * __syncthreads_and(i);
        out[i] += 400 * __syncthreads_or(i == 7) + 800 * __syncthreads_or(0);
    }"""
    out = np.zeros(48, np.int32)
    launch(source, "count", (1,), (48,), out)
    assert (out[:40] == 14 + 100 + 400).all()
    assert (out[40:] == 0).all()


@pytest.mark.slow
def test_atomics_and_constants():
    source = """
    __constant__ int weights[3] = {1, 10, 100};
    extern "C" __global__ void add(int *sum, unsigned long long *most, double *x, unsigned *lock) {
        __shared__ int place;
        if (threadIdx.x == 0) place = 0;
        __syncthreads();
        const int mine = atomicAdd(&place, 1);
        atomicAdd(sum, weights[threadIdx.x % 3]);
        atomicMax(most, 5 + mine);
        atomicAdd(x, 0.5);
        atomicCAS(lock, 0u, 1 + blockIdx.x);
    }"""
    total, most = np.zeros(1, np.int32), np.zeros(1, np.uint64)
    x, lock = np.zeros(1), np.zeros(1, np.uint32)
    launch(source, "add", (2,), (6,), total, most, x, lock)
    assert (total[0], most[0], x[0]) == (444, 10, 6.0)
    assert lock[0] in (1, 2)


MATH = """
extern "C" __global__ void functions(const T *x, T *out, int n) {
    const int i = threadIdx.x;
    SINCOSPI(x[i], out + i, out + n + i);
    out[2 * n + i] = max(x[i], (T)NAN) + min((T)-1, x[i] * x[i]);
    out[3 * n + i] = fma(x[i], x[i], -x[i] * x[i]) + rsqrt((T)4);
}
"""


@pytest.mark.parametrize(
    ("letter", "dtype", "name"), [("float", np.float32, "sincospif"), ("double", np.float64, "sincospi")]
)
def test_arithmetic(letter, dtype, name):
    x = np.array([0, 0.25, 0.5, -0.5, 1, 1.5, 1e-9, -7.3, 101.7, 2.5e4], dtype)
    out = np.zeros((4, x.size), dtype)
    module = emulated_cuda.Module(MATH, (f"-DT={letter}", f"-DSINCOSPI={name}"))
    module.kernel("functions")((1,), (x.size,), (x, out, np.int32(x.size)))
    angle = np.pi * np.fmod(x.astype(np.longdouble), 2)
    tolerance = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(out[0], np.sin(angle).astype(float), rtol=0, atol=tolerance)
    np.testing.assert_allclose(out[1], np.cos(angle).astype(float), rtol=0, atol=tolerance)
    assert not out[0, [0, 4]].any()  # exact at whole turns
    assert np.array_equal(out[2], x - 1)
    exact = x.astype(np.longdouble) ** 2 - (x * x)
    np.testing.assert_allclose(out[3], 0.5 + exact.astype(float), rtol=tolerance)


# --- Arguments ---------------------------------------------------------------------------------------------

MOVE = """
struct Move { int by; double scale; };
extern "C" __global__ void move_by(const double *from, double *to, Move move, long long n) {
    const int i = threadIdx.x;
    if (from && i < n) to[i + move.by] = move.scale * from[i];
}
"""
MOVE_TYPE = np.dtype([("by", np.int32), ("scale", np.float64)], align=True)


def moved(by, n=4, to=None, seed=0):
    x, to = np.arange(1.0, 9), np.zeros(8) if to is None else to
    move = np.array((by, 2.0), MOVE_TYPE)[()]
    launch(MOVE, "move_by", (1,), (8,), x, to, move, np.int64(n))
    return to


@pytest.mark.slow
def test_structures_and_scalars():
    assert moved(1).tolist() == [0, 2, 4, 6, 8, 0, 0, 0]
    out = np.ones(8)
    move = np.array((1, 2.0), MOVE_TYPE)[()]
    launch(MOVE, "move_by", (1,), (8,), np.uint64(0), out, move, 8)
    assert (out == 1).all()


def test_writing_outside_is_reported():
    for by in (-1, 5):
        with pytest.raises(AssertionError, match="wrote outside argument 1"):
            moved(by)
    out = emulated_cuda.empty((8,), np.float64)
    assert np.isnan(moved(1, to=out)[0])
    with pytest.raises(AssertionError, match="wrote outside an array of 64 bytes"):
        moved(5, to=out)
    moved(1, to=out)  # what is over is not reported again


def test_writing_to_what_is_read_only_is_reported():
    out = np.zeros(8)
    out.flags.writeable = False
    with pytest.raises(AssertionError, match="argument 1, read-only"):
        moved(0, to=out)


@pytest.mark.slow
def test_arguments_that_overlap_stay_one_memory():
    source = """
    extern "C" __global__ void chain(double *a, const double *b) { a[1] = 7; a[0] = b[0]; }
    """
    memory = np.zeros(3)
    launch(source, "chain", (1,), (1,), memory[:2], memory[1:])
    assert memory.tolist() == [7, 7, 0]


@pytest.mark.slow
def test_shared_memory_has_its_size():
    source = """
    extern "C" __global__ void fill(int n) {
        extern __shared__ __align__(16) char bytes[];
        for (int k = threadIdx.x; k < n; k += blockDim.x) bytes[k] = 1;
    }"""
    launch(source, "fill", (1,), (32,), np.int32(100), shared_mem=100)
    with pytest.raises(AssertionError, match="outside dynamic shared memory"):
        launch(source, "fill", (1,), (32,), np.int32(101), shared_mem=100)
    with pytest.raises(ValueError, match="shared memory"):
        launch(source, "fill", (1,), (32,), np.int32(0), shared_mem=50_000)


def test_what_a_gpu_would_misread_is_refused():
    kernel = emulated_cuda.Module(MOVE).kernel("move_by")
    x, move = np.zeros(8), np.zeros((), MOVE_TYPE)[()]
    for n in (np.int32(1), np.float64(1)):
        with pytest.raises(TypeError, match="argument 3"):
            kernel((1,), (8,), (x, x, move, n))
    with pytest.raises(TypeError, match="3 arguments, not 4"):
        kernel((1,), (8,), (x, x, move))
    with pytest.raises(ValueError, match="contiguous"):
        kernel((1,), (8,), (x[::2], x, move, np.int64(1)))
    with pytest.raises(ValueError, match="at most 1024"):
        kernel((1,), (64, 17), (x, x, move, np.int64(1)))
    with pytest.raises(ValueError, match="at most 128"):
        emulated_cuda.Module(SUM, ("-DTHREADS=128", "-DBARRIER=")).kernel("sum")((1,), (129,), (x, x, 1))


def test_threads_that_never_meet():
    source = """
    extern "C" __global__ void apart() { if (threadIdx.x % 2) __syncthreads(); else __syncwarp(); }
    """
    with pytest.raises(AssertionError, match="different barriers"):
        launch(source, "apart", (1,), (32,))


def test_what_a_kernel_gives_up_on():
    source = """
    extern "C" __global__ void give_up(int n) {
        assert(n < 3);
        if (n > 1) __trap();
        __syncwarp(n ? 1u : ~0u);
    }"""
    launch(source, "give_up", (2,), (8,), np.int32(0))
    for n, why in ((3, "assert: n < 3"), (2, "__trap"), (1, "not in its own mask")):
        with pytest.raises(AssertionError, match=why):
            launch(source, "give_up", (2,), (8,), np.int32(n))


def test_errors_of_the_source():
    with pytest.raises(emulated_cuda.CompileError, match="missing_name"):
        emulated_cuda.Module('extern "C" __global__ void bad() { missing_name = 1; }')
    with pytest.raises(AttributeError, match="other"):
        emulated_cuda.Module(MOVE).kernel("other")

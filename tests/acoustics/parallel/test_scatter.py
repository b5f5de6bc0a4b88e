"""Values that a kernel puts into another rank's memory are there when it says so, on emulated GPUs."""

from importlib.resources import files

import numpy as np
import pytest
from emulated_cuda import Module, empty

from wavefabric.acoustics.parallel.fused_layouts import scatter_type

# Blocks of two warps, one of which may get ahead.
KX, LINES, POINTS, FIRST = 128, 2, 4, 2
BEFORE = f"""
typedef long long Index;
struct Complex {{ double x, y; }};
#define RANKS 2
#define FIRST_POINTS {FIRST}
"""
# Rank 0 puts columns of four points, two of them at rank 1, which waits for them.
AFTER = f"""
struct Lane {{ int kx; bool here; }};
extern "C" __global__ void ranks(int rank, const Scatter *scatter, const unsigned *flags,
                                 unsigned *taken, unsigned *late, const Complex *came, Complex *seen) {{
    if (rank == 0) {{
        const Lane lane = {{int(blockIdx.x * blockDim.x + threadIdx.x), true}};
        const Scattered<Lane> column(lane, *scatter);
        for (int n = 0; n < {POINTS}; ++n) column.put(n, {{double(lane.kx), double(n * 10 + blockIdx.y)}});
        sent(*scatter);
    }} else if (blockIdx.x == 0 && blockIdx.y == 0) {{
        await_ranks(flags, taken, rank, late, 1ull << 40);
        for (int i = threadIdx.x; i < {(POINTS - FIRST) * LINES * KX}; i += blockDim.x) seen[i] = came[i];
    }}
}}
"""


@pytest.fixture(scope="module")
def kernel():
    sources = ("runtime/exchange/transports/signals.cu", "acoustics/parallel/scatter.cu")
    signals, scatter = (files("wavefabric").joinpath(each).read_text("utf-8") for each in sources)
    return Module(BEFORE + signals + scatter + AFTER).kernel("ranks")


def zeros(count):
    made = empty((count,), np.uint32)
    made[...] = 0
    return made


@pytest.mark.parametrize("seed", range(10))
def test_all_values_are_there_when_a_rank_says_so(kernel, seed):
    shape = (2, LINES, KX)
    here, there, seen = (empty(shape, complex) for _ in range(3))
    flags, taken, late, counts = zeros(2), zeros(1), zeros(1), zeros(2)
    table = np.zeros(1, scatter_type(2))
    line = KX * 16
    steps = LINES * KX, KX
    table[0]["ranks"][0] = here.ctypes.data, *steps, 0
    table[0]["ranks"][1] = there.ctypes.data - FIRST * LINES * line, *steps, flags.ctypes.data
    table[0]["calls"], table[0]["done"] = counts.ctypes.data, counts.ctypes.data + 4
    words = empty((table.nbytes,), np.uint8)
    words[...] = table.view(np.uint8)
    launches = [
        ((2, LINES), (KX // 2,), (np.int32(rank), words, flags, taken, late, there, seen))
        for rank in range(2)
    ]
    n, y, x = np.indices(shape)
    for call in range(1, 4):
        there[...] = seen[...] = np.nan
        kernel.together(launches, seed=100 * seed + call)
        assert (late[0], taken[0], counts[0], counts[1]) == (0, call, call, 0)
        np.testing.assert_array_equal(seen, x + 1j * ((n + FIRST) * 10 + y))
        np.testing.assert_array_equal(here, x + 1j * (n * 10 + y))

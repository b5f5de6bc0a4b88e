"""Distributed transforms against NumPy's."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from wavefabric.runtime.spectral.distributed import (
    DistributedRealFFT,
    box_shape,
    boxes,
    held_elements,
    transpose_messages,
)

#: Grid points and, for the number of ranks, blocks along y and z (None: does not fit).
CASES = [
    ((16, 12, 10), (1, None)),
    ((16, 12, 10), (None, 1)),
    ((13, 11, 9), (1, None)),
    ((13, 11, 9), (2, None)),
    ((17, 9, 7), (None, 1)),
    ((31, 45, 1), (None, 1)),
    ((8, 8, 8), (2, None)),
]


@pytest.mark.parallel([2, 3, 4])
@pytest.mark.parametrize(
    ("shape", "blocks", "dtype"), [*((*case, np.float64) for case in CASES), (*CASES[3], np.float32)]
)
def test_against_numpy(comm, shape, blocks, dtype):
    by, bz = blocks
    if (by or bz) > 1 and comm.size % (by or bz):
        by = bz = None  # 2 does not divide 3: slabs
        bz = comm.size
    grid = (1, by or comm.size // bz, bz or comm.size // by)
    space, *_, spectral = boxes(shape, grid)
    fft = DistributedRealFFT(comm, shape, grid, dtype)
    rng = np.random.default_rng(3)
    field = rng.standard_normal(shape[::-1]).astype(dtype)
    spectrum = np.fft.rfftn(field.astype(float))
    (x, y, z), (kx, ky, kz) = ([slice(*span) for span in box[comm.rank]] for box in (space, spectral))
    device, kind = comm.device, np.result_type(dtype, np.complex64)
    real = device.empty(box_shape(space[comm.rank]), dtype)
    real[...] = device.asarray(np.ascontiguousarray(field[z, y, x]))
    held = device.empty(box_shape(spectral[comm.rank]), kind)
    tolerance = 20 * np.finfo(dtype).eps
    for _ in range(2):  # nothing is left over from the first time
        fft.forward(real, held)
        error = abs(device.to_host(held) - spectrum[kz, ky, kx]).max()
        assert error < tolerance * abs(spectrum).max()
        back = device.empty(real.shape, dtype)
        fft.backward(held, back)
        error = abs(device.to_host(back) / math.prod(shape) - field[z, y, x]).max()
        assert error < tolerance * abs(field).max()


SHAPES = [(16, 12, 10), (31, 45, 1)]


def staged_elements(shape, grid):
    """What kernels that store in other ranks' memory stage for messages, alike on all ranks.

    For each transpose, there and back, twice as much as the rank takes that receives most.
    """
    _, rows, planes, columns = boxes(shape, grid)
    layouts, result = [rows] + [planes] * (grid[1] > 1) + [columns] * (grid[2] > 1), 0
    for here, there in itertools.pairwise(layouts):
        for messages in (transpose_messages(here, there), transpose_messages(there, here)):
            received = Counter()
            for message in messages:
                received[message.dst] += message.points * (message.src != message.dst)
            result += 2 * max(received.values())
    return result


def check_elements_held(comm, shape):
    grids = [(1, comm.size, 1)] + ([(1, 1, comm.size), (1, comm.size // 2, 2)] if shape[2] > 1 else [])
    for grid in grids:
        made = []

        def counted(make, made=made):
            def call(shape, dtype):
                made.append(math.prod(shape) if dtype == np.complex128 else 0)
                return make(shape, dtype)

            return call

        comm.allocate, comm.symmetric = counted(getattr(comm, "allocate", None)), counted(comm.symmetric)
        fft = DistributedRealFFT(comm, shape, grid, np.float64)
        del comm.allocate, comm.symmetric
        between, messages = sum(buffer.size for buffer in fft._buffers), sum(n for n in made if n > 1)
        held = held_elements(shape, grid, comm.rank)
        assert messages == (staged_elements(shape, grid) if comm.one_sided else held - between)
        assert between + messages == pytest.approx(held, rel=0.1)


@pytest.mark.parallel([2, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_elements_held(comm, shape):
    """What planning allocates, apart from the transforms' own."""
    check_elements_held(comm, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_elements_held_by_kernels_that_store_in_other_ranks_memory(one_sided_ranks, shape):
    one_sided_ranks(2, lambda comm: check_elements_held(comm, shape))

"""Distributed transforms against NumPy's."""

import math

import numpy as np
import pytest

from wavefabric.spectral.distributed import DistributedRealFFT, box_shape, boxes, held_elements

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


@pytest.mark.parallel([2, 4])
@pytest.mark.parametrize("shape", [(16, 12, 10), (31, 45, 1)])
def test_elements_held(comm, monkeypatch, shape):
    """What planning allocates, apart from the transforms' own.

    All ranks stage as much as the one that receives most where kernels store in other ranks' memory.
    """
    grids = [(1, comm.size, 1)] + ([(1, 1, comm.size), (1, comm.size // 2, 2)] if shape[2] > 1 else [])
    for grid in grids:
        made = []

        def counted(make, made=made):
            def call(shape, dtype):
                made.append(math.prod(shape) if dtype == np.complex128 else 0)
                return make(shape, dtype)

            return call

        for name in ("allocate", "symmetric"):
            monkeypatch.setattr(comm, name, counted(getattr(comm, name)))
        fft = DistributedRealFFT(comm, shape, grid, np.float64)
        monkeypatch.undo()
        between = sum(buffer.size for buffer in fft._buffers)
        messages = sum(n for n in made if n > 1)
        wanted = held_elements(shape, grid, comm.rank)
        assert between + messages == (pytest.approx(wanted, rel=0.1) if comm.one_sided else wanted)

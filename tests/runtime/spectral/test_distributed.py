"""Messages of distributed transforms replayed without ranks, and transforms of single axes."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.runtime.device import get_device
from wavefabric.runtime.spectral.distributed import (
    DistributedRealFFT,
    box_shape,
    boxes,
    even_ranges,
    transpose_messages,
)


@given(n=st.integers(1, 300), blocks=st.integers(1, 20))
def test_cuts_tile(n, blocks):
    result = even_ranges(n, min(n, blocks))
    assert result[0][0] == 0
    assert result[-1][1] == n
    assert all(one[1] == other[0] for one, other in itertools.pairwise(result))
    lengths = [stop - start for start, stop in result]
    assert max(lengths) - min(lengths) <= 1
    assert min(lengths) >= 1


def shapes_and_grids():
    return st.tuples(
        st.tuples(st.integers(6, 12), st.integers(4, 9), st.integers(4, 9)),
        st.integers(1, 4),
        st.integers(1, 4),
    )


@settings(max_examples=40)
@given(shapes_and_grids())
def test_transposes_move_every_number_once(case):
    """From each layout to the next and back, played with arrays of their global indices."""
    shape, by, bz = case
    layouts = boxes(shape, (1, by, bz))[1:]
    half = (shape[2], shape[1], shape[0] // 2 + 1)
    numbers = np.arange(math.prod(half)).reshape(half)

    def cut(box):
        (x0, x1), (y0, y1), (z0, z1) = box
        return numbers[z0:z1, y0:y1, x0:x1]

    for before, after in [layouts[:2], layouts[1:], layouts[1::-1], layouts[:0:-1]]:
        arrays = [np.full(box_shape(box), -1) for box in after]
        moved = 0
        for message in transpose_messages(before, after):
            values = cut(before[message.src])[message.src_box]
            assert values.size > 0
            target = arrays[message.dst][message.dst_box]
            assert (target == -1).all()
            target[...] = values
            moved += values.size
        assert moved == numbers.size
        for array, box in zip(arrays, after, strict=True):
            assert (array == cut(box)).all()


def test_one_rank_alone():
    """The same class without ranks is a plain transform."""
    from wavefabric.runtime.exchange import solo

    comm, shape = solo(get_device("cpu", threads=1)), (12, 9, 7)
    field = np.random.default_rng(1).standard_normal(shape[::-1])
    fft = DistributedRealFFT(comm, shape, (1, 1, 1), np.float64)
    held = comm.device.empty((7, 9, 7), np.complex128)
    real = comm.device.empty(shape[::-1], np.float64)
    real[...] = field
    fft.forward(real, held)
    assert abs(held - np.fft.rfftn(field)).max() < 1e-13 * abs(held).max()
    fft.backward(held, real)
    assert abs(real / field.size - field).max() < 1e-14


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("axis", [0, 1])
def test_transform_of_one_axis(device, dtype, axis):
    rng = np.random.default_rng(2)
    inputs = (rng.standard_normal((6, 10, 7)) + 1j * rng.standard_normal((6, 10, 7))).astype(dtype)
    fft, array = device.axis_fft(inputs.shape, dtype, axis), device.empty(inputs.shape, dtype)
    array[...] = device.asarray(inputs)
    fft.forward(array)
    tolerance = 10 * np.finfo(dtype).eps
    wanted = np.fft.fft(inputs.astype(complex), axis=axis)
    assert abs(device.to_host(array) - wanted).max() < tolerance * abs(wanted).max()
    fft.backward(array)
    assert abs(device.to_host(array) / inputs.shape[axis] - inputs).max() < tolerance * abs(inputs).max()


@pytest.mark.parametrize("axes", [(2,), (1, 2)])
def test_real_transform_of_the_last_axes(device, axes):
    field = np.random.default_rng(4).standard_normal((5, 8, 9))
    fft = device.real_fft(field.shape, np.float64, axes)
    real, spectrum = device.empty(field.shape, np.float64), device.empty((5, 8, 5), np.complex128)
    real[...] = device.asarray(field)
    fft.forward(real, spectrum)
    wanted = np.fft.rfftn(field, axes=axes)
    assert abs(device.to_host(spectrum) - wanted).max() < 1e-13 * abs(wanted).max()
    fft.backward(spectrum, real)
    scale = math.prod(field.shape[axis] for axis in axes)
    assert abs(device.to_host(real) / scale - field).max() < 1e-14

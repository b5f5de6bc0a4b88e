"""Boxes between ranks, against a copy through one global array."""

import numpy as np
import pytest

from wavefabric.runtime.exchange import solo
from wavefabric.runtime.exchange.halos_transposes import Message, RegionExchange


def _box(*bounds):
    return tuple(slice(a, b) for a, b in bounds)


def _ring(ranks):
    """Each rank's last planes to the next rank's first, and one box within each rank."""
    messages = []
    for rank in range(ranks):
        messages.append(
            Message(rank, (rank + 1) % ranks, _box((4, 6), (0, 5), (1, 4)), _box((0, 2), (0, 5), (0, 3)))
        )
        messages.append(Message(rank, rank, _box((2, 3), (1, 3), (0, 2)), _box((5, 6), (2, 4), (4, 6))))
    return messages


def _field(rank, number, dtype):
    values = np.random.default_rng(10 * rank + number).normal(size=(2, 6, 5, 6))
    return (
        (values[0] + 1j * values[1]).astype(dtype) if np.dtype(dtype).kind == "c" else values[0].astype(dtype)
    )


def _check(comm, dtype, fields, weighted):
    real = np.finfo(dtype).dtype
    weights = tuple(np.linspace(0.5, 1.5, n).astype(real) for n in (6, 5, 6)) if weighted else None
    exchange = RegionExchange(comm, _ring(comm.size), (6, 5, 6), (6, 5, 6), dtype, fields)
    xp = comm.device
    for _ in range(2):
        source = [_field(comm.rank, n, dtype) for n in range(fields)]
        mine = [xp.asarray(f.copy()) for f in source]
        target = [xp.zeros((6, 5, 6), dtype) for _ in range(fields)]
        exchange.start(mine)
        exchange.finish(target, None if weights is None else [xp.asarray(w) for w in weights])
        before = (comm.rank - 1) % comm.size
        for number in range(fields):
            expected = np.zeros((6, 5, 6), dtype)
            expected[0:2, 0:5, 0:3] = _field(before, number, dtype)[4:6, 0:5, 1:4]
            expected[5:6, 2:4, 4:6] = source[number][2:3, 1:3, 0:2]
            if weights is not None:
                expected *= weights[0][:, None, None] * weights[1][:, None] * weights[2]
            np.testing.assert_array_equal(xp.to_host(target[number]), expected)


@pytest.mark.parallel([2, 3])
@pytest.mark.parametrize("fields", [1, 3])
@pytest.mark.parametrize(
    ("dtype", "weighted"), [(np.float32, True), (np.float64, False), (np.complex64, False)]
)
def test_boxes_arrive(comm, dtype, fields, weighted):
    _check(comm, dtype, fields, weighted)


@pytest.mark.parametrize("fields", [1, 3])
@pytest.mark.parametrize(
    ("dtype", "weighted"),
    [
        (np.float32, True),
        pytest.param(np.float64, True, marks=pytest.mark.slow),
        pytest.param(np.complex128, False, marks=pytest.mark.slow),
    ],
)
def test_boxes_of_one_rank(kernel_device, dtype, fields, weighted):
    _check(solo(kernel_device), dtype, fields, weighted)


def test_boxes_must_match():
    with pytest.raises(ValueError, match=r"boxes of \(1, 2, 3\) and \(1, 2, 4\) points differ"):
        Message(0, 1, _box((0, 1), (0, 2), (0, 3)), _box((0, 1), (0, 2), (0, 4)))


@pytest.mark.parametrize(
    "dtype",
    [
        np.float32,
        pytest.param(np.float64, marks=pytest.mark.slow),
        pytest.param(np.complex64, marks=pytest.mark.slow),
        np.complex128,
    ],
)
def test_pack_and_unpack_are_inverse(kernel_device, dtype):
    device = kernel_device
    kernels = device.kernels("wavefabric.runtime.exchange.pack")
    boxes = [_box((0, 2), (1, 3), (2, 5)), _box((3, 6), (0, 5), (0, 1)), _box((2, 3), (3, 5), (0, 6))]
    fields = [device.asarray(_field(7, n, dtype)) for n in range(2)]
    size = 2 * sum(int(np.prod([s.stop - s.start for s in box])) for box in boxes)
    table, buffer = kernels.make_table(device, boxes, 2), device.zeros((size,), dtype)
    kernels.pack(buffer, fields, table)
    expected = np.concatenate([device.to_host(f[box]).reshape(-1) for box in boxes for f in fields])
    np.testing.assert_array_equal(device.to_host(buffer), expected)
    out = [device.zeros((6, 5, 6), dtype) for _ in range(2)]
    kernels.unpack(buffer, out, table, None)
    for number in range(2):
        wanted = np.zeros((6, 5, 6), dtype)
        for box in boxes:
            wanted[box] = device.to_host(fields[number])[box]
        np.testing.assert_array_equal(device.to_host(out[number]), wanted)

"""Transform a real 3-D field that is divided into slabs or pencils, by transposes between ranks.

Ranks form a grid (1, By, Bz). In space a rank has all x, a block of y and a block of z. Axes are transformed
in the order x, y, z. Before the transform along y the blocks of y are gathered and k_x is divided instead;
before that along z the blocks of z are gathered and k_y is divided:

    (z/Bz, y/By, x) → x → (z/Bz, y/By, kx) ⇄ (z/Bz, y, kx/By) → y ⇄ (z, ky/Bz, kx/By) → z

With By = 1 (slabs) x and y are one transform without the first transpose; Bz = 1 needs no second one.
"""

import itertools
import math

import numpy as np

from wavefabric.runtime.device.base import InPlaceFFT
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.exchange.halos_transposes import Message, RegionExchange, region_exchange

Triple = tuple[int, int, int]
#: Ranges along x, y, z.
Box = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


def even_ranges(n: int, blocks: int) -> list[tuple[int, int]]:
    """Divide ``n`` points into ranges (first, end), longer ones first; lengths differ by at most 1."""
    size, more = divmod(n, blocks)
    edges = [i * size + min(i, more) for i in range(blocks + 1)]
    return list(itertools.pairwise(edges))


def boxes(shape: Triple, grid: Triple) -> tuple[list[Box], ...]:
    """Return four lists with the box of each rank: of the field, and of its spectrum at three stages.

    These are after the x transform, after the first transpose and after the second. A box is three ranges of
    indices, along x, y and z. ``shape`` is (Nx, Ny, Nz); ``grid`` is the number of blocks along x (always 1),
    y and z. Rank numbers increase fastest along z, then along y.
    """
    nx, ny, nz = shape
    half, by, bz = nx // 2 + 1, grid[1], grid[2]
    y, z, kx, ky = even_ranges(ny, by), even_ranges(nz, bz), even_ranges(half, by), even_ranges(ny, bz)
    ranks = list(itertools.product(range(by), range(bz)))
    return (
        [((0, nx), y[j], z[k]) for j, k in ranks],
        [((0, half), y[j], z[k]) for j, k in ranks],
        [(kx[j], (0, ny), z[k]) for j, k in ranks],
        [(kx[j], ky[k], (0, nz)) for j, k in ranks],
    )


def box_shape(box: Box) -> Triple:
    """Return the C-order shape (z, y, x) of a box."""
    return tuple(stop - start for start, stop in reversed(box))  # type: ignore[return-value]


def transpose_messages(before: list[Box], after: list[Box]) -> list[Message]:
    """Return the messages that redistribute a field between ranks.

    ``before[r]`` and ``after[r]`` are the boxes of the field that rank r has before and after.
    """
    messages = []
    for (src, source), (dst, target) in itertools.product(enumerate(before), enumerate(after)):
        common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(source, target, strict=True)]
        if all(start < stop for start, stop in common):
            messages.append(Message(src, dst, _slices_in(common, source), _slices_in(common, target)))
    return messages


def _slices_in(common, box: Box) -> tuple[slice, slice, slice]:
    """Return (z, y, x) slices that select the box ``common`` from an array that contains the box ``box``."""
    pairs = list(zip(common, box, strict=True))
    x, y, z = (slice(start - first, stop - first) for (start, stop), (first, _) in pairs)
    return z, y, x


def held_elements(shape: Triple, grid: Triple, rank: int) -> int:
    """Return how many complex numbers a `DistributedRealFFT` stores on a rank, in fields and messages."""
    _, rows, planes, columns = boxes(shape, grid)
    layouts = [rows] + ([planes] if grid[1] > 1 else []) + ([columns] if grid[2] > 1 else [])
    elements = sum(math.prod(box_shape(layout[rank])) for layout in layouts[:-1])
    for layout in itertools.pairwise(layouts):
        here, there = (each[rank] for each in layout)
        stays = [max(0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in zip(here, there, strict=True)]
        # Forward and back.
        elements += 2 * (math.prod(box_shape(here)) + math.prod(box_shape(there)) - 2 * math.prod(stays))
    return elements


def transpose(comm: Communicator, before: list[Box], after: list[Box], dtype) -> RegionExchange:
    """Return the exchange that carries out `transpose_messages` for arrays of ``dtype``."""
    here, there = (box_shape(layout[comm.rank]) for layout in (before, after))
    return region_exchange(comm, transpose_messages(before, after), here, there, dtype)


class DistributedRealFFT:
    """A planned Fourier transform of one real field over all ranks, which make each call together.

    The interface is that of `device.base.RealFFT`, with this rank's boxes. ``shape`` is (Nx, Ny, Nz);
    ``grid`` is the number of blocks along x (1), y and z, one per rank: (1, 1, K) is slabs, else pencils;
    ``dtype`` is real. For a plane (Nz = 1) ``along_y`` may replace the transforms along y.
    """

    def __init__(
        self, comm: Communicator, shape: Triple, grid: Triple, dtype, along_y: InPlaceFFT | None = None
    ):
        device, kind = comm.device, np.result_type(dtype, np.complex64)
        space, rows, planes, columns = boxes(shape, grid)
        self._local = device.real_fft(box_shape(space[comm.rank]), dtype, (2,) if grid[1] > 1 else (1, 2))
        # Boxes, and the complex axes transformed in them.
        steps: list[tuple[list[Box], list[int]]] = [(rows, [])]
        if grid[1] > 1:
            steps.append((planes, [1]))
        if grid[2] > 1:
            steps.append((columns, [0]))
        elif shape[2] > 1:
            steps[-1][1].append(0)
        layouts = [layout for layout, _ in steps]
        shapes = [box_shape(layout[comm.rank]) for layout in layouts]
        self._axes = [
            [along_y or device.axis_fft(box, kind, axis) for axis in axes]
            for box, (_, axes) in zip(shapes, steps, strict=True)
        ]
        # The last layout is the caller's spectrum.
        self._buffers = [device.empty(box, kind) for box in shapes[:-1]]
        pairs = list(itertools.pairwise(layouts))
        self._forward_transposes = [transpose(comm, a, b, kind) for a, b in pairs]
        self._backward_transposes = [transpose(comm, b, a, kind) for a, b in pairs]

    def forward(self, real, spectrum) -> None:
        """Write the transform of ``real`` to ``spectrum``, with NumPy's sign and no scale."""
        stages = [*self._buffers, spectrum]
        self._local.forward(real, stages[0])
        for level, plans in enumerate(self._axes):
            if level:
                self._forward_transposes[level - 1].run([stages[level - 1]], [stages[level]])
            for plan in plans:
                plan.forward(stages[level])

    def backward(self, spectrum, real) -> None:
        """Write the unscaled inverse transform of ``spectrum`` to ``real``; overwrites ``spectrum``."""
        stages = [*self._buffers, spectrum]
        for level in range(len(stages) - 1, -1, -1):
            for plan in self._axes[level]:
                plan.backward(stages[level])
            if level:
                self._backward_transposes[level - 1].run([stages[level]], [stages[level - 1]])
        self._local.backward(stages[0], real)

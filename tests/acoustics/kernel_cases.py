"""Random fields for tests of kernels: of one shape, on any device and in double precision."""

import numpy as np
import pytest

from wavefabric.acoustics.solver.split_density import SplitLayers, positions, runs_along

#: Threads change no bit, as tests of whole steps show.
DEVICES = [
    "cpu 1",
    pytest.param("cpu 2", marks=pytest.mark.slow),
    "emulated",
    pytest.param("cuda", marks=pytest.mark.gpu),
]
#: (Nz, Ny, Nx): 1-D, 2-D, odd and even 3-D, rows longer than a block of threads.
SHAPES = [(1, 1, 40), (1, 6, 10), (5, 7, 9)]
SHAPES += [pytest.param(shape, marks=pytest.mark.slow) for shape in ((1, 7, 9), (4, 6, 8), (2, 3, 301))]
TOLERANCE = {np.float64: 2e-15, np.float32: 1e-6}


class Case:
    """Random fields of one shape, as a device holds them and in double precision."""

    def __init__(self, device, shape, dtype):
        self.device, self.shape, self.dtype = device, shape, dtype
        self.complex = np.result_type(dtype, np.complex64)
        self.half = (*shape[:2], shape[2] // 2 + 1)
        self.axes = sum(n > 1 for n in shape)
        self.rng = np.random.default_rng(shape[2])

    def put(self, host):
        """A copy on the device."""
        out = self.device.empty(host.shape, host.dtype)
        out[...] = self.device.asarray(host)
        return out

    def pair(self, host, dtype=None):
        """(on the device, what it holds in double precision)."""
        host = host.astype(dtype or (self.complex if np.iscomplexobj(host) else self.dtype))
        wide = complex if np.iscomplexobj(host) else float
        return self.put(host), host.astype(wide)

    def real(self, shape=None):
        return self.pair(self.rng.uniform(0.5, 1.5, shape or self.shape))

    def spectrum(self, shape=None):
        return self.pair(self.rng.standard_normal((*(shape or self.half), 2)).view(complex)[..., 0])

    def parameter(self, full):
        """A medium parameter: a grid, or one row that is the same everywhere."""
        if full:
            return self.real()
        return self.pair(np.full((1, 1, self.shape[2]), self.rng.uniform(0.5, 1.5)))

    def several(self, make, *arguments):
        """Three of a kind, those of missing axes the last again, as `Fields.three` gives them."""
        made = [make(*arguments) for _ in range(self.axes)]
        return [*made, made[-1], made[-1]][:3]

    def split(self):
        """A density whose parts are kept in layers of up to two points, and all of it in double precision."""
        factors = []
        for n in self.shape[::-1]:
            factor, size = np.ones(n), min(2, n // 3)
            factor[:size], factor[n - size :] = self.rng.uniform(0.5, 0.9, (2, size))
            factors.append(self.pair(factor))
        parts = [self.rng.uniform(0.5, 1.5, self.shape).astype(self.dtype) for _ in range(self.axes)]
        at = [positions(factor) for _, factor in factors]
        kept = [
            np.compress(a >= 0, part, 2 - axis) for axis, (a, part) in enumerate(zip(at, parts, strict=False))
        ]
        kept += [np.zeros((0, *self.shape[1:]), self.dtype)] * (3 - len(kept))
        total = sum(part.astype(float) for part in parts)
        split_layers = SplitLayers(
            *map(self.put, [*kept, *at]), *(device for device, _ in factors), runs_along(at[0])
        )
        return (
            self.put(total.astype(self.dtype)),
            split_layers,
            [part.astype(float) for part in parts],
            [f for _, f in factors],
        )

    def check_split(self, total, split_layers, parts):
        """``parts`` are full grids."""
        self.check(total, sum(parts), 4 * TOLERANCE[self.dtype])
        kept = 0
        for axis, (at, part, wanted) in enumerate(
            zip(split_layers[3:6], split_layers.parts, parts, strict=False)
        ):
            inside = self.device.to_host(at) >= 0
            kept += inside.sum()
            if inside.any():
                self.check(part, np.compress(inside, wanted, 2 - axis), 2 * TOLERANCE[self.dtype])
        assert kept > 0

    def check(self, got, wanted, tolerance=None):
        got = self.device.to_host(got)
        assert got.dtype in (self.dtype, self.complex)
        assert got.shape == wanted.shape
        assert abs(got - wanted).max() <= (tolerance or TOLERANCE[self.dtype]) * abs(wanted).max()


def split(pairs):
    return [device for device, _ in pairs], [host for _, host in pairs]

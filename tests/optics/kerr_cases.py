"""Fields and couplings for the kernels of Kerr operators, and what NumPy makes of them."""

import math

import numpy as np

from wavefabric.optics.propagation.phase_groups import phase_group_coupling

TOLERANCE = {np.complex128: 1e-13, np.complex64: 5e-6}


def kappa_for(rows):
    """κ of cells of 2, 4, 6 … rows, of rank 2, not symmetric."""
    rng = np.random.default_rng(rows)
    sizes = {2: [2], 6: [2, 4], 30: [2, 4, 6, 8, 10]}[rows]
    cells = np.repeat(np.arange(len(sizes)), sizes)
    u, v = rng.uniform(0.2, 1.0, (2, len(sizes), 2))
    return (u @ v.T)[np.ix_(cells, cells)]


class KerrCase:
    """Fields with phase rates of a few rad/m, and the coupling laid out for the kernels."""

    def __init__(self, device, kernels, rows, n, form, dtype):
        self.device, self.dtype = device, dtype
        rng = np.random.default_rng(n)
        gamma = 1.7
        self.coupling = phase_group_coupling(kappa_for(rows), gamma, form)
        self.layout = kernels.KerrLayout(device, self.coupling, n, dtype)
        self.kappa = gamma * kappa_for(rows)
        # Rounded to the type first: references start from what the kernels see.
        draw = rng.standard_normal((4, rows, n, 2)).view(complex)[..., 0]
        self.a, self.k = (0.4 * draw[:2] / math.sqrt(rows)).astype(dtype).astype(complex)

    def put(self, array):
        out = self.device.empty(array.shape, self.dtype)
        out[...] = self.device.asarray(array.astype(self.dtype))
        return out

    def rates(self):
        n = self.a.shape[1]
        return self.device.empty((self.coupling.groups, n), np.zeros(1, self.dtype).real.dtype)

    def phase(self, field):
        """γκ|A|² of every row, rad/m."""
        return self.kappa @ abs(field) ** 2

    def kerr(self, field):
        return 1j * self.phase(field) * field

    def check(self, got, wanted, tolerance=None):
        got = self.device.to_host(got)
        assert got.dtype in (self.dtype, np.zeros(1, self.dtype).real.dtype)
        error = abs(got - wanted).max() / abs(wanted).max()
        assert error < (tolerance or TOLERANCE[self.dtype])

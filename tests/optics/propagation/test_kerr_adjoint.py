"""Adjoint kernels on CPU and CUDA against the whole Jacobian of each operator by complex steps."""

import numpy as np
import pytest
from complex_steps import STEP, kerr, rk4, stepped, tangent, turn
from complex_steps import rate as phase_rate
from kerr_cases import KerrCase

from wavefabric.optics.propagation.kernels import KerrOperator
from wavefabric.optics.propagation.operators import DERIVATIVE, ROTATE, ROTATE_RK4

H = 0.4
OPERATORS = {
    DERIVATIVE: lambda a, kappa: kerr(a, kappa, H),
    ROTATE: lambda a, kappa: turn(a, H * phase_rate(a, kappa)),
    ROTATE_RK4: lambda a, kappa: rk4(a, kappa, H),
}


class AdjointCase(KerrCase):
    def __init__(self, device, kernels, rows, n, form, dtype):
        super().__init__(device, kernels, rows, n, form, dtype)
        self.adjoint = device.kernels("wavefabric.optics.propagation.kernels.kerr_adjoint")
        self.layout = self.adjoint.KerrAdjointLayout(device, self.coupling, n, dtype)
        self.group = self.coupling.group_of_row
        rng = np.random.default_rng(3)
        self.factors = rng.uniform(-0.5, 1.5, self.coupling.groups).astype(np.zeros(1, dtype).real.dtype)
        self.scaled = self.factors.astype(float)[self.group, None] * self.kappa

    def run(self, operator, a, y, rates):
        A, Y = self.put(a), self.put(y)
        held = self.rates()
        held[...] = self.device.asarray(rates.astype(held.dtype))
        self.adjoint.kerr_adjoint(operator, A, Y, H, self.device.asarray(self.factors), held, self.layout)
        self.check(A, a, 1e-30)
        return Y, held

    def by_group(self, rows):
        return np.array([rows[self.group == g].sum(axis=0) for g in range(self.coupling.groups)])


@pytest.fixture(params=["dense", "factored", "svd"])
def form(request):
    return request.param


@pytest.fixture(
    params=[
        (2, 1037, np.complex128),
        (6, 13, np.complex128),
        pytest.param((6, 2100, np.complex128), marks=pytest.mark.slow),
        pytest.param((6, 2100, np.complex64), marks=pytest.mark.slow),
    ],
    ids=lambda size: f"{size[0]}x{size[1]} {size[2].__name__}",
)
def case(request, kernel_device, form):
    kernels = kernel_device.kernels("wavefabric.optics.propagation.kernels.kerr")
    rows, n, dtype = request.param
    return AdjointCase(kernel_device, kernels, rows, n, form, dtype)


def inner(y, change):
    """Re y* change of each row and sample."""
    return (y.conj() * change).real


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_operators(case, operator):
    a, y, function = case.a, case.k, OPERATORS[operator]
    wanted = np.zeros_like(a)
    for row in range(len(a)):
        for part in (1, 1j):
            direction = np.zeros_like(a)
            direction[row] = part
            change = tangent(function(stepped(a, direction), case.scaled))
            wanted[row] += part * inner(y, change).sum(axis=0)
    by_factor = np.empty((case.coupling.groups, a.shape[1]))
    for g in range(case.coupling.groups):
        kappa = case.scaled + 1j * STEP * case.kappa * (case.group == g)[:, None]
        by_factor[g] = inner(y, tangent(function(stepped(a, 0 * a), kappa))).sum(axis=0)
    Y, rates = case.run(operator, a, y, np.full_like(by_factor, 7.0))
    case.check(Y, wanted)
    case.check(rates, by_factor)


def test_phase_rate(case):
    """Re Σ (∂f/∂θ) θ differentiated by the field and by the factors."""
    a, by_rate = case.a, np.random.default_rng(5).standard_normal((case.coupling.groups, case.a.shape[1]))
    by_rate = by_rate.astype(case.dtype).real.astype(float)
    matrix = case.scaled[np.unique(case.group, return_index=True)[1]]
    Y, rates = case.run(KerrOperator("phase_rate"), a, case.k, by_rate)
    case.check(Y, case.k + 2 * (matrix.T @ by_rate) * a)
    case.check(rates, by_rate * case.phase(a)[np.unique(case.group, return_index=True)[1]])


def test_turn(case):
    Y, rates = case.run(
        KerrOperator("turn"), case.a, case.k, np.zeros((case.coupling.groups, case.a.shape[1]))
    )
    case.check(Y, case.k, 1e-30)
    case.check(rates, case.by_group((case.a.conj() * case.k).imag))

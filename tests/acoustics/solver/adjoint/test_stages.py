"""Derivatives of the adjoint step, plain and fused, against `plain_solver`; each is a transpose."""

import numpy as np
import pytest
from emulated_device import EmulatedDevice
from kernel_cases import Case, split
from plain_solver import PlainSolver
from random_problems import problem

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.fused.fused_cpu import FusedCpuStages
from wavefabric.acoustics.fused.fused_cuda import FusedCudaStages
from wavefabric.acoustics.solver.stages import PlainStages
from wavefabric.runtime.device import get_device

SOLID, ODD, FLAT, LINE = (12, 10, 8), (14, 9, 7), (15, 12, 1), (30, 1, 1)
PLANE = (16, 15, 1)
FORMS = [(PlainStages, "cpu", shape) for shape in (SOLID, ODD, FLAT, LINE)]
FORMS += [(FusedCpuStages, "cpu", SOLID), (FusedCpuStages, "cpu", ODD)]
FORMS += [(FusedCudaStages, "emulated", SOLID)]
FORMS += [pytest.param(FusedCudaStages, "emulated", PLANE, marks=pytest.mark.slow)]
FORMS += [pytest.param(kind, "cuda", SOLID, marks=pytest.mark.gpu) for kind in (PlainStages, FusedCudaStages)]
FORMS += [pytest.param(FusedCudaStages, "cuda", PLANE, marks=pytest.mark.gpu)]


@pytest.mark.parametrize(
    "dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)], ids=["double", "single"]
)
@pytest.mark.parametrize(("kind", "device", "shape"), FORMS)
def test_derivatives_of_the_adjoint_step(kind, device, shape, dtype):
    device = EmulatedDevice() if device == "emulated" else get_device(device, 1)
    inputs = problem(shape, absorption="power_law", mixed="a")
    stages, plain = make_stages(device, inputs, dtype, plain=kind is PlainStages), PlainSolver(inputs)
    assert type(stages) is kind
    case, c = Case(device, inputs.array_shape, dtype), stages.coefficients

    def check(got, wanted, scale):
        assert abs(device.to_host(got) - wanted).max() <= 30 * np.finfo(dtype).eps * scale

    fields, hosts = split([case.real() for _ in range(case.axes)])
    wanted = [plain.derivative(host, axis, 1) for axis, host in enumerate(hosts)]
    scale = max(abs(each).max() for each in wanted)
    stages.adjoint_divergence(fields)
    for got, each in zip(fields, wanted, strict=True):
        check(got, each, scale)
    for method in (stages.adjoint_gradient, stages.divergence):
        (fields, hosts), (out, _) = split([case.real() for _ in range(case.axes)]), case.real()
        method(fields, out)
        check(out, sum(plain.derivative(host, axis, -1) for axis, host in enumerate(hosts)), scale)
    for operator, reference in ((c.nabla1, plain.loss_operator), (c.nabla2, plain.shift_operator)):
        (field, host), (out, _) = case.real(), case.real()
        for target in (out, None):
            stages.apply_operator(field, operator, adjoint=True, out=target)
            check(field if target is None else out, plain.multiplied(host, reference), abs(reference).max())

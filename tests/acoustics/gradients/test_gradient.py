"""The gradients of every case against those of the plain solver by JAX."""

import numpy as np
import pytest
from gradient_cases import DT, cases, derivatives, objective
from gradient_cases import STEPS as TIME_STEPS
from test_against_jax import answers

from wavefabric.acoustics.gradients.gradient import GradientSettings, Linearization

pytestmark = pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")
RUN = dict(device="cpu", threads=1, precision="double", check_stability=False, dt=DT, steps=TIME_STEPS)


def gradient_of(case, names, function=lambda r: (objective(r), derivatives(r)), **options):
    """The gradient of a case, some of which only a `Problem` can say."""
    medium, source = case.objects(case.values)
    problem, recording = case.problem(case.values)
    how = GradientSettings(**(RUN | options)).with_ranks(case.grid.total_shape)
    run = Linearization(case.grid, medium, source, problem, recording, names, how)
    return run.gradient(function)


@pytest.mark.parametrize("name", [name for name, case in cases().items() if not case.grid.axisymmetric])
def test_gradient(name):
    case, kept = cases()[name], answers(name)
    names = tuple("p" if key == "elements" else key for key in case.values)
    gradient = gradient_of(case, names)
    assert gradient.value == pytest.approx(float(kept["value"]), rel=1e-12)
    for key in case.values:
        if key == "elements":
            assert case.elements is not None
            value = case.elements.element_signals(gradient["p"])
        else:
            value = np.asarray(gradient[key])
        assert np.abs(value - kept[key]).max() <= 1e-10 * np.abs(kept[key]).max(), key

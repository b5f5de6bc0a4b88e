"""A forward run apart from its steps back: the same results and gradients, memory that is freed, misuse."""

import gc
import weakref

import numpy as np
import pytest
from gradient_cases import cases, derivatives, leaves, objective
from test_gradient import RUN

from wavefabric.acoustics import linearize, simulate, simulate_and_gradient
from wavefabric.base.errors import InputError

pytestmark = pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")
CASE = cases()["nonlinear power law, PML outside 2-D"]
WRT = tuple(CASE.values)


def arguments(case=CASE):
    return case.grid, *case.objects(case.values), case.sensor


def same(results, others):
    pairs = zip(leaves(dict(results)), leaves(dict(others)), strict=True)
    return all(a == b and np.array_equal(x, y) for (a, x), (b, y) in pairs)


def test_results_and_gradient():
    at_once = simulate_and_gradient(*arguments(), lambda r: (objective(r), derivatives(r)), WRT, **RUN)
    with linearize(*arguments(), WRT, **RUN) as linearization:
        assert same(linearization.results, simulate(*arguments(), **RUN))
        with pytest.raises(InputError, match="derivative of p has the shape"):
            linearization.gradient({"p": np.zeros(3)})
        gradient = linearization.gradient(derivatives(linearization.results))
    assert same(gradient, at_once)
    with pytest.raises(InputError, match=r"checkpoint: .*; allowed: None"):
        linearize(*arguments(), WRT, checkpoint="unused.h5", **RUN)


def test_results_may_be_changed():
    """Amplitudes and phases count as they were recorded."""
    (case,) = [
        each for each in cases().values() if each.sensor.frequencies and not callable(each.sensor.mask)
    ][:1]
    names = tuple(name for name in case.values if name in ("sound_speed", "p0", "p"))

    def spoils(results):
        answer = objective(results), derivatives(results)
        results["p_phase"][...] -= 1.0
        results["p_amp"][...] *= 2.0
        return answer

    inputs = case.grid, *case.objects(case.values), case.sensor
    wanted = simulate_and_gradient(*inputs, lambda r: (objective(r), derivatives(r)), names, **RUN)
    assert same(simulate_and_gradient(*inputs, spoils, names, **RUN), wanted)


@pytest.mark.parametrize("end", ["gradient", "close", "drop"])
def test_memory_is_freed_at_once(end):
    linearize(*arguments(), WRT, **RUN).gradient({})  # what is compiled leaves references behind
    gc.disable()
    try:
        linearization = linearize(*arguments(), WRT, **RUN)
        run = linearization._adjoint_run
        state = run._store._slots[0]
        held = [weakref.ref(each) for each in (run._stages.fields.p, run._adjoint.fields.p, state)]
        del run, state
        assert all(each() is not None for each in held)
        if end == "drop":
            del linearization
        else:
            linearization.gradient({}) if end == "gradient" else linearization.close()
            with pytest.raises(InputError, match="gradient: was taken already, or closed"):
                linearization.gradient({})
        assert all(each() is None for each in held)
    finally:
        gc.enable()

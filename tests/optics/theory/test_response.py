"""μ and its integrals against sums and adaptive quadrature."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad

from wavefabric.base.errors import InputError
from wavefabric.optics.theory.response import QUADRATURES, Accumulation, Steps, Stretch
from wavefabric.runtime.kernels.cpu_launch import call_kernel

ALPHA, LENGTH = 5e-5, 80e3
MISMATCHES = np.array([0.0, 1e-6, -3e-5, 2e-4, 2 * math.pi / 2e3 + 1e-5, -9.1e-3])


def integrals(kernel, table, mismatch):
    """A response of a table at a mismatch, its integral from Δβ = 0, and the integral of that."""
    out = np.zeros(3, table.values.dtype)
    call_kernel(kernel, table, float(mismatch), out)
    return out


power = partial(integrals, "power_integrals_double")
amplitude = partial(integrals, "amplitude_integrals_double")


@pytest.mark.parametrize("integrator", QUADRATURES)
def test_steps_are_sums_over_kicks(integrator):
    steps = Steps(2e3, integrator)
    weights, positions, _ = QUADRATURES[integrator]
    z = np.add.outer(np.arange(3 * 40) * 2e3, np.multiply(positions, 2e3))
    loss = ALPHA * (z % LENGTH)
    if integrator == "rk4ip":  # the end of a span is not the start of the next
        loss[39::40, -1] = ALPHA * LENGTH
    kicks = 2e3 * np.multiply(weights, np.exp(-loss))
    expected = [(kicks * np.exp(1j * d * z)).sum() for d in MISMATCHES]
    accumulation = Accumulation((Stretch(LENGTH, ALPHA),), 3, steps=steps)
    np.testing.assert_allclose(accumulation.amplitude(MISMATCHES), expected, rtol=1e-9)
    period = steps.period(LENGTH)
    repeated = accumulation.amplitude(MISMATCHES + period)
    np.testing.assert_allclose(abs(repeated), abs(np.array(expected)), rtol=1e-9)


def test_net_gain_weighs_spans():
    gained = Accumulation((Stretch(LENGTH, ALPHA, 0.8),), 3)
    first = Accumulation((Stretch(LENGTH, ALPHA),)).amplitude(MISMATCHES)
    turn = 0.8 * np.exp(1j * MISMATCHES * LENGTH)
    np.testing.assert_allclose(gained.amplitude(MISMATCHES), first * (1 + turn + turn**2), rtol=1e-12)
    apart = replace(gained, coherent=False).apart()
    np.testing.assert_allclose(apart[2].amplitude(MISMATCHES), first * turn**2, rtol=1e-12)


@pytest.mark.parametrize(
    "steps",
    [None, *(pytest.param(each, marks=pytest.mark.slow) for each in (Steps(2e3), Steps(2e3, "rk4ip")))],
)
def test_tables_hold_the_integrals(steps):
    accumulation = Accumulation((Stretch(LENGTH, ALPHA),), 2, steps=steps)
    table = accumulation.power_table()

    def square(d):
        return abs(accumulation.amplitude(d)) ** 2

    for low, high in ((-2e-5, 3e-5), (1e-4, 1.1e-4), (-6e-4, 5e-3), (0.02, 0.03)):
        pieces = list(itertools.pairwise(np.linspace(low, high, 200)))
        once = sum(quad(square, *piece)[0] for piece in pieces)
        moment = sum(quad(lambda d: d * square(d), *piece)[0] for piece in pieces)
        (value, first, twice), (_, last, twice_last) = power(table, low), power(table, high)
        assert last - first == pytest.approx(once, rel=2e-3)
        # ∫ΔM' = [ΔM] − [N]
        assert high * last - low * first - (twice_last - twice) == pytest.approx(moment, rel=4e-3)
        if abs(low) < 5e-3:
            assert value == pytest.approx(float(square(low)), rel=2e-3)


def test_amplitudes_hold_the_integral():
    accumulation = Accumulation((Stretch(LENGTH, ALPHA),), 2)
    (table,) = accumulation.amplitude_tables(5e-3)
    d = np.linspace(-3e-4, 1e-3, 20001)
    exact = np.trapezoid(accumulation.amplitude(d), d)
    first, last = amplitude(table, d[0]), amplitude(table, d[-1])
    assert last[1] - first[1] == pytest.approx(exact, rel=1e-3)
    assert first[0] == pytest.approx(complex(accumulation.amplitude(d[0])), rel=0.02)


def test_other_integrators_are_refused():
    with pytest.raises(InputError, match="integrator"):
        Steps(1e3, "blanes_moan")

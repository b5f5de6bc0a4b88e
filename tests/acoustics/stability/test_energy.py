"""The energy of a field and what its sources can have put in."""

from dataclasses import replace

import numpy as np
import pytest
from emulated_device import opened
from random_problems import pressure_source, problem, transducer, velocity_source

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.problem import PressureSource, Recording
from wavefabric.acoustics.recording.sinks import MemorySink
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.solver.step import Step
from wavefabric.acoustics.stability.energy import TOLERANCE, Energy, EnergyWatch, source_strength
from wavefabric.base.errors import FieldLost
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo

CPU = solo(get_device("cpu", threads=1))


def energies(inputs, steps=None):
    """Energy after every step, by `Energy` and by its formula in NumPy."""
    stages = make_stages(CPU.device, inputs, np.float64)
    step, energy, result, plain = Step(stages), Energy(stages), [], []
    f = stages.fields
    for number in range(steps or inputs.steps):
        step.take(number)
        result.append(energy())
        # Of an axisymmetric grid rings of 2π r Δr, over 2π Δr²; the innermost is a disc of half a spacing.
        row = np.arange(inputs.shape[1])[:, None]
        whole, half = np.where(row, row, 1 / 8), row + 0.5
        rings = (whole, whole, half) if inputs.axisymmetric else (1, 1, 1, 1)
        squares = np.sum(f.p * f.rho / np.asarray(inputs.density) * rings[0])
        squares += sum(
            np.sum(u**2 * np.asarray(rho) * ring)
            for u, rho, ring in zip(f.u, inputs.density_staggered, rings[1:], strict=False)
        )
        plain.append(squares)
    return np.array(result), np.array(plain)


@pytest.mark.parametrize(
    ("shape", "more"),
    [((12, 1, 1), {}), ((12, 10, 1), {}), ((12, 10, 1), {"axisymmetric": True}), ((8, 6, 10), {})],
)
def test_energy_is_its_formula_and_is_kept(shape, more):
    inputs = problem(shape, steps=200, mixed="cr", initial=1e5, pml=False, **more)
    result, plain = energies(inputs)
    np.testing.assert_allclose(result, plain, rtol=1e-12)
    # p and u are half a step apart, so it is kept in the mean only.
    assert result[100:].mean() == pytest.approx(result[:100].mean(), rel=0.02)
    assert np.abs(result / result.mean() - 1).max() < 0.3


@pytest.mark.parametrize("device", ["cpu 2", "emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ((40, 1, 1), {}),
        pytest.param((16, 10, 1), {"axisymmetric": True}, marks=pytest.mark.slow),
        pytest.param((12, 10, 6), {}, marks=pytest.mark.slow),
        ((12, 10, 6), {"materials": 3, "nonlinearity": True}),
        pytest.param((12, 10, 6), {"materials": 20, "nonlinearity": True}, marks=pytest.mark.slow),
    ],
)
def test_energy_and_peak_on_every_device(device, shape, more):
    """With a medium by index too, on a GPU."""
    inputs = problem(shape, mixed="crb", steps=3, **more)
    result = []
    for each in (CPU.device, opened(device)):
        stages = make_stages(each, inputs, np.float64)
        step, energy = Step(stages), Energy(stages)
        for number in range(3):
            step.take(number)
        result.append(energy.launch()())
        peak = np.abs(each.to_host(stages.fields.p)).max()
        assert result[-1][1] == pytest.approx(peak, rel=1e-15)
    np.testing.assert_allclose(*result, rtol=1e-12)
    field = stages.fields.p
    field[..., 5] = np.inf
    assert not np.isfinite(energy())


def test_the_energy_does_not_depend_on_threads():
    inputs, result = problem((18, 11, 9), mixed="r", steps=3), []
    for device in (CPU.device, opened("cpu 2")):
        stages = make_stages(device, inputs, np.float32)
        Step(stages).take(0)
        result.append(Energy(stages)())
    assert result[0] == result[1]


SOURCES = {
    "additive": lambda shape, steps: {"pressure_source": pressure_source(shape, "additive", steps=steps)},
    "dirichlet": lambda shape, steps: {"pressure_source": pressure_source(shape, "dirichlet", steps=steps)},
    "one signal": lambda shape, steps: {
        "pressure_source": pressure_source(shape, "additive_no_correction", 1, steps=steps)
    },
    "velocity": lambda shape, steps: {"velocity_source": velocity_source(shape, "additive", steps=steps)},
    "velocity dirichlet": lambda shape, steps: {
        "velocity_source": velocity_source(shape, "dirichlet", steps=steps)
    },
    "transducer": lambda shape, steps: {"transducer": transducer(shape, steps=steps)},
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("mixed", ["", "cr"])
@pytest.mark.parametrize(
    ("shape", "more"), [((10, 8, 6), {}), ((40, 1, 1), {}), ((16, 12, 1), {"axisymmetric": True})]
)
def test_no_step_puts_in_more_than_the_strength_of_its_sources(name, mixed, shape, more):
    steps = 12
    inputs = problem(
        shape, steps=steps, mixed=mixed, initial=0, pml=False, **SOURCES[name](shape, steps), **more
    )
    result, _ = energies(inputs)
    strength = source_strength(inputs)
    assert strength.shape == (steps,)
    assert strength[0] > 0
    # The first step's sources meet nothing: theirs is all there is.
    assert np.sqrt(result[0]) <= strength[0] * (1.1 if name == "transducer" or shape[1] == 1 else 1.001)
    if name in ("one signal", "dirichlet") and not mixed:
        assert np.sqrt(result[0]) == pytest.approx(strength[0], rel=1e-6)
    assert np.all(np.sqrt(result) <= 1.2 * np.cumsum(strength))


def test_the_account_of_a_watch():
    index = np.array([3])
    inputs = replace(
        problem((8, 8, 1), steps=100, initial=0, pml=False),
        pressure_source=PressureSource(index, np.full((50, 1), 0.5), "dirichlet"),
    )
    one = source_strength(inputs)[0]
    watch = EnergyWatch(inputs, 10)
    assert [n for n in range(1, 101) if watch.due(n)] == [1, *range(10, 101, 10)]
    assert watch.excess(1, one**2) == 0
    assert watch.excess(10, (9 * one) ** 2) == 0
    # What has left does not come back: ten steps may add 10 to the 1, and 4 times that is tolerated.
    assert watch.excess(20, one**2) == 0
    again = EnergyWatch(inputs, 10)
    again.restore(watch.state())
    assert again.state() == watch.state()
    assert watch.excess(30, (43 * one) ** 2) == 0
    assert again.excess(30, (45 * one) ** 2) == pytest.approx((45 / 11) ** 2)
    # Below a thousandth of the largest there was lies round-off.
    assert watch.excess(60, 1e-20) == 0
    assert watch.excess(70, (1e-3 * one) ** 2) == 0


def test_nothing_may_come_from_nothing():
    watch = EnergyWatch(problem((8, 8, 1), steps=100, initial=0), 10)
    assert watch.excess(1, 0.0) == 0
    assert watch.excess(10, 0.0) == 0
    assert watch.excess(20, 1.0) > TOLERANCE


def test_a_field_that_grows_slowly_is_stopped():
    """Density jumps within the medium and c_ref = c₀: some 8 % a step, far from infinite at the end."""
    rho = np.full((1, 24, 24), 1000.0)
    rho[:, :, 12:] = 500.0
    inputs = problem((24, 24, 1), steps=160, initial=0, pml=False)
    p0 = np.zeros((1, 24, 24))
    p0[0, 12, 6] = 1e5
    inputs = replace(
        inputs, density=rho, density_staggered=(rho, rho), sound_speed=1500.0, reference_speed=1500.0,
        dt=0.9 * 1e-4 / 1500, initial_pressure=p0,
    )  # fmt: skip
    sink = MemorySink()
    with pytest.raises(
        FieldLost, match=r"energy is [0-9.e+]+ times what .* after time step \d+ of 160"
    ) as caught:
        run(inputs, Recording(("p_final",)), sink, RunSettings(comm=CPU, precision="double"))
    assert "density from 500 to 1000" in str(caught.value)
    assert not sink.arrays
    steady = replace(inputs, dt=0.3 * 1e-4 / 1500)
    run(steady, Recording(("p_final",)), MemorySink(), RunSettings(comm=CPU, precision="double"))

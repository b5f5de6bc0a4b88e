"""Acoustic intensity against plane waves in closed form."""

import numpy as np
import pytest

from wavefabric.acoustics.problem import Problem, Recording, VelocitySource
from wavefabric.acoustics.recording.sampling import WEIGHTS, Intensity
from wavefabric.acoustics.recording.sinks import MemorySink
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_settings import RunSettings

RHO, C = 1000.0, 1500.0


@pytest.mark.parametrize("power", range(6))
def test_weights_are_exact_for_polynomials(power):
    """Value at 0 of t^n, n up to 5, and of any sum of them, from values at −5/2 … 5/2."""
    times = np.arange(6) - 2.5
    assert WEIGHTS @ times**power == pytest.approx(1.0 if power == 0 else 0.0, abs=1e-14)


def test_weights_are_not_exact_beyond():
    assert abs(WEIGHTS @ (np.arange(6) - 2.5) ** 6) > 1


@pytest.mark.parametrize(("steps", "error"), [(10, 2.9e-4), (20, 5e-6), (40, 1e-7)])
def test_error_at_steps_a_period(steps, error):
    """The figures of the module's text."""
    response = WEIGHTS @ np.cos(2 * np.pi / steps * (np.arange(6) - 2.5))
    assert abs(response - 1) <= error
    if error > 1e-6:
        assert abs(response - 1) > 0.5 * error


@pytest.mark.parametrize("per_period", [10, 20])
def test_average_of_a_plane_wave(cpu, per_period):
    """⟨I⟩ = P²/(2 ρ c) over whole periods, whatever the phase; a standing wave carries nothing."""
    pressure, periods, rate = 2e5, 6, 2 * np.pi / per_period
    phase = np.linspace(0, 6, 7)
    made = Intensity(cpu, "xy", 7, np.float64)
    first, products = -made.reach, []
    for step in range(first, periods * per_period + made.lag):
        made.pressure(pressure * np.cos(rate * step + phase))
        made.velocity(0, pressure / (RHO * C) * np.cos(rate * (step - 0.5) + phase))
        made.velocity(1, pressure / (RHO * C) * np.sin(rate * (step - 0.5) + phase))
        products += [p.copy() for p in made.advance(step + 1)]
    assert len(products) == periods * per_period
    mean = np.mean(products, axis=0)
    tolerance = 3e-4 if per_period == 10 else 6e-6
    np.testing.assert_allclose(mean[0], pressure**2 / (2 * RHO * C), rtol=tolerance)
    assert abs(mean[1]).max() < 1e-12 * pressure**2 / (RHO * C)
    averages = made.averages(len(products))
    np.testing.assert_allclose(averages["Ix_avg"], mean[0], rtol=1e-14)
    step = np.arange(len(products))[:, None]
    wanted = pressure**2 / (RHO * C) * np.cos(rate * step + phase) ** 2
    np.testing.assert_allclose(np.array(products)[:, 0], wanted, atol=tolerance * wanted.max())


def test_products_lag_three_steps_and_end_with_the_run(cpu):
    made = Intensity(cpu, "x", 1, np.float64)
    count = 0
    for recorded in range(1, 8):
        made.pressure(np.array([float(recorded)]))
        made.velocity(0, np.array([1.0]))
        count += len(made.advance(recorded))
        assert count == max(0, recorded - 3) == made.resume(recorded)
    last = made.flush()
    # p of steps 5, 6, 7 times the velocity, which is taken to go on.
    assert [float(product[0, 0]) for product in last] == pytest.approx([5.0, 6.0, 7.0])


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_fewer_steps_than_the_lag(cpu, steps):
    """Nothing from before the start gets into the products."""
    made = Intensity(cpu, "x", 1, np.float64)
    for step in range(-made.reach, steps):
        made.pressure(np.array([10.0 + step]))
        made.velocity(0, np.array([1.0]))
        assert made.advance(step + 1) == []
    result = [float(product[0, 0]) for product in made.flush()]
    # The third velocity before the start is missing, as in a run that starts from rest.
    assert result == pytest.approx([10.0 + step for step in range(steps)], rel=0.02)
    assert float(made.sums[0, 0]) == pytest.approx(sum(result))


def test_a_plane_wave_of_the_solver(cpu):
    """A plane source in a layered box: what flows past the sensor is P²/(2 ρ c), along x alone."""
    n, dx, per_period = 160, 1e-4, 24
    dt = 0.3 * dx / C
    frequency = 1 / (per_period * dt)
    steps, velocity = 30 * per_period, 0.05
    time = dt * np.arange(steps)
    ramp = 0.5 * (1 - np.cos(np.pi * np.minimum(time * frequency / 4, 1)))
    wave = velocity * ramp * np.sin(2 * np.pi * frequency * time)
    plane = np.arange(4) * n + 40
    inputs = Problem(
        shape=(n, 4, 1), spacing=(dx, dx, dx), dt=dt, steps=steps, reference_speed=C, pml_size=(20, 0, 0),
        pml_alpha=(2.0, 0, 0), sound_speed=C, density=RHO, density_staggered=(RHO, RHO),
        velocity_source=VelocitySource(plane, (wave[:, None], None), "dirichlet"),
    )  # fmt: skip
    sink = MemorySink()
    where = np.array([100, n + 110, 3 * n + 120])
    recording = Recording(("I_avg", "p_rms"), where, start=steps - 8 * per_period)
    run(inputs, recording, sink, RunSettings(device=cpu, precision="double"))
    # P²/2 is the mean square.
    np.testing.assert_allclose(sink.arrays["Ix_avg"], sink.arrays["p_rms"] ** 2 / (RHO * C), rtol=1e-3)
    # A source one point thick is not quite a plane wave's velocity.
    np.testing.assert_allclose(sink.arrays["Ix_avg"], RHO * C * velocity**2 / 2, rtol=4e-2)
    assert abs(sink.arrays["Iy_avg"]).max() < 1e-9 * sink.arrays["Ix_avg"].max()

"""What alternates from step to step: its sums, its watch, and runs that it stops."""

import numpy as np
import pytest
from random_problems import problem

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.stability import alternation
from wavefabric.acoustics.stability.alternation import Alternation, AlternationWatch
from wavefabric.acoustics.stability.energy import EnergyWatch
from wavefabric.base.errors import FieldLost


def sums_of(history, device, dtype=np.float64):
    """The sums after the last of these fields (steps, Nz, Ny, Nx)."""
    steps = len(history)
    inputs = problem(history.shape[:0:-1], initial=0, pml=False, steps=steps)
    stages = make_stages(device, inputs, dtype)
    seen = Alternation(stages, EnergyWatch(inputs, 1000))
    for number, field in enumerate(history):
        stages.fields.p[...] = stages.coefficients.device.xp.asarray(field)
        record = seen.kernels(number)
        assert (record is None) == (number < steps - 9)
        if record is not None:
            record()
        stages.tick()
    return seen.launch(steps)()


def test_sums_are_those_of_the_eighth_difference(kernel_device):
    rng = np.random.default_rng(3)
    for shape in ((12, 10, 8), (1, 12, 10)):
        history = rng.standard_normal((12, *shape))
        alternating, square = sums_of(history, kernel_device, np.float32)
        assert alternating == pytest.approx(np.sum((np.diff(history, 8, axis=0)[-1] / 2**8) ** 2), rel=1e-4)
        assert square == pytest.approx(np.sum(history[-1] ** 2), rel=1e-4)


def test_of_a_large_grid_every_sixteenth_plane(cpu, monkeypatch):
    monkeypatch.setattr(alternation, "_LEAST_SAMPLED", 100)
    history = np.random.default_rng(4).standard_normal((9, 20, 10, 12))
    _, square = sums_of(history, cpu)
    assert square == pytest.approx(np.sum(history[-1, ::16] ** 2))
    flat = history[:, :1].repeat(2, axis=2)
    alternating, square = sums_of(flat, cpu)
    assert square == pytest.approx(np.sum(flat[-1, :, ::16] ** 2))
    assert alternating == pytest.approx(np.sum((np.diff(flat, 8, axis=0)[-1, :, ::16] / 2**8) ** 2))


@pytest.mark.parametrize("period", [10, 20])
def test_it_keeps_what_alternates_and_little_of_a_wave(period, cpu):
    steps, field = np.arange(9), np.ones((4, 8, 8))
    alternating, square = sums_of(np.array([(-1.0) ** n * field for n in steps]), cpu)
    assert alternating == pytest.approx(square)
    wave = np.array([np.cos(2 * np.pi * n / period) * field for n in steps])
    fraction = sums_of(wave, cpu)[0] / np.sum(wave[0] ** 2)
    assert fraction <= np.sin(np.pi / period) ** 16 * 1.001


def test_no_sums_where_steps_were_missed(cpu):
    assert sums_of(np.zeros((5, 1, 8, 8)), cpu) is None
    inputs = problem((8, 8, 1), steps=100)
    seen = Alternation(make_stages(cpu, inputs, np.float64), EnergyWatch(inputs, 32))
    assert [n for n in range(100) if seen.kernels(n) is not None] == [
        *range(23, 32), *range(55, 64), *range(87, 100)
    ]  # fmt: skip
    assert [seen.launch(done)() is not None for done in (32, 64, 96, 100)] == [True, True, True, False]
    seen.begin(60)  # after a checkpoint
    assert seen.launch(64)() is None


def alarms(fractions, every=32, square=1.0):
    """Steps after which the watch finds growth."""
    watch, result = AlternationWatch(), {}
    for number, fraction in enumerate(fractions, 1):
        if growth := watch.growth(number * every, fraction * square, square):
            result[number * every] = growth
    return result


@pytest.mark.parametrize("growth", [1e-3, 5e-3, 0.05])
def test_exponential_growth_is_found(growth):
    looks = np.arange(1, 4000)
    result = alarms(1e-20 * np.exp(2 * growth * 32 * looks[looks < 23 / (growth * 32)]))
    first = min(result)
    assert result[first] == pytest.approx(growth, rel=1e-3)
    # Before it is a hundredth of the field.
    assert 1e-20 * np.exp(2 * growth * first) < (1e-4 if growth < 0.01 else 1)


def test_no_other_growth_is():
    looks = np.arange(1, 400)
    assert not alarms(np.full(400, 0.3))  # a source near the limit of the grid
    assert not alarms(1e-12 * looks**4.0)  # harmonics
    assert not alarms([*np.full(20, 1e-16), 1e-12, 1e-6, *np.full(20, 0.1)])  # one that begins at once
    assert not alarms(0.1 * np.sin(looks * np.pi / 100) ** 2 + 1e-16)  # beats
    assert not alarms(1e-30 * np.exp(0.05 * looks))  # round-off
    assert not alarms(np.zeros(50))
    assert not alarms([*np.full(20, 1e-5), np.inf, np.nan])


def test_the_watch_goes_on_from_a_checkpoint():
    import json

    fractions = 1e-20 * np.exp(0.3 * np.arange(1, 140))
    first, number = AlternationWatch(), 40
    for at in range(number):
        first.growth(at + 1, fractions[at], 1.0)
    second = AlternationWatch()
    second.restore(json.loads(json.dumps(first.state())))
    for at in range(number, 139):
        assert first.growth(at + 1, fractions[at], 1.0) == second.growth(at + 1, fractions[at], 1.0)
    assert first.growth(140, fractions[-1] * 1.4, 1.0) > 0


def bone(cfl):
    """A layer of bone in water, lossy, and a tone that lasts for the whole run."""
    grid = Grid((64, 16), 5e-4, pml_size=0)
    layer = ((np.arange(64) >= 24) & (np.arange(64) < 37))[:, None] & np.ones((64, 16), bool)
    medium = Medium(
        np.where(layer, 2800.0, 1500.0),
        np.where(layer, 1850.0, 1000.0),
        alpha_coeff=np.where(layer, 16.0, 0.0),
        absorption="stokes",
    )
    dt = cfl * 5e-4 / 2800
    tone = 1e5 * np.sin(1e6 * np.pi * np.arange(3000) * dt) * np.minimum(np.arange(3000) * dt / 8e-6, 1)
    mask = np.zeros((64, 16), bool)
    mask[8, 5] = True
    source = Source(p_mask=mask, p=tone)
    return dict(grid=grid, medium=medium, source=source, sensor=Sensor(record="p_max_all"), dt=dt, steps=3000)


@pytest.mark.parametrize("precision", ["single", pytest.param("double", marks=pytest.mark.slow)])
def test_a_slow_instability_is_refused_and_stopped(precision):
    """A part in a hundred a step or less: the energy stays below what the source may put in until late."""
    from wavefabric.acoustics.stability.stable_time_step import stability

    case = bone(0.4)
    assert stability(case["grid"].silent_problem(case["medium"], case["dt"])).warning
    with pytest.raises(
        FieldLost, match=r"what alternates .* grows by 0\.\d+ of itself .* of the field after"
    ):
        simulate(**case, device="cpu", precision=precision, check_stability=False)
    quiet = bone(0.39)
    peak = simulate(**quiet, device="cpu", precision=precision)["p_max_all"]
    assert peak.max() < 4e5

"""Temperatures against closed forms, matrices and each other; the dose against its formula."""

import itertools
import math
import os
import signal

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import erfc

from wavefabric.acoustics import (
    Grid,
    Medium,
    Sensor,
    ThermalMedium,
    absorbed_power,
    cem43,
    heat,
)
from wavefabric.base.errors import InputError, UnusableCheckpoint
from wavefabric.runtime.device import get_device
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

TISSUE = ThermalMedium(1046.0, 3630.0, 0.51, 9.7e-3)
DRY = ThermalMedium(1000.0, 4000.0, 0.5)
D = 0.5 / 4e6


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param, threads=1)


@pytest.mark.parametrize("shape", [(12,), (9, 8), (8, 7, 6)])
def test_uniform_heating_with_perfusion(shape, device):
    cooling, capacity, power = TISSUE.blood_cooling, TISSUE.heat_capacity, 2e5
    result = heat(
        Grid(shape, 1e-3, pml_size=0), TISSUE, power, [(20.0, 1.0), (15.0, 0.0)], dt=0.5, device=device
    )
    top = power / cooling * (1 - math.exp(-20 * cooling / capacity))
    np.testing.assert_allclose(result["temperature_max"], 37 + top, atol=1e-6)
    end = top * math.exp(-15 * cooling / capacity)
    np.testing.assert_allclose(result["temperature"], 37 + end, atol=1e-6)
    # The same by the formula, from the curve of the closed form.
    t = np.arange(71) * 0.5
    rise = np.where(
        t <= 20,
        power / cooling * (1 - np.exp(-t * cooling / capacity)),
        top * np.exp(-(t - 20) * cooling / capacity),
    )
    np.testing.assert_allclose(result["dose"], cem43(37 + rise, 0.5), rtol=1e-9)


@pytest.mark.parametrize("shape", [(96, 96), (48, 48, 48)])
def test_a_warm_ball_spreads(shape, device):
    grid = Grid(shape, 1e-3, pml_size=0)
    square = sum(c**2 for c in np.meshgrid(*grid.coordinates, indexing="ij"))
    width, time = 3e-3, 20.0
    start = 37 + 10 * np.exp(-square / (2 * width**2))
    result = heat(grid, DRY, 0.0, [(time, 1.0)], dt=2.0, temperature=start, device=device)
    wide = width**2 + 2 * D * time
    rise = 10 * (width**2 / wide) ** (len(shape) / 2) * np.exp(-square / (2 * wide))
    np.testing.assert_allclose(result["temperature"], 37 + rise, atol=1e-6)


@pytest.mark.parametrize("perfusion", [0.0, 0.02])
def test_a_point_source_heats_as_its_closed_form(perfusion, device):
    """A Gaussian of a width far below the distance is a point, its width one of earlier diffusion."""
    tissue = ThermalMedium(1000.0, 4000.0, 0.5, perfusion)
    grid = Grid((64, 64, 64), 1e-3, pml_size=0)
    square = sum(c**2 for c in np.meshgrid(*grid.coordinates, indexing="ij"))
    width, seconds, watts = 1.3e-3, 60.0, 0.05
    source = watts * np.exp(-square / (2 * width**2)) / (2 * np.pi * width**2) ** 1.5
    result = heat(grid, tissue, source, [(seconds, 1.0)], dt=10.0, device=device)
    cooling = tissue.blood_cooling / tissue.heat_capacity
    # A source that began `ago` earlier, without perfusion, has that width: subtract what it gave until then.
    ago = width**2 / (2 * D)

    def point(r, t, rate):
        if t <= 0:
            return 0.0
        root = math.sqrt(rate / D)
        late, part = math.sqrt(rate * t), r / math.sqrt(4 * D * t)
        return (
            watts / (8 * np.pi * 0.5 * r)
            * (np.exp(-root * r) * erfc(part - late) + np.exp(root * r) * erfc(part + late))
        )  # fmt: skip

    r = np.sqrt(square[32, 32, 38:48])
    exact = math.exp(cooling * ago) * np.array(
        [point(each, seconds + ago, cooling) - point(each, ago, cooling) for each in r]
    )
    np.testing.assert_allclose(result["temperature"][32, 32, 38:48] - 37, exact, atol=1e-6)


def test_uneven_tissue_converges_to_its_matrix(device):
    n, spacing, seconds = 24, 1e-3, 8.0
    rng = np.random.default_rng(3)
    smooth = np.convolve(np.tile(rng.uniform(0.3, 1, n), 3), np.hanning(9) / 4, "same")[n : 2 * n]
    tissue = ThermalMedium(1000 * (1 + smooth), 4000.0, 0.3 + 0.3 * smooth, 0.02 * smooth)
    power = 1e6 * rng.uniform(0, 1, n)
    k = 2 * np.pi * np.fft.fftfreq(n, spacing)

    def matrix(sign):
        factor = 1j * k * np.exp(sign * 0.5j * k * spacing)
        factor[n // 2] = factor[n // 2].real
        return np.real(np.fft.ifft(factor[:, None] * np.fft.fft(np.eye(n), axis=0), axis=0))

    mean = 2 / (1 / tissue.conductivity + 1 / np.roll(tissue.conductivity, -1))
    operator = matrix(-1) @ np.diag(mean) @ matrix(1) - np.diag(tissue.blood_cooling)
    operator /= tissue.heat_capacity[:, None]
    exact = np.linalg.solve(operator, (expm(operator * seconds) - np.eye(n)) @ (power / tissue.heat_capacity))
    grid = Grid((n,), spacing, pml_size=0)
    errors = []
    for dt in (1.0, 0.5, 0.25):
        result = heat(grid, tissue, power, [(seconds, 1.0)], dt=dt, device=device)
        errors.append(np.abs(result["temperature"] - 37 - exact).max())
    assert errors[-1] < 1e-4 * exact.max()
    assert all(3.2 < a / b < 4.8 for a, b in itertools.pairwise(errors))


def test_a_sensor_keeps_the_series(device):
    grid = Grid((12, 10), 1e-3, pml_size=2, pml_inside=False)
    power = np.zeros(grid.shape)
    power[6, 5] = 1e7
    mask = np.zeros(grid.shape, bool)
    mask[6, 5:7] = True
    result = heat(grid, TISSUE, power, [(3.0, 1.0), (2.0, 0.5)], dt=1.0, sensor=Sensor(mask), device=device)
    assert result["series"].shape == (2, 6)
    np.testing.assert_allclose(result.time, [0, 1, 2, 3, 4, 5])
    np.testing.assert_allclose(result["series"][:, 0], 37)
    np.testing.assert_allclose(result["series"][:, -1], result["temperature"][6, 5:7], rtol=1e-14)
    half = Sensor.points([[0.0], [0.5e-3]])
    between = heat(grid, TISSUE, power, [(3.0, 1.0)], dt=1.0, sensor=half, device=device)["series"]
    np.testing.assert_allclose(between[0], result["series"][:, :4].mean(axis=0), rtol=1e-12)


def test_a_result_file_says_what_it_holds(tmp_path, device):
    from wavefabric.base.results import read_result

    result = heat(Grid((8, 7), 1e-3, pml_size=0), TISSUE, 1e5, [(1.0, 1.0)], device=device)
    path = result.save(tmp_path / "hot.h5")
    read = read_result(path)
    np.testing.assert_array_equal(read["heating/dose"], result["dose"])
    with pytest.raises(InputError, match=r"hot.h5 exists"):
        result.save(path)


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path, monkeypatch, device):
    from wavefabric.acoustics.heating import heat as module

    grid = Grid((12, 10, 8), 1e-3, pml_size=0)
    rng = np.random.default_rng(1)
    tissue = ThermalMedium(1000.0, 4000.0, 0.3 + 0.2 * rng.random(grid.shape), 0.01)
    power = 1e7 * rng.random(grid.shape)
    mask = rng.random(grid.shape) < 0.02
    arguments = (grid, tissue, power, [(2.0, 1.0), (1.0, 0.0)])
    options = {"dt": 0.1, "sensor": Sensor(mask), "device": device}
    whole = heat(*arguments, **options)
    saved = Checkpoints(tmp_path / "heat.checkpoint")
    take, taken = module.PennesStep.take, []

    def interrupted(self, factor):
        take(self, factor)
        taken.append(factor)
        if len(taken) == 13:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(module.PennesStep, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        heat(*arguments, **options, checkpoint=saved)
    assert saved.path.exists()
    result = heat(*arguments, **options, checkpoint=saved)
    assert len(taken) == 30
    assert not saved.path.exists()
    for name, array in whole.items():
        np.testing.assert_array_equal(result[name], array)


def test_a_checkpoint_of_another_grid_is_refused(tmp_path, monkeypatch):
    """Even if nothing but the spacing differs."""
    from wavefabric.acoustics.heating import heat as module

    take = module.PennesStep.take

    def interrupted(self, factor):
        take(self, factor)
        os.kill(os.getpid(), signal.SIGINT)

    arguments = (TISSUE, 1e5, [(2.0, 1.0)])
    options = {"dt": 0.5, "device": "cpu", "threads": 1, "checkpoint": tmp_path / "heat.checkpoint"}
    with monkeypatch.context() as patch:
        patch.setattr(module.PennesStep, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            heat(Grid((8, 7), 1e-3, pml_size=0), *arguments, **options)
    with pytest.raises(UnusableCheckpoint):
        heat(Grid((8, 7), 2e-3, pml_size=0), *arguments, **options)


@pytest.mark.parallel(2)
def test_ranks_share_the_grid(comm):
    from wavefabric.runtime.exchange.communicator import solo

    rng = np.random.default_rng(1)
    for shape in ((12, 10, 8), (16, 12)):
        grid = Grid(shape, 1e-3, pml_size=0)
        tissue = ThermalMedium(1000.0, 4000.0, 0.3 + 0.2 * rng.random(shape), 0.01)
        arguments = (grid, tissue, 1e7 * rng.random(shape), [(1.0, 1.0)])
        sensor = Sensor(rng.random(shape) < 0.1)
        ours = heat(*arguments, dt=0.1, sensor=sensor, comm=comm)
        alone = heat(*arguments, dt=0.1, sensor=sensor, comm=solo(comm.device))
        for name, array in alone.items():
            np.testing.assert_allclose(ours[name], array, rtol=1e-12)


# --- Dose and power ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("degrees", "rate"), [(38.9, 0.0), (41.0, 1 / 16), (43.0, 1.0), (46.0, 8.0)])
def test_the_dose_of_a_constant_temperature(degrees, rate):
    assert cem43(np.full(61, degrees), 10.0) == pytest.approx(10 * rate, rel=1e-12)


def test_the_dose_of_a_ramp():
    t = np.linspace(0, 120, 200_001)
    rise = 43 + 4 * t / 120  # 2^(T − 43): (2⁴ − 1)/ln 2 over four degrees in two minutes
    assert cem43(rise, t[1]) == pytest.approx(2 * 15 / (4 * math.log(2)), rel=1e-9)


def test_absorbed_power_of_two_tones():
    medium = Medium(np.array([1500.0, 1600.0]), 1000.0, 0.5, 1.5)
    p = np.array([[1e6, 2e6], [3e5, 1e5]])
    power = absorbed_power(medium, p, ["1 MHz", 2e6])
    alpha = 0.5 * 100 * math.log(10) / 20 * np.array([1.0, 2**1.5])
    expected = sum(a * each**2 / (1000 * np.array([1500, 1600])) for a, each in zip(alpha, p, strict=True))
    np.testing.assert_allclose(power, expected, rtol=1e-12)
    np.testing.assert_allclose(absorbed_power(medium, p[0], 1e6) + absorbed_power(medium, p[1], 2e6), power)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"power": np.zeros(3)}, r"power: \[3\]; allowed: a number, or the grid's shape, \(8, 7\)"),
        ({"schedule": []}, "schedule: "),
        ({"schedule": [(-1, 1)]}, "schedule: -1.0 s given; allowed: a positive number"),
        ({"dt": 0}, "dt: 0.0 s given; allowed: a positive number"),
        ({"power": math.nan}, "power: .*not finite"),
        ({"medium": ThermalMedium(1e3, 4e3, np.full(5, 0.5))}, "thermal.conductivity: "),
    ],
)
def test_bad_input_is_one_line(change, line):
    arguments = {"medium": DRY, "power": 0.0, "schedule": [(1.0, 1.0)]} | change
    with pytest.raises(InputError, match=line):
        heat(Grid((8, 7), 1e-3, pml_size=0), **arguments)


def test_bad_tissue_is_one_line():
    with pytest.raises(InputError, match=r"thermal.density: 0.0; allowed"):
        ThermalMedium(0, 4000, 0.5)
    with pytest.raises(InputError, match=r"grid: is axisymmetric"):
        heat(Grid((8, 8), 1e-3, pml_size=0, axisymmetric=True), DRY, 0.0, [(1, 1)])
    with pytest.raises(InputError, match=r"medium.alpha_coeff: None"):
        absorbed_power(Medium(1500.0, 1000.0), np.ones(3), 1e6)

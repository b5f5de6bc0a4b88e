"""Amplitude and phase from running sums, against the series kept and transformed."""

import h5py
import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
from wavefabric.acoustics.pictures.plot_recorded import recorded_figure
from wavefabric.acoustics.pictures.recorded import open_recorded
from wavefabric.base.errors import InputError
from wavefabric.runtime.exchange import solo
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

F, STEPS, PERIOD = 0.5e6, 400, 40
DT = 1 / F / PERIOD
GRID = Grid((40, 32), 0.3e-3, pml_size=6)
FREQUENCIES = (F, 2 * F)


def tone(sensor, grid=GRID, **more):
    """A line that drives at one frequency; B/A makes harmonics."""
    x = grid.coordinates[0]
    mask = np.zeros(grid.shape, bool)
    mask[10, 8:-8] = True
    assert x[10] < 0
    wave = 1e6 * np.sin(2 * np.pi * F * np.arange(STEPS) * DT)
    options = {"precision": "double", "device": "cpu", "threads": 1, "dt": DT, "steps": STEPS}
    medium = Medium(1500.0, 1000.0, nonlinearity=8.0)
    return simulate(grid, medium, Source(p_mask=mask, p=wave), sensor, **{**options, **more})


def sensor(record, mask=None, start=STEPS - 2 * PERIOD, frequencies=FREQUENCIES):
    return Sensor(mask, record, start, frequencies)


def transformed(series, time):
    """(frequencies, …) of a series (…, rows)."""
    return np.stack([2 / time.size * series @ np.exp(-2j * np.pi * f * time) for f in FREQUENCIES])


@pytest.mark.parametrize(("precision", "tolerance"), [("double", 1e-12), ("single", 2e-6)])
def test_sums_are_the_transform_of_the_series(device, precision, tolerance):
    everywhere = np.ones(GRID.shape, bool)
    inputs = sensor(("p", "p_amp", "p_amp_all", "p_max"), everywhere)
    results = tone(inputs, precision=precision, device=device.name)
    assert list(results.frequencies) == list(FREQUENCIES)
    wanted = transformed(results["p"].astype(float), results.time)
    at_points = results["p_amp"] * np.exp(1j * results["p_phase"])
    assert at_points.shape == (2, GRID.shape[0] * GRID.shape[1])
    assert np.abs(at_points - wanted).max() < tolerance * np.abs(wanted).max()
    fields = results["p_amp_all"] * np.exp(1j * results["p_phase_all"])
    assert fields.shape == (2, *GRID.shape)
    # Points of a mask run along x first.
    flat = fields.transpose(0, 2, 1).reshape(2, -1)
    np.testing.assert_allclose(flat, at_points, atol=1e-9 * np.abs(wanted).max())
    # What drives is there; B/A makes some of twice its frequency.
    assert results["p_amp_all"][0].max() > 5e5
    assert 1e2 < results["p_amp_all"][1].max() < 2e5


def test_boxes_and_points_between_those_of_the_grid():
    box = Sensor.boxes(
        ((12, 10), (15, 14)), record=("p", "p_amp"), start=STEPS - PERIOD, frequencies="500 kHz"
    )
    results = tone(box)
    wanted = transformed(results["p"][0], results.time)[0]
    assert results["p_amp"][0][0].shape == (4, 5)
    np.testing.assert_allclose(results["p_amp"][0][0], np.abs(wanted), rtol=1e-11)
    between = Sensor.points([[1e-4, 2e-3], [0.0, 1.7e-4]], record=("p", "p_amp"), frequencies=[F])
    results = tone(between)
    wanted = transformed(results["p"], results.time)[0]
    np.testing.assert_allclose(results["p_amp"][0], np.abs(wanted), rtol=1e-11)
    np.testing.assert_allclose(results["p_phase"][0], np.angle(wanted), rtol=1e-10)


def test_a_plane_wave_has_the_phase_of_its_way():
    """p = A cos(ωt − kx): the phase falls by kΔx from point to point."""
    grid = Grid((256,), 0.2e-3, pml_size=20)
    mask = np.zeros(256, bool)
    mask[40] = True
    wave = 1e3 * np.cos(2 * np.pi * F * np.arange(1200) * DT) * np.minimum(np.arange(1200) / 200, 1)
    inputs = Sensor(record="p_amp_all", start=1200 - PERIOD, frequencies=F)
    results = simulate(
        *(grid, Medium(1500.0, 1000.0), Source(p_mask=mask, p=wave), inputs),
        **{"dt": DT, "steps": 1200, "precision": "double", "device": "cpu", "threads": 1},
    )
    amplitude, phase = results["p_amp_all"][0, 50:200], np.unwrap(results["p_phase_all"][0, 50:200])
    np.testing.assert_allclose(amplitude, 1e3, rtol=2e-3)
    np.testing.assert_allclose(np.diff(phase), -2 * np.pi * F / 1500 * 0.2e-3, rtol=2e-3)


def test_a_checkpoint_holds_the_sums(tmp_path):
    inputs = sensor(("p_amp", "p_amp_all"), np.eye(*GRID.shape, dtype=bool), start=80, frequencies=(F,))
    whole = tone(inputs)
    saved = tmp_path / "saved"
    first = tone(inputs, checkpoint=Checkpoints(saved, every=270, stop=True))
    assert first.report.steps == 270
    second = tone(inputs, checkpoint=saved)
    assert second.report.resumed_at == 270
    for name in ("p_amp", "p_phase", "p_amp_all", "p_phase_all"):
        assert second[name].tobytes() == whole[name].tobytes()


def test_a_file_and_its_pictures(tmp_path):
    tone(sensor(("p_amp", "p_amp_all"), np.eye(*GRID.shape, dtype=bool)), output=tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert list(file["frequencies"]) == list(FREQUENCIES)
        assert file["frequencies"].attrs["units"] == "Hz"
        assert file["recorded/p_amp_all/1"].shape == GRID.shape
        assert file["recorded/p_phase/0"].attrs["units"] == "rad"
    with open_recorded(tmp_path / "out.h5") as file:
        assert [n for n in file.items if "amp" in n] == ["p_amp/0", "p_amp/1", "p_amp_all/0", "p_amp_all/1"]
        figure = recorded_figure(file, "p_amp_all/1")
        assert "at 1 MHz" in figure.get_suptitle()
        recorded_figure(file, "p_phase_all/0")
        recorded_figure(file, "p_amp/0")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"record": "p_amp"}, "sensor.frequencies: "),
        ({"record": "p", "frequencies": F}, "sensor.frequencies: "),
        (
            {"record": "p_amp_all", "frequencies": 0},
            "sensor.frequencies: 0.0 Hz given; allowed: a positive number",
        ),
        ({"record": "p_amp_all", "frequencies": "fast"}, "sensor.frequencies: "),
        ({"record": ("p_amp_all", "q"), "frequencies": F}, "sensor.record: "),
    ],
)
def test_wrong_frequencies_are_refused(arguments, line):
    with pytest.raises(InputError) as error:
        Sensor(**arguments)
    assert str(error.value).startswith(line)


def test_an_amplitude_at_the_sensor_wants_a_mask():
    with pytest.raises(InputError, match="mask: is missing"):
        tone(sensor("p_amp"))


def test_a_broken_period_is_said():
    with pytest.warns(UserWarning, match="60 recorded time steps are 1.5 periods of 500000 Hz"):
        tone(sensor("p_amp_all", start=STEPS - 60, frequencies=F))


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_over_ranks(comm):
    inputs = sensor(("p_amp", "p_amp_all"), np.eye(*GRID.shape, dtype=bool))
    results = tone(inputs, comm=comm)
    alone = tone(inputs, comm=solo(comm.device))
    for name in ("p_amp", "p_amp_all"):
        np.testing.assert_allclose(results[name], alone[name], atol=1e-9 * alone[name].max())

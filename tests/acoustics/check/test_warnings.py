"""Sources above the grid's highest frequency: what is said, and when nothing is."""

import re
import warnings

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, Transducer, simulate, to_problem
from wavefabric.acoustics.check import warnings as input_warnings
from wavefabric.acoustics.check.warnings import band_warnings, highest_frequency

GRID = Grid((32, 24), "0.1 mm", pml_size=4)  # 7.5 MHz at 1500 m/s
WATER = Medium(1500.0, 1000.0)
DT, STEPS = 10e-9, 400  # samples hold up to 50 MHz
T = np.arange(STEPS) * DT
CPU = {"device": "cpu", "threads": 1}


def tone(megahertz, cycles=None):
    """A burst under a Hann window; it fills the run, or has so many cycles."""
    length = STEPS * DT if cycles is None else cycles / (megahertz * 1e6)
    inside = length > T
    return np.where(inside, np.sin(2e6 * np.pi * megahertz * T) * np.sin(np.pi * T / length) ** 2, 0.0)


def line():
    mask = np.zeros(GRID.shape, bool)
    mask[8] = True
    return mask


def said(source, grid=GRID, medium=WATER, steps=STEPS):
    problem, _ = to_problem(grid, medium, source, None, DT, steps)
    return band_warnings(problem)


def test_the_limit_is_two_points_per_wavelength_where_sound_is_slowest():
    speed = np.full(GRID.shape, 1500.0)
    problem, _ = to_problem(GRID, WATER, Source(p0=line()), None, DT, 1)
    assert highest_frequency(problem) == pytest.approx(7.5e6)
    speed[20:] = 1000.0
    problem, _ = to_problem(
        Grid(GRID.shape, ("0.1 mm", "0.2 mm"), pml_size=4),
        Medium(speed, 1000.0),
        Source(p0=line()),
        None,
        DT,
        1,
    )
    assert highest_frequency(problem) == pytest.approx(2.5e6)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (Source(p_mask=line(), p=tone(20)), "source.p:"),
        (Source(u_mask=line(), uy=tone(20)), "source.uy:"),
        (Source(transducer=Transducer(line(), tone(20))), "source.transducer.signal:"),
    ],
)
def test_names_limit_frequency_and_spacing(source, name):
    (text,) = said(source)
    assert text.startswith(name)
    for part in ("nearly all", "7.5 MHz", "at 20 MHz", "1500 m/s", "0.1 mm"):
        assert part in text


def test_the_spacing_that_it_names_will_do():
    (text,) = said(Source(p_mask=line(), p=tone(20)))
    spacing = float(re.search(r"spacing of at most ([0-9.]+) mm", text)[1])
    assert spacing == pytest.approx(1500 / (2 * 20e3), rel=0.02)
    finer = Grid(GRID.shape, spacing * 1e-3, pml_size=4)
    assert said(Source(p_mask=line(), p=tone(20)), finer) == []


@pytest.mark.parametrize("megahertz", [1.0, 2.5, 5.0])
def test_signals_that_the_grid_carries_are_not_mentioned(megahertz):
    assert said(Source(p_mask=line(), p=tone(megahertz))) == []


def test_it_is_the_energy_that_counts():
    """A broadband pulse of 3 MHz has little above 7.5 MHz; the share of a sum follows from its amplitudes."""
    assert said(Source(p_mask=line(), p=tone(3, cycles=3))) == []
    assert said(Source(p_mask=line(), p=tone(3) + 0.05 * tone(20))) == []  # 0.25 %
    (text,) = said(Source(p_mask=line(), p=tone(3) + 0.5 * tone(20)))
    assert "20 % of its energy" in text


def test_an_impulse_has_its_share():
    """A single sample is white up to 50 MHz: 42.5/50 of it lies above 7.5 MHz."""
    impulse = np.zeros(STEPS)
    impulse[0] = 1
    (text,) = said(Source(p_mask=line(), p=impulse))
    assert float(text.split(" %")[0].split()[-1]) == pytest.approx(85, abs=0.3)


def test_a_run_that_ends_within_a_signal_is_no_jump():
    """Unlike a signal that is cut off while the run goes on."""
    cut = np.sin(4e6 * np.pi * T[:62])  # a period and a quarter
    for sine, steps in ((np.sin(2e6 * np.pi * T), STEPS), (cut, cut.size), (tone(1), 30)):
        assert said(Source(p_mask=line(), p=sine), steps=steps) == []
    assert len(said(Source(p_mask=line(), p=cut))) == 1


def test_all_points_count():
    signals = np.tile(tone(2), (24, 1))
    signals[7] = 10 * tone(20)
    assert len(said(Source(p_mask=line(), p=signals))) == 1


def test_of_very_many_points_the_strongest_count(monkeypatch):
    monkeypatch.setattr(input_warnings, "_MOST", 3 * 1600)
    signals = np.tile(tone(2), (24, 1))
    signals[7] = 10 * tone(20)
    assert len(said(Source(p_mask=line(), p=signals))) == 1
    signals[7] = 0.1 * tone(20)
    assert said(Source(p_mask=line(), p=signals)) == []


def test_simulate_warns_at_the_caller():
    options = {"dt": DT, "steps": 30, **CPU}
    with pytest.warns(UserWarning, match=r"source\.p: .*7\.5 MHz") as caught:
        simulate(GRID, WATER, Source(p_mask=line(), p=tone(20)), Sensor(record="p_final"), **options)
    assert [one.filename for one in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(GRID, WATER, Source(p_mask=line(), p=tone(2)), Sensor(record="p_final"), **options)

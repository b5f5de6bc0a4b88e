"""Amplifier: gain, spontaneous emission, noise loading."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.signal.amplifier import Amplifier, osnr_noise_density
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import get_device

CPU = get_device("cpu")
GRID = WdmGrid.centred(193.4e12, 50e9, 3, 32e9, 16, 8192)


def test_gain_without_noise():
    field = np.random.default_rng(1).normal(size=(2, GRID.samples)) + 0j
    before = field.copy()
    Amplifier(100.0).apply(CPU, field, GRID)
    np.testing.assert_allclose(field, 10 * before, rtol=1e-15)


def test_spontaneous_emission_has_the_textbook_power():
    amplifier = Amplifier(10**1.84, 5.0)
    field = CPU.zeros((4, GRID.samples), np.complex128)
    amplifier.apply(CPU, field, GRID, seed=3, span=1)
    # h ν for 193.4 THz by hand; (G F − 1) h ν / 2 over 512 GHz.
    expected = (10**2.34 - 1) * 6.62607015e-34 * 193.4e12 / 2 * 512e9
    power = (abs(field) ** 2).mean(axis=1)
    np.testing.assert_allclose(power, expected, rtol=5 / np.sqrt(GRID.samples))
    assert abs((field[0] * field[1].conj()).mean()) < 5 * expected / np.sqrt(GRID.samples)
    lines = abs(np.fft.fft(field, axis=1)) ** 2
    quarters = lines.reshape(4, 4, -1).mean(axis=(0, 2))
    np.testing.assert_allclose(quarters / quarters.mean(), 1, rtol=5 / np.sqrt(GRID.samples))


def test_spans_differ_and_rows_may_be_amplified_apart():
    amplifier, fields = Amplifier(10.0, 4.0), []
    for span in (0, 1):
        fields.append(CPU.zeros((4, 256), np.complex128))
        amplifier.apply(CPU, fields[-1], GRID, seed=3, span=span)
    assert (fields[0] != fields[1]).all()
    part = CPU.zeros((2, 256), np.complex128)
    amplifier.apply(CPU, part, GRID, seed=3, span=1, first_row=2)
    np.testing.assert_array_equal(part, fields[1][2:])


def test_noise_of_an_osnr():
    """Both polarisations together, in 12.5 GHz, lie 20 dB below the signal."""
    assert 1e-3 / (2 * 12.5e9 * osnr_noise_density(20.0, 1e-3)) == pytest.approx(100, rel=1e-12)


def test_noise_figure_at_the_quantum_limit_adds_one_photon():
    gain = 1000.0
    density = Amplifier(gain, 10 * np.log10(2 - 1 / gain)).noise_density(2e14)
    assert density == pytest.approx((gain - 1) * 6.62607015e-34 * 2e14, rel=1e-12, abs=0)


def test_a_seed_means_the_same_in_every_version():
    """Values once drawn; seed, span and row start at 0."""
    field = CPU.zeros((2, 4), np.complex128)
    Amplifier(10.0, 4.0).apply(CPU, field, GRID, seed=3, span=5, first_row=4)
    drawn = [-0.40361022852711165 - 0.8091996683794174j, 0.518757450339717 - 0.40165205244462704j]
    np.testing.assert_allclose(field[:, 0] * 1e3, drawn, rtol=1e-12)
    one, other = CPU.zeros((2, 4), np.complex128), CPU.zeros((2, 4), np.complex128)
    Amplifier(10.0, 4.0).apply(CPU, one, GRID)
    Amplifier(10.0, 4.0).apply(CPU, other, GRID, seed=0, span=0, first_row=0)
    np.testing.assert_array_equal(one, other)


def test_quantities_may_be_text():
    assert Amplifier("16 dB", "5 dB") == Amplifier(10**1.6, 5)
    for values in (("16 km",), ("abc",), ("1e308 dB",), ([1.0, 2.0],), (None,), (10.0, "x"), (10.0, 1e308)):
        with pytest.raises(InputError, match=r"^(gain|noise_figure_db): ") as error:
            Amplifier(*values)
        assert "\n" not in str(error.value)


def test_bad_input():
    for gain in (0.0, -1.0, np.inf):
        with pytest.raises(InputError, match="gain"):
            Amplifier(gain)
    with pytest.raises(InputError, match="noise_figure_db"):
        Amplifier(10.0, -11.0)
    with pytest.raises(InputError, match="osnr_db"):
        osnr_noise_density(np.nan, 1e-3)

"""The WDM grid: frequencies, bins and what is refused."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.signal.wdm import WdmGrid


def test_the_grid_of_the_multimode_link():
    grid = WdmGrid.between(191.95e12, 194.9e12, 50e9, 32e9, 128, 2**14)
    assert grid.channels == 60
    assert grid.samples == 2**21
    assert grid.sample_rate == 4.096e12
    assert grid.resolution == 1.953125e6
    assert grid.centre_frequency == pytest.approx(193.425e12)
    np.testing.assert_allclose(np.diff(grid.offsets), 50e9)
    assert grid.largest_shift < 1e-2
    grid.check(0.5)


def test_optical_offsets_are_negative_numpy_bins():
    grid = WdmGrid.centred(193.4e12, 50e9, 3, 32e9, 8, 1024)
    np.testing.assert_array_equal(grid.bins, [1600, 0, -1600])
    np.testing.assert_allclose(grid.offsets, [-50e9, 0, 50e9])


def test_snapping_is_reported_and_any_list_is_taken():
    grid = WdmGrid([193.4e12, 193.5e12, 193.4333e12], 30e9, 8, 1000, 193.4e12)
    assert 0 < grid.largest_shift <= grid.resolution / 2
    assert abs(grid.offsets - [0, 100e9, 33.3e9]).max() == pytest.approx(grid.largest_shift)
    assert grid.duration == pytest.approx(1000 / 30e9)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (([], 32e9, 8, 64), "frequencies"),
        (([-1.0], 32e9, 8, 64), "frequencies"),
        (([193e12], 0.0, 8, 64), "symbol_rate"),
        (([193e12], 32e9, 1, 64), "samples_per_symbol"),
        (([193e12], 32e9, 8.5, 64), "samples_per_symbol"),
        (([193e12], 32e9, 8, 0), "symbols"),
        (([193e12], 32e9, 8, 64, -5.0), "centre"),
        (([193e12, 193.3e12], 32e9, 8, 64), "samples_per_symbol"),
        (([193e12, 193.01e12], 32e9, 8, 64), "frequencies"),
        (([193e12, 193e12], 32e9, 8, 64), "frequencies"),
    ],
)
def test_bad_grids(arguments, word):
    with pytest.raises(InputError, match=f"^{word}"):
        WdmGrid(*arguments).check(0.0)


def test_rolloff_is_checked():
    WdmGrid.centred(193e12, 50e9, 3, 32e9, 5, 64).check(0.5)
    grid = WdmGrid.centred(193e12, 40e9, 3, 32e9, 8, 64)
    grid.check(0.25)
    with pytest.raises(InputError, match="frequencies: channels 40 GHz"):
        grid.check(0.3)
    with pytest.raises(InputError, match="rolloff"):
        grid.check(1.5)
    with pytest.raises(InputError, match="spacing"):
        WdmGrid.between(193e12, 193.12e12, 50e9, 32e9, 16, 64)
    with pytest.raises(InputError, match="count"):
        WdmGrid.centred(193e12, 50e9, 0, 32e9, 16, 64)

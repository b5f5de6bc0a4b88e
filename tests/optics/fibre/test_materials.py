"""Sellmeier equations against published indices, and the doped glass against its ends."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.profile import GERMANIA, SILICA, ConstantIndex, Sellmeier, fraction_of, mix_n2


@pytest.mark.parametrize(
    ("wavelength", "index"),
    # Malitson, J. Opt. Soc. Am. 55, 1205 (1965), table 1: computed indices.
    [(0.589256e-6, 1.458404), (1.013975e-6, 1.450242), (1.529582e-6, 1.444268), (2.325420e-6, 1.432928)],
)
def test_silica_matches_malitson(wavelength, index):
    assert SILICA.index(wavelength) == pytest.approx(index, abs=1.5e-6)


def test_silica_has_zero_material_dispersion_near_1273_nm():
    lam, h = 1.2727e-6, 5e-9
    curvature = (SILICA.index(lam + h) - 2 * SILICA.index(lam) + SILICA.index(lam - h)) / h**2
    at_1550 = (SILICA.index(1.55e-6 + h) - 2 * SILICA.index(1.55e-6) + SILICA.index(1.55e-6 - h)) / h**2
    assert abs(curvature) < 0.01 * abs(at_1550)


def test_germania_at_1550_nm():
    assert GERMANIA.index(1.55e-6) == pytest.approx(1.5871, abs=2e-4)


def test_mix_ends_are_the_pure_glasses():
    for lam in (0.8e-6, 1.31e-6, 1.55e-6):
        ends = np.sqrt(mix_n2(SILICA, GERMANIA, [0.0, 1.0], lam))
        np.testing.assert_allclose(ends, [SILICA.index(lam), GERMANIA.index(lam)], rtol=1e-14)


def test_fraction_inverts_mix():
    x = np.linspace(0, 1, 41)
    np.testing.assert_allclose(
        fraction_of(SILICA, GERMANIA, mix_n2(SILICA, GERMANIA, x, 1.55e-6), 1.55e-6), x, atol=1e-12
    )


def test_constant_index_ignores_wavelength():
    assert ConstantIndex(1.45).index(1e-6) == ConstantIndex(1.45).index(2e-6) == 1.45


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ConstantIndex(0.5), "n: 0.5"),
        (lambda: ConstantIndex(float("nan")), "n: nan"),
        (lambda: SILICA.index(-1e-6), "wavelength"),
        (lambda: SILICA.index(9e-6), "validity"),
        (lambda: Sellmeier((1.0,), (1e-7, 2e-7)), "resonances: 2"),
        (lambda: fraction_of(SILICA, GERMANIA, 4.0, 1.55e-6), "index: 2.0"),
        (lambda: fraction_of(SILICA, GERMANIA, 2.0, 1.55e-6), "out of reach"),
        (lambda: mix_n2(SILICA, Sellmeier((1.0,), (1e-7,)), 0.5, 1.55e-6), "dopant"),
    ],
)
def test_errors_are_one_line(call, words):
    with pytest.raises(InputError, match=words) as error:
        call()
    assert "\n" not in str(error.value)

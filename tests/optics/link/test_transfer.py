"""Transfer matrices of links, group delays and mode-dependent loss, against closed forms and propagation."""

import math

import numpy as np
import pytest
from run_tables import merged, without_none

from wavefabric.optics.link.build import build_fibres, build_transmitter
from wavefabric.optics.link.elements import FibrePiece
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.link.propagators import LinkPropagator
from wavefabric.optics.link.transfer import modal_figures, transfer_matrices
from wavefabric.optics.propagation.propagate import PropagationOptions
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.optics.run_file.load import RunFile
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo

LINK = {
    "fibre": {"preset": "single-mode", "gamma": "0 1/W/km"},
    "link": {"length": "80 km"},
    "signal": {
        "symbol_rate": "32 GBaud",
        "symbols": 64,
        "samples_per_symbol": 4,
        "launch_power": "0 dBm",
        "channels": 1,
        "centre_frequency": "193.4 THz",
    },
    "solver": {"step": "1 km", "integrator": "strang"},
}


def settings(**changes) -> RunFile:
    return RunFile.model_validate(without_none(merged(LINK, changes)))


def test_a_link_is_its_matrices():
    """A linear link of six modes with coupling, gains by mode, losses, a filter, two fibres: row by row."""
    coupling = {"correlation_length": "5 km", "delay_spread": "2 ps/sqrt(km)", "between_groups": "1e-2 1/km"}
    few = {"preset": "graded-index-62.5", "groups": 3, "n2": "0 m^2/W", "gamma": None}
    elements = [
        {"kind": "fibre", "length": "20 km"},
        {"kind": "filter", "bandwidth": "50 GHz", "order": 2, "loss": "1 dB"},
        {"kind": "mixing", "within": "all"},
        {"kind": "loss", "loss": [f"{k / 4} dB" for k in range(6)]},
        {"kind": "amplifier", "mode_dependent_gain": "1 dB"},
        {"kind": "fibre", "length": "7 km", "fibre": "other"},
        {"kind": "amplifier"},
    ]
    run = settings(
        fibre=few | {"random_coupling": coupling},
        fibres={"other": few | {"attenuation": "1 dB/km"}},
        link={"length": None, "element": elements},
    )
    fibres, device = build_fibres(run), get_device("cpu")
    path = LinkPath(run, fibres, build_transmitter(run, 6), RankModes((0, 6)))
    propagator = LinkPropagator(path, PropagationOptions("strang", step=1e3), solo(device))
    field = propagator.operators.empty()
    rng = np.random.default_rng(5)
    field[...] = rng.normal(size=field.shape) + 1j * rng.normal(size=field.shape)
    sent = np.fft.fft(field)
    for element in path.elements:
        if isinstance(element, FibrePiece):
            propagator.run(field, path, element)
        else:
            element.apply(path, device, field)
    # A channel at the optical offset +Δf sits at −Δf of NumPy's spectrum.
    optical = -np.fft.fftfreq(path.grid.samples, 1 / path.grid.sample_rate)
    expected = np.einsum("fij,jf->if", transfer_matrices(path, optical), sent)
    np.testing.assert_allclose(np.fft.fft(field), expected, atol=1e-10 * abs(sent).max())


def test_the_delays_of_a_plain_fibre_are_those_of_its_modes():
    few = {"preset": "graded-index-62.5", "groups": 3, "gamma": None}
    run = settings(fibre=few)
    figures = modal_figures(run, 1)
    beta = build_fibres(run)["fibre"].beta[:, 0]
    expected = np.sort(np.repeat(beta - beta.mean(), 2)) * 80e3
    np.testing.assert_allclose(figures.delays[0], expected, atol=1e-6 * np.ptp(expected))
    assert figures.mode_dependent_loss_db == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("pmd", [0.5, 0.1])
def test_differential_group_delay_is_maxwellian(pmd):
    """Mean PMD √L, and mean square 3π/8 of the mean's: 40 links at 32 frequencies far apart."""
    coupling = {"correlation_length": "1 km", "pmd": f"{pmd} ps/sqrt(km)"}
    delays = [
        modal_figures(settings(seed=seed, fibre={"random_coupling": coupling}), 32, "40 THz").delay_spread
        for seed in range(40)
    ]
    delays = np.ravel(delays)
    assert delays.mean() == pytest.approx(pmd * 1e-12 * math.sqrt(80), rel=0.05)
    assert (delays**2).mean() / delays.mean() ** 2 == pytest.approx(3 * math.pi / 8, rel=0.03)


def test_loss_by_mode_is_that_of_the_elements():
    few = {"preset": "graded-index-62.5", "groups": 2, "gamma": None}
    loss = {"kind": "loss", "loss": ["1 dB", "2 dB", "4 dB"]}
    fibre = {"kind": "fibre", "length": "1 km"}
    run = settings(fibre=few, link={"length": None, "element": [fibre, loss]})
    assert modal_figures(run, 3).mode_dependent_loss_db == pytest.approx(3, abs=1e-9)
    mixed = settings(
        fibre=few, link={"length": None, "element": [loss, {"kind": "mixing", "within": "all"}, fibre, loss]}
    )
    figures = modal_figures(mixed, 3)
    assert 3 < figures.mode_dependent_loss_db[0] < 6
    total = (10 ** (figures.gains_db / 10)).mean(axis=1)
    np.testing.assert_allclose(total, 1, rtol=1e-12)


def test_filters_that_pass_nothing_leave_delays_and_loss():
    fibre, narrow = {"kind": "fibre", "length": "1 km"}, {"kind": "filter", "bandwidth": "1 GHz", "order": 9}
    figures = modal_figures(settings(link={"length": None, "element": [fibre, narrow]}), 5)
    assert figures.mode_dependent_loss_db == pytest.approx(0, abs=1e-9)
    assert np.isfinite(figures.delays).all()

"""Runs of channels that differ: result file, tables, back-propagation, sweep."""

import numpy as np
import pytest

from wavefabric.base.results import read_result
from wavefabric.base.system.progress import Progress
from wavefabric.optics.link.expected import channel_expectations, expected_of
from wavefabric.optics.link.figures import plot_result
from wavefabric.optics.link.result import channel_cells, channel_rows
from wavefabric.optics.link.run import run_link
from wavefabric.optics.link.step_choice import verify_step
from wavefabric.optics.run_file.load import RunFile
from wavefabric.report.fibre import fibre_content
from wavefabric.runtime.exchange import solo

SIGNAL = {
    "modulation": ["64qam:5.2 bit", "qpsk", "16qam"],
    "symbol_rate": [32e9, 64e9, 96e9],
    "rolloff": [0.1, 0.2, 0.05],
    "symbols": 256,
    "samples_per_symbol": 16,
    "launch_power": [1e-3, 2e-3, 3e-3],
    "frequencies": [193.4e12, 193.3e12, 193.5e12],
}


def settings(**tables):
    base = {
        "fibre": {"preset": "single-mode", "attenuation": "0.2 dB/km"},
        "link": {"length": 20e3, "spans": 2},
        "signal": SIGNAL,
        "receiver": {"osnr": 25.0},
        "solver": {"step": 1e3},
        "output": {"theory": True},
    }
    return RunFile.model_validate({key: value | tables.get(key, {}) for key, value in base.items()})


def simulate(run, cpu, path):
    return read_result(run_link(run, path, comm=solo(cpu), warn=lambda _: None).path)


def test_the_result_has_what_each_channel_has(cpu, tmp_path):
    run = settings(receiver={"constellations": "all"})
    result = simulate(run, cpu, tmp_path / "a.h5")
    assert result.attrs("signal")["modulation"] == "qpsk, 64qam:5.2 bit, 16qam"
    np.testing.assert_array_equal(result["signal/symbol_rate"], [64e9, 32e9, 96e9])
    assert result["received/span_2/constellation"].shape == (1, 3, 2, 256)
    rows = channel_rows(result)
    assert [row["format"] for row in rows] == ["qpsk", "64qam:5.2 bit", "16qam"]
    expected = 25 + 10 * np.log10(12.5e9 / np.array([64e9, 32e9, 96e9]))
    np.testing.assert_allclose([row["Q²_dB"] for row in rows], expected, atol=0.5)
    theory = channel_expectations(run, expected_of(run))
    for row, one in zip(rows, theory, strict=True):
        assert row["theory_dB"] == pytest.approx(one["theory_dB"], abs=1e-9)
    heads, cells = channel_cells(rows)
    ratios = ["OSNR dB", "GSNR dB"]
    assert heads == [
        "channel",
        "THz",
        "GBaud",
        "format",
        "rolloff",
        "Q² dB",
        "theory dB",
        *ratios,
        "BER counted",
    ]
    assert cells[1][:5] == ["2", "193.4", "32", "64qam:5.2 bit", "0.1"]
    content = fibre_content(result)
    assert "64qam:5.2 bit" in "".join(map(str, content.sections["Channels"]))
    assert {path.stem for path in plot_result(result.path)} >= {"a-q2", "a-penalty", "a-constellation"}


def test_channels_alike_have_no_table(cpu, tmp_path):
    run = settings(signal={"modulation": "qpsk", "symbol_rate": 32e9, "rolloff": 0.1})
    result = simulate(run, cpu, tmp_path / "a.h5")
    assert channel_rows(result) == []
    assert "signal/symbol_rate" not in result
    assert channel_expectations(run, expected_of(run)) == []


@pytest.mark.slow
@pytest.mark.parametrize("of", ["band", "channel"])
def test_back_propagation_undoes_the_kerr_effect_of_each_channel(cpu, tmp_path, of):
    """Without noise and with strong light, Q² of every channel gains; of the whole band all of it."""
    strong = {"launch_power": [5e-3, 10e-3, 15e-3]}
    plain = {"receiver": {"osnr": None}, "signal": strong, "solver": {"step": 200.0}}
    inverse = {"receiver": {"osnr": None, "back_propagation": {"step": 200.0, "of": of}}}
    before = simulate(settings(**plain), cpu, tmp_path / "a.h5")["received/span_2/q_squared_db"]
    after = simulate(settings(**plain | inverse), cpu, tmp_path / "b.h5")["received/span_2/q_squared_db"]
    assert (after - before).min() > (40 if of == "band" else 1)


@pytest.mark.slow
def test_a_step_is_chosen_from_a_window_that_all_channels_fill(cpu):
    """Of 32, 33.6 and 96 GBaud only multiples of 20 symbols: 1020 of 2000, not 1024."""
    rates = {"symbol_rate": [32e9, 33.6e9, 96e9], "symbols": 2000}
    assert verify_step(settings(signal=rates), solo(cpu), Progress()).symbols == 1020


def test_intensities_beside_coherent_channels(cpu, tmp_path):
    """Theory leaves them out; the run has both."""
    formats = {"modulation": ["ook", "pam4", "16qam"], "symbol_rate": [16e9, 16e9, 96e9]}
    run = settings(signal=formats | {"samples_per_symbol": 32})
    result = simulate(run, cpu, tmp_path / "a.h5")
    assert "theory" not in result.groups()
    assert np.isnan(result["received/span_1/gmi"][0]).tolist() == [True, True, False]
    assert result["received/back_to_back/ber_counted"][0].max() < 1e-2

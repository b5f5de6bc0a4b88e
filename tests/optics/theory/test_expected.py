"""Noise, Q² and what a run file is expected to give, beside its run."""

import json
import math

import numpy as np
import pytest

from wavefabric.base.results import read_result
from wavefabric.base.units import PLANCK
from wavefabric.optics import run_link
from wavefabric.optics.fibre.presets import single_mode
from wavefabric.optics.link.build import build_fibre
from wavefabric.optics.link.expected import expected_of, group_expectations
from wavefabric.optics.run_file.elements import LinkTable
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.run_file.tables import FibreTable, ReceiverTable, SignalTable, SolverTable
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.optics.theory.expected import EVALUATED, expected_quality
from wavefabric.optics.theory.gaussian_noise import Options, nonlinear_interference
from wavefabric.optics.theory.line import Spans
from wavefabric.optics.theory.response import Steps

LOSS = 0.2e-3 * math.log(10) / 10


def a_run(step="500 m", **link):
    return RunFile(
        fibre=FibreTable(preset="single-mode", attenuation="0.2 dB/km"),
        link=LinkTable(length="80 km", **{"spans": 2, "noise_figure": "5 dB", **link}),
        signal=SignalTable(
            symbol_rate="32 GBaud",
            symbols=2048,
            samples_per_symbol=8,
            launch_power=["4 dBm", "3 dBm", "4 dBm"],
            channels=3,
            spacing="50 GHz",
            centre_frequency="193.4 THz",
        ),
        receiver=ReceiverTable(osnr="30 dB"),
        solver=SolverTable(integrator="strang", step=step),
    )


def test_beside_a_run(tmp_path):
    """Noise of amplifiers, of the OSNR and of nonlinearity together: Q² within 0.25 dB."""
    run = a_run()
    expected = expected_of(run)
    result = read_result(run_link(run.with_solver(device="cpu", threads=1), output=tmp_path / "a.h5").path)
    assert list(expected) == ["back_to_back", "span_1", "span_2"]
    for name, one in expected.items():
        measured = result[f"received/{name}/q_squared_db"]
        np.testing.assert_allclose(one.q_squared_db, measured, atol=0.25)
        assert abs(one.q_squared_db - measured).mean() < 0.12
    last = expected["span_2"]
    assert (last.nli > 0.1 * last.noise).all()
    assert (last.numerical == 0).all()


def test_noise_of_amplifiers_travels_on():
    """S = (G F − 1) hν/2 in each polarisation; a gain of 1 dB more than the loss acts on signal and noise."""
    sent = Transmitter(WdmGrid.centred(193.4e12, 50e9, 2, 32e9, 8, 64), "qpsk", 0.1, [[1e-3, 0.0]])
    fibre = single_mode(gamma=0.0, alpha=LOSS)
    gain = 10**1.7
    expected = expected_quality(fibre, Receiver(sent, osnr_db=20.0), Spans(80e3, 3, gain), 5.0, [1, 3])
    assert list(expected) == ["back_to_back", "span_1", "span_3"]
    density = (gain * 10**0.5 - 1) * PLANCK * 193.4e12 / 2
    net, third = 10**0.1, expected["span_3"]
    np.testing.assert_allclose(third.ase, 2 * 32e9 * density * (1 + net + net**2), rtol=1e-9)
    np.testing.assert_allclose(third.signal, [[1e-3 * net**3, 0]], rtol=1e-9)
    np.testing.assert_allclose(third.loaded[0, 0], 1e-3 * net**3 * 32 / 12.5 / 100, rtol=1e-9)
    snr = third.signal[0, 0] / (third.ase + third.loaded)[0, 0]
    assert third.q_squared_db[0, 0] == pytest.approx(10 * math.log10(snr), rel=1e-12)
    assert np.isnan(third.snr[0, 1])
    assert expected["back_to_back"].q_squared_db[0, 0] == pytest.approx(20 + 10 * math.log10(12.5 / 32))
    assert set(third.arrays()) == {"signal", "nli", "ase", "loaded", "numerical", "snr", "q_squared_db"}


def test_many_spans_are_interpolated():
    sent = Transmitter(WdmGrid.centred(193.4e12, 50e9, 1, 32e9, 8, 64), "qpsk", 0.1, 1e-3)
    fibre = single_mode(alpha=LOSS)
    each = expected_quality(fibre, Receiver(sent), Spans(80e3, 20))
    assert 18 not in EVALUATED
    (one,) = expected_quality(fibre, Receiver(sent), Spans(80e3, 20), at=[18])["span_18"].nli
    np.testing.assert_allclose(each["span_18"].nli[0], one, rtol=2e-3)


def test_long_steps_have_a_numerical_part():
    run = a_run("8 km", spans=1)
    expected = expected_of(run)["span_1"]
    assert (expected.numerical > 0.05 * expected.nli).all()
    fibre = build_fibre(run)
    (row,) = group_expectations(expected_of(run, fibre), fibre)
    assert (row["group"], row["modes"]) == (1, 1)
    span = row["received"]["span_1"]
    assert min(span["snr_numerical_db"], span["snr_nli_db"]) > span["q_squared_mean_db"]
    assert row["received"]["back_to_back"]["snr_nli_db"] is None


def test_the_numerical_part_of_many_channels_is_interpolated():
    grid = WdmGrid.centred(193.4e12, 50e9, 14, 32e9, 32, 512)
    sent = Transmitter(grid, "qpsk", 0.1, 1e-3)
    fibre, options = single_mode(alpha=LOSS), Options(steps=Steps(2e3), sample_rate=grid.sample_rate)
    ours = expected_quality(fibre, Receiver(sent, phase_window=None), Spans(80e3), options=options)["span_1"]
    exact = nonlinear_interference(fibre, sent, Spans(80e3), options)
    np.testing.assert_allclose(ours.nli + ours.numerical, exact, rtol=0.02)
    assert (ours.numerical > ours.nli).all()


RUN_FILE = """\
title = "two groups"
[fibre]
preset = "graded-index-62.5"
groups = 2
[link]
length = "80 km"
spans = 2
[signal]
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 16
launch_power = "-1 dBm"
channels = 3
spacing = "50 GHz"
centre_frequency = "193.4 THz"
[receiver]
osnr = "20 dB"
[solver]
step = "1 km"
"""


@pytest.mark.slow
def test_command(tmp_path, capsys):
    from wavefabric.cli import main

    (tmp_path / "link.toml").write_text(RUN_FILE)
    for options in ([], ["--json"]):
        with pytest.raises(SystemExit) as end:
            main(["theory", str(tmp_path / "link.toml"), *options])
        assert end.value.code == 0
        said = capsys.readouterr().out
        if not options:
            assert "two groups" in said
            assert said.count("span 2") == 2
    groups = json.loads(said)["groups"]
    assert [row["modes"] for row in groups] == [1, 2]
    q = groups[0]["received"]["span_2"]["q_squared_mean_db"]
    assert 15.5 < q < groups[0]["received"]["back_to_back"]["q_squared_mean_db"] < 15.93

"""Channels that enter and end at ROADMs: the run, the receiver, powers and theory."""

import dataclasses
import math

import numpy as np
import pytest
from link_cases import AMPLIFIER, LINEAR, launched, path_of, piece, settings

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.optics import propagate
from wavefabric.optics.link.build import build_fibres
from wavefabric.optics.link.expected import expected_elements, expected_of
from wavefabric.optics.link.line import line_of
from wavefabric.optics.link.run import run_link
from wavefabric.optics.theory.changing_channels import changing_interference
from wavefabric.optics.theory.gaussian_noise import Options, nonlinear_interference
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo


def roadm(**changes):
    return {"kind": "filter", "bandwidth": "48 GHz", "order": 4} | changes


SPAN = piece("80 km"), AMPLIFIER
#: Channel 3 enters after the first span, channel 1 ends after the second.
ROUTE = *SPAN, roadm(add=[3]), *SPAN, roadm(block=[1]), *SPAN
#: The same with filters that pass everything.
WIDE = [each | {"bandwidth": "200 GHz", "order": 20} if each["kind"] == "filter" else each for each in ROUTE]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param)


@pytest.fixture
def simulate(device, tmp_path):
    def run(settings, name="out"):
        run_link(settings, tmp_path / f"{name}.h5", comm=solo(device), warn=lambda _: None, force=True)
        return read_result(tmp_path / f"{name}.h5")

    return run


def lit(result):
    return [np.isfinite(result[f"received/{name}/q_squared_db"][0]).tolist() for name in names(result)]


def names(result):
    return ["back_to_back", *(name for name in result.groups("received") if name != "back_to_back")]


def test_a_run_is_a_chain_with_channels_put_in(simulate, device):
    """Channel 3 is dark up to the ROADM; there its band is cleared and its waveform added, as launched."""
    run = settings(piece("60 km"), AMPLIFIER, roadm(add=[3]), piece("40 km"), output={"save_field": True})
    result = simulate(run)
    path, _ = launched(run, device)
    fibre, grid = build_fibres(run)["fibre"], path.grid
    options = {"sample_rate": grid.sample_rate, "device": device, "step": "1 km"}
    parts = []
    for mask in ([True, True, False], [False, False, True]):
        sent = dataclasses.replace(path.transmitter, launch_power=np.array([1e-3, 1e-3, 1e-3]) * mask)
        field = device.empty((2, grid.samples), np.complex128)
        sent.fill(device, field)
        parts.append(device.to_host(field))
    field = propagate(parts[0], fibre, "60 km", **options)[0] * math.sqrt(path.elements[1].amplifier.gain)
    offset = -np.fft.fftfreq(grid.samples, 1 / grid.sample_rate)
    passed = np.max([np.exp2(-0.5 * abs(2 * (offset - f) / 48e9) ** 8) for f in (-50e9, 0.0)], axis=0)
    field = np.fft.ifft(np.fft.fft(field) * passed) + parts[1]
    field = propagate(field, fibre, "40 km", **options)[0]
    assert abs(result["field"] - field).max() < 1e-12 * abs(field).max()
    assert lit(result) == [[True, True, True], [True, True, False], [True, True, True]]


def test_a_receiver_compensates_what_a_channel_has_passed(simulate):
    """Back to back has all channels; a linear link costs nothing, wherever a channel entered."""
    result = simulate(settings(*WIDE, receiver={"osnr": "20 dB"}, **LINEAR))
    assert lit(result) == [[True] * 3, [True, True, False], [True] * 3, [False, True, True]]
    sent = result["received/back_to_back/q_squared_db"]
    for name in names(result)[1:]:
        q = result[f"received/{name}/q_squared_db"]
        assert abs((q - sent)[np.isfinite(q)]).max() < 0.02  # what a filter of 200 GHz cuts off


@pytest.mark.parametrize("receiver", ["mimo", "coupled"])
def test_other_receivers_too(simulate, receiver):
    changes = {"equaliser": "mimo", "taps": 8, "training": 512} if receiver == "mimo" else {}
    coupling = {"correlation_length": "8 km", "pmd": "0.1 ps/sqrt(km)", "within": "polarisations"}
    fibre = {"random_coupling": coupling} if receiver == "coupled" else {}
    run = settings(*WIDE, receiver=changes, fibre=fibre | {"gamma": "0 1/W/km"}, signal={"symbols": 1024})
    result = simulate(run)
    assert lit(result) == [[True] * 3, [True, True, False], [True] * 3, [False, True, True]]
    for name in names(result):
        assert np.nanmin(result[f"received/{name}/q_squared_db"]) > (30 if receiver == "mimo" else 45)
    assert list(result["received/span_3/constellation"].shape) == [1, 2, 512 if receiver == "mimo" else 1024]


@pytest.mark.parametrize("modulation", ["16qam", pytest.param("gaussian", marks=pytest.mark.slow)])
def test_interference_of_a_run(simulate, modulation):
    """Within 5 % of theory, mean of seeds, for every channel and place."""
    signal = {"modulation": modulation, "symbols": 4096, "launch_power": "3 dBm", "samples_per_symbol": 16}
    noise = {}
    for seed in range(1, 7 if modulation == "gaussian" else 3):
        run = settings(*ROUTE, signal=signal, seed=seed, receiver={"back_to_back": False})
        result = simulate(run)
        for name, each in expected_of(run).items():
            q = result[f"received/{name}/q_squared_db"]
            assert (np.isnan(q) == np.isnan(each.q_squared_db)).all()
            noise.setdefault(name, []).append(10 ** (-q / 10) * each.snr)
    ratios = np.array([np.mean(each, axis=0) for each in noise.values()])
    assert np.nanmin(ratios) > 0.95
    assert np.nanmax(ratios) < 1.05


def test_interference_of_a_channel_that_enters_is_that_of_a_shorter_link():
    signal = {"modulation": "gaussian", "launch_power": ["-30 dBm", "-30 dBm", "3 dBm"]}
    whole = expected_of(settings(*SPAN, roadm(add=[3]), *SPAN, *SPAN, signal=signal))
    rest = expected_of(settings(*SPAN, *SPAN, signal=signal))
    np.testing.assert_allclose(whole["span_3"].nli[:, 2], rest["span_2"].nli[:, 2], rtol=1e-3)
    np.testing.assert_allclose(whole["span_1"].signal[:, 2], 0)
    noisy = [each | {"noise_figure": "5 dB"} if each["kind"] == "amplifier" else each for each in ROUTE]
    ase = expected_of(settings(*noisy, signal=signal))["span_3"].ase[0]
    np.testing.assert_allclose(ase[2] / ase[1], 2 / 3, rtol=0.01)  # two of three amplifiers
    rows = expected_elements(settings(*noisy, signal=signal))
    assert [row["element"] for row in rows].count("filter") == 2


def test_channels_that_enter_with_unlike_gains_add_up():
    """Pairs of channels: the same as without a ROADM where that changes nothing."""
    signal = {"modulation": "16qam", "launch_power": "0 dBm"}
    path = path_of(settings(*SPAN, {"kind": "loss", "loss": "2 dB"}, *SPAN, *SPAN, signal=signal))
    line = line_of(path)
    marked = dataclasses.replace(line, added={len(line.parts): np.array([True, False, False])})
    for spans in (1, 2, 3):
        plain = nonlinear_interference(path.fibre, path.transmitter, line.up_to(spans), Options())
        stop = line.ends[spans - 1]
        changed = changing_interference(path.fibre, path.transmitter, marked, stop, Options())
        np.testing.assert_allclose(changed, np.where([spans == 3, False, False], 0, plain), rtol=1e-4)


def test_amplifiers_see_the_channels_that_are_lit():
    """An amplifier of constant power after one of three channels has ended, and one has entered."""
    power = AMPLIFIER | {"power": "3 dBm"}
    path = path_of(settings(piece("50 km"), roadm(block=[1]), power, roadm(add=[1]), piece("50 km"), power))
    entered = 2e-3 * 10 ** (-50 * 0.2 / 10)
    assert path.elements[2].amplifier.gain == pytest.approx(10**-2.7 / entered, rel=1e-9)
    entered = (10**-2.7 + 1e-3) * 10 ** (-50 * 0.2 / 10)
    assert path.elements[5].amplifier.gain == pytest.approx(10**-2.7 / entered, rel=1e-9)


def test_a_channel_enters_anew_where_the_link_repeats(simulate):
    run = settings(*SPAN, roadm(add=[2], block=[3]), link={"repeat": 3})
    assert path_of(run).added_after(3).tolist() == [0, 6, -1]
    result = simulate(run)
    assert lit(result) == [
        [True] * 3,
        [True, False, True],
        [True, True, False],
        [True, True, False],
        [True, True, False],
    ]


@pytest.mark.parametrize(
    ("element", "changes", "said"),
    [
        ({"add": [4]}, {}, r"link\.element\[2\]\.add: channel 4 given; allowed: 1 to 3"),
        ({"block": [9]}, {}, r"link\.element\[2\]\.block: channel 9 given; allowed: 1 to 3"),
        (
            {"add": [1]},
            {"receiver": {"back_propagation": {"step": "1 km"}}},
            r"link\.element\[2\]\.add: given with back-propagation; allowed: without",
        ),
    ],
)
def test_wrong_channels_are_refused(element, changes, said):
    with pytest.raises(InputError, match=said):
        path_of(settings(*SPAN, roadm(**element), *SPAN, **changes))

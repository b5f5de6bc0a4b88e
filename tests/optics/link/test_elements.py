"""Links of unlike pieces: against a chain of `propagate`, closed forms, theory, and their inverse."""

import math
from pathlib import Path

import numpy as np
import pytest
from link_cases import AMPLIFIER, DCF, LINEAR, LINK, SMF, launched, path_of, piece, settings

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.base.system.progress import Progress
from wavefabric.optics import Amplifier, propagate
from wavefabric.optics.link.build import build_fibres
from wavefabric.optics.link.elements import BandFilter, saturated_gain
from wavefabric.optics.link.expected import expected_of
from wavefabric.optics.link.line import line_of
from wavefabric.optics.link.propagators import LinkPropagator
from wavefabric.optics.link.run import run_link
from wavefabric.optics.propagation.propagate import PropagationOptions
from wavefabric.optics.run_file.elements import FilterElement
from wavefabric.optics.run_file.load import checked_run
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.optics.theory.response import Accumulation, Stretch
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param)


@pytest.fixture
def simulate(device, tmp_path):
    def run(settings, name="out"):
        run_link(settings, tmp_path / f"{name}.h5", comm=solo(device), warn=lambda _: None, force=True)
        return read_result(tmp_path / f"{name}.h5")

    return run


UNLIKE = [
    {"kind": "loss", "loss": "0.5 dB"},
    piece("60 km"),
    {"kind": "loss", "loss": "0.5 dB"},
    AMPLIFIER | {"noise_figure": "5 dB"},
    piece("100 km"),
    AMPLIFIER | {"gain": "20 dB", "noise_figure": "6 dB"},
    piece("16 km", "dcf"),
    AMPLIFIER,
]


def test_a_run_is_a_chain_of_propagations(simulate, device):
    """Bit for bit on a CPU: fibres by `propagate`, amplifiers by `Amplifier`, losses by hand on the host."""
    run = settings(*UNLIKE, output={"save_field": True})
    result = simulate(run)
    path, field = launched(run, device)
    fibres, grid = build_fibres(run), path.grid
    options = {"sample_rate": grid.sample_rate, "device": device, "step": "1 km"}
    loss = 60 * 0.2 + 2 * 0.5
    connector = math.sqrt(10 ** (-0.5 / 10.0))
    field = device.to_host(field) * connector
    field = propagate(field, fibres["fibre"], "60 km", **options)[0] * connector
    field = device.asarray(field)
    path.elements[3].amplifier.apply(device, field, grid, 3, 0)
    assert 10 * math.log10(path.elements[3].amplifier.gain) == pytest.approx(loss, rel=1e-12)
    field = propagate(device.to_host(field), fibres["fibre"], "100 km", **options)[0]
    field = device.asarray(field)
    Amplifier(10 ** (20 / 10), 6.0).apply(device, field, grid, 3, 1)
    field = propagate(device.to_host(field), fibres["fibres.dcf"], "16 km", **options)[0]
    field = device.asarray(field)
    path.elements[7].amplifier.apply(device, field, grid, 3, 2)
    field = device.to_host(field)
    np.testing.assert_allclose(result["field"], field, atol=0 if device.name == "cpu" else 1e-14, rtol=0)
    assert list(result.groups("received")) == ["back_to_back", "span_1", "span_2", "span_3"]
    assert result.attrs("received/span_3")["distance_m"] == 176e3


def test_a_compensated_link_returns_the_field(simulate, device):
    """Without the Kerr effect, to round-off."""
    changes = LINEAR | {"output": {"save_field": True}}
    run = settings(piece("80 km"), AMPLIFIER, piece("16 km", "dcf"), AMPLIFIER, **changes)
    _, sent = launched(run, device)
    sent = device.to_host(sent)
    received = simulate(run)["field"]
    assert abs(received - sent).max() < 1e-12 * abs(sent).max()
    without = settings(piece("80 km"), AMPLIFIER, **changes)
    assert abs(simulate(without, "half")["field"] - sent).max() > 0.1 * abs(sent).max()


def test_short_and_long_forms_are_one(simulate):
    """Spans, a list of lengths, elements and repeated elements; mode coupling and tilts too."""
    output = {"output": {"save_field": True}}
    short = {"length": "60 km", "spans": 2, "noise_figure": "5 dB", "gain_tilt": "0.01 dB/THz"}
    short |= {"mode_dependent_gain": "0.3 dB", "mix_groups": True}
    amplifier = AMPLIFIER | {key: short[key] for key in ("noise_figure", "gain_tilt", "mode_dependent_gain")}
    each = piece("60 km"), amplifier, {"kind": "mixing"}
    forms = [
        settings(link=short, **output),
        settings(link=short | {"length": ["60 km", "60 km"], "spans": None}, **output),
        settings(*each, *each, **output),
        settings(*each, link={"repeat": 2}, **output),
    ]
    first, *others = [simulate(run) for run in forms]
    for other in others:
        np.testing.assert_array_equal(other["field"], first["field"])
        for name in ("span_1", "span_2"):
            key = f"received/{name}/q_squared_db"
            np.testing.assert_array_equal(other[key], first[key])


@pytest.mark.parametrize("unlike", ["plain", "gains", "coupled"])
def test_a_link_is_solved_back(device, unlike):
    """In small steps of the same integrator, except for noise; filters are not undone."""
    coupling = {
        "random_coupling": {"correlation_length": "4 km", "pmd": "1 ps/sqrt(km)", "within": "polarisations"}
    }
    changes = {"fibre": coupling} if unlike == "coupled" else {}
    more = [{"kind": "mixing", "within": "all"}, {"kind": "loss", "loss": ["1 dB"]}]
    elements = [piece("20 km"), *more[: 2 * (unlike != "plain")], AMPLIFIER | {"gain": "6 dB"}]
    elements += [piece("10 km", "dcf"), AMPLIFIER | {"mode_dependent_gain": "1 dB"}]
    run = settings(*elements, **changes)
    path, field = launched(run, device)
    sent = field.copy()
    options = {"integrator": "rk4ip", "step": 250.0}
    forth = LinkPropagator(path, PropagationOptions(**options), solo(device))
    back = LinkPropagator(path, PropagationOptions(**options, backward=True), solo(device))
    for element in path.elements:
        if element in path.pieces:
            forth.run(field, path, element)
        else:
            element.apply(path, device, field)
    forth_end = field.copy()
    for element in reversed(path.elements):
        if element in path.pieces:
            back.run(field, path, element, backward=True)
        else:
            element.undo(path, device, field)
    assert abs(field - sent).max() < 1e-4 * abs(sent).max()  # what this step of rk4ip allows
    assert abs(forth_end - sent).max() > 0.1 * abs(sent).max()
    assert forth.report.steps == back.report.steps == 120


def test_linear_effects_of_unlike_pieces_are_compensated(simulate):
    """The ideal receiver knows the accumulated dispersion of both fibres, also of ± 5 times each other."""
    result = simulate(settings(piece("80 km"), AMPLIFIER, piece("3 km", "dcf"), AMPLIFIER, **LINEAR))
    assert result["received/span_1/q_squared_db"].min() > 100
    assert result["received/span_2/q_squared_db"].min() > 100


def test_a_resumed_link_has_the_same_bits(device, tmp_path):
    run = settings(*UNLIKE, output={"save_field": True, "checkpoint_every": 3, "checkpoint_interval": "0 s"})

    class Stopping(Progress):
        def update(self, done, note=""):
            if "z = 170" in note:  # in the second fibre
                raise KeyboardInterrupt

    whole, parts = tmp_path / "whole.h5", tmp_path / "parts.h5"
    run_link(run, whole, comm=solo(device), warn=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        run_link(run, parts, comm=solo(device), progress=Stopping(), warn=lambda _: None)
    run_link(run, parts, comm=solo(device), warn=lambda _: None)
    first, second = read_result(whole), read_result(parts)
    np.testing.assert_array_equal(first["field"], second["field"])
    assert first.attrs("solver")["steps"] == second.attrs("solver")["steps"] == 176


# --- Lumped elements -----------------------------------------------------------------------------------


def test_a_filter_is_super_gaussian(device):
    """Half the power at half the bandwidth per filter; blocked channels leave nothing."""
    table = FilterElement(kind="filter", bandwidth="40 GHz", order=3, filters=2, loss="3 dB", block=[3])
    element, grid = BandFilter(table), WdmGrid.centred("193.4 THz", "50 GHz", 3, "32 GBaud", 8, 256)
    offset = np.array([0.0, 10e9, 20e9, -20e9])
    expected = [1.0, 0.5 ** (2 * 0.5**6), 0.25, 0.25]
    np.testing.assert_allclose(element.amplitude(offset) ** 2, expected, rtol=1e-12)
    run = settings(table.model_dump(), piece("1 km"))
    path, field = launched(run, device)
    before = np.abs(np.fft.fft(device.to_host(field))) ** 2
    path.elements[0].apply(path, device, field)
    after = np.abs(np.fft.fft(device.to_host(field))) ** 2
    optical = -np.fft.fftfreq(grid.samples, 1 / grid.sample_rate)
    for number, centre in enumerate(sorted(grid.offsets), start=1):
        band = abs(optical - centre) < 17e9
        wanted = 10**-0.3 * 0.25 ** ((abs(optical[band] - centre) / 20e9) ** 6) * (number < 3)
        np.testing.assert_allclose(after[:, band], before[:, band] * wanted, atol=1e-9 * before.max())
    assert element.passed(grid).tolist() == [True, True, False]


def test_a_saturated_amplifier_obeys_its_equation(device):
    gain, limit, power = 1000.0, 20e-3, 0.1e-3
    saturated = saturated_gain(gain, limit, power)
    assert saturated == pytest.approx(gain * math.exp(-(saturated - 1) * power / limit), rel=1e-10)
    assert saturated < 0.5 * gain
    assert saturated_gain(gain, limit, 1e-12) == pytest.approx(gain, rel=1e-3)
    # In a link it sees the mean power that losses and fibre leave.
    table = AMPLIFIER | {"gain": "30 dB", "saturation_power": "20 mW"}
    path = path_of(settings(piece("50 km"), table))
    entered = 3e-3 * 10 ** (-50 * 0.2 / 10)
    assert path.elements[1].amplifier.gain == pytest.approx(saturated_gain(1e3, 20e-3, entered), rel=1e-9)


def test_an_amplifier_of_given_power(device):
    """The mean power of all channels behind it, QPSK having that power exactly."""
    table = AMPLIFIER | {"power": "5 dBm"}
    run = settings({"kind": "loss", "loss": "3 dB"}, piece("1 km"), table, signal={"modulation": "qpsk"})
    path, field = launched(run, device)
    propagator = LinkPropagator(path, PropagationOptions(step=1e3), solo(device))
    path.elements[0].apply(path, device, field)
    propagator.run(field, path, path.pieces[0])
    path.elements[2].apply(path, device, field)
    power = float((abs(field) ** 2).sum()) / path.grid.samples
    assert 10 * math.log10(power * 1e3) == pytest.approx(5, abs=1e-5)  # the Kerr effect's error of energy


def test_raman_pumps_amplify_and_add_noise(simulate, device):
    """Gain of the whole field and noise density over frequency against the evolution that theory has too."""
    run = settings(
        piece("60 km") | {"pumps": [{"frequency": "205 THz", "power": "250 mW"}]},
        AMPLIFIER,
        fibre={"raman": {"gain": "silica"}},
        signal={"symbols": 4096, "launch_power": "-10 dBm"},
        output={"save_field": True},
    )
    path, _ = launched(run, device)
    span = path.pieces[0]
    grid = path.grid
    channels = grid.centre_frequency + grid.offsets
    onoff = path.log_gain(span, 0.0, span.length, channels)
    assert 6 < 10 * math.log10(math.e) * onoff.mean() < 14
    loss = 60 * 0.2 - 10 * math.log10(np.exp(onoff).mean())
    assert 10 * math.log10(path.elements[1].amplifier.gain) == pytest.approx(loss, abs=1e-9)
    field = device.zeros((2, grid.samples), np.complex128)
    path.add_raman_noise(device, field, span)
    density = path.raman_noise(span, np.array([grid.centre_frequency]))[0, 0]
    power = (abs(device.to_host(field)) ** 2).mean()
    assert power == pytest.approx(density * grid.sample_rate, rel=0.03)
    result, expected = simulate(run), expected_of(run, warn=lambda _: None)
    noise = (10 ** (-result["received/span_1/q_squared_db"] / 10)).mean()
    assert noise == pytest.approx((1 / expected["span_1"].snr).mean(), rel=0.05)


@pytest.mark.slow
def test_interference_of_a_pumped_span(simulate):
    """The power rises again towards the pump, which makes 4.6 times the interference of loss alone."""
    signal = {"modulation": "gaussian", "symbols": 8192, "samples_per_symbol": 16, "launch_power": "5 dBm"}
    pumps = [{"frequency": "205.5 THz", "power": "500 mW"}]
    table = {"fibre": {"raman": {"gain": "silica"}}, "solver": {"step": "250 m"}, "signal": signal}
    noise = []
    for seed in (1, 2, 3):
        run = settings(piece("60 km") | {"pumps": pumps}, AMPLIFIER, seed=seed, **table)
        noise.append(10 ** (-simulate(run)["received/span_1/q_squared_db"] / 10))
    expected = expected_of(run, warn=pytest.fail)["span_1"]
    assert np.mean(noise, axis=0) == pytest.approx(1 / expected.snr, rel=0.08)


def test_pumps_need_a_gain():
    run = settings(piece("60 km") | {"pumps": [{"frequency": "205 THz", "power": "250 mW"}]}, AMPLIFIER)
    with pytest.raises(InputError, match=r"link\.element\[0\]\.pumps: given .*with a table \[fibre\.raman\]"):
        path_of(run)


# --- Theory --------------------------------------------------------------------------------------------


def test_an_unlike_accumulation_is_a_sum_over_z():
    """μ = ∫ γ/γ_ref P(z)/P(0) e^{iθ(z)} dz, with the phase mismatch of each fibre, by quadrature."""
    stretches = (Stretch(30e3, 4e-5, 0.9, 1.0, 1.0), Stretch(5e3, 1e-4, 1.2, -5.0, 3.5), Stretch(20e3, 5e-5))
    accumulation = Accumulation(stretches, 2)
    mismatch = np.array([0.0, 3e-5, -2e-4, 1e-3])
    total, gain, turned = np.zeros(4, complex), 1.0, 0.0
    for each in stretches * 2:
        z = (np.arange(20000) + 0.5) * each.length / 20000
        phase = mismatch[:, None] * (turned + each.scale * z)
        total += each.strength * gain * (np.exp(1j * phase - each.alpha * z)).mean(axis=1) * each.length
        gain, turned = gain * each.gain, turned + each.scale * each.length
    np.testing.assert_allclose(accumulation.amplitude(mismatch), total, rtol=1e-5)
    # At large mismatch the mean over oscillations is tail/Δβ².
    far = np.linspace(0.05, 0.06, 400_001)
    mean = (far**2 * abs(accumulation.amplitude(far)) ** 2).mean()
    assert accumulation.tail == pytest.approx(mean, rel=2e-2)


def test_equal_parts_are_a_repetition():
    line = line_of(
        path_of(settings(piece("80 km"), AMPLIFIER | {"noise_figure": "5 dB"}, link={"repeat": 7}))
    )
    parts, repeats = line.repeated
    assert (len(parts), repeats, line.count) == (1, 7, 7)
    short = line_of(path_of(settings(link={"length": "80 km", "spans": 7, "noise_figure": "5 dB"})))
    assert short.parts[0].noise == parts[0].noise
    line = line_of(path_of(settings(piece("80 km"), piece("16 km", "dcf"), AMPLIFIER, link={"repeat": 3})))
    assert (len(line.repeated[0]), line.repeated[1], line.ends) == (2, 3, (2, 4, 6))


def test_theory_of_unlike_spans_equals_that_of_equal_ones():
    """A span cut into two pieces of the same fibre has the same interference."""
    signal = {"signal": {"symbols": 4096}}
    (whole,) = expected_of(
        settings(piece("80 km"), AMPLIFIER, receiver={"back_to_back": False}, **signal)
    ).values()
    cut = settings(piece("30 km"), piece("50 km"), AMPLIFIER, receiver={"back_to_back": False}, **signal)
    (parts,) = expected_of(cut).values()
    np.testing.assert_allclose(parts.nli, whole.nli, rtol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["gaussian", "16qam"])
def test_theory_beside_a_run_of_unlike_spans(simulate, form):
    """Spans of 60, 100 and 75 km behind connectors and ten filters: mean noise of the channels."""
    filters = {"kind": "filter", "bandwidth": "50 GHz", "order": 4, "filters": 10, "loss": "6 dB"}
    connector = {"kind": "loss", "loss": "0.5 dB"}
    spans = [
        each for length in (60, 100, 75) for each in (connector, piece(f"{length} km"), connector, AMPLIFIER)
    ]
    signal = {"modulation": form, "symbols": 8192, "launch_power": "1 dBm"}
    run = settings(filters, AMPLIFIER, *spans, signal=signal, solver={"step": "500 m"})
    result, expected = simulate(run), expected_of(run)
    for name in ("span_1", "span_2", "span_3", "span_4"):
        noise = (10 ** (-result[f"received/{name}/q_squared_db"] / 10)).mean()
        # Theory omits terms of adjacent channels, which matter most after one span.
        tolerance = 0.05 if name == "span_4" or form == "gaussian" else 0.08
        assert noise == pytest.approx((1 / expected[name].snr).mean(), rel=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["gaussian", "16qam"])
def test_theory_beside_a_run_of_a_compensated_link(simulate, form):
    run = settings(
        *(piece("80 km"), AMPLIFIER, piece("16 km", "dcf"), AMPLIFIER),
        link={"repeat": 3},
        signal={"modulation": form, "symbols": 8192, "channels": 1, "spacing": None},
    )
    result, expected = simulate(run), expected_of(run)
    for number in range(2, 7):
        noise = 10 ** (-result[f"received/span_{number}/q_squared_db"] / 10)
        assert noise.mean() == pytest.approx((1 / expected[f"span_{number}"].snr).mean(), rel=0.05)


# --- Bad input -----------------------------------------------------------------------------------------

GOOD = {"kind": "fibre", "length": "80 km"}
BAND = {"kind": "filter", "bandwidth": "50 GHz"}


@pytest.mark.parametrize(
    ("link", "line"),
    [
        ({}, "link.length: missing; allowed: the length of a span, a list, or [[link.element]]"),
        ({"length": []}, "link.length: a list of 0 lengths given; allowed: from 1 to 10000"),
        ({"length": ["80 km", "x"]}, "link.length: "),
        ({"length": ["80 km", 5]}, "link.length: 5 has no unit"),
        ({"length": ["80 km"], "spans": 2}, "link.spans: 2 given with a list of 1 lengths"),
        ({"length": "80 km", "repeat": 2}, "link.repeat: given without [[link.element]]"),
        ({"element": []}, "link.element: [] given; allowed: a list with at least one entry"),
        ({"element": GOOD}, "link.element: "),
        ({"element": [AMPLIFIER]}, "link.element: no fibre given; allowed: at least one element of kind"),
        ({"element": [GOOD], "length": "80 km"}, "link.length: given together with [[link.element]]"),
        ({"element": [GOOD], "noise_figure": "5 dB"}, "link.noise_figure: given together with"),
        ({"element": [{"length": "80 km"}]}, "link.element[0]"),
        ({"element": [{"kind": "mirror"}]}, "link.element[0]"),
        ({"element": [{"kind": "fibre"}]}, "link.element[0].length: missing"),
        ({"element": [GOOD | {"length": "80"}]}, "link.element[0].length: "),
        ({"element": [GOOD | {"length": "0 km"}]}, "link.element[0].length: "),
        ({"element": [GOOD | {"gain": "3 dB"}]}, "link.element[0].gain: unknown key"),
        ({"element": [GOOD | {"fibre": "smf"}]}, 'link.element[0].fibre: "smf" given; allowed: "dcf"'),
        ({"element": [GOOD | {"pumps": [{"power": "1 W"}]}]}, "link.element[0].pumps[0].frequency: missing"),
        ({"element": [GOOD | {"temperature": "-3 K"}]}, "link.element[0].temperature: "),
        ({"element": [GOOD, AMPLIFIER | {"gain": "-3 dB"}]}, "link.element[1].gain: "),
        ({"element": [GOOD, AMPLIFIER | {"gain": "3 dB", "power": "1 mW"}]}, "link.element[1].power: given"),
        ({"element": [GOOD, AMPLIFIER | {"saturation_power": "1 mW"}]}, "link.element[1].saturation_power: "),
        ({"element": [GOOD, AMPLIFIER | {"power": "0 W"}]}, "link.element[1].power: "),
        ({"element": [GOOD, {"kind": "loss"}]}, "link.element[1].loss: missing"),
        ({"element": [GOOD, {"kind": "loss", "loss": "-1 dB"}]}, "link.element[1].loss"),
        ({"element": [GOOD, {"kind": "filter"}]}, "link.element[1].bandwidth: missing"),
        (
            {"element": [GOOD, {"kind": "filter", "bandwidth": "50 GHz", "order": 0}]},
            "link.element[1].order: 0",
        ),
        ({"element": [GOOD, {"kind": "mixing", "within": "modes"}]}, 'link.element[1].within: "modes" given'),
        ({"element": [GOOD] * 4, "repeat": 9000}, "link.repeat: makes 36000 elements; allowed: up to 30000"),
    ],
)
def test_one_line(link, line):
    with pytest.raises(InputError) as caught:
        checked_run(LINK | {"link": link}, Path("run.toml"), "")
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("elements", "line"),
    [
        ([GOOD, {"kind": "loss", "loss": ["1 dB", "2 dB"]}], r"link\.element\[1\]\.loss: 2 values given"),
        (
            [GOOD, {"kind": "filter", "bandwidth": "50 GHz", "block": [4]}],
            r"link\.element\[1\]\.block: channel 4",
        ),
        ([GOOD | {"length": "2000 km"}, AMPLIFIER], r"link\.length: a span loses 400 dB"),
        ([GOOD, AMPLIFIER | {"gain_flattening": True}], r"link\.gain_flattening: true given"),
    ],
)
def test_one_line_before_a_run(elements, line):
    with pytest.raises(InputError, match=line):
        path_of(settings(*elements))


def test_fibres_of_a_link_have_the_same_modes():
    few = {"preset": "graded-index-62.5", "groups": 2}
    run = settings(GOOD, piece("1 km", "dcf"), fibres={"dcf": dict.fromkeys(DCF) | few})
    with pytest.raises(
        InputError, match=r"fibres\.dcf: mode groups of \[1, 2\] modes given; allowed: .*\[1\]"
    ):
        path_of(run)


@pytest.mark.parallel(2)
def test_ranks_agree(comm, tmp_path_factory):
    """Three groups over two ranks: two fibres, losses by mode, a coupler of all modes."""
    few = dict.fromkeys(SMF) | {"preset": "graded-index-62.5", "groups": 3}
    elements = [piece("20 km"), {"kind": "loss", "loss": [f"{k} dB" for k in range(6)]}]
    elements += [{"kind": "mixing", "within": "all"}, AMPLIFIER, piece("5 km", "dcf"), AMPLIFIER]
    run = settings(
        *elements,
        fibre=few,
        fibres={"dcf": few | {"n2": "5e-20 m^2/W"}},
        signal={"symbols": 64},
        output={"save_field": True},
    )
    folder = comm.control.bcast(str(tmp_path_factory.mktemp("ranks")))
    run_link(run, f"{folder}/two.h5", comm=comm, warn=lambda _: None)
    if comm.rank == 0:
        run_link(run, f"{folder}/one.h5", comm=solo(comm.device), warn=lambda _: None)
        one, two = (read_result(f"{folder}/{name}.h5") for name in ("one", "two"))
        assert abs(two["field"] - one["field"]).max() < 1e-11 * abs(one["field"]).max()
    comm.control.barrier()

"""Frames are found whatever the carrier's frequency, and lost ones are said."""

import re
from dataclasses import replace

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.random_coupling import haar_unitary
from wavefabric.optics.signal.equaliser import Equaliser
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid

RATE, SYMBOLS = 32e9, 1024
#: One turn per window, Hz.
TURN = RATE / SYMBOLS


def signal(cpu, modulation="qpsk", symbols=SYMBOLS, modes=1, channels=1, rolloff=0.1, **options):
    grid = WdmGrid.centred(193.4e12, 50e9, channels, RATE, 4 * channels, symbols)
    transmitter = Transmitter(grid, modulation, rolloff, 1e-3, 3, **options)
    field = cpu.empty((2 * modes, grid.samples), np.complex128)
    transmitter.fill(cpu, field)
    return transmitter, field


def moved(field, grid, offset):
    """The field as a local oscillator sees it that is ``offset`` Hz away."""
    return field * np.exp(2j * np.pi * offset * np.arange(grid.samples) / grid.sample_rate)


def compared(cpu, receiver, field, offset):
    """Receptions without and with the offset; no frame is lost."""
    said = []
    still = receiver.receive(cpu, field, warn=said.append)
    result = receiver.receive(cpu, moved(field, receiver.transmitter.grid, offset), warn=said.append)
    assert said == []
    assert not result.lost.any()
    return still, result


@pytest.mark.parametrize("turns", [0.0, 0.3, 1.0, 1.6, 16.0, 17.25, -64.0, 128.0, -320.5, 448.0])
def test_an_offset_is_found_and_removed(cpu, turns):
    """Up to 0.43 of the symbol rate, also of whole turns per window, which no correlation survives."""
    transmitter, field = signal(cpu)
    still, result = compared(cpu, Receiver(transmitter, 12.0), field, turns * TURN)
    assert result.offset[0, 0] == pytest.approx(turns * TURN, abs=0.03 * TURN)
    assert still.offset[0, 0] == 0
    # The noise falls on other symbols: as from seed to seed.
    assert abs(result.penalty_db(still)).max() < 0.25


@pytest.mark.parametrize(
    ("options", "receiver"),
    [
        ({"modulation": "16qam"}, {"osnr_db": 17.0}),
        ({"modulation": "64qam"}, {"osnr_db": 23.0}),
        ({"modulation": "gaussian"}, {"osnr_db": 12.0}),
        ({"symbols": 64}, {"osnr_db": 15.0}),
        ({"symbols": 16384}, {"osnr_db": 9.0}),
        ({"modes": 3, "channels": 3}, {"osnr_db": 12.0}),
        ({"rolloff": 0.0}, {"osnr_db": 9.0}),
        ({"rolloff": 1.0}, {"osnr_db": 9.0}),
        ({}, {"osnr_db": 9.0, "phase": "none"}),
        ({}, {"osnr_db": 20.0, "phase_window": None}),
        ({}, {"osnr_db": 9.0, "phase": "viterbi-viterbi"}),
        ({}, {"osnr_db": 9.0, "phase": "blind-search"}),
        ({}, {"osnr_db": 9.0, "clock": "none"}),
        ({}, {"osnr_db": 9.0, "clock": "data-aided"}),
        ({"linewidth": 13e6, "symbols": 4096}, {"osnr_db": 9.0, "phase_window": 19}),
        ({}, {"osnr_db": 4.0}),
    ],
)
def test_of_every_signal_and_receiver(cpu, options, receiver):
    transmitter, field = signal(cpu, **options)
    still, result = compared(cpu, Receiver(transmitter, **receiver), field, 2.3e9)
    scatter = 4.3 / np.sqrt(2 * transmitter.grid.symbols)
    assert abs(result.penalty_db(still)).max() < 5 * scatter + 0.1


@pytest.mark.parametrize("dispersion", [1e3, 5e3, 20e3])
def test_where_dispersion_is_left(cpu, dispersion):
    transmitter, field = signal(cpu, symbols=4096)
    omega = 2 * np.pi * np.fft.fftfreq(transmitter.grid.samples, 1 / transmitter.grid.sample_rate)
    far = np.fft.ifft(np.fft.fft(field) * np.exp(0.5j * 21.7e-27 * dispersion * omega**2))
    still, result = compared(cpu, Receiver(transmitter, 15.0), far, 2e9)
    assert abs(result.penalty_db(still)).max() < 0.2
    assert (still.q_squared_db.max() < 4) == (dispersion == 20e3)


#: From a fraction of a turn per window to R_s/8.
TURNS = (0.007, 0.04, 0.5, 0.98, 1.02, 47.5, -512.0)
#: Format and OSNR, dB.
FORMATS = {
    "qpsk": 12,
    "16qam": 19,
    "64qam": 25,
    "256qam": 31,
    "1024qam": 36,
    "64qam:5.2 bit": 23,
    "gaussian": 17,
}


@pytest.mark.parametrize("modulation", FORMATS)
@pytest.mark.parametrize(
    ("rolloff", "more"),
    [
        (0.1, {}),
        (1.0, {}),
        (0.1, {"phase": "blind-search"}),
        (0.1, {"phase_window": None}),
        (0.1, {"equaliser": Equaliser(16, 1024)}),
    ],
)
def test_offsets_of_local_oscillators_cost_nothing(cpu, modulation, rolloff, more):
    """Less than 0.1 dB of Q², behind 1000 km of fibre; the estimate is that of the oscillator."""
    if modulation == "gaussian" and "phase" in more:
        pytest.skip("a blind search needs decisions")
    transmitter, field = signal(cpu, modulation, 4096, rolloff=rolloff)
    omega = -2 * np.pi * np.fft.fftfreq(transmitter.grid.samples, 1 / transmitter.grid.sample_rate)
    beta = np.array([[0.0, -21.7e-27, 1e-40]])
    phase = 1e6 * (beta[0, 1] * omega**2 / 2 + beta[0, 2] * omega**3 / 6)
    far = np.fft.ifft(np.fft.fft(field) * np.exp(1j * phase)), 1e6, beta
    receiver = Receiver(transmitter, FORMATS[modulation], **more)
    still = receiver.receive(cpu, *far)
    for turns in TURNS:
        offset = turns * RATE / 4096
        result = replace(receiver, frequency_offset=offset).receive(cpu, *far)
        assert abs(result.penalty_db(still)).max() < 0.1
        assert result.offset[0, 0] == pytest.approx(offset, abs=0.06 * RATE / 4096)


def test_each_channel_has_its_oscillator(cpu):
    transmitter, field = signal(cpu, channels=3)
    offsets = [1e9, 0.0, -2.5e9]
    result = Receiver(transmitter, 15.0, frequency_offset=offsets).receive(cpu, field)
    np.testing.assert_allclose(result.offset, [offsets], atol=TURN / 30)
    mixed = WdmGrid.centred(193.4e12, 75e9, 3, [32e9, 64e9, 32e9], 12, SYMBOLS)
    transmitter = Transmitter(mixed, ["qpsk", "16qam", "qpsk"], 0.1, 1e-3)
    field = cpu.empty((2, mixed.samples), np.complex128)
    transmitter.fill(cpu, field)
    result = Receiver(transmitter, 20.0, frequency_offset=offsets).receive(cpu, field)
    np.testing.assert_allclose(result.offset, [offsets], atol=TURN / 30)


@pytest.mark.parametrize(
    ("formats", "more"),
    [
        ("16qam", {}),
        ("16qam", {"phase_window": None}),
        ("qpsk", {"phase": "viterbi-viterbi"}),
        (["qpsk", "64qam", "pam4"], {}),
        ("16qam", {"equaliser": Equaliser(8, 512)}),
    ],
)
def test_every_device_receives_alike(device, cpu, formats, more):
    """Figures, offsets and waveforms of eyes."""
    transmitter, field = signal(cpu, formats, channels=3)
    receiver = Receiver(transmitter, 20.0, frequency_offset=[1.03e9, 0.3e6, -2.5e9], **more)
    keep = [(0, channel) for channel in range(3)]
    here = receiver.receive(cpu, field, keep=keep)
    there = receiver.receive(device, device.asarray(field), keep=keep)
    np.testing.assert_allclose(there.q_squared_db, here.q_squared_db, atol=1e-6)
    np.testing.assert_allclose(there.offset, here.offset, atol=1e-3 * TURN)
    assert sorted(there.eyes) == sorted(here.eyes)
    for key, waveform in here.eyes.items():
        np.testing.assert_allclose(there.eyes[key], waveform, atol=1e-6)


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (
            "13 GHz",
            "frequency_offset: 1.3e+10 Hz given; allowed: up to 0.4 of the symbol rate, here 1.28e+10 Hz",
        ),
        ([0, -14e9], "frequency_offset: -1.4e+10 Hz given; allowed: up to 0.4 of the symbol rate, here"),
        (
            [0, 0, 0],
            "frequency_offset: 3 values given for 2 channels; allowed: one value, or a list with one",
        ),
        ("5 ps", "frequency_offset: "),
        (float("nan"), "frequency_offset: "),
    ],
)
def test_a_wrong_offset_is_refused(cpu, offset, said):
    transmitter, _ = signal(cpu, channels=2)
    with pytest.raises(InputError, match=f"^{re.escape(said)}"):
        Receiver(transmitter, frequency_offset=offset)


#: ``late`` in samples.
@pytest.mark.parametrize("late", [0, 400])
@pytest.mark.parametrize("offset", [5e6, 1e9, 6e9])
def test_an_equaliser_of_mixed_rows(cpu, offset, late):
    """Mixing does not hide the offset; nor is a frame lost that is later than the taps hold."""
    transmitter, field = signal(cpu, "16qam", 4096, modes=2)
    receiver = Receiver(transmitter, 20.0, equaliser=Equaliser(8, 2048))
    mixed = haar_unitary(4, seed=5) @ np.roll(field, late, axis=1)
    _, result = compared(cpu, receiver, mixed, offset)
    near = receiver.receive(cpu, field)
    assert abs(result.penalty_db(near)).max() < 0.3
    assert result.offset == pytest.approx(offset, abs=1e6)
    np.testing.assert_allclose(result.delay, late / 4, atol=0.2)


def test_what_is_periodic_is_left_as_it_is(cpu):
    """Phase noise and drifts of a periodic field have no offset of a part of a turn."""
    transmitter, field = signal(cpu, linewidth=1e6)
    time = np.arange(transmitter.grid.samples) / transmitter.grid.samples
    for turn in (0.0, 1.5 * np.sin(2 * np.pi * time)):
        result = Receiver(transmitter, 15.0).receive(cpu, field * np.exp(1j * turn))
        np.testing.assert_allclose(result.offset / TURN, np.rint(result.offset / TURN), atol=1e-9)


@pytest.mark.parametrize("equaliser", [None, Equaliser(8, 512)])
@pytest.mark.parametrize("modulation", ["qpsk", "16qam", "64qam", "gaussian"])
def test_a_lost_frame_is_said(cpu, equaliser, modulation, capsys):
    transmitter, field = signal(cpu, modulation, modes=2)
    other = Transmitter(transmitter.grid, modulation, 0.1, 1e-3, seed=99)
    receiver, said = Receiver(other, 20.0, equaliser=equaliser), []
    result = receiver.receive(cpu, field, joint=(1, 1), warn=said.append)
    assert result.lost.all()
    assert len(said) == 1
    assert said[0].startswith("receiver: no frame found in mode 1, channel 1 (and 1 more): ")
    receiver.receive(cpu, field)
    assert "wavefabric: warning: receiver: no frame" in capsys.readouterr().err


def test_a_dark_signal_is_not_lost(cpu):
    transmitter, field = signal(cpu, channels=3)
    dark = Transmitter(transmitter.grid, "qpsk", 0.1, [1e-3, 0.0, 1e-3], 3)
    dark.fill(cpu, field)
    assert not Receiver(dark, 12.0).receive(cpu, field, warn=pytest.fail).lost.any()

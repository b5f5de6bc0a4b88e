"""Channels that differ in a run file: their order, and what is refused in one line."""

import copy
import tomllib
from pathlib import Path

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.link.build import build_fibre, build_receiver, build_transmitter
from wavefabric.optics.run_file.load import checked_run

RUN = """
[fibre]
preset = "single-mode"
[link]
length = "80 km"
[signal]
modulation = ["16qam", "qpsk", "64qam:5.2 bit"]
symbol_rate = ["32 GBaud", "64 GBaud", "96 GBaud"]
rolloff = [0.1, 0.2, 0.05]
symbols = 64
samples_per_symbol = 16
launch_power = ["0 dBm", "3 dBm", "5 dBm"]
frequencies = ["193.3 THz", "193.4 THz", "193.5 THz"]
[solver]
step = "1 km"
"""


def read(**changes):
    """The run file with ``changes``: keys of [signal], or values of other tables such as ``link__spans``."""
    tables = copy.deepcopy(tomllib.loads(RUN))
    for key, value in changes.items():
        *path, name = key.split("__") if "__" in key else ("signal", key)
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[name] = value
    return checked_run(tables, Path("run.toml"), "")


def transmitter(**changes):
    run = read(**changes)
    sent = build_transmitter(run, 1)
    build_receiver(run, sent, build_fibre(run, lambda _: None))
    return sent


def test_lists_follow_the_frequencies():
    """Channels are sorted by frequency, and their rates, formats, roll-offs and powers with them."""
    turned = transmitter(frequencies=["193.4 THz", "193.3 THz", "193.5 THz"], symbols=32)
    assert turned.grid.symbol_rate == (64e9, 32e9, 96e9)
    assert [form.name for form in turned.formats] == ["qpsk", "16qam", "64qam:5.2 bit"]
    assert turned.rolloff == (0.2, 0.1, 0.05)
    np.testing.assert_allclose(turned.powers(1)[0] * 1e3, 10 ** np.array([0.3, 0, 0.5]))


def test_a_list_of_one_value_is_that_value():
    lists = read(symbol_rate=["32 GBaud"] * 3, modulation=["qpsk"] * 3, rolloff=[0.1] * 3)
    plain = read(symbol_rate="32 GBaud", modulation="QPSK", rolloff=0.1)
    assert lists.signal.wdm_grid == plain.signal.wdm_grid
    assert build_transmitter(lists, 1).parts[0][1].format == build_transmitter(plain, 1).format
    assert plain.signal.modulation == "qpsk"


LIST = "allowed: one value, or a list with one for each channel"
OOK = {"modulation": ["ook", "qpsk", "16qam"]}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"symbol_rate": ["32 GBaud"]}, f"signal.symbol_rate: 1 values given for 3 channels; {LIST}"),
        ({"modulation": ["qpsk"] * 4}, f"signal.modulation: 4 values given for 3 channels; {LIST}"),
        ({"rolloff": [0.1, 0.2]}, f"signal.rolloff: 2 values given for 3 channels; {LIST}"),
        ({"launch_power": ["0 dBm"] * 2}, "signal.launch_power: 2 powers given, there are 3 channels"),
        ({"symbol_rate": [32, 64, 96]}, "signal.symbol_rate: 32 has no unit; give text with a unit"),
        (
            {"symbol_rate": ["32 GBaud", "64 GBaud", "x"]},
            'signal.symbol_rate: "x" cannot be read as a quantity',
        ),
        (
            {"symbol_rate": ["32 GBaud", "64 GBaud", "-96 GBaud"]},
            'signal.symbol_rate: "-96 GBaud" given; allowed',
        ),
        (
            {"symbol_rate": ["32 GBaud", "64 GBaud", "96 km"]},
            'signal.symbol_rate: "96 km" has the unit "km"; allowed',
        ),
        ({"symbol_rate": ["32 GBaud", ["64 GBaud"], "96 GBaud"]}, "signal.symbol_rate: one value is allowed"),
        ({"symbol_rate": []}, "signal.symbol_rate: one value is allowed, a list of 0 was given"),
        (
            {"symbol_rate": ["32 GBaud", "33 GBaud", "64 GBaud"], "symbols": 100},
            "signal.symbols: 100 at the lowest symbol rate, 32 GBaud, take 3.125 ns, in which channel 2 at "
            "33 GBaud has 103.125 symbols; allowed: multiples of 32, such as 96 (3 ns) or 128 (4 ns)",
        ),
        (
            {"symbol_rate": ["32 GBaud", "128 GBaud", "96 GBaud"]},
            "signal.frequencies: channels 100 GHz apart overlap",
        ),
        ({"samples_per_symbol": 8}, "signal.samples_per_symbol: 8 given simulates 256 GHz, but the channels"),
        ({"rolloff": [0.1, 1.5, 0.1]}, "signal.rolloff: 1.5 given; allowed: up to 1"),
        ({"rolloff": [0.1, "0.1", 0.1]}, 'signal.rolloff: "0.1" given; allowed: a number'),
        ({"rolloff": [0.1, True, 0.1]}, "signal.rolloff: true given; allowed: a number"),
        ({"modulation": ["16qam", "8psk", "qpsk"]}, "signal.modulation: '8psk' given, one of qpsk, 16qam"),
        ({"modulation": ["16qam", 16, "qpsk"]}, "signal.modulation: 16 given, one of qpsk, 16qam"),
        (
            {"modulation": "64qam:7 bit"},
            "signal.modulation: '64qam:7 bit' given; allowed with an entropy: 2.01 to 6",
        ),
        (
            {"modulation": "64qam:1 bit"},
            "signal.modulation: '64qam:1 bit' given; allowed with an entropy: 2.01 to 6",
        ),
        ({"modulation": "64qam:5.2 dB"}, "signal.modulation: '64qam:5.2 dB' given; allowed with an entropy"),
        (
            {"modulation": "qpsk:1.5 bit"},
            "signal.modulation: 'qpsk:1.5 bit' given; allowed with an entropy: 16qam to",
        ),
        ({"receiver__phase": "viterbi-viterbi"}, "receiver.phase: 'viterbi-viterbi' given for 16qam, auto"),
        (OOK | {"receiver__phase": "blind-search"}, "receiver.phase: 'blind-search' given for ook, auto"),
        (
            OOK | {"link__mix_groups": True},
            'signal.modulation: "ook" given, whose direct detection cannot undo link',
        ),
        (
            OOK | {"link__mode_dependent_gain": "1 dB"},
            "cannot undo link.mode_dependent_gain; allowed: without it",
        ),
        (
            OOK | {"receiver__equaliser": "mimo"},
            'cannot undo receiver.equaliser = "mimo"; allowed: without it',
        ),
        (OOK | {"receiver__back_propagation__step": "1 km"}, "cannot undo receiver.back_propagation"),
        (
            OOK | {"fibre__random_coupling": {"correlation_length": "10 m"}},
            "cannot undo fibre.random_coupling; allowed: without it, or a coherent format",
        ),
        (
            {"receiver__equaliser": "mimo", "receiver__training": 100},
            "receiver.training: 100 given; allowed: 2 x 2 rows x 16 taps = 64 or more, and fewer than the 64",
        ),
        ({"waveform": "none.npy"}, 'signal.waveform: "none.npy" does not exist'),
    ],
)
def test_wrong_inputs(changes, line):
    with pytest.raises(InputError) as caught:
        transmitter(**changes)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)

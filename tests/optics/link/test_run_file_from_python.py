"""A run file run from Python is what the command runs."""

import os
from pathlib import Path

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.cli import main
from wavefabric.optics import run_link
from wavefabric.optics.run_file.load import checked_run, load

RUN = """\
[fibre]
preset = "single-mode"
[link]
length = "40 km"
[signal]
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 4
launch_power = "6 dBm"
channels = 1
centre_frequency = "193.4 THz"
[receiver]
osnr = "20 dB"
[solver]
step = "2 km"
device = "cpu"
threads = 1
[output]
save_field = true
checkpoint_every = 5
checkpoint_interval = "0 s"
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.toml").write_text(RUN)
    return "link.toml"


def same(one, other):
    one, other = read_result(one), read_result(other)
    assert list(one) == list(other)
    for key in one:
        assert np.array_equal(one[key], other[key], equal_nan=key.startswith("received")), key


def stop_after(steps):
    """Ctrl-C after so many steps of the span."""
    from wavefabric.base.system.progress import Progress

    class Stop(Progress):
        inside = False

        def start(self, total_steps, label):
            self.inside = label.startswith("span")

        def update(self, done, message=""):
            if self.inside and done == steps:
                os.kill(os.getpid(), 2)

    return Stop()


@pytest.mark.slow
def test_its_result_is_that_of_the_command(file):
    result = run_link(load(file).with_theory(), "python.h5")
    with pytest.raises(SystemExit) as end:
        main(["run", file, "-o", "command.h5", "--quiet"])
    assert end.value.code == 0
    same(result.path, "command.h5")
    assert read_result(result.path).attrs("solver")["steps"] == 20


def test_it_writes_where_the_run_file_says_and_replaces_nothing(file):
    assert str(run_link(file).path) == "link.h5"
    before = os.stat("link.h5").st_ino
    with pytest.raises(InputError, match=r"output\.file: link\.h5 exists"):
        run_link(file)
    assert os.stat("link.h5").st_ino == before
    run_link(file, force=True)
    assert os.stat("link.h5").st_ino != before


@pytest.mark.slow
def test_it_goes_on_from_a_checkpoint(file):
    with pytest.raises(KeyboardInterrupt):
        run_link(file, "parts.h5", progress=stop_after(12))
    assert os.path.exists("parts.h5.checkpoint")
    run_link(file, "parts.h5")
    same(run_link(file, "whole.h5").path, "parts.h5")
    assert not os.path.exists("parts.h5.checkpoint")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"40 km"', '"40 kg"', r'^link\.length: "40 kg" has the unit "kg"'),
        ("symbols = 64", "symbols = 1", r"^signal\.symbols: "),
        ('"2 km"', '"80 km"', r"^solver\.step: 80000 m given"),
        ("[link]", "[lonk]", "^lonk: unknown"),
    ],
)
def test_bad_input_is_one_line_that_names_the_key(file, tmp_path, old, new, message):
    (tmp_path / file).write_text(RUN.replace(old, new))
    with pytest.raises(InputError, match=message) as error:
        run_link(file)
    assert "\n" not in str(error.value)
    assert os.listdir() == [file]


def test_a_missing_file_is_named():
    with pytest.raises(InputError, match=r"nowhere\.toml"):
        run_link("nowhere.toml")


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize(
    ("key", "unit"),
    [
        ("fibre.attenuation", "1/m"),
        ("fibre.attenuation", "dB/km"),
        ("fibre.gamma", "1/W/m"),
        ("fibre.beta2", "s^2/m"),
        ("fibre.beta3", "s^3/m"),
        ("fibre.wavelength", "m"),
        ("fibre.attenuation_slope", "1/m/Hz"),
        ("link.length", "m"),
        ("link.noise_figure", "dB"),
        ("link.gain", "dB"),
        ("link.gain_tilt", "1/Hz"),
        ("link.mode_dependent_gain", "dB"),
        ("signal.symbol_rate", "Hz"),
        ("signal.launch_power", "W"),
        ("signal.launch_power", "dBm"),
        ("signal.linewidth", "Hz"),
        ("signal.centre_frequency", "Hz"),
        ("receiver.osnr", "dB"),
        ("receiver.linewidth", "Hz"),
        ("solver.step", "m"),
        ("output.power_every", "m"),
        ("output.checkpoint_interval", "s"),
    ],
)
def test_quantities_that_overflow_inside_are_refused(key, unit, sign):
    """Finite in their unit, and beyond any use: each has its limit."""
    tables = {
        "fibre": {"preset": "single-mode"},
        "link": {"length": "2 km"},
        "signal": {
            "symbol_rate": "32 GBaud",
            "symbols": 64,
            "samples_per_symbol": 4,
            "launch_power": "1 mW",
            "channels": 1,
            "centre_frequency": "193.4 THz",
        },
        "solver": {"step": "200 m"},
    }
    table, _, name = key.partition(".")
    tables[table] = tables.get(table, {}) | {name: f"{sign}1e300 {unit}"}
    if key == "output.checkpoint_interval" and not sign:
        return  # no checkpoint, that is
    with pytest.raises(InputError, match=key.replace("output.power_every", "output")):
        checked_run(tables, Path("x.toml"), "")

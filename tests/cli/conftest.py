"""A sound run file, and the command run in this process."""

import pytest

from wavefabric.base.system.compilation_clock import CLOCK
from wavefabric.cli import main

GOOD = """\
title = "test"
seed = 1

[fibre]
preset = "graded-index-62.5"
groups = 2
attenuation = "0.23 dB/km"

[link]
length = "80 km"
spans = 2

[signal]
modulation = "qpsk"
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 16
rolloff = 0.1
launch_power = "-1 dBm"
channels = 3
spacing = "50 GHz"
centre_frequency = "193.4 THz"

[receiver]
osnr = "20 dB"

[solver]
integrator = "rk4ip"
step = "1 km"
"""


@pytest.fixture
def run_text():
    return GOOD


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run ``wavefabric ...`` in an empty folder; gives exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    # Whether kernels have to be compiled depends on which tests ran before.
    monkeypatch.setattr(CLOCK, "announce", lambda: None)

    def call(*words):
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        shown = capsys.readouterr()
        return left.value.code, shown.out, shown.err

    return call

"""Small results, and what commands print."""

import contextlib
import io

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
from wavefabric.cli import main

LINK = """\
title = "a <script>alert(1)</script> & link"
seed = 1

fibre = {preset = "graded-index-62.5", groups = 2, attenuation = "0.23 dB/km"}
link.length = "4 km"
receiver.osnr = "20 dB"
solver = {step = "500 m", device = "cpu", threads = 1}
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
"""
_SECONDS = {"step": 0.012, "compute": 0.01, "pack": 0.001, "exchange": 0.003, "exposed": 0.001}
_ALONE = {"options": {}, "carrier": "mpi", "bytes": 4000, "sent": 0.0}
_ALONE["seconds"] = {"step": 0.02, "compute": 0.02, "pack": 0.0, "exchange": 0.0, "exposed": 0.0}
_PAIR = {
    "options": {"decomposition": "local", "grid": "1x1x2"},
    "carrier": "p2p",
    "bytes": 2000,
    "sent": 1.0,
}
_PAIR["seconds"] = _SECONDS
PLAN = {
    "problem": "64 x 64 x 64 <b>",
    "device": "h200",
    "fabric": "hgx-h200",
    "ranks": 2,
    "steps": 10,
    "memory": 3000,
}
PLAN = {"kind": "wavefabric plan", "plan": PLAN | {"candidates": [_PAIR, _ALONE]}}


def said(*words):
    """What a command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as left:
        main(list(words))
    assert not left.value.code
    return out.getvalue()


def wave(path, shape=(20, 16, 12), **sensor):
    """A result of ultrasound from a pulse off the middle."""
    grid = Grid(shape, 1e-4, pml_size=4)
    pulse = np.zeros(shape)
    pulse[tuple(n // 3 for n in shape)] = 2e5
    how = {"dt": 1e-8, "steps": 12, "device": "cpu", "threads": 1}
    result = simulate(grid, Medium(1500.0, 1000.0), Source(p0=pulse), Sensor(**sensor), **how)
    return result.save(path, force=True)

"""Checkpoints of a link: field and position belong together, and a full disk is survived."""

import os

import numpy as np
import pytest

from wavefabric.base.results import read_result
from wavefabric.optics.link import run as links
from wavefabric.optics.run_file import load
from wavefabric.runtime.lifecycle.checkpoint import file as checkpoint_file
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RankCheckpoint

RUN = """\
[fibre]
preset = "graded-index-62.5"
groups = 2
[link]
length = "40 km"
spans = 2
[signal]
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 4
launch_power = "6 dBm"
channels = 1
spacing = "50 GHz"
centre_frequency = "193.4 THz"
[solver]
step = "2 km"
[output]
save_field = true
figures = false
checkpoint_every = 5
checkpoint_interval = "0 s"
"""


class Stop:
    """Ctrl-C after a step of the second span."""

    def __init__(self, step):
        self.step = step

    def start(self, total, what):
        self.inside = what.startswith("span 2")

    def update(self, done, text=""):
        if self.inside and done == self.step:
            os.kill(os.getpid(), 2)

    def finish(self):
        pass


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    return load.load(tmp_path / "run.toml").with_solver(device="cpu", threads=1)


def same(one, other):
    one, other = read_result(one), read_result(other)
    for key in one:
        assert np.array_equal(one[key], other[key], equal_nan=key.startswith("received")), key


@pytest.mark.slow
def test_state_and_field_are_read_together(run, tmp_path, monkeypatch):
    """Whatever another process does to the file in between, the position is that of the field."""
    saved = {}
    for step in (7, 13):
        with pytest.raises(KeyboardInterrupt):
            links.run_link(run, tmp_path / "parts.h5", progress=Stop(step))
        saved[step] = (tmp_path / "parts.h5.checkpoint").read_bytes()
    assert saved[7] != saved[13]
    (tmp_path / "parts.h5.checkpoint").write_bytes(saved[7])
    read = RankCheckpoint.read_state

    def read_and_replace(*words):
        result = read(*words)
        (tmp_path / "parts.h5.checkpoint").write_bytes(saved[13])
        return result

    monkeypatch.setattr(RankCheckpoint, "read_state", read_and_replace)
    links.run_link(run, tmp_path / "parts.h5")
    monkeypatch.undo()
    links.run_link(run, tmp_path / "whole.h5")
    same(tmp_path / "whole.h5", tmp_path / "parts.h5")
    assert sorted(os.listdir(tmp_path)) == ["parts.h5", "run.toml", "whole.h5"]


def test_a_full_disk_at_a_later_checkpoint(run, tmp_path, monkeypatch):
    written, plain = [], checkpoint_file._write

    def full(*words):
        written.append(1)
        if len(written) > 1:
            raise OSError(28, "No space left on device")
        plain(*words)

    monkeypatch.setattr(checkpoint_file, "_write", full)
    with pytest.warns(RuntimeWarning, match=r"parts\.h5\.checkpoint: No space .*; the run continues"):
        links.run_link(run, tmp_path / "parts.h5")
    assert len(written) >= 8
    monkeypatch.undo()
    links.run_link(run, tmp_path / "whole.h5")
    same(tmp_path / "whole.h5", tmp_path / "parts.h5")


def test_a_full_disk_at_the_first_checkpoint(run, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_file, "_write", full)
    with pytest.raises(OSError, match=r"parts\.h5\.checkpoint"):
        links.run_link(run, tmp_path / "parts.h5")
    assert os.listdir(tmp_path) == ["run.toml"]

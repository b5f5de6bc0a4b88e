"""A link that is simulated in some hundredths of a second."""

import pytest

RUN = """\
title = "small"
seed = 1
[fibre]
preset = "graded-index-62.5"
groups = 2
[link]
length = "40 km"
spans = 2
[signal]
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 8
launch_power = "8 dBm"
channels = 2
spacing = "50 GHz"
centre_frequency = "193.4 THz"
[receiver]
osnr = "20 dB"
[solver]
device = "cpu"
threads = 1
integrator = "strang"
step = "4 km"
"""


@pytest.fixture
def run_file(tmp_path, monkeypatch):
    """The path of its run file, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.toml").write_text(RUN)
    return tmp_path / "link.toml"


@pytest.fixture
def shared_run_file(comm, tmp_path_factory):
    """The same for all ranks, in one folder."""
    folder = comm.control.bcast(tmp_path_factory.mktemp("sweep") if comm.rank == 0 else None)
    if comm.rank == 0:
        (folder / "link.toml").write_text(RUN)
    comm.control.barrier()
    return folder / "link.toml"

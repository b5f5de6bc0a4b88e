"""The examples of fibre.md, transmission.md and run-files.md in docs/ that need no file run as they stand."""

import re
from pathlib import Path

import numpy as np

from wavefabric.optics.run_file import load
from wavefabric.results import read_result

DOCS = Path(__file__).parents[2] / "docs"


def example(page: str, heading: str, number: int = 0) -> str:
    """A Python example below a heading."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text[text.index(f"\n## {heading}\n") :], re.S)[number]


def test_a_fibre_from_its_coefficients():
    names = {}
    exec(example("fibre.md", "From β and κ alone"), names)
    assert names["fibre"].modes == 2
    np.testing.assert_allclose(names["fibre"].beta[1, :2], [8e-15, -22.4e-27])


def test_what_theory_expects():
    names = {}
    exec(example("transmission.md", "What theory expects"), names)
    assert (names["after"].q_squared_db < 15.92).all()
    assert names["after"].nli.shape == (1, 5)


def test_a_link_from_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(example("run-files.md", "From a script", 1), names)
    assert names["q_squared_db"].shape == (1, 3)
    result = read_result(tmp_path / "script.h5")
    np.testing.assert_allclose(result["signal/launch_power"], [[10**-2.9, 1e-3, 10**-2.9]])
    # The same from a file: `load` is the other way to a RunFile.
    text = """
seed = 1
[fibre]
preset = "single-mode"
attenuation = "0.2 dB/km"
[link]
length = "80 km"
spans = 2
noise_figure = "5 dB"
[signal]
symbol_rate = "32 GBaud"
symbols = 256
samples_per_symbol = 8
launch_power = ["1 dBm", "0 dBm", "1 dBm"]
channels = 3
spacing = "50 GHz"
centre_frequency = "193.4 THz"
[receiver]
osnr = "20 dB"
[solver]
step = "2 km"
"""
    (tmp_path / "link.toml").write_text(text)
    assert load.load(tmp_path / "link.toml").identity() == names["run"].identity()
    whole = {}
    exec(example("run-files.md", "From a script"), whole)
    assert whole["q_squared_db"].shape == (1, 3)

"""Examples of fibre.md, links.md, transmission.md, run-files.md and sweeps.md in docs run as they stand."""

import re
from pathlib import Path

import numpy as np
import pytest

from wavefabric.base.results import read_result
from wavefabric.optics import sweep
from wavefabric.optics.run_file import load
from wavefabric.optics.sweeps.points import make_grid

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


def test_one_mode_by_d_and_slope():
    names = {}
    exec(example("fibre.md", "One mode: D, slope, tables, A_eff"), names)
    np.testing.assert_allclose(names["data_sheet"].beta[0, 1:3], [-21.6826e-27, 0.126783e-39], rtol=1e-5)
    np.testing.assert_allclose(names["any_order"].beta[0, 3:], [-4e-55, 1e-69])


@pytest.mark.slow
def test_fields_along_a_fibre(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(example("fibre.md", "Fields along the fibre"), names)
    peaks = (abs(names["fields"]) ** 2).max(axis=(1, 2))
    np.testing.assert_allclose(peaks[[20, 40]], np.array([4, 1]) * 0.7845**2, rtol=3e-3)
    assert (tmp_path / "soliton.gif").stat().st_size > 50_000


def test_a_multicore_fibre(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(example("fibre.md", "Multicore fibres"), names)
    np.testing.assert_allclose(names["shifts"] / names["kappa"], [2, -1, -1], rtol=2e-2)
    np.testing.assert_allclose((abs(names["amplitudes"]) ** 2).sum(), 1)
    np.testing.assert_allclose(names["kappa"], 150, atol=1)
    assert names["fibre"].labels == ("SM1", "SM2", "SM3")
    assert names["uncoupled"].labels == ("core 1", "core 2", "core 3")
    assert (tmp_path / "supermodes.png").exists()


def test_powers_under_raman_scattering():
    names = {}
    exec(example("fibre.md", "Stimulated Raman scattering"), names)
    assert names["power"].shape == (60, 120, 101)
    assert names["factor"].shape == (15, 1000)
    np.testing.assert_allclose([names["largest"], np.abs(names["gain"]).max()], 1.28, atol=0.01)
    np.testing.assert_allclose(np.ptp(names["triangular"].gain_db()[:, 0]), 2.2, atol=0.05)


def test_a_gradient():
    names = {}
    exec(example("links.md", "Gradients, and learned back-propagation"), names)
    assert names["result"].field.shape == (2, 256)
    assert (names["result"].nonlinear_factors != 0).all()


def test_an_equaliser_from_a_script(capsys):
    names = {}
    exec(example("transmission.md", "The equaliser"), names)
    np.testing.assert_allclose(names["result"].q_squared_db, 24 - 10 * np.log10(32 / 12.5), atol=0.3)
    assert names["result"].gmi.min() > 3.98
    assert capsys.readouterr().out


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


LINK = """
[fibre]
preset = "single-mode"
[link]
length = "80 km"
[signal]
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 4
launch_power = "0 dBm"
channels = 1
centre_frequency = "193.4 THz"
[receiver]
osnr = "20 dB"
[solver]
device = "cpu"
threads = 1
step = "2 km"
"""


def test_a_sweep_from_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.toml").write_text(LINK)
    names = {}
    exec(example("sweeps.md", "The result"), names)
    assert names["q"].shape == (3, 2, 2, 1, 1)
    assert list(names["power"]) == [0, 4, 8]
    assert len(names["best"]) == 2


def test_the_axes_of_the_page_on_sweeps(tmp_path):
    text = (DOCS / "sweeps.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    (tmp_path / "link.toml").write_text(LINK + table)
    grid = make_grid(tmp_path / "link.toml")
    assert grid.shape == (5, 3, 2)
    assert grid.points[-1].values["solver.step"] == "1 km"
    sets = dict(re.findall(r'--set "(.*?)=(.*?)"', text))
    (both,) = re.findall(r'--zip "(.*?)=(.*?); (.*?)=(.*?)"', text)
    (tmp_path / "plain.toml").write_text(LINK)
    assert make_grid(tmp_path / "plain.toml", sets).shape == (5, 3)
    assert make_grid(tmp_path / "link.toml", {both[::2]: list(both[1::2])}).shape == (5, 3, 2)
    # Every key of the result stands on the page.
    result = sweep(
        make_grid(tmp_path / "link.toml", {"signal.launch_power": "0 dBm", "seed": [1]}),
        output=tmp_path / "s.h5",
    )
    for name in result:
        assert f"`{name}`" in text or name in (*result.axes, "solver.step", "link.length", "mode_group"), name

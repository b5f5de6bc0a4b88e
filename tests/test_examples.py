"""The examples run as they stand; of the focused bowl, whose simulation takes a minute, the picture alone."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from wavefabric.acoustics import Grid

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.slow


def test_the_picture_of_the_focused_bowl(tmp_path):
    example = runpy.run_path(str(EXAMPLES / "focused_bowl.py"))
    grid = Grid((14, 14, 86), (5e-3, 5e-3, 1e-3), pml_size=2, pml_inside=False)
    field = np.random.default_rng(1).uniform(1e5, 1e6, grid.shape)
    apex = grid.coordinates[2][0] + 3.25e-3
    example["draw"](grid, apex, [field, field], field[7, 7], [1e6, 1e6], tmp_path / "bowl.png")
    assert (tmp_path / "bowl.png").stat().st_size > 20_000


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("allreduce_on_light", "all-reduce.json"),
        ("ranks_ultrasound", "ranks: 1, undivided"),
        ("collectives", "1 ranks by solo on cpu"),
        ("time_reversal", "time_reversal.png"),
    ],
)
def test_an_example_runs(tmp_path, monkeypatch, capsys, name, last):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert last in capsys.readouterr().out


@pytest.mark.parallel(2)
def test_collectives_between_ranks(capsys):
    ran = runpy.run_path(str(EXAMPLES / "collectives.py"), run_name="__main__")
    assert ("2 ranks by" in capsys.readouterr().out) == (ran["comm"].rank == 0)


def test_back_propagation_gains(tmp_path):
    """The example with few symbols and one power: the band gains more than a channel by itself."""
    example = runpy.run_path(str(EXAMPLES / "back_propagation.py"))
    best = list(example["main"](tmp_path, symbols=128, powers=[3]).values())
    assert best[0] < best[1] < best[2] - 3
    assert [path.name for path in tmp_path.iterdir()] == ["back-propagation.png"]


def test_gradients_beat_time_reversal(tmp_path):
    example = runpy.run_path(str(EXAMPLES / "photoacoustic_gradient.py"))
    one_pass, iterated, gradients = example["main"](tmp_path, 20)
    assert gradients < 0.9 * iterated < 0.6 * one_pass


def test_waveform_inversion_halves_the_error(tmp_path):
    example = runpy.run_path(str(EXAMPLES / "full_waveform_inversion.py"))
    errors = example["main"](tmp_path, 2)
    assert errors[0] == 0
    assert errors[-1] < errors[1] / 2


def test_phases_are_those_of_time_reversal(tmp_path):
    example = runpy.run_path(str(EXAMPLES / "skull_phase_correction.py"))
    figures = example["main"](tmp_path, 4)
    at = {name: amplitude for name, (amplitude, *_) in figures.items()}
    assert at["gradient"] > 1.5 * at["geometric delays"]
    assert at["gradient"] == pytest.approx(at["time reversal"], rel=0.01)
    assert figures["gradient"][1] < 0.3 < figures["geometric delays"][1]  # mm off the target


def test_learned_back_propagation_gains(tmp_path):
    """The example with few symbols, spans and iterations: learned parameters beat the fibre's own."""
    example = runpy.run_path(str(EXAMPLES / "learned_back_propagation.py"))
    linear, plain, learned, fine = example["main"](tmp_path, 256, [6], 4, 20).values()
    assert linear < plain < learned - 0.5
    assert learned < fine
    assert [path.name for path in tmp_path.iterdir()] == ["learned-back-propagation.png"]

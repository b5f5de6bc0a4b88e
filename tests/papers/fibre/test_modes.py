"""Modes of the fibre against the tables of the paper."""

import io
import json
import os

import pytest
from rich.console import Console

from papers.fibre import modes

pytestmark = pytest.mark.slow


def test_tables_and_figure(tmp_path):
    result = modes.compare(step=0.05e-6, steps=(0.1e-6, 0.05e-6))
    assert json.loads(json.dumps(result))["counts"]["spatial_modes_groups_1_to_15"] == 120
    assert result["a_eff"]["largest_percent"] < 3
    assert result["a_eff"]["rms_percent"] < 1.5
    console = Console(record=True, width=120, file=io.StringIO())
    for part in modes.table(result):
        console.print(part)
    assert "LP14,1" in console.export_text()
    modes.plot(result, tmp_path / "modes.png")
    assert (tmp_path / "modes.png").stat().st_size > 10_000


def test_modes(numbers):
    result = numbers(modes, "--radial-step", "0.04 um")
    assert result["counts"]["spatial_modes_groups_1_to_15"] == 120
    assert result["a_eff"]["largest_percent"] < 3
    assert result["machine"]["python"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--radial-step", "0 um"], "step"),
    ],
)
def test_bad_options_give_one_line(script, words, part):
    code, out, err = script(modes, *words, "-o", ".")
    assert (code, out) == (2, "")
    assert err.startswith("wavefabric: error: ")
    assert err.count("\n") == 1
    assert part in err
    assert os.listdir() == []

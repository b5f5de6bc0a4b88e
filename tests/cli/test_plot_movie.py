"""`wavefabric plot --movie`."""

import numpy as np
import pytest
from PIL import Image

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate


def test_the_command(command, tmp_path):
    grid = Grid((12, 10, 9), 1e-4, pml_size=3)
    source = Source(p0=np.random.default_rng(1).normal(size=grid.shape))
    plane = Sensor.boxes(((1, 2, 4), (9, 7, 4)))
    simulate(grid, Medium(1500.0, 1000.0), source, plane, dt=2e-8, steps=12, output=tmp_path / "ours.h5")
    code, said, err = command("plot", "ours.h5", "--movie", "p", "--every", "4", "--fps", "5")
    assert (code, err) == (0, "")
    assert "wrote ours-p-0.gif" in said
    with Image.open(tmp_path / "ours-p-0.gif") as image:
        assert image.n_frames == 3
    for words, line in (
        (("--movie", "p"), "ours-p-0.gif exists"),
        (("--fps", "3"), "--fps: 3 given without --movie"),
        (("--movie", "p", "--quantity", "p"), "--quantity"),
        (("--movie", "p", "--fps", "0", "--force"), "--fps: 0 given; allowed: 1 to 100"),
        (("--movie", "p", "--every", "0", "--force"), "--every: 0 given; allowed: a whole number from 1"),
        (("--movie", "p", "-o", "x.avi"), "x.avi for a movie; allowed: .gif, .mp4"),
    ):
        code, _, err = command("plot", "ours.h5", *words)
        assert code == 2
        assert line in err


@pytest.mark.slow
def test_the_light_of_a_run_along_its_fibre(command, tmp_path, run_text):
    text = (
        run_text.replace("80 km", "4 km").replace("channels = 3", "channels = 1").replace("\nspacing", "\n#")
    )
    snapshots = '[output]\nfigures = false\npower_every = "1 km"\nsnapshots = ["1 km", "3 km", "8 km"]\n'
    (tmp_path / "run.toml").write_text(text + snapshots)
    assert command("run", "run.toml", "-q")[0] == 0
    code, said, err = command("plot", "run.h5", "--movie", "power", "--mode", "2")
    assert (code, err) == (0, "")
    assert "wrote run-power.gif" in said
    with Image.open(tmp_path / "run-power.gif") as image:
        assert image.n_frames == 3
    assert command("plot", "run.h5", "--movie", "spectrum", "-o", "s.gif")[0] == 0
    assert (tmp_path / "s.gif").stat().st_size > 10_000
    for words, line in (
        (("--movie", "power"), "--output: run-power.gif exists"),
        (("--movie", "p"), '--movie: "p" given; allowed: power, spectrum'),
        (("--movie", "power", "--mode", "9"), "mode: 9; allowed: whole numbers from 1 to 3"),
        (("--movie", "power", "--every", "2"), "--every: 2 given with --movie of a fibre; allowed: without"),
        (("--movie", "power", "--format", "svg"), "--format: svg given with --movie of a fibre"),
        (("--movie", "power", "--quantity", "p"), "--quantity: p given with a result of a fibre"),
    ):
        code, _, err = command("plot", "run.h5", *words)
        assert (code, err.count("\n")) == (2, 1)
        assert line in err
    (tmp_path / "run-3km.h5").unlink()
    (tmp_path / "run-8km.h5").unlink()
    line = "--movie: 1 snapshots of 1 runs beside run.h5; allowed: two or more of one run"
    assert line in command("plot", "run.h5", "--movie", "power")[2]
    (tmp_path / "run.toml").write_text(
        text.replace("seed = 1", "seed = 2") + snapshots.replace('"1 km", ', "")
    )
    assert command("run", "run.toml", "-q", "--force")[0] == 0
    line = "--movie: 3 snapshots of 2 runs beside run.h5"
    assert line in command("plot", "run.h5", "--movie", "power")[2]

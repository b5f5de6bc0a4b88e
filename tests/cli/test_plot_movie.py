"""`wavefabric plot --movie`."""

import numpy as np
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

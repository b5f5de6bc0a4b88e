"""A folder with a small result of each kind."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from report_cases import LINK, PLAN, said, wave

from wavefabric.collectives import build, save
from wavefabric.optics.link.run import run_link

KWAVE = Path(__file__).parents[1] / "data" / "kwave" / "dirichlet_2d_out.h5"


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """A folder with a result of each kind; not to be written to."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "run.toml").write_text(LINK)
    run_link(folder / "run.toml", folder / "link.h5", warn=lambda text: None)
    swept = "--set", "signal.launch_power=-2:0:2 dBm", "-o", str(folder / "sweep.h5")
    said("sweep", str(folder / "run.toml"), *swept)
    mask = np.zeros((20, 16, 12), bool)
    mask[2:10, 3:12, 5] = True
    wave(folder / "wave.h5", mask=mask, record=("p", "p_max_all", "p_final", "p_max"))
    shutil.copy(KWAVE, folder / "kwave.h5")
    save(folder / "ring.json", build("ring", "all-reduce", 4, 8))
    said("collective", "tune", "--fabric", "switch:4", "--sizes", "4K:64K", "-o", str(folder / "tuning.json"))
    words = "train", "bert-large", "--gpus", "4", "--json", "--fabric"
    (folder / "train.json").write_text(said(*words, "switch:4"))
    (folder / "compare.json").write_text(said(*words, "switch:4,ring:4", "--compare"))
    (folder / "plan.json").write_text(json.dumps(PLAN))
    (folder / "other.json").write_text('{"something": "else"}')
    return folder


@pytest.fixture
def copy(results, tmp_path):
    """Copy results by name into an empty folder, and give it."""

    def make(*names):
        folder = tmp_path / "out"
        folder.mkdir()
        for name in names:
            shutil.copy(results / name, folder)
        return folder

    return make

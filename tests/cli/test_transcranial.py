"""`wavefabric transcranial`: a small head from a file, its result and its page."""

import json

import h5py
import numpy as np

from wavefabric.acoustics import synthetic_head

WORDS = (
    "--spacing", "1.5mm", "--position", "0,-42,6", "--target", "0,-12,3", "--frequency", "180 kHz",
    "--diameter", "30 mm", "--behind", "10 mm", "--points-per-wavelength", "3.2", "--on", "1", "--off", "0",
    "--device", "cpu", "--threads", "1",
)  # fmt: skip


def save_head(folder):
    head = synthetic_head("1.5 mm", semi_axes=(0.03, 0.034, 0.032), thickness=(3e-3, 1.5e-3, 2e-3, 1.5e-3))
    np.save(folder / "head.npy", head.values)


def test_a_bowl(command, tmp_path):
    save_head(tmp_path)
    code, said, err = command("transcranial", "head.npy", *WORDS, "-o", "plan.h5")
    assert (code, err) == (0, "")
    assert "peak pressure in the brain" in said
    assert "wrote plan.h5 and plan.png" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["head.npy", "plan.h5", "plan.png"]
    with h5py.File(tmp_path / "plan.h5") as file:
        peak = file["figures/peak pressure in the brain"][()]
        assert 0 < peak < 5
        assert json.loads(file["settings"][()])["diameter"] == 0.03
    code, _, err = command("transcranial", "head.npy", *WORDS, "-o", "plan.h5")
    assert code == 2
    assert "plan.h5 exists" in err
    code, said, _ = command(
        "transcranial", "head.npy", *WORDS, "-o", "plan.h5", "--force", "--no-plot", "--json"
    )
    assert code == 0
    assert json.loads(said)["figures"]["peak pressure in the brain"]["value"] == peak


def test_bad_input_is_one_line(command, tmp_path):
    save_head(tmp_path)
    for words, line in (
        ((), "--position: is missing; allowed: X,Y,Z in mm"),
        (("--position", "1,2"), "--position: 1,2 given; allowed: X,Y,Z in mm"),
        (("--position", "0,0,0", "--target", "0,0,0"), 'target: "at the transducer"'),
        (
            (*WORDS, "--correction", "no"),
            "--correction: no given (did you mean none?); allowed: time_reversal, none",
        ),
        ((*WORDS, "--elements", "0"), "elements: 0; allowed: from 1"),
        ((*WORDS[2:], "-o", "x.h5"), "spacing: null"),
    ):
        code, _, err = command("transcranial", "head.npy", *words)
        assert code == 2
        assert line in err
    assert [path.name for path in tmp_path.iterdir()] == ["head.npy"]

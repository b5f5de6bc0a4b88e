"""`wavefabric transcranial`: a small head from a file, its result and its page."""

import json

import h5py
import numpy as np
import pytest

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
            '--correction: "no" given (did you mean none?); allowed: time_reversal, none',
        ),
        ((*WORDS, "--elements", "0"), "elements: 0; allowed: from 1"),
        ((*WORDS[2:], "-o", "x.h5"), "spacing: null"),
    ):
        code, _, err = command("transcranial", "head.npy", *words)
        assert code == 2
        assert line in err
    assert [path.name for path in tmp_path.iterdir()] == ["head.npy"]


def test_a_ct_says_where_and_what_it_is(command, tmp_path):
    """An orientation of arrays turns left and right; what is no CT of a head is a warning or one line."""
    nibabel = pytest.importorskip("nibabel")
    head = synthetic_head("1.5 mm", semi_axes=(0.03, 0.034, 0.032), thickness=(3e-3, 1.5e-3, 2e-3, 1.5e-3))
    header = nibabel.Nifti1Header()
    header.set_data_dtype(np.int16)
    header.set_data_shape(head.values.shape)
    header.set_xyzt_units("mm")
    header["pixdim"][1:4], header["vox_offset"], header["magic"] = 1.5, 352, b"n+1"
    content = header.binaryblock + bytes(4) + head.values.astype(np.int16).tobytes(order="F")
    (tmp_path / "head.nii").write_bytes(content)
    code, said, err = command("transcranial", "head.nii", *WORDS[2:])
    assert (code, said) == (2, "")
    assert "head.nii says no orientation" in err
    assert len(err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["head.nii"]
    code, said, err = command("transcranial", "head.nii", *WORDS[2:], "--orientation", "RAS", "--no-plot")
    assert (code, err) == (0, "")
    assert "bone and water are not compared" in said


@pytest.mark.slow
@pytest.mark.filterwarnings("always")
def test_arrays_of_other_units(command, tmp_path):
    save_head(tmp_path)
    values = np.load(tmp_path / "head.npy")
    np.save(tmp_path / "kilo.npy", values / 1000)
    code, _, err = command("transcranial", "kilo.npy", *WORDS)
    assert code == 2
    assert "ct.values" in err
    assert "1000 HU" in err
    np.save(tmp_path / "soft.npy", np.minimum(values, 200))
    code, _, err = command("transcranial", "soft.npy", *WORDS, "--no-plot")
    assert code == 0
    assert "warning: ct: no bone: the highest value is 200 HU" in err

"""`run_kwave_file`: the command's file, continued and refused as the command does it."""

import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from wavefabric.acoustics import run_kwave_file
from wavefabric.base.errors import InputError
from wavefabric.base.system.progress import Progress
from wavefabric.cli import app
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

D2 = Path(__file__).parents[2] / "data" / "kwave" / "dirichlet_2d.h5"
CPU = {"device": "cpu", "threads": 1}


def datasets(path):
    result = {}
    with h5py.File(path) as file:
        file.visititems(result.__setitem__)
        return {name: item[()] for name, item in result.items() if isinstance(item, h5py.Dataset)}


def assert_same(one, other):
    one, other = datasets(one), datasets(other)
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def test_the_file_is_that_of_the_command(tmp_path):
    record = ("u_rms", "p", "p_final")
    options = {"start": 3, "steps": 40, "compression": 2, "copy_sensor_mask": True}
    report = run_kwave_file(D2, tmp_path / "ours.h5", record=record, **options, **CPU)
    assert (report.steps, report.total_steps, report.device) == (40, 40, "cpu")
    words = ["kwave", "-i", D2, "-o", tmp_path / "theirs.h5", "--u_rms", "-p", "--p_final", "-s", 3]
    words += ["--benchmark", 40, "-c", 2, "--copy_sensor_mask", "--device", "cpu", "-t", 1, "--verbose", 0]
    app([str(word) for word in words], standalone_mode=False)
    assert_same(tmp_path / "ours.h5", tmp_path / "theirs.h5")
    assert sorted(os.listdir(tmp_path)) == ["ours.h5", "theirs.h5"]


def test_what_is_recorded_by_default(tmp_path):
    run_kwave_file(str(D2), str(tmp_path / "out.h5"), steps=5, **CPU)
    assert {"p", "p_max", "p_max_all", "p_final"} <= datasets(tmp_path / "out.h5").keys()


def test_an_output_is_replaced_only_by_force(tmp_path):
    target = tmp_path / "out.h5"
    target.write_text("mine")
    with pytest.raises(InputError, match=r"output: .*out\.h5 exists; allowed: another name, or .*force=True"):
        run_kwave_file(D2, target, steps=5, **CPU)
    assert target.read_text() == "mine"
    run_kwave_file(D2, target, steps=5, force=True, **CPU)
    assert datasets(target)["Nt"] == 5


class StopsAt(Progress):
    def __init__(self, step):
        self.step = step

    def update(self, done, message=""):
        if done >= self.step:
            self.step = done
            raise KeyboardInterrupt


@pytest.mark.parametrize("ends", ["an interrupt", "a checkpoint"])
def test_it_goes_on_where_it_was(tmp_path, ends):
    common = {"record": ("p", "u_max"), "steps": 60, **CPU}
    run_kwave_file(D2, tmp_path / "whole.h5", **common)
    saved, target = tmp_path / "saved", tmp_path / "out.h5"
    if ends == "an interrupt":
        with pytest.raises(KeyboardInterrupt):
            run_kwave_file(D2, target, **common, checkpoint=saved, progress=(stops := StopsAt(25)))
        report = run_kwave_file(D2, target, **common, checkpoint=saved)
        assert report.resumed_at == stops.step < 60
    else:
        legs = Checkpoints(saved, every=25, stop=True)
        reports = [run_kwave_file(D2, target, **common, checkpoint=legs) for _ in range(3)]
        assert [report.steps for report in reports] == [25, 50, 60]
    assert_same(tmp_path / "whole.h5", target)
    assert sorted(os.listdir(tmp_path)) == ["out.h5", "whole.h5"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"record": "p_mx"}, r'record: "p_mx" given .did you mean p_max\?.; allowed: '),
        ({"record": ()}, r"record: "),
        ({"start": 0}, r"start: 0; allowed: 1 to 200, the steps of the run"),
        ({"start": 9, "steps": 8}, r"start: 9; allowed: 1 to 8"),
        ({"steps": 0}, r"steps: 0; allowed: a whole number from 1"),
        ({"compression": 10}, r"compression: 10; allowed: a whole number from 0 to 9"),
        ({"force": 1}, r"force: 1; allowed: True or False"),
        ({"precision": "half"}, r'precision: "half" given; allowed: '),
        ({"input": "none.h5"}, r"none\.h5.*no such file"),
        ({"output": "none/out.h5"}, r"output: none/out\.h5 cannot be written"),
        ({"output": "in.h5", "force": True}, r"output: in\.h5 is the input"),
        ({"input": "unstable.h5"}, r"unstable\.h5: dt: 4e-07 s is not stable; .*, or check_stability=False;"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, options, line):
    monkeypatch.chdir(tmp_path)
    for name in ("in.h5", "unstable.h5"):
        shutil.copy(D2, name)
    with h5py.File("unstable.h5", "r+") as file:
        file["c_ref"][...], file["dt"][...] = 1000.0, 4e-7
    before = sorted(os.listdir())
    files = [options.pop("input", "in.h5"), options.pop("output", "out.h5")]
    with pytest.raises(InputError, match=line) as caught:
        run_kwave_file(*files, **options, **CPU)
    assert "\n" not in str(caught.value)
    assert sorted(os.listdir()) == before


def test_an_unknown_keyword(tmp_path):
    with pytest.raises(TypeError, match="cfl"):
        run_kwave_file(D2, tmp_path / "out.h5", cfl=0.3)

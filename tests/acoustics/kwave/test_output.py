"""The output file: k-Wave's own answers, written again through the sink, come out the same."""

import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

import wavefabric
from wavefabric.acoustics.kwave import output_layout
from wavefabric.acoustics.kwave.input import read_input
from wavefabric.acoustics.kwave.output import KWaveOutput
from wavefabric.acoustics.recording.sinks import RecordingLayout, Report
from wavefabric.base.errors import InputError

DATA = Path(__file__).parents[2] / "data" / "kwave"
NAMES = [p.stem for p in sorted(DATA.glob("*.h5")) if "_out" not in p.stem]
FIELD = re.compile(r".*(_all|_final)$")
POINT = re.compile(r".*_(rms|max|min)$")
SECONDS = {"loading": 0.004, "preprocessing": 0.17, "simulation": 12.3, "postprocessing": 0.01}


def results(name):
    """FieldLayout, time series (rows, samples) and the rest, from k-Wave's answer."""
    series, others, layout = {}, {}, RecordingLayout({}, {}, (), np.dtype(np.float32))
    with h5py.File(DATA / f"{name}_out.h5") as file:
        for key, item in file.items():
            if isinstance(item, h5py.Group):
                parts = [item[i][()] for i in sorted(item, key=int)]
                rows = 1 if POINT.match(key) else len(parts[0])
                array = np.concatenate([part.reshape(rows, -1) for part in parts], axis=1)
            elif item.shape == (1, 1, 1):
                continue
            else:
                array = item[()] if FIELD.match(key) else item[0]
            if FIELD.match(key):
                others[key] = array
            elif POINT.match(key):
                others[key] = array[0]
                layout.points[key] = array.shape[1]
            else:
                series[key] = array
                layout.series[key] = array.shape
    fields = tuple(key for key in others if FIELD.match(key))
    return RecordingLayout(layout.series, layout.points, fields, layout.dtype), series, others


def feed(sink, series, first=0, last=None):
    """Rows by sevens, as a run would hand them over."""
    for start in range(first, len(next(iter(series.values()))) if last is None else last, 7):
        for name, array in series.items():
            sink.write_rows(name, start, array[start : start + 7 if last is None else min(start + 7, last)])


def write(path, name, **options):
    layout, series, others = results(name)
    sink = KWaveOutput(path, read_input(DATA / f"{name}.h5"), threads=2, **options)
    sink.begin(layout, 0)
    feed(sink, series)
    sink.flush()
    sink.finish(others.items(), Report(120, 120, "cpu", SECONDS, peak_bytes=19 << 20))
    assert sink.path.exists()
    return path


def datasets(path):
    result = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: result.__setitem__(name, item) or None)
        return {
            name: None
            if isinstance(item, h5py.Group)
            else (item.shape, item.dtype.str, item.chunks, types(item), item[()].tobytes())
            for name, item in result.items()
        }


def types(item):
    """Value, size, padding, character set and rank of each attribute."""
    result = {}
    for name in item.attrs:
        attribute = h5py.h5a.open(item.id, name.encode())
        kind = attribute.get_type()
        shape = (kind.get_size(), kind.get_strpad(), kind.get_cset(), attribute.shape)
        result[name] = (item.attrs[name], *shape)
    return result


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("name", NAMES)
def test_same_file_as_kwave(tmp_path, name, level):
    ours = datasets(write(tmp_path / "out.h5", name, compression=level))
    theirs = datasets(DATA / f"{name}_out.h5")
    assert sorted(ours) == sorted(theirs)
    for key in theirs:
        assert ours[key] == theirs[key], key
    assert os.listdir(tmp_path) == ["out.h5"]
    with h5py.File(tmp_path / "out.h5") as file:
        assert [key for key, item in file.items() if getattr(item, "compression", None)] == (
            [] if level == 0 else [k for k, i in file.items() if isinstance(i, h5py.Dataset) and i.chunks]
        )


UNFINISHED = (".partial", ".partial.json")


def names(folder):
    return sorted(os.listdir(folder))


def test_header(tmp_path):
    write(tmp_path / "out.h5", "p0_homogeneous")
    with h5py.File(tmp_path / "out.h5") as ours, h5py.File(DATA / "p0_homogeneous_out.h5") as theirs:
        mine, wanted = types(ours), types(theirs)
        del wanted["reference_flags"]
        # Ours: what a GPU holds, a step without compilation, and compilation.
        times = {"time_step_execution_time", "compilation_phase_execution_time"}
        assert set(mine) == set(wanted) | {"gpu_memory_in_use"} | times
        for name, (value, *shape) in mine.items():
            size = 16 if name.endswith(("_time", "_in_use")) else len(value) + 1
            assert shape == [size, h5py.h5t.STR_NULLTERM, h5py.h5t.CSET_ASCII, ()], name
        values = {name: result[0].decode() for name, result in mine.items()}
        for name in (
            "file_description",
            "file_type",
            "major_version",
            "minor_version",
            "number_of_cpu_cores",
        ):
            assert mine[name] == wanted[name]
    assert re.fullmatch(r"\d\d/\d\d/\d\d, \d\d:\d\d:\d\d", values["creation_date"])
    assert values["created_by"] == f"wavefabric {wavefabric.__version__}"
    assert values["host_names"] == "-"
    assert values["data_loading_phase_execution_time"] == "    0.00s"
    assert values["simulation_phase_execution_time"] == "   12.30s"
    assert values["total_execution_time"] == "   12.48s"
    assert (values["total_memory_in_use"], values["peak_core_memory_in_use"]) == ("19 MB", "9 MB")


@pytest.mark.parametrize(
    ("name", "mask"),
    [("p0_homogeneous", "sensor_mask_index"), ("pressure_source_corners", "sensor_mask_corners")],
)
def test_sensor_mask_is_copied(tmp_path, name, mask):
    write(tmp_path / "out.h5", name, copy_sensor_mask=True)
    with h5py.File(tmp_path / "out.h5") as ours, h5py.File(DATA / f"{name}.h5") as inputs:
        for key in (mask, "sensor_mask_type"):
            assert ours[key].dtype == np.uint64
            np.testing.assert_array_equal(ours[key][()], inputs[key][()])
            assert ours[key].attrs["data_type"] == b"long"


def test_double_precision_is_stored_as_k_wave_stores(tmp_path):
    layout, series, others = results("dirichlet_2d")
    double = RecordingLayout(layout.series, layout.points, layout.fields, np.dtype(np.float64))
    sink = KWaveOutput(tmp_path / "out.h5", read_input(DATA / "dirichlet_2d.h5"))
    sink.begin(double, 0)
    feed(sink, {name: array.astype(float) + 1e-12 for name, array in series.items()})
    sink.finish(others.items(), Report())
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["p"].dtype == file["p_final"].dtype == np.float32
        assert file["p"].attrs["data_type"] == b"float"
        np.testing.assert_array_equal(file["p"][0], (series["p"].astype(float) + 1e-12).astype(np.float32))


@pytest.mark.parametrize("level", [0, 9])
@pytest.mark.parametrize("name", ["p0_homogeneous", "pressure_source_corners"])
def test_killed_and_resumed(tmp_path, name, level):
    """The bytes on the disk at any moment after a flush, rows of the lost steps among them, are enough."""
    layout, series, others = results(name)
    inputs = read_input(DATA / f"{name}.h5")
    killed = KWaveOutput(tmp_path / "a.h5", inputs, compression=level)
    killed.begin(layout, 0)
    feed(killed, series, last=60)
    killed.flush()
    noise = {key: np.full_like(array, 7e7) for key, array in series.items()}
    feed(killed, noise, first=60, last=90)
    # No close: this is what a kill leaves. Nothing of what it wrote later may matter.
    for ending in UNFINISHED:
        shutil.copy(tmp_path / f"a.h5{ending}", tmp_path / f"b.h5{ending}")
    killed.abandon(keep=False)
    assert names(tmp_path) == ["b.h5.partial", "b.h5.partial.json"]

    sink = KWaveOutput(tmp_path / "b.h5", inputs, compression=level)
    sink.begin(layout, 60)
    feed(sink, series, first=60)
    sink.finish(others.items(), Report())
    ours, theirs = datasets(tmp_path / "b.h5"), datasets(DATA / f"{name}_out.h5")
    assert ours == theirs
    assert os.listdir(tmp_path) == ["b.h5"]


def test_abandoned(tmp_path):
    layout, series, _ = results("p0_homogeneous")
    inputs = read_input(DATA / "p0_homogeneous.h5")
    sink = KWaveOutput(tmp_path / "a.h5", inputs)
    sink.abandon(keep=False)
    sink.begin(layout, 0)
    feed(sink, series, last=14)
    sink.abandon(keep=True)
    assert names(tmp_path) == ["a.h5.partial", "a.h5.partial.json"]
    # One that never began leaves alone what belongs to a checkpoint.
    KWaveOutput(tmp_path / "a.h5", inputs).abandon(keep=False)
    assert names(tmp_path) == ["a.h5.partial", "a.h5.partial.json"]
    again = KWaveOutput(tmp_path / "a.h5", inputs)
    again.begin(layout, 14)
    again.abandon(keep=False)
    assert os.listdir(tmp_path) == []
    assert not again.path.exists()


def test_interrupted_while_space_is_made(tmp_path, monkeypatch):
    sink = KWaveOutput(tmp_path / "a.h5", read_input(DATA / "p0_homogeneous.h5"))

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("wavefabric.acoustics.kwave.output_layout.allocate", stop)
    with pytest.raises(KeyboardInterrupt):
        sink.begin(results("p0_homogeneous")[0], 0)
    sink.abandon(keep=False)
    assert os.listdir(tmp_path) == []


def test_unfit_for_resuming(tmp_path):
    layout, _, _ = results("p0_homogeneous")
    inputs = read_input(DATA / "p0_homogeneous.h5")

    def resume(layout=layout, **options):
        sink = KWaveOutput(tmp_path / "a.h5", inputs, **options)
        try:
            sink.begin(layout, 5)
        finally:
            sink.abandon(keep=True)

    with pytest.raises(InputError, match="missing"):
        resume()
    (tmp_path / "a.h5.partial").write_bytes(b"\x89HDF\r\n\x1a\nnot really")
    with pytest.raises(InputError, match="damaged"):
        resume()
    sink = KWaveOutput(tmp_path / "a.h5", inputs)
    sink.begin(layout, 0)
    sink.abandon(keep=True)
    resume()
    fewer = {name: size for name, size in layout.series.items() if name != "ux"}
    for other, options in [
        (RecordingLayout(fewer, layout.points, layout.fields, layout.dtype), {}),
        (RecordingLayout(layout.series, {}, layout.fields, layout.dtype), {}),
        (layout, {"start": 3}),
    ]:
        with pytest.raises(InputError, match="another run"):
            resume(other, **options)


def test_refused_at_once(tmp_path):
    shutil.copy(DATA / "p0_homogeneous.h5", tmp_path / "in.h5")
    inputs = read_input(tmp_path / "in.h5")
    (tmp_path / "there.h5").write_text("kept")
    before = sorted(os.listdir(tmp_path))
    for path, force, word in [
        (tmp_path / "there.h5", False, "exists"),
        (tmp_path, True, "is a folder"),
        (tmp_path / "absent" / "x.h5", False, "does not exist"),
        (tmp_path / "there.h5" / "x.h5", False, "there.h5"),
        (tmp_path / ("x" * 300), False, "cannot be"),
        (tmp_path / "in.h5", True, "is the input"),
    ]:
        with pytest.raises(InputError, match=word):
            KWaveOutput(path, inputs, force=force)
    KWaveOutput(tmp_path / "there.h5", inputs, force=True)
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "there.h5").read_text() == "kept"


def test_failure_at_the_end_leaves_no_output(tmp_path, monkeypatch):
    layout, series, others = results("dirichlet_2d")
    sink = KWaveOutput(tmp_path / "a.h5", read_input(DATA / "dirichlet_2d.h5"), compression=1)
    sink.begin(layout, 0)
    feed(sink, series)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match=r"output: .*a\.h5 cannot be written \(No space left on device\)"):
        sink.finish(others.items(), Report())
    # The series stay until it is known whether a checkpoint refers to them.
    assert names(tmp_path) == ["a.h5.partial", "a.h5.partial.json"]
    assert not sink.path.exists()
    sink.abandon(keep=False)
    assert os.listdir(tmp_path) == []


def test_long_rows_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("wavefabric.acoustics.kwave.output_layout._LONG_ROW", 30)
    monkeypatch.setattr("wavefabric.acoustics.kwave.output_layout._CUT_ROW", 16)
    with h5py.File(write(tmp_path / "out.h5", "p0_homogeneous")) as file:
        assert file["p"].chunks == file["p_max"].chunks == (1, 1, 16)
        with h5py.File(DATA / "p0_homogeneous_out.h5") as theirs:
            np.testing.assert_array_equal(file["p"][()], theirs["p"][()])


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("moment", ["put_attribute", "_sync", "_close", "replace"])
def test_killed_at_the_end_and_resumed(tmp_path, moment, level):
    """Wherever the end is cut off, the same run goes on from what is there and gives the same file."""
    layout, series, others = results("p0_homogeneous")
    layout = replace(layout, run="token")
    inputs = read_input(DATA / "p0_homogeneous.h5")

    def killed():
        sink = KWaveOutput(tmp_path / "a.h5", inputs, compression=level)
        sink.begin(layout, 0)
        feed(sink, series)
        sink.flush()
        calls = []

        def die(*_):
            calls.append(1)
            if moment != "put_attribute" or len(calls) == 5:
                os.kill(os.getpid(), signal.SIGKILL)

        if moment == "replace":
            os.replace = die
        elif moment == "put_attribute":
            output_layout.put_attribute = die
        else:
            setattr(sink, moment, die)
        sink.finish(others.items(), Report())

    child = os.fork()
    if child == 0:
        try:
            killed()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    if not (level and moment == "_sync"):  # a compressed copy is made without it
        assert os.WIFSIGNALED(status)
        assert "a.h5" not in names(tmp_path)
        again = KWaveOutput(tmp_path / "a.h5", inputs, compression=level)
        again.begin(layout, 60)
        feed(again, series, first=60)
        again.finish(others.items(), Report())
    assert datasets(tmp_path / "a.h5") == datasets(DATA / "p0_homogeneous_out.h5")
    assert names(tmp_path) == ["a.h5"]

"""FFTW's wisdom: stored, read again to the bit, and never trusted to run code."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from wavefabric.device import fftw, get_device
from wavefabric.device.cpu import CpuRowFFT
from wavefabric.errors import InputError

needs_fftw = pytest.mark.skipif(fftw.pyfftw is None, reason="pyfftw (extra fftw) is not installed")

TRANSFORMS = """
import hashlib, sys
import numpy as np
from wavefabric.device import fftw
from wavefabric.device.cpu import CpuRowFFT
if len(sys.argv) > 1:
    fftw.import_wisdom(bytes.fromhex(sys.argv[1]))
digest = hashlib.sha256()
for n in (625, 1024):
    for dtype in (np.complex128, np.complex64):
        rng = np.random.default_rng(n)
        rows = (rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))).astype(dtype)
        plan = CpuRowFFT(n, dtype, 1)
        plan.forward(rows)
        digest.update(rows.tobytes())
        plan.backward(rows)
        digest.update(rows.tobytes())
print(digest.hexdigest(), fftw.export_wisdom().hex())
"""


def transforms(cache: Path, *arguments: str) -> tuple[str, str]:
    """Digest of many transforms, and the wisdom after them, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", TRANSFORMS, *arguments],
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    digest, wisdom = done.stdout.split()
    return digest, wisdom


def stored(cache: Path) -> dict[Path, tuple[bytes, int]]:
    """Files of wisdom, one a problem: content and time of change."""
    files = (cache / "wavefabric").glob("fftw-*/*.json")
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


@pytest.mark.slow
@needs_fftw
def test_a_later_process_makes_the_same_bits(tmp_path):
    first, wisdom = transforms(tmp_path)
    files = stored(tmp_path)
    assert len(files) == len(json.loads(bytes.fromhex(wisdom))) == 4
    # Twice, since plans chosen anew could agree by luck: nothing is planned, so nothing is stored.
    for _ in range(2):
        assert transforms(tmp_path) == (first, wisdom)
    assert stored(tmp_path) == files


@needs_fftw
def test_wisdom_of_a_checkpoint_wins(tmp_path):
    first, wisdom = transforms(tmp_path / "here")
    # As after a move to another folder, or to one where other plans were chosen.
    assert transforms(tmp_path / "there", wisdom) == (first, wisdom)
    assert stored(tmp_path / "there") == {}


@needs_fftw
def test_what_was_planned_before_changes_nothing(tmp_path, monkeypatch):
    """The planner sees the wisdom of one problem alone, the second time too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fftw, "_known", {})
    seen = []

    def make():
        seen.append(fftw._learnt())
        row = fftw.aligned(96, np.complex128)
        return fftw.plan(row, row, fftw.SIGNS[0], (-1,), 1)

    fftw.planned("a", make)
    assert len(seen) == 2  # measured, then planned with what was learnt
    CpuRowFFT(192, np.complex128)
    CpuRowFFT(96, np.complex64)
    fftw.planned("a", make)
    assert seen[2] == seen[1] == fftw._known["a"]
    assert seen[1] != seen[0]
    monkeypatch.setattr(fftw, "_known", {})  # as another process
    fftw.planned("a", make)
    assert seen[3] == seen[1]
    assert len(seen) == 4


@needs_fftw
@pytest.mark.parametrize(
    "content",
    [b"", b"not JSON", b"\xff", b"7", b"[]", b"{}", b'{"problem": "row", "wisdom": ["(", "(", "("]}', b"null"]
    + [
        json.dumps({"problem": "row", "wisdom": texts}).encode()
        for texts in (None, [], ["", ""], ["", 1, ""])
    ]
    + [json.dumps({"problem": "another", "wisdom": ["", "", ""]}).encode()],
    ids=range(13),
)
def test_a_broken_file_is_as_good_as_none(tmp_path, monkeypatch, content):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fftw, "_known", {})
    row = fftw.aligned(60, np.complex128)
    file = fftw._file("row")
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    fftw.planned("row", lambda: fftw.plan(row, row, fftw.SIGNS[0], (-1,), 1))
    assert tuple(json.loads(file.read_bytes())["wisdom"]) == fftw._known["row"] == fftw._read("row")


@pytest.mark.parametrize(
    "payload",
    [b"\x80\x05K\x07.", b"\xff", b"7", b"[]", b'{"row": 7}', b'{"row": ["", ""]}', b'{"row": [1, "", ""]}'],
)
def test_broken_wisdom_of_a_checkpoint_is_refused(payload, monkeypatch):
    monkeypatch.setattr(fftw, "_known", {})
    if fftw.pyfftw is None:
        assert fftw.import_wisdom(payload) is None
    else:
        with pytest.raises(InputError, match="wisdom"):
            fftw.import_wisdom(payload)
    assert fftw._known == {}


@needs_fftw
def test_no_cache_folder_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setenv("WAVEFABRIC_CACHE", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fftw, "_known", {})
    CpuRowFFT(60, np.complex128)
    assert blocked.read_text() == ""
    assert fftw._folder().parent.parent == tmp_path
    assert fftw.wisdom_state().startswith("for 1 kinds of transforms in ")


@needs_fftw
def test_rows_that_are_not_aligned(cpu):
    """Odd lengths put rows at any address: plans for them may assume nothing."""
    rows = cpu.empty((5, 1037), np.complex64)
    rng = np.random.default_rng(1)
    rows[...] = rng.standard_normal((5, 1037)) + 1j * rng.standard_normal((5, 1037))
    wanted = np.fft.fft(rows.astype(complex))
    assert len({row.ctypes.data % 64 for row in rows}) > 1
    CpuRowFFT(1037, np.complex64, 1).forward(rows)
    assert abs(rows - wanted).max() < 2e-6 * abs(wanted).max()


def test_scipy_serves_where_fftw_is_missing(monkeypatch):
    device, host, outs = get_device("cpu", threads=1), {}, {}
    for dtype in (np.complex128, np.complex64):
        for n in (64, 625, 1037):
            rng = np.random.default_rng(n)
            host[dtype, n] = (rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))).astype(dtype)

    def both_directions():
        for (dtype, n), field in host.items():
            rows, plan = device.empty(field.shape, dtype), device.row_fft(2, n, dtype)
            rows[...] = field
            plan.forward(rows)
            there = rows.copy()
            plan.backward(rows)
            yield (dtype, n), there, rows

    for key, there, back in both_directions():
        outs[key] = there, back
    monkeypatch.setattr(fftw, "pyfftw", None)
    for (dtype, n), there, back in both_directions():
        tolerance = 1e-14 if dtype == np.complex128 else 2e-6
        assert there.dtype == back.dtype == dtype
        for got, wanted in zip((there, back), outs[dtype, n], strict=True):
            assert abs(got - wanted).max() < tolerance * abs(wanted).max()
    assert fftw.library().startswith("scipy.fft ")
    assert fftw.wisdom_state().startswith("none")
    assert fftw.export_wisdom() == b""
    fftw.import_wisdom(b"anything")


def test_a_propagation_without_fftw(monkeypatch):
    from wavefabric.optics.fibre.presets import single_mode
    from wavefabric.optics.propagation.propagate import propagate

    t = np.linspace(-10, 10, 512)
    start = np.array([0.5 / np.cosh(t), 0.3j / np.cosh(t - 1)])
    options = {"sample_rate": 1e12, "step": 100.0, "device": get_device("cpu", threads=1)}
    with_it, _ = propagate(start, single_mode(), 10e3, **options)
    monkeypatch.setattr(fftw, "pyfftw", None)
    without, _ = propagate(start, single_mode(), 10e3, **options)
    assert np.linalg.norm(without - with_it) < 1e-13 * np.linalg.norm(with_it)


def test_the_file_is_of_this_machine_and_library(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mine = fftw._file("row")
    assert mine.parent.parent == tmp_path / "wavefabric"
    assert fftw._file("another") != mine
    monkeypatch.setattr(fftw, "cpu_model", lambda: "another")
    assert fftw._file("row").parent != mine.parent


@pytest.mark.slow
@needs_fftw
def test_processes_that_plan_at_once_take_the_same_plans(tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", TRANSFORMS], env=environment, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    result = {process.communicate()[0] for process in running}
    assert len(result) == 1
    assert [process.returncode for process in running] == [0, 0, 0]

"""FFTW's wisdom: stored, read again to the bit, and never trusted to run code."""

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from wavefabric.device import fftw, get_device
from wavefabric.device.cpu_fft import CpuRowFFT
from wavefabric.errors import InputError

needs_fftw = pytest.mark.skipif(fftw.pyfftw is None, reason="pyfftw (extra fftw) is not installed")

TRANSFORMS = """
import hashlib, sys
import numpy as np
from wavefabric.device import fftw
from wavefabric.device.cpu_fft import CpuRowFFT
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


def entries(wisdom: str) -> set[bytes]:
    """Lines of wisdom: FFTW writes them in any order."""
    return {line for part in fftw._wisdom_tuple(bytes.fromhex(wisdom)) for line in part.split(b"\n")}


def stored(cache: Path) -> Path:
    (file,) = (cache / "wavefabric").glob("*.wisdom")
    assert file.suffix == ".wisdom"
    return file


@pytest.mark.slow
@needs_fftw
def test_a_later_process_makes_the_same_bits(tmp_path):
    first, wisdom = transforms(tmp_path)
    file = stored(tmp_path)
    kept, written = file.read_bytes(), file.stat().st_mtime_ns
    assert kept == bytes.fromhex(wisdom)
    # Twice, since plans chosen anew could agree by luck: nothing is planned, so nothing is stored.
    for _ in range(2):
        again, after = transforms(tmp_path)
        assert again == first
        assert entries(after) == entries(wisdom)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (kept, written)


@pytest.mark.slow
@needs_fftw
def test_a_resumed_process_leaves_what_others_have_stored(tmp_path):
    """It knows its checkpoint's plans alone; later runs must find those of others again, and its new ones."""
    code = "from wavefabric.device.cpu_fft import CpuRowFFT; CpuRowFFT(4096, complex, 1)"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
    others = entries(stored(tmp_path).read_bytes().hex())
    nothing = pickle.dumps((b"", b"", b"")).hex()
    first, wisdom = transforms(tmp_path, nothing)
    after = entries(stored(tmp_path).read_bytes().hex())
    assert others < after
    assert entries(wisdom) <= after | others
    assert transforms(tmp_path)[0] == first


@needs_fftw
def test_wisdom_of_a_checkpoint_wins(tmp_path):
    first, wisdom = transforms(tmp_path / "here")
    # As after a move to another folder, or to one where other plans were chosen.
    again, after = transforms(tmp_path / "there", wisdom)
    assert again == first
    assert entries(after) == entries(wisdom)


class Harmful:
    def __init__(self, file):
        self.file = str(file)

    def __reduce__(self):
        return os.mkdir, (self.file,)


@pytest.mark.slow
@needs_fftw
def test_a_harmful_file_is_refused(tmp_path):
    first, _ = transforms(tmp_path)
    file, trace = stored(tmp_path), tmp_path / "trace"
    file.write_bytes(pickle.dumps((b"", Harmful(trace), b"")))
    digest, wisdom = transforms(tmp_path)
    assert len(digest) == len(first)
    assert not trace.exists()
    # Plans are made anew and stored over it.
    assert stored(tmp_path).read_bytes() == bytes.fromhex(wisdom)


def test_harmful_wisdom_of_a_checkpoint_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(fftw, "_stored", fftw._FIXED)
    trace = tmp_path / "trace"
    if fftw.pyfftw is None:
        assert fftw.import_wisdom(pickle.dumps(Harmful(trace))) is None
    else:
        kept = fftw.export_wisdom()
        for payload in (Harmful(trace), (b"", b"", Harmful(trace)), [b"", b"", b""], (b"", 1, b""), 7):
            with pytest.raises((pickle.UnpicklingError, ValueError)):
                fftw._wisdom_tuple(pickle.dumps(payload))
        with pytest.raises(InputError, match="wisdom"):
            fftw.import_wisdom(pickle.dumps(Harmful(trace)))
        fftw.import_wisdom(kept)
    assert not trace.exists()


@needs_fftw
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        b".",
        b"0.",
        b"\x80\x04K\x01.",
        b"\x80\x05\x95\xff\xff",
        b"cwavefabric.no_such_module\nthing\n.",
        b"h\x05.",
        b"\x85.",
        b"Vabc\\ud800\n.",
        pickle.dumps(()),
        pickle.dumps((b"a", b"b")),
        pickle.dumps((b"(", b"(", b"(")),
        pickle.dumps((b"(", b"(", b"("))[:-6],
        pickle.dumps({"a": 1}),
    ],
    ids=range(15),
)
def test_a_broken_file_is_as_good_as_none(tmp_path, monkeypatch, content):
    file = tmp_path / "broken.wisdom"
    file.write_bytes(content)
    monkeypatch.setattr(fftw, "_wisdom_file", lambda: file)
    monkeypatch.setattr(fftw, "_stored", None)
    fftw._load()
    assert fftw._stored == fftw._stamp(file)


@needs_fftw
def test_no_cache_folder_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setenv("WAVEFABRIC_CACHE", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fftw._store()
    assert blocked.read_text() == ""
    assert fftw._wisdom_file().parent.parent == tmp_path
    assert "bytes in " in fftw.wisdom_state()


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

    def both_ways():
        for (dtype, n), field in host.items():
            rows, plan = device.empty(field.shape, dtype), device.row_fft(2, n, dtype)
            rows[...] = field
            plan.forward(rows)
            there = rows.copy()
            plan.backward(rows)
            yield (dtype, n), there, rows

    for key, there, back in both_ways():
        outs[key] = there, back
    monkeypatch.setattr(fftw, "pyfftw", None)
    for (dtype, n), there, back in both_ways():
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
    mine = fftw._wisdom_file()
    assert mine.parent == tmp_path / "wavefabric"
    monkeypatch.setattr(fftw, "cpu_model", lambda: "another")
    assert fftw._wisdom_file() != mine
    assert "/" not in fftw._wisdom_file().name


_PLANNER = """
import sys, numpy as np
from wavefabric.device import fftw
fftw.pyfftw.forget_wisdom()
with fftw.planning():
    fftw.pyfftw.builders.fft(np.zeros(int(sys.argv[1]), complex), planner_effort="FFTW_MEASURE")
"""


@pytest.mark.slow
@needs_fftw
def test_processes_that_plan_at_once_keep_the_wisdom_of_all(tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    sizes = [sys.executable, "-c", _PLANNER]
    running = [subprocess.Popen([*sizes, str(n)], env=environment) for n in (60, 70, 84)]
    assert [process.wait() for process in running] == [0, 0, 0]
    together = len(stored(tmp_path).read_bytes())
    alone = tmp_path / "alone"
    subprocess.run([*sizes, "60"], env=environment | {"XDG_CACHE_HOME": str(alone)}, check=True)
    assert together > 1.5 * len(stored(alone).read_bytes())


@needs_fftw
def test_wisdom_of_a_checkpoint_replaces_what_this_process_knows(monkeypatch):
    """What was planned here before must not win over, nor mix with, the plans of the checkpoint."""
    monkeypatch.setattr(fftw, "_stored", fftw._FIXED)
    kept = fftw.export_wisdom()
    try:
        fftw.pyfftw.forget_wisdom()
        none = fftw.export_wisdom()
        CpuRowFFT(96, np.complex128)
        assert entries(fftw.export_wisdom().hex()) > entries(none.hex())
        fftw.import_wisdom(none)
        assert entries(fftw.export_wisdom().hex()) == entries(none.hex())
    finally:
        fftw.import_wisdom(kept)

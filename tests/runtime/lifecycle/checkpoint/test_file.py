"""A checkpoint is the old one or the new one, whole, and comes back bit for bit."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import Rows
from wavefabric.runtime.lifecycle.checkpoint.file import checkpoint_path, load, read_state, remove, save

RNG = np.random.default_rng(5)


def arrays():
    return {
        "field": RNG.normal(size=(6, 1024)) + 1j * RNG.normal(size=(6, 1024)),
        "single": RNG.normal(size=(2, 3, 5)).astype(np.complex64),
        "numbers": np.arange(7),
        "flags": np.array([True, False]),
        "one": np.array(3.5),
        "none": np.empty((0, 4)),
    }


def test_round_trip(tmp_path):
    stored = arrays()
    state = {"z": 0.1 + 0.2, "step": np.int64(7), "tiny": 5e-324, "names": ["a", "é"]}
    save(tmp_path / "c", stored, state, "f")
    result, told = load(tmp_path / "c", "f")
    assert list(result) == list(stored)
    for name, array in stored.items():
        assert result[name].dtype == array.dtype
        np.testing.assert_array_equal(result[name], array)
    assert told == state
    assert read_state(tmp_path / "c", "f") == state
    assert os.listdir(tmp_path) == ["c"]


def test_views_are_stored_as_they_look(tmp_path):
    view = arrays()["field"][::2, ::-1].T
    save(tmp_path / "c", {"view": view}, {}, "f")
    np.testing.assert_array_equal(load(tmp_path / "c", "f")[0]["view"], view)


def test_rows_and_sinks_need_no_second_copy(tmp_path):
    field = arrays()["field"]
    save(
        tmp_path / "c",
        {"field": Rows(field.shape, field.dtype, lambda i: field[i]), "n": np.arange(3)},
        {},
        "f",
    )
    np.testing.assert_array_equal(load(tmp_path / "c", "f")[0]["field"], field)

    seen = np.zeros_like(field)
    buffer = np.zeros(3, int)

    result, _ = load(tmp_path / "c", "f", {"n": buffer, "field": seen.__setitem__})
    np.testing.assert_array_equal(seen, field)
    assert list(result) == ["n"]
    assert result["n"] is buffer
    with pytest.raises(ValueError, match="C-contiguous"):
        load(tmp_path / "c", "f", {"n": np.zeros(2)})


def test_another_run_is_refused(tmp_path):
    save(tmp_path / "c", {}, {}, "one")
    with pytest.raises(InputError, match="another run"):
        load(tmp_path / "c", "two")


@pytest.mark.parametrize("part", ["magic", "header", "data", "trailer"])
def test_a_flipped_bit_is_found(tmp_path, part):
    save(tmp_path / "c", arrays(), {"z": 1.0}, "f")
    data = bytearray((tmp_path / "c").read_bytes())
    data[{"magic": 2, "header": 40, "data": len(data) // 2, "trailer": -2}[part]] ^= 4
    (tmp_path / "c").write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        load(tmp_path / "c", "f")


@pytest.mark.parametrize("keep", [0, 5, 30, 0.5, -1])
def test_a_file_cut_short_or_too_long_is_found(tmp_path, keep):
    save(tmp_path / "c", arrays(), {}, "f")
    data = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(data[: int(len(data) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(InputError, match="damaged"):
        load(tmp_path / "c", "f")
    (tmp_path / "c").write_bytes(data + b"x")
    with pytest.raises(InputError, match="damaged"):
        load(tmp_path / "c", "f")


def test_a_missing_file_and_a_text_file(tmp_path):
    with pytest.raises(InputError, match="no such checkpoint"):
        load(tmp_path / "c", "f")
    (tmp_path / "c").write_text("hello, this is not a checkpoint")
    with pytest.raises(InputError, match="damaged"):
        load(tmp_path / "c", "f")


def test_a_failed_save_leaves_the_old_one(tmp_path):
    save(tmp_path / "c", {"a": np.arange(3)}, {"n": 1}, "f")

    def broken(i):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        save(tmp_path / "c", {"a": Rows((2, 2), np.dtype(float), broken)}, {"n": 2}, "f")
    assert load(tmp_path / "c", "f")[1] == {"n": 1}
    assert os.listdir(tmp_path) == ["c"]
    with pytest.raises(TypeError, match="objects"):
        save(tmp_path / "c", {"a": np.array([None])}, {}, "f")


def test_path_and_remove(tmp_path):
    path = checkpoint_path(tmp_path / "out.h5")
    assert path.name == "out.h5.checkpoint"
    save(path, {}, {}, "f")
    path.with_name(path.name + ".partial").touch()
    remove(path)
    remove(path)
    assert os.listdir(tmp_path) == []


WRITER = """
import sys
import numpy as np
from wavefabric.runtime.lifecycle.checkpoint.file import save
n = 0
while True:
    n += 1
    save(sys.argv[1], {"a": np.full((40, 50_000), float(n)), "b": np.full(9, n)}, {"n": n}, "f")
    print(n, flush=True)
"""


@pytest.mark.slow
def test_kill_9_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    path = tmp_path / "c"
    rng = np.random.default_rng(11)
    for _ in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        with writer.stdout:
            said = int(writer.stdout.readline())
            time.sleep(rng.uniform(0, 0.05))
            writer.send_signal(signal.SIGKILL)
            said = max([said, *map(int, writer.stdout.read().split())])
        assert writer.wait() == -signal.SIGKILL
        result, state = load(path, "f")
        assert state["n"] in (said, said + 1)
        assert np.all(result["a"] == state["n"])
        assert np.all(result["b"] == state["n"])
        assert set(os.listdir(tmp_path)) <= {"c", "c.partial"}

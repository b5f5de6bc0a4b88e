"""What ranks report to their launcher, and what of their output it passes on."""

import io
import os
from pathlib import Path

import pytest

from wavefabric.runtime.exchange.launch import launcher, rank_status


@pytest.fixture
def folder(tmp_path):
    rank_status.create(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("events", "first_dead", "code"),
    [
        ("", None, 0),
        ("0 exits 0\n0 ended 0\n1 ended -9\n", (1, -9), 0),
        ("1 ended -9\n0 ended -15\n", (1, -9), 0),
        ("1 ended 3\n0 exits 1\n0 ended 1\n", (1, 3), 1),
        # One rank has said why; the others were stopped.
        ("1 exits 2\n0 ended -9\n1 ended 2\n", None, 2),
        ("0 exits 2\n1 exits 130\n0 ended 2\n1 ended 130\n", None, 130),
    ],
)
def test_the_first_that_dies_without_a_word(folder, events, first_dead, code):
    (folder / "status").write_text("0 started 10\n1 started 11\n" + events)
    status = rank_status.read(folder)
    assert status.processes == {0: 10, 1: 11}
    assert (status.first_dead, status.code, status.lost) == (first_dead, code, "")


def test_events_of_a_rank(folder, monkeypatch):
    monkeypatch.setenv("WAVEFABRIC_RECORDS", str(folder))
    monkeypatch.setenv("PMI_RANK", "3")
    monkeypatch.setenv("PMI_SIZE", "4")
    monkeypatch.setattr(rank_status.dev_shm, "mapped", lambda pid: {Path("/dev/shm/mpich_shm_1")})
    rank_status.note_shared_files()
    assert rank_status.lost("rank 1 of 4 was stopped (SIGSTOP)")
    status = rank_status.read(folder)
    assert status.shared == [Path("/dev/shm/mpich_shm_1")]
    assert status.lost == "rank 1 of 4 was stopped (SIGSTOP)"


def test_without_a_launcher(tmp_path, monkeypatch):
    monkeypatch.delenv("WAVEFABRIC_RECORDS", raising=False)
    rank_status.begin()
    rank_status.exits(0)
    assert not rank_status.lost("nobody hears")
    monkeypatch.setenv("WAVEFABRIC_RECORDS", str(tmp_path / "on another host"))
    before = os.getpid()
    rank_status.begin()
    assert os.getpid() == before
    assert not rank_status.lost("nobody hears")


def passed_on(text, pieces=1):
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    output = launcher._Output(stream, set())
    data = text.encode()
    size = max(1, len(data) // pieces)
    for first in range(0, len(data), size):
        output.write(data[first : first + size])
    output.close()
    return stream.buffer.getvalue().decode()


@pytest.mark.parametrize("pieces", [1, 7, 10_000])
@pytest.mark.parametrize(
    "text", ["a\n\n\nb", "-" * 74 + "\na table\n", "\n\n", "Killed (signal 9) is a word\n"]
)
def test_output_passes_as_it_is(text, pieces):
    assert passed_on(text, pieces) == text


def test_a_bar_without_line_ends_is_not_held_back():
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    output = launcher._Output(stream, set())
    output.write(b"\x1b[2K\rtime steps 10/100")
    assert stream.buffer.getvalue().decode() == "\x1b[2K\rtime steps 10/100"
    output.write(b"plain so far")
    assert stream.buffer.getvalue().decode() == "\x1b[2K\rtime steps 10/100"


def test_what_ranks_say_alike_is_said_once():
    lines = [
        "wavefabric: rank 1 of 3: grid: 7 given\n",
        "wavefabric: rank 0 of 3: grid: 7 given\n",
        "wavefabric: rank 2 of 3: grid: 8 given\n",
        "hello\n",
        "hello\n",
    ]
    assert passed_on("".join(lines)) == lines[0] + "".join(lines[2:])

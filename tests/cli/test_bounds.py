"""Numbers beyond all bounds, and files that are none: one line at once."""

import os

import pytest

from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.base.errors import InputError
from wavefabric.base.files.input import read_start, read_text
from wavefabric.cli import main


@pytest.mark.parametrize("overlap", [10**9, 10**20, 10**30])
@pytest.mark.parametrize("grid", [None, (1, 1, 4)])
def test_an_overlap_that_cannot_fit_is_not_searched_for(overlap, grid):
    with pytest.raises(InputError, match="overlap"):
        decompose((64, 64, 64), 4, Decomposition("local", grid, overlap))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("collective make ring all-reduce --ranks 4 --elements 0", "--elements: 0"),
        ("collective make ring all-reduce --ranks 4 --elements -3", "--elements: -3"),
        ("collective cost ring all-reduce --ranks 4 --fabric lightpath:2x2 --bytes=", "--bytes:"),
        ("report x.json --bytes=", "--bytes:"),
        ("transcranial synthetic --position 0,0,0 --target 50,0,0 --elements 1000000000", "elements"),
    ],
)
def test_options_of_nothing_and_of_too_much(words, said, capsys):
    with pytest.raises(SystemExit) as left:
        main(words.split())
    line = capsys.readouterr().err
    assert left.value.code == 2
    assert line.count("\n") == 1
    assert said in line


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "/proc/kmsg", "/proc/self/status", "."])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(OSError, match=r"not a regular file|directory|permitted|denied"):
        read_start(name, 8)
    with pytest.raises(InputError, match=r"run file: .* \("):
        read_text(name, "run file")

"""Which output files are refused before a run, and files that are written whole or not at all."""

import os
import stat

import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.files.output import check_output, json_rows, remove_partials, replacing


def tree(folder):
    return sorted((p.name, p.lstat().st_mtime_ns) for p in folder.iterdir())


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is a folder"),
        ("/", "is a folder"),
        (".", "is a folder"),
        ("a\0b", r"'a\\x00b' has a null character"),
        ("a\udcffb", r"'a\\udcffb' is not UTF-8"),
        ("none/a", "does not exist"),
        ("file/a", "is not a folder"),
        ("x" * 300, "File name too long"),
        ("pipe", "is a named pipe"),
        ("link", "is a symbolic link"),
        ("dangling", "is a symbolic link"),
        ("/dev/null", "is a device"),
        ("input", "is an input"),
        ("hard", "is an input"),
        ("a.txt", r"ends in \.h5"),
    ],
)
def test_refused_and_nothing_touched(tmp_path, monkeypatch, force, name, words):
    monkeypatch.chdir(tmp_path)
    for there in ("file", "input"):
        (tmp_path / there).write_text(there)
    os.link("input", "hard")
    os.mkfifo("pipe")
    os.symlink("file", "link")
    os.symlink("nowhere", "dangling")
    before = tree(tmp_path)
    with pytest.raises(InputError, match=f"^--output: .*{words}"):
        check_output(
            name, force, "--output", inputs=["input", None], endings=[".h5"] if name == "a.txt" else ()
        )
    assert tree(tmp_path) == before
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_file_that_is_there(tmp_path):
    path = tmp_path / "a"
    path.write_text("mine")
    with pytest.raises(InputError, match=r"output: .*a exists; allowed: another name, or --force"):
        check_output(path)
    assert check_output(path, force=True) == path
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["a"]


def test_partial_files_of_others_stay(tmp_path):
    for name in ("a.partial", "a.checkpoint.partial", ".a.xyz.partial", ".ab.xyz.partial", ".a.b.c.partial"):
        (tmp_path / name).write_text(name)
    check_output(tmp_path / "a")
    assert len(os.listdir(tmp_path)) == 5
    remove_partials(tmp_path / "a")
    assert not (tmp_path / ".a.xyz.partial").exists()
    assert len(os.listdir(tmp_path)) == 4


def test_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a"
    with replacing(path) as partial:
        partial.write_text("one")
        assert not path.exists()
    path.chmod(0o640)
    with pytest.raises(InputError, match="No such file"), replacing(path) as partial:
        partial.rename(tmp_path / "b")  # so that the end fails
    (tmp_path / "b").unlink()
    assert path.read_text() == "one"
    with replacing(path) as partial:
        partial.write_text("three")
    assert path.read_text() == "three"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["a"]


def test_lists_of_json_have_an_entry_a_line():
    inner = [{"b": 1, "rows": ({"c": k} for k in range(2))}, {"b": "é", "rows": []}]
    text = json_rows({"a": [1, 2], "rows": inner, "none": []}, ("rows", "none"))
    assert text.splitlines() == [
        "{",
        '  "a": [1, 2],',
        '  "rows": [',
        '    {"b": 1, "rows": [',
        '      {"c": 0},',
        '      {"c": 1}',
        "    ]},",
        '    {"b": "é", "rows": []}',
        "  ],",
        '  "none": []',
        "}",
    ]

"""Terminals that lack characters: every command prints, with the nearest there is, and no traceback."""

import io
import subprocess
import sys

import pytest

from wavefabric.cli.common import encoding

#: What is said in help, tables, notes, and errors, one after the other in one process.
PROGRAM = """\
import sys
from wavefabric.cli import main
for line in open("commands", encoding="utf-8"):
    try:
        main(line.split())
    except SystemExit as left:
        print(line.split()[0], "ended with", left.code, flush=True)
"""
COMMANDS = """\
info
run --help
kwave --help
bench --help
bench ultrasound-step --help
collective cost --help
collective cost ring all-reduce --fabric ring:4 --bytes 1M
collective cost ring all-reduce --fabric lightpath:2x2 --bytes 1M
fabric show
fabric show lightpath:4x4
collective cost Δ–µ all-reduce --fabric ring:4
"""


@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(each, marks=pytest.mark.slow) for each in ("latin-1", "utf-8"))]
)
def test_every_command_prints(tmp_path, monkeypatch, encoding):
    (tmp_path / "commands").write_text(COMMANDS, encoding="utf-8")
    # ASCII as a system without locales has it, Latin-1 as Python is told.
    monkeypatch.setenv("PYTHONUTF8", "0")
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")
    monkeypatch.setenv("LC_ALL", "C")
    if encoding != "ascii":
        monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, timeout=300)
    out, err = done.stdout.decode(encoding), done.stderr.decode(encoding)
    assert done.returncode == 0, err
    assert "Traceback" not in err
    codes = [line.rpartition(" ")[2] for line in out.splitlines() if " ended with " in line]
    assert codes == ["0"] * 10 + ["2"]
    assert {"ascii": " us", "latin-1": " µs", "utf-8": " µs"}[encoding] in out
    assert {"ascii": "d-u", "latin-1": "d-µ", "utf-8": "Δ–µ"}[encoding] in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Δt = 2 µs", "dt = 2 us"),
        ("48×40×36", "48x40x36"),
        ("Q² in dB, 10⁻¹²", "Q^2 in dB, 10^-12"),
        ("β2, Λ, ≥ 1, é, H₂", "beta2, Lamda, >= 1, e, H2"),
        ("┌─┐│━", "+-+|-"),
        ("file\udcff", "file\\xff"),
        ("漢", "?"),
    ],
)
def test_nearest(monkeypatch, text, wanted):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    encoding.print_anywhere()
    print(text, end="", flush=True)
    assert stream.buffer.getvalue() == wanted.encode()


def test_what_an_encoding_has_is_kept(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", stream)
    encoding.print_anywhere()
    print("Δµ×²é–", end="", flush=True)
    assert stream.buffer.getvalue() == "dµ×²é-".encode("latin-1")


def test_tables_and_bars(monkeypatch):
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    encoding.print_anywhere()
    console = Console(file=stream, force_terminal=True, width=60)
    table = Table("Δ", "µ")
    table.add_row("1", "2")
    console.print(table)
    for _ in track(range(3), "spans … ×", console=console):
        pass
    stream.flush()
    assert b"spans ... x" in stream.buffer.getvalue()

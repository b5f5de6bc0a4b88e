"""`wavefabric report`: which pages it writes, what it refuses, and that pages need nothing else."""

import json
import os
import re
from pathlib import Path

import pytest

from wavefabric.cli import main
from wavefabric.report import write_report

KINDS = ("compare", "kwave", "link", "plan", "ring", "sweep", "train", "tuning", "wave")


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder; gives exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        with pytest.raises(SystemExit) as left:
            main(["report", *words])
        return left.value.code, *capsys.readouterr()

    return call


def test_a_folder(results, command):
    code, out, err = command(str(results), "-o", "index.html", "--fabric", "switch:4")
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"wrote {name}.html" for name in (*KINDS, "index")]
    text = {name: Path(f"{name}.html").read_text("utf-8") for name in (*KINDS, "index")}
    for name in KINDS:
        assert f'href="{name}.html"' in text["index"]
        assert '<a href="index.html">all results</a>' in text[name]
        assert '<p class="verdict good">' in text[name]
    assert "other" not in "".join(re.findall('href="(.*?)"', text["index"]))
    for page in text.values():  # nothing from elsewhere, and nothing that was not filled in
        assert not re.search(r"https?:|@import|url\(|src=\"(?!data:)|\{\{|\{%|\bnan\b|None", page)
    assert sum(map(len, text.values())) < 2e6


def test_two_results_of_one_name_and_an_index(copy):
    folder = copy("ring.json", "plan.json")
    (folder / "ring.h5").write_bytes((folder / "plan.json").read_bytes())
    os.rename(folder / "plan.json", folder / "index.json")
    names = [page.name for page in write_report(folder).pages]
    assert names == ["index.html", "index.json.html", "ring.h5.html", "ring.json.html"]


def test_what_is_damaged_is_named_in_the_index(copy):
    folder = copy("plan.json", "link.h5")
    (folder / "link.h5").write_bytes((folder / "link.h5").read_bytes()[:3000])
    report = write_report(folder)
    assert [content.state for content in report.contents] == ["bad", "good"]
    assert "damaged or cut short" in (folder / "index.html").read_text("utf-8")


def test_json(results, command):
    code, out, _ = command(str(results / "ring.json"), "-o", "ring.html", "--json")
    facts = json.loads(out)
    assert (code, facts["written"]) == (0, ["ring.html"])
    assert facts["pages"][0]["state"] == "good"
    assert facts["pages"][0]["figures"][0]["name"] == "Rounds"


def test_nothing_is_replaced_without_force(copy, command):
    folder = copy("ring.json", "plan.json")
    (folder / "ring.html").write_text("mine")
    code, _, err = command(str(folder))
    assert (code, err.count("\n")) == (2, 1)
    assert "ring.html exists; allowed: another name, or --force" in err
    assert sorted(os.listdir(folder)) == ["plan.json", "ring.html", "ring.json"]
    assert (folder / "ring.html").read_text() == "mine"
    assert command(str(folder), "--force")[0] == 0
    assert (folder / "ring.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing.h5"], "nothing.h5: No such file or directory; allowed: a result of a link"),
        (["begun.h5"], "begun.h5: the run was interrupted, and its checkpoint is there"),
        (["empty"], "empty: no result in this folder; allowed: a result"),
        (["other.json"], "other.json: JSON, but no result that has a page; allowed: a result"),
        (["list.json"], "list.json: JSON, but no result that has a page"),
        (["bad.json"], "bad.json: result: not JSON"),
        (["bad.h5"], "bad.h5"),
        (["plan.json", "-o", "page.pdf"], "--output: page.pdf given; allowed: a name that ends in .html"),
        (["plan.json", "-o", "plan.json"], "--output: plan.json given"),
        (["plan.json", "-o", "no/page.html"], "--output: no/page.html"),
        (["plan.json", "--fabric", "nowhere"], "nowhere"),
        (["plan.json", "--bytes", "many"], "--bytes: many"),
        (["train.json"], "train.json: seconds: "),
    ],
)
def test_one_clear_line(results, command, tmp_path, words, message):
    (tmp_path / "empty").mkdir()
    for name, text in (
        ("other.json", "{}"),
        ("list.json", "[1]"),
        ("bad.json", "{"),
        ("begun.h5.checkpoint", ""),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "bad.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    (tmp_path / "plan.json").write_bytes((results / "plan.json").read_bytes())
    facts = json.loads((results / "train.json").read_text()) | {"seconds": "long"}
    (tmp_path / "train.json").write_text(json.dumps(facts))
    before = sorted(tmp_path.rglob("*"))
    code, out, err = command(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert message in err
    assert sorted(tmp_path.rglob("*")) == before

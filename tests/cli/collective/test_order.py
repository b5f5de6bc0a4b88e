"""`--order`, grids of fabrics, and what is said about them; files together; helps."""

import json
import os

import pytest

from wavefabric.base.errors import InputError
from wavefabric.cli import app
from wavefabric.cli.common.files import write_all
from wavefabric.collectives import ring_all_gather, save
from wavefabric.collectives.registry import build


def told(command, *words):
    """What a command prints with --json."""
    code, out, err = command("collective", *words, "--json")
    assert (code, err) == (0, ""), err
    return json.loads(out, parse_constant=pytest.fail)


RING = ["cost", "ring", "all-reduce", "--fabric", "dgx-1"]


def test_an_order_by_hand_and_one_that_is_found(command):
    plain, hand, result = (
        told(command, *RING, *more)["costs"][0]
        for more in ([], ["--order", "0,1,3,2,6,7,5,4"], ["--order", "auto", "--seed", "5"])
    )
    assert plain["order"] is None
    assert hand["order"] == [0, 1, 3, 2, 6, 7, 5, 4]
    # Links of PCIe are left out: three times as fast.
    assert hand["seconds"] < plain["seconds"] / 3
    assert result["seconds"] <= hand["seconds"] * (1 + 1e-9)
    assert result["bound"] == plain["bound"]


@pytest.mark.slow
def test_each_algorithm_has_its_own_order(command):
    words = ["cost", "all-reduce", "--algorithms", "ring,recursive:2", "--fabric", "dgx-1"]
    plain = {row["algorithm"]: row for row in told(command, *words)["costs"]}
    rows = {row["algorithm"]: row for row in told(command, *words, "--order", "auto")["costs"]}
    assert all(rows[name]["seconds"] < plain[name]["seconds"] for name in plain)
    assert rows["ring"]["order"] != rows["recursive:2"]["order"]
    code, out, _ = command("collective", *words, "--order", "auto", "--rounds")
    assert code == 0
    for name, row in rows.items():
        text = ",".join(map(str, row["order"]))
        assert f"order of {name}: rank 0, 1, … is GPU {text}" in out
        assert f"64 MiB, order {text}" in " ".join(out.split())


def test_a_better_order_is_hinted_at_where_there_may_be_one(command):
    for words, hint in ((["dgx-1"], True), (["switch:8"], False), (["dgx-1", "--order", "auto"], False)):
        code, out, _ = command("collective", "cost", "ring", "all-reduce", "--fabric", *words)
        assert code == 0
        assert ("--order auto looks for a better one" in out) == hint


def test_draw_in_an_order(command, tmp_path):
    words = ["draw", "ring", "all-reduce", "--fabric", "ring:4", "--order", "1,0,2,3", "-o", "r.svg"]
    code, out, err = command("collective", *words)
    assert (code, out, err) == (0, "order: rank 0, 1, … is GPU 1,0,2,3\nwrote r.svg\n", "")
    assert os.listdir(tmp_path) == ["r.svg"]


@pytest.mark.parametrize(
    ("fabric", "words", "grid"),
    [
        ("torus:2x8", ["torus", "halo"], [2, 8]),
        ("mesh:2x2x4", ["mesh", "halo"], [2, 2, 4]),
        ("lightpath:2x8", ["squares", "all-reduce"], [2, 8]),
        ("mesh:2x2x4", ["squares", "all-reduce"], None),
        ("switch:16", ["torus", "halo"], None),
    ],
)
def test_grids_are_those_of_the_fabric(command, fabric, words, grid):
    result = told(command, "cost", *words, "--fabric", fabric)["costs"][0]
    assert result["grid"] == grid
    by_hand = ["--grid", "x".join(map(str, grid))] if grid else []
    inputs = told(command, "cost", *words, "--fabric", fabric, *by_hand)["costs"][0]
    assert inputs["seconds"] == result["seconds"]
    if grid:
        assert inputs["grid"] is None
        code, out, _ = command("collective", "cost", *words, "--fabric", fabric)
        assert code == 0
        assert f"grid: {'x'.join(map(str, grid))}, that of {fabric}" in out


def test_a_halo_on_its_torus_goes_to_neighbours(command):
    # Every message over one link: alpha, latency and its bytes.
    result = told(command, "cost", "torus", "halo", "--fabric", "torus:2x8", "--rounds")["costs"][0]
    other = told(command, "cost", "torus", "halo", "--fabric", "torus:2x8", "--grid", "4x4")["costs"][0]
    assert len(result["rounds"]) == 1
    assert result["transfer"] < other["transfer"]


def test_one_rank_has_no_ratio(command):
    words = ["cost", "ring", "all-reduce", "--ranks", "1", "--fabric", "dgx-1"]
    assert told(command, *words)["costs"][0]["ratio"] is None
    code, out, _ = command("collective", *words)
    assert code == 0
    assert "nan" not in out
    assert "better one" not in out


def test_a_tree_in_one_piece_says_so(command):
    words = ["cost", "all-reduce", "--fabric", "switch:8", "--algorithms"]
    _, out, _ = command("collective", *words, "tree,double-tree:8")
    assert "tree, pieces 1" in out
    _, out, _ = command("collective", *words, "tree,ring")
    assert "pieces" not in out


# --- Files ----------------------------------------------------------------------------------------------


def test_files_together_are_all_written_or_none(tmp_path):
    one, other = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text("mine")
    other.mkdir()
    for force in (False, True):
        with pytest.raises(InputError):
            write_all({one: "new", other: "new"}, force)
        with pytest.raises(InputError):
            write_all({one: "new", tmp_path / "gone" / "two.json": "new"}, force)
    assert one.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["one.json", "two.json"]
    other.rmdir()
    assert write_all({one: "1", other: "2"}, True) == [one, other]
    assert (one.read_text(), other.read_text()) == ("1", "2")
    assert sorted(os.listdir(tmp_path)) == ["one.json", "two.json"]


def test_a_file_called_partial_stays(command, tmp_path):
    (tmp_path / "r.svg.partial").write_text("mine")
    code, _, _ = command("collective", "draw", "ring", "all-reduce", "--fabric", "ring:4", "-o", "r.svg")
    assert code == 0
    assert (tmp_path / "r.svg.partial").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["r.svg", "r.svg.partial"]


def test_options_of_msccl_reach_the_file(command, tmp_path):
    save(tmp_path / "a.json", ring_all_gather([2] * 4))
    for name, more in (("plain", []), ("more", ["--instances", 2, "--shared", "--slots", 4])):
        code, _, err = command("collective", "export", "a.json", "-o", f"{name}.xml", *more)
        assert (code, err) == (0, "")
    plain, more = ((tmp_path / f"{name}.xml").read_text() for name in ("plain", "more"))
    assert 'nchannels="1"' in plain
    assert 'nchannels="2"' in more
    assert plain.count("<tb ") == 8
    assert more.count("<tb ") == 4 * 2 * 2 or more.count("<tb ") == 4 * 2


def test_schedules_by_name_are_proved_once(command, monkeypatch, tmp_path):
    from wavefabric.cli.collective.circuit_file import circuits_text, load_circuits
    from wavefabric.collectives import verify
    from wavefabric.fabric import load
    from wavefabric.fabric.photonic.planning import plan_circuits

    proved, loaded = [], []
    monkeypatch.setattr("wavefabric.cli.collective.algorithm.verify", lambda s: proved.append(s) or verify(s))
    told(command, "cost", "ring", "all-reduce", "--fabric", "ring:4")
    assert len(proved) == 1
    schedule = build("ring", "all-gather", 4, 4)
    save(tmp_path / "s.json", schedule)
    (tmp_path / "c.json").write_text(circuits_text(plan_circuits(schedule, load("lightpath:2x2"))))
    counted = "wavefabric.cli.collective.setting.load_circuits"
    monkeypatch.setattr(counted, lambda path: loaded.append(path) or load_circuits(path))
    told(command, "cost", "s.json", "--circuits", "c.json")
    assert (len(proved), len(loaded)) == (2, 1)


# --- Helps ----------------------------------------------------------------------------------------------


def commands(group, path=()):
    """Every command below one, with its name in words."""
    for name in group.commands:
        each = group.get_command(None, name)
        if hasattr(each, "commands"):
            yield from commands(each, (*path, name))
        else:
            yield " ".join((*path, name)), each


@pytest.mark.parametrize(("name", "each"), commands(app), ids=lambda v: str(v)[:30])
def test_helps_lose_no_words(command, monkeypatch, name, each):
    monkeypatch.setenv("COLUMNS", "240")
    code, out, _ = command(*name.split(), "--help")
    assert code == 0
    seen = "".join(c for c in out if c not in "\n ")
    for option in each.params:
        assert option.help
        assert "".join(option.help.split()) in seen, (option.name, option.help)

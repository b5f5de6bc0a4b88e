"""`wavefabric collective` on sound input."""

import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.cli.collective.algorithm import default_elements, whole_array
from wavefabric.cli.collective.circuit_file import circuits_text, load_circuits
from wavefabric.cli.common.parse import parse_sizes
from wavefabric.collectives import from_json, load, ring_all_gather, save, verify
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.registry import ALGORITHMS, build, why_refused
from wavefabric.collectives.schedule import TRANSFER, Schedule
from wavefabric.fabric import load as load_fabric
from wavefabric.fabric import save as save_fabric
from wavefabric.fabric.photonic.check import check_plan
from wavefabric.fabric.photonic.link_budget import LinkBudget
from wavefabric.fabric.photonic.planning import plan_circuits

DATA = Path(__file__).parents[2] / "data" / "fabric"


def told(command, *words):
    """What a command prints with --json."""
    code, out, err = command("collective", *words, "--json")
    assert (code, err) == (0, ""), err
    return json.loads(out)


def conditions(collective, ranks):
    """A schedule without transfers."""
    wanted = layout(collective, ranks, ranks)
    return Schedule(
        "wanted", ranks, wanted.buffers, wanted.sizes, np.empty(0, TRANSFER), wanted.pre, wanted.post
    )


# --- make ---------------------------------------------------------------------------------------------


def test_make_writes_a_schedule_that_holds(command, tmp_path):
    words = ["make", "recursive", "all-reduce", "--ranks", 16, "--radix", 4, "-o", "r4.json"]
    code, out, err = command("collective", *words)
    assert (code, err) == (0, "")
    for text in (
        "recursive all-reduce, radix 4",
        "verified",
        "rounds        4",
        "1.875 times the array",
        "wrote r4.json",
    ):
        assert text in out, out
    verify(load(tmp_path / "r4.json"))
    assert os.listdir(tmp_path) == ["r4.json"]
    # A rank sends 2 (N - 1)/N of the array.
    result = told(command, *words, "--force")
    assert result["sent_elements"] / result["elements"] == 2 * 15 / 16
    assert result["rounds"] == 4
    assert result["verified"] is True
    assert result["written"] == ["r4.json"]


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_algorithm_is_made(command, name):
    known = ALGORITHMS[name]
    grid = ("--grid", "2x2") if name == "nvls-tree" else ()
    ranks = next(n for n in (4, 8) if grid or why_refused(name, known.collectives[0], n) is None)
    result = told(command, "make", name, known.collectives[-1], "--ranks", ranks, *grid)
    assert result["collective"] == {"halo": "custom"}.get(known.collectives[-1], known.collectives[-1])


def test_make_lists_all(command):
    code, out, err = command("collective", "make", "--list")
    assert (code, err) == (0, "")
    for name in (*ALGORITHMS, "optimal", "greedy", "--radix"):
        assert name in out
    assert [row["algorithm"] for row in told(command, "make", "--list")] == [*ALGORITHMS, "optimal", "greedy"]


def test_make_greedy_from_messages(command, tmp_path):
    (tmp_path / "m.json").write_text("[[0, 1, 5], [0, 2, 5], [0, 3, 5], [3, 1, 2]]")
    result = told(command, "make", "greedy", "--messages", "m.json", "--lasers", 2, "-o", "g.json")
    assert (result["ranks"], result["rounds"], result["transfers"]) == (4, 2, 4)
    assert load(tmp_path / "g.json").name == "greedy"


def test_make_optimal_over_light(command, tmp_path):
    words = ["make", "optimal", "all-gather", "--fabric", "lightpath:2x2", "--lasers", 2, "-o", "best.json"]
    result = told(command, *words)
    assert (result["rounds"], result["lower_bound"], result["optimal"]) == (2, 2, True)
    assert result["written"] == ["best.json", "best.circuits.json"]
    schedule = load(tmp_path / "best.json")
    verify(schedule)
    circuits = load_circuits(tmp_path / "best.circuits.json")
    check_plan(circuits, schedule)
    assert (circuits.fabric.lasers, circuits.fabric.name) == (2, "lightpath:2x2, 2 lasers")
    code, out, err = command("collective", "verify", "best.json", "--circuits", "best.circuits.json")
    assert (code, err) == (0, "")
    assert out.startswith("ok: best.json")
    assert "12 circuits in 2 set-ups" in out


@pytest.mark.parametrize(("fabric", "steps"), [("ring:8", 4), ("dgx-1", 2), ("hypercube:3", 3)])
def test_make_optimal_over_wires(command, fabric, steps):
    # Least steps of an all-gather as SCCL publishes them (doi:10.1145/3437801.3441620).
    result = told(command, "make", "optimal", "all-gather", "--fabric", fabric)
    assert (result["rounds"], result["optimal"], result["fabric"]) == (steps, True, fabric)


@pytest.mark.parametrize(
    ("collective", "fabric", "method", "most"),
    [
        ("all-gather", "dgx-a100", "algorithm direct", 0),
        ("broadcast", "switch:4", "trees: 3 of each root, 2 deep", 0.15),
        pytest.param("reduce-scatter", "nodes:2x4", "trees: ", 0.2, marks=pytest.mark.slow),
        pytest.param("all-reduce", "hgx-h100", "algorithm nvls", 0.65, marks=pytest.mark.slow),
    ],
)
def test_make_optimal_on_switches(command, collective, fabric, method, most):
    result = told(command, "make", "optimal", collective, "--fabric", fabric)
    assert (result["collective"], result["optimal"]) == (collective, most == 0)
    assert result["method"].startswith(method)
    assert -1e-9 <= result["gap"] <= most + 1e-9


@pytest.mark.parametrize(
    ("collective", "fabric"),
    [
        ("all-gather", "dgx-1"),
        pytest.param("all-reduce", "dgx-1", marks=pytest.mark.slow),
        ("broadcast", "ring:4"),
        ("all-gather", "lightpath:2x2"),
        pytest.param("all-gather", "switch:4", marks=pytest.mark.slow),
        ("reduce-scatter", "nodes:2x2"),
    ],
)
def test_optimal_is_said_of_a_time_that_is_the_bound_alone(command, collective, fabric):
    words = ("make", "optimal", collective, "--fabric", fabric)
    ratio = told(command, *words)["cost"]["ratio"]
    code, out, _ = command("collective", *words)
    assert code == 0
    assert ("optim" in out) == (ratio <= 1 + 1e-9), out
    assert (" times the bound of " in out) == (ratio > 1 + 1e-9), out
    assert ("proved: " in out) == (fabric not in ("switch:4", "nodes:2x2", "dgx-1")), out


@pytest.mark.slow
def test_the_fastest_of_every_method_beside_named_algorithms(command):
    words = [
        "cost",
        "all-gather",
        "--algorithms",
        "ring,optimal,auto",
        "--fabric",
        "dgx-1",
        "--bytes",
        "8K,16M",
    ]
    rows = told(command, *words)["costs"]
    fastest = {row["bytes"]: row for row in rows if row["algorithm"] == "optimal"}
    assert all(row["seconds"] >= fastest[row["bytes"]]["seconds"] * (1 - 1e-9) for row in rows)
    assert fastest[1 << 24]["method"] == "3 steps, 7 rounds, 6 pieces"  # as SCCL found
    assert fastest[1 << 24]["busbw"] == pytest.approx(7 / 8 * (1 << 24) / fastest[1 << 24]["seconds"])
    code, out, err = command("collective", *words)
    assert (code, err) == (0, "")
    assert f"optimal: 8 KiB by {fastest[8192]['method']}" in out


@pytest.mark.parametrize(
    ("fabric", "more"),
    [
        ("nodes:4x8", ()),
        pytest.param("nodes", (), marks=pytest.mark.slow),
        pytest.param("nodes:8x8", ("-n", 32), marks=pytest.mark.slow),
    ],
)
def test_rings_on_nodes_use_all_adapters(command, fabric, more):
    (row,) = told(command, "cost", "ring", "all-reduce", "--fabric", fabric, "--bytes", "8G", *more)["costs"]
    assert row["grid"] == [4, 8]
    assert row["busbw"] == pytest.approx(2 * 31 / 32 * 8 * 2**30 / row["seconds"])
    assert row["busbw"] > 390e9
    plain = told(command, "cost", "ring", "all-reduce", "--fabric", fabric, "--grid", "32x1", *more)["costs"][
        0
    ]
    assert plain["transfer"] == pytest.approx(2 * 31 / 32 * 64 * 2**20 / 50e9)


def test_chunks_steps_and_rounds_on_switches(command):
    ask = ("make", "optimal", "all-gather", "--fabric", "dgx-a100", "--steps", 1, "--rounds")
    result = told(command, *ask, 7)
    assert (result["rounds"], result["lower_bound"], result["optimal"]) == (1, 7, True)
    code, out, _ = command("collective", *ask, 6)
    assert (code, out.startswith("impossible in 1 steps and 6 rounds on dgx-a100")) == (1, True)


@pytest.mark.slow
def test_best_all_reduce_is_fast_as_it_is(command, tmp_path):
    # As many pieces as GPUs: every rank adds up a part, and no algorithm of the registry is faster.
    result = told(command, "make", "optimal", "all-reduce", "--fabric", "lightpath:4x8", "-o", "a.json")
    assert (result["pieces"], result["rounds"], result["optimal"]) == (32, 4, True)
    assert result["cost"]["bytes"] == 64 << 20
    assert result["cost"]["ratio"] < 1.06
    assert result["cost"]["ratio"] * result["cost"]["bound"]["seconds"] == pytest.approx(
        result["cost"]["seconds"]
    )
    rows = told(command, "cost", "all-reduce", "--algorithms", "all,recursive:4", "--fabric", "lightpath:4x8")
    assert all(row["seconds"] > result["cost"]["seconds"] * (1 - 1e-9) for row in rows["costs"])
    assert len(rows["costs"]) > 10
    same = told(command, "cost", "a.json", "--circuits", "a.circuits.json")["costs"][0]
    assert same["seconds"] == pytest.approx(result["cost"]["seconds"])
    one = told(command, "make", "optimal", "all-reduce", "--fabric", "lightpath:4x8", "--pieces", 1)
    assert one["cost"]["seconds"] > 20 * result["cost"]["seconds"]


@pytest.mark.parametrize(
    ("collective", "pieces"), [("broadcast", 4), ("reduce", 4), ("all-gather", 1), ("scatter", 1)]
)
def test_pieces_of_best_schedules(command, collective, pieces):
    result = told(command, "make", "optimal", collective, "--fabric", "lightpath:2x2", "--bytes", "1M")
    assert (result["pieces"], result["cost"]["bytes"]) == (pieces, 1 << 20)


def test_best_schedules_say_what_is_proved_and_what_it_takes(command):
    words = ["make", "optimal", "all-reduce", "--fabric", "ring:4"]
    code, out, err = command("collective", *words)
    assert (code, err) == (0, "")
    out = " ".join(out.split())
    assert "proved in each half: 4 steps, 4 rounds for 4 pieces; reduce-scatter: 2 steps found by" in out
    seconds = told(command, *words)["cost"]["seconds"]
    assert f"time 64 MiB in {seconds * 1e6:.3g} µs on ring:4, alpha-beta model; " in out
    assert " times the bound of " in out


@pytest.mark.slow
def test_a_size_asks_for_the_least_time(command):
    words = ["make", "optimal", "all-gather", "--fabric", "dgx-1", "--time-limit", "20", "--bytes"]
    small, large = (told(command, *words, size) for size in ("8K", "64M"))
    assert small["rounds"] < large["rounds"]
    assert large["method"].startswith("trees")
    assert (
        min(seconds for seconds in large["tried"].values() if not isinstance(seconds, str))
        == (large["cost"]["seconds"])
    )


@pytest.mark.parametrize(("routes", "most"), [("xy", 2), ("shortest:1", 1), ("shortest:4", 4)])
def test_routes_of_best_schedules(command, monkeypatch, routes, most):
    from wavefabric.collectives import synthesis

    inputs = []
    solve = synthesis.synthesise
    monkeypatch.setattr(
        synthesis, "synthesise", lambda made, over, **more: inputs.append(over) or solve(made, over, **more)
    )
    told(command, "make", "optimal", "all-gather", "--fabric", "lightpath:2x3", "--routes", routes)
    assert max(len(paths) for paths in inputs[0].routes.values()) == most


@pytest.mark.parametrize(("pieces", "steps", "rounds", "code"), [(2, 2, 3, 0), (3, 2, 4, 1), (1, 1, 1, 1)])
def test_chunks_steps_and_rounds(command, tmp_path, pieces, steps, rounds, code):
    # SCCL, doi:10.1145/3437801.3441620: (2, 2, 3) is feasible on a DGX-1, (3, 2, 4) is not.
    words = ["make", "optimal", "all-gather", "--fabric", "dgx-1", "--pieces", pieces, "--steps", steps]
    words += ["--rounds", rounds, "-o", "s.json"]
    left, out, err = command("collective", *words, "--json")
    assert (left, err) == (code, "")
    answer = json.loads(out)
    if code:
        assert (answer["feasible"], answer["steps"], answer["rounds"]) == (False, steps, rounds)
        left, out, _ = command("collective", *words)
        assert left == 1
        assert out.startswith(f"impossible in {steps} steps and {rounds} rounds on dgx-1: proved by ")
        assert os.listdir(tmp_path) == []
    else:
        assert sum(answer["rounds_of_steps"]) == rounds
        assert len(answer["rounds_of_steps"]) == steps == load(tmp_path / "s.json").communication_rounds


def test_a_limit_is_kept_before_the_search_too(command):
    words = ["make", "optimal", "all-gather", "--fabric", "lightpath:8x8", "--time-limit", "1e-6"]
    code, out, err = command("collective", *words)
    assert (code, out) == (2, "")
    assert err.startswith("wavefabric: error: --time-limit: 1e-06 s over before ")
    assert err.count("\n") == 1


def test_make_optimal_for_conditions_of_ones_own(command, tmp_path):
    save(tmp_path / "wanted.json", conditions("broadcast", 4))
    words = ["make", "optimal", "--fabric", "lightpath:2x2", "--conditions", "wanted.json"]
    code, out, err = command("collective", *words, "--waveguides", 3)
    assert (code, err) == (0, "")
    for text in ("rounds        1", "fewest        proved", "lower bound", "verified"):
        assert text in out, out


def test_circuits_of_best_schedules_are_not_overwritten(command, tmp_path):
    (tmp_path / "best.circuits.json").write_text("mine")
    words = ["make", "optimal", "all-gather", "--fabric", "lightpath:2x2", "-o", "best.json"]
    code, _, err = command("collective", *words)
    assert code == 2
    assert "best.circuits.json exists" in err
    assert (tmp_path / "best.circuits.json").read_text() == "mine"
    assert not (tmp_path / "best.json").exists()


# --- verify -------------------------------------------------------------------------------------------


def test_verify_by_content(command, tmp_path):
    save(tmp_path / "a.json", ring_all_gather([2, 2, 2]))
    code, _, err = command("collective", "export", "a.json", "-o", "b.xml")
    assert (code, err) == (0, "")
    (tmp_path / "b.xml").rename(tmp_path / "plain.txt")
    result = told(command, "verify", "a.json", "plain.txt")
    assert [each["collective"] for each in result] == ["all-gather"] * 2
    assert all(each["verified"] for each in result)


def test_verify_what_is_expected(command, tmp_path):
    save(tmp_path / "a.json", build("ring", "all-reduce", 4, 8))
    save(tmp_path / "b.json", build("ring", "all-gather", 4, 8))
    save(tmp_path / "c.json", build("torus", "halo", 4, 8))
    assert told(command, "verify", "a.json", "--expect", "all-reduce")[0]["collective"] == "all-reduce"
    for name, does in (("b.json", "all-gather"), ("c.json", "no named collective")):
        code, out, err = command("collective", "verify", "a.json", name, "--expect", "all-reduce")
        assert (code, out) == (2, "")
        assert err == (
            f"wavefabric: error: --expect: all-reduce given, but {name} does {does}; "
            "allowed: one that does all-reduce\n"
        )


def test_verify_names_the_circuit_at_fault(command, tmp_path):
    schedule, position = ring_all_gather([1] * 4), load_fabric("lightpath:2x2")
    save(tmp_path / "a.json", schedule)
    result = plan_circuits(schedule, position)
    first = result.rounds[0]
    twice = replace(first, bundles=(*first.bundles, first.bundles[0]))
    (tmp_path / "c.json").write_text(circuits_text(replace(result, rounds=(twice, *result.rounds[1:]))))
    code, out, err = command("collective", "verify", "a.json", "--circuits", "c.json")
    assert (code, out) == (2, "")
    assert err.startswith("wavefabric: error: c.json: ")
    assert err.count("\n") == 1
    assert "round 0" in err


@pytest.mark.parametrize(
    ("collective", "fabric"), [("all-reduce", "lightpath:2x4"), ("all-to-all", "lightpath:3x3")]
)
def test_circuits_survive_their_file(tmp_path, collective, fabric):
    position = load_fabric(fabric)
    result = plan_circuits(build("direct", collective, position.ranks, position.ranks), position)
    path = tmp_path / "c.json"
    path.write_text(circuits_text(result))
    assert load_circuits(path) == result


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(format="other"), ["format"]),
        (lambda c: c.update(version=2), ["version"]),
        (lambda c: c.pop("fabric"), ["fabric"]),
        (lambda c: c["fabric"].pop("lasers"), ["fabric", "lasers"]),
        (lambda c: c["fabric"].update(lasers=0), ["fabric.lasers", "0"]),
        (lambda c: c["fabric"].update(rows="two"), ["fabric.rows", "two"]),
        (lambda c: c["fabric"].update(alpha=-1), ["fabric.alpha", "-1"]),
        (lambda c: c.update(rounds=3), ["rounds", "list"]),
        (lambda c: c.update(rounds=c["rounds"][1:]), ["round 0", "listed"]),
        (lambda c: c["rounds"].__setitem__(0, None), ["rounds[0]", "round"]),
        (lambda c: c["circuits"][0].update(round=-1), ["circuits[0]", "round", "-1"]),
        (lambda c: c["circuits"][0].update(src=1.5), ["circuits[0]", "src", "1.5"]),
        (lambda c: c["circuits"][0].update(wavelengths=[]), ["circuits[0]", "wavelengths"]),
        (lambda c: c["circuits"][0].update(wavelengths=[3, 3]), ["circuits[0]", "wavelengths", "once"]),
        (lambda c: c["circuits"][0].update(wavelengths=[99]), ["circuits[0]", "wavelengths", "99", "15"]),
        (lambda c: c["circuits"][0].update(route=[0]), ["circuits[0]", "waveguides"]),
        (lambda c: c["circuits"][0].update(route=[0, 77]), ["circuits[0]", "route", "77"]),
        (lambda c: c["circuits"][0].update(waveguides="x"), ["circuits[0]", "waveguides", "list"]),
    ],
)
def test_bad_circuits_are_named(tmp_path, change, words):
    content = json.loads(circuits_text(plan_circuits(ring_all_gather([1] * 4), load_fabric("lightpath:2x2"))))
    change(content)
    path = tmp_path / "c.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as refused:
        load_circuits(path)
    assert "\n" not in str(refused.value)
    for word in ("c.json", *words):
        assert word in str(refused.value)


# --- cost ---------------------------------------------------------------------------------------------


def test_cost_of_a_ring_by_hand(command):
    # 2 (N - 1) rounds, each α and a chunk; 8 GPUs, every size of the array.
    position = load_fabric("ring:8")
    result = told(command, "cost", "ring", "all-reduce", "--fabric", "ring:8", "--bytes", "8K:128K")
    assert [row["bytes"] for row in result["costs"]] == [8 << 10, 32 << 10, 128 << 10]
    link = position.links[0]
    for row in result["costs"]:
        expected = 14 * (position.alpha + link.latency + row["bytes"] / 8 / link.bandwidth)
        assert row["seconds"] == pytest.approx(expected)
        assert row["seconds"] == pytest.approx(row["latency"] + row["reconfiguration"] + row["transfer"])
        assert row["ratio"] == pytest.approx(row["seconds"] / row["bound"]["seconds"])
        assert row["ratio"] >= 1


def test_cost_of_light_shows_its_rounds(command):
    words = ["cost", "recursive", "all-reduce", "--fabric", "lightpath:2x4", "--bytes", "1M", "--rounds"]
    code, out, err = command("collective", *words)
    assert (code, err) == (0, "")
    for text in ("set-up", "bound", "1 MiB", "photonic model", "limit", "tile 0 sends"):
        assert text in out, out
    rows = told(command, *words)["costs"]
    assert len(rows[0]["rounds"]) == 6
    assert sum(r["seconds"] for r in rows[0]["rounds"]) == pytest.approx(rows[0]["seconds"])


def test_costs_are_compared(command, tmp_path):
    words = ["cost", "all-reduce", "--algorithms", "ring,recursive:4,double-tree:8", "--fabric", "switch:16"]
    result = told(command, *words, "--bytes", "1K,64M", "-o", "c.png")
    for size in (1 << 10, 64 << 20):
        rows = {row["algorithm"]: row for row in result["costs"] if row["bytes"] == size}
        assert list(rows) == ["ring", "recursive:4", "double-tree:8"]
        least = min(rows, key=lambda name: rows[name]["seconds"])
        assert [name for name in rows if rows[name]["best"]] == [least]
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    code, out, _ = command("collective", *words, "--bytes", "1K", "--force")
    assert code == 0
    lines = [line for line in out.splitlines() if "link" in line]
    assert " * " in lines[0]
    assert [" * " in line for line in lines[1:]] == [False, False]


def test_all_algorithms_are_compared(command):
    words = ["cost", "all-reduce", "--algorithms", "all", "--fabric", "switch:6"]
    result = told(command, *words)
    known = [name for name, each in ALGORITHMS.items() if "all-reduce" in each.collectives]
    labels = {row["algorithm"] for row in result["costs"]}
    assert {label.partition(":")[0] for label in labels} | set(result["left_out"]) == set(known)
    assert labels >= {
        "ring",
        "tree",
        "tree:16",
        "recursive:3",
        "recursive:6",
        "hierarchical",
        "hierarchical:3x2:3",
    }
    assert set(result["left_out"]) == {"squares", "nvls", "nvls-tree", "nvls-one-shot"}
    assert "powers of two" in result["left_out"]["squares"]
    code, out, _ = command("collective", *words, "--radix", 3)
    assert code == 0
    assert "recursive" in out
    assert [line for line in out.splitlines() if line.startswith("left out: ")] == [
        "left out: squares (ranks: 6 given; allowed: powers of two from 4 (squares))",
        "left out: nvls (no switch of switch:6 multicasts and reduces)",
        "left out: nvls-tree (no switch of switch:6 multicasts and reduces)",
        "left out: nvls-one-shot (no switch of switch:6 multicasts and reduces)",
    ]
    some = told(command, "cost", "halo", "--algorithms", "all", "--fabric", "mesh:2x3")
    assert [row["algorithm"] for row in some["costs"]] == ["torus", "mesh"]


@pytest.mark.slow
def test_the_fastest_of_all_algorithms(command):
    """``auto``: of each size the fastest of what ``all`` compares; nothing else."""
    words = ["cost", "all-reduce", "--fabric", "hgx-h100", "--bytes", "8K,64M", "--algorithms"]
    every, best = told(command, *words, "all")["costs"], told(command, *words, "auto")["costs"]
    fastest = [row["algorithm"] for row in every if row["best"]]
    assert sorted({row["algorithm"] for row in best}) == sorted(set(fastest)) == ["direct", "nvls"]
    named = ["nvls:4", "hierarchical:4x2:4", "recursive:8"]
    costs = {row["algorithm"]: row["seconds"] for row in told(command, *words, ",".join(named))["costs"]}
    assert costs == {r["algorithm"]: r["seconds"] for r in every if r["algorithm"] in named}
    for text in ("hierarchical:3x3", "hierarchical:x", "nvls:4x2", "auto,auto", "ring:"):
        code, out, err = command("collective", *words, text)
        assert (code, out, err.count("\n")) == (2, "", 1), text


def test_options_of_light_reach_the_cost(command):
    plain = told(command, "cost", "ring", "all-reduce", "--fabric", "lightpath:2x2")["costs"][0]
    kept = told(command, "cost", "ring", "all-reduce", "--fabric", "lightpath:2x2", "--incremental")["costs"][
        0
    ]
    # Around a ring circuits stay: only the first round sets them up.
    position = load_fabric("lightpath:2x2")
    assert plain["reconfiguration"] == pytest.approx(6 * position.reconfiguration)
    assert kept["reconfiguration"] == pytest.approx(position.reconfiguration)
    assert kept["transfer"] == pytest.approx(plain["transfer"])


@pytest.mark.slow
def test_circuits_change_as_is_best(command):
    words = ("cost", "recursive", "all-reduce", "--fabric", "lightpath:2x4", "--reconfigure", "best")
    (best,) = told(command, *words, "--bytes", "1M")["costs"]
    assert best["choice"]["bound"] <= best["seconds"] < min(best["choice"]["always"], best["choice"]["never"])
    assert all(0 <= each["from"] < each["to"] for each in best["circuits"])
    assert "circuits: change" in command("collective", *words)[1]


def test_cost_of_a_file_with_its_circuits(command, tmp_path):
    schedule = build("recursive", "all-gather", 4, 8)
    save(tmp_path / "s.json", schedule)
    (tmp_path / "c.json").write_text(circuits_text(plan_circuits(schedule, load_fabric("lightpath:2x2"))))
    one = told(command, "cost", "s.json", "--circuits", "c.json")
    other = told(command, "cost", "s.json", "--fabric", "lightpath:2x2")
    assert one["costs"][0]["seconds"] == other["costs"][0]["seconds"]
    code, _, err = command(
        "collective", "cost", "s.json", "--circuits", "c.json", "--fabric", "lightpath:2x4"
    )
    assert code == 2
    assert "c.json is for lightpath:2x2" in err


def test_the_flow_model_has_no_rounds(command):
    code, out, err = command(
        "collective", "cost", "ring", "all-reduce", "--fabric", "ring:4", "--model", "flow", "--rounds"
    )
    assert (code, err) == (0, "")
    assert "flow model" in out
    assert "has no rounds" in out
    row = told(command, "cost", "ring", "all-reduce", "--fabric", "ring:4", "--model", "flow")["costs"][0]
    assert row["latency"] is None
    assert row["seconds"] > 0


# --- draw, export -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fabric", "name", "head"),
    [
        ("lightpath:1x2", "x.png", b"\x89PNG"),
        ("lightpath:1x2", "x.gif", b"GIF89a"),
        ("lightpath:1x2", "x.html", b"<!DOCTYPE html>"),
        ("ring:4", "x.png", b"\x89PNG"),
    ],
)
def test_draw_writes_one_file(command, tmp_path, fabric, name, head):
    code, out, err = command("collective", "draw", "direct", "all-gather", "--fabric", fabric, "-o", name)
    assert (code, out, err) == (0, f"wrote {name}\n", "")
    assert (tmp_path / name).read_bytes().startswith(head)
    assert os.listdir(tmp_path) == [name]


def test_export_there_and_back_with_circuits(command, tmp_path):
    save(tmp_path / "a.json", build("ring", "all-gather", 4, 8))
    result = told(command, "export", "a.json", "-o", "a.xml", "--fabric", "lightpath:2x2")
    assert result["written"] == ["a.xml", "a.circuits.json"]
    assert told(command, "export", "a.xml", "-o", "b.json")["written"] == ["b.json"]
    back = from_json((tmp_path / "b.json").read_text())
    verify(back)
    assert back.ranks == 4
    check_plan(load_circuits(tmp_path / "a.circuits.json"), load(tmp_path / "a.json"))


# --- sizes --------------------------------------------------------------------------------------------


def test_sizes_in_words():
    assert parse_sizes("64M") == [64 << 20]
    assert parse_sizes("1K, 2KiB,3kb,4") == [1 << 10, 2 << 10, 3 << 10, 4]
    assert parse_sizes("1K:64K") == [1 << 10, 4 << 10, 16 << 10, 64 << 10]
    assert parse_sizes("1K:50K") == [1 << 10, 4 << 10, 16 << 10, 50 << 10]
    assert parse_sizes("1K:8K", factor=2) == [1 << 10, 2 << 10, 4 << 10, 8 << 10]
    for bad in ("", "K", "-1K", "1.5K", "1KB2", "²", "1K:", ":1K", "b", "0x10"):
        with pytest.raises(InputError, match="--bytes"):
            parse_sizes(bad)


@pytest.mark.parametrize("collective", ["all-gather", "all-reduce", "scatter", "all-to-all", "broadcast"])
def test_elements_of_the_whole_array(collective):
    schedule = build("direct", collective, 4, default_elements(4, 3), pieces=3)
    assert whole_array(schedule) == 24


def test_costs_say_what_circuits_need(command, tmp_path):
    words = ("cost", "ring", "all-gather", "--fabric", "lightpath:4x8")
    plain = told(command, *words)["costs"][0]
    far = plain["slowest_circuit"]
    # The way back to the first tile: 3 edges up and 7 along the row.
    assert (far["src"], far["dst"], far["edges"]) == (31, 0, 10)
    code, out, _ = command("collective", *words)
    assert code == 0
    assert (
        "link budget: a wavelength of circuit 31 -> 0 over 10 edges carries 3.5 GB/s, not 20.13 GB/s" in out
    )
    capped = told(command, *words, "--budget")["costs"][0]
    slower = 20.1326592e9 / far["bandwidth"]
    assert capped["transfer"] == pytest.approx(plain["transfer"] * slower)
    short = told(command, "cost", "ring", "all-gather", "--fabric", "lightpath:2x2")["costs"][0]
    assert (short["slowest_circuit"], short["wavelength_switches"]) == (None, False)
    save(tmp_path / "s.json", ring_all_gather([1] * 32))
    assert command("collective", "export", "s.json", "--fabric", "lightpath:4x8", "-o", "s.xml")[0] == 0
    code, out, _ = command("collective", "verify", "s.json", "--circuits", "s.circuits.json")
    assert code == 0
    assert "link budget: a wavelength of circuit 31 -> 0 over 10 edges" in out


def test_one_kernel_a_gpu(command):
    words = [
        "cost",
        "recursive",
        "all-reduce",
        "--fabric",
        "hgx-h200",
        "--bytes",
        "4K,1G",
        "--model",
        "kernel",
    ]
    small, large = told(command, *words)["costs"]
    assert (small["busiest"], large["busiest"]) == ("kernels of packets", "kernels of signals")
    assert told(command, *words[:-2])["costs"][0] == small  # by default
    graph = told(command, *words[:-2], "--graph")["costs"][0]
    assert graph["busiest"] == "kernels of packets"
    assert graph["seconds"] < small["seconds"]
    packets = told(command, *words, "--protocol", "packets")["costs"][1]
    assert packets["seconds"] > 1.5 * large["seconds"]
    for more, line in (
        (["--model", "flow", "--graph"], "--graph: given with --model flow; allowed: with --model kernel"),
        (
            ["--model", "alpha-beta", "--protocol", "packets"],
            "--protocol: packets given with --model alpha-beta; allowed: with --model kernel",
        ),
        (["--model", "kernel", "--protocol", "x"], '--protocol: "x" given; allowed: packets, signals'),
    ):
        code, out, err = command("collective", *words[:-2], *more)
        assert (code, out, err) == (2, "", f"wavefabric: error: {line}\n")


def test_compile_shows_what_a_kernel_does(command, tmp_path):
    words = ["compile", "ring", "all-reduce", "--ranks", 2, "--elements", 8]
    code, out, err = command("collective", *words)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in (
        "proved no deadlock, no race, whatever the timing; calls may follow one another",
        "0 put 4 data[4:8] rank 1: staging 0",
        "1 signal rank 1",
        "2 wait rank 1 (1)",
        "3 add and put 4 data[0:4] + staging 1 data[0:4]",
    ):
        assert line in lines, out
    drawn = told(command, *words, "--fabric", "hgx-h200", "--bytes", "64K", "-o", "timeline.png")
    assert drawn["written"] == ["timeline.png"]
    assert (tmp_path / "timeline.png").stat().st_size > 10_000
    packets = told(command, *words, "--protocol", "packets")
    assert (packets["rooms"], packets["signals"], packets["proved"]) == (2, 0, True)
    code = packets["instructions"][1]
    assert [each["instruction"] for each in code] == ["move", "move", "barrier", "move"]
    assert code[0] == {
        "instruction": "move",
        "elements": 4,
        "sources": [{"rank": 1, "buffer": "data", "first": 0}],
        "targets": [{"rank": 0, "arrival": 1}],
    }
    for more, line in (
        (["--rank", 2], "--rank: 2 given; allowed: 0 to 1"),
        (["--rooms", 3], "rooms: 3 given; allowed: 1 or 2, 2 for packets"),
        (["--bytes", "1M"], "--bytes: 1M given without --output; allowed: with one"),
        (["-o", "x.png"], "--fabric: none given with --output; allowed: one, such as hgx-h200"),
        (["-o", "x.png", "--fabric", "lightpath"], "--fabric: lightpath is photonic; allowed: electrical"),
        (
            ["-o", "x.gif", "--fabric", "hgx-h200"],
            "--output: x.gif given; allowed: a name that ends in .png, .svg, .pdf",
        ),
        (["--protocol", "packets", "--rooms", 1], "rooms: 1 given; allowed: 1 or 2, 2 for packets"),
    ):
        code, out, err = command("collective", *words, *more)
        assert (code, out) == (2, "")
        assert err.endswith(f"error: {line}\n"), err


def test_oversubscribed_rounds_and_engines(command, tmp_path):
    narrow = replace(load_fabric("lightpath:1x4"), waveguides=1)
    save_fabric(tmp_path / "narrow.toml", narrow)
    words = ("cost", "recursive", "all-gather", "--fabric", "narrow.toml", "--rounds")
    split, thin = (told(command, *words, "--oversubscribed", kind)["costs"][0] for kind in ("split", "thin"))
    # Tiles two apart: two routes each way over the edge between the middle ones.
    assert max(each["parts"] for each in split["rounds"]) == 2
    assert max(each["parts"] for each in thin["rounds"]) == 1
    words = ("cost", "direct", "all-gather", "--fabric", "switch:8", "--model", "flow")
    free, one = (told(command, *words, *more)["costs"][0]["seconds"] for more in ((), ("--engines", 1)))
    assert one > free


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["switch:4", "--engines", 1], "--engines: 1 given; allowed: with --model flow"),
        (["switch:4", "--model", "flow", "--engines", 0], "--engines: 0 given; allowed: 1 or more"),
        (["switch:4", "--budget"], "--budget: given with electrical switch:4; allowed: with photonic ones"),
        (["switch:4", "--oversubscribed", "thin"], "--oversubscribed: thin given with electrical switch:4"),
        (["lightpath:2x2", "--oversubscribed", "x"], '--oversubscribed: "x" given; allowed: split, thin'),
        (["topo.xml"], "topo.xml: nccl topology: no GPU given; allowed: elements gpu, or pci of class"),
    ],
)
def test_costs_refuse_what_has_no_use(command, tmp_path, words, message):
    (tmp_path / "topo.xml").write_text('<system version="1"/>')
    code, out, err = command("collective", "cost", "ring", "all-reduce", "--fabric", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"wavefabric: error: {message}")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_times_of_nccl_tests_beside_the_prediction(command):
    table = DATA.parent / "nccl_tests" / "h100-azure.txt"
    words = "all-reduce", "--fabric", "hgx-h100", "--nccl-tests", table
    rows = told(command, "cost", "ring", *words)["costs"]
    assert (len(rows), rows[-1]["bytes"]) == (24, 8 << 30)
    measured = rows[-1]["measured"]
    assert (measured["bytes"], measured["busbw"]) == (8 << 30, 478.87e9)
    assert measured["ratio"] == pytest.approx(rows[-1]["seconds"] / measured["seconds"])
    assert measured["ratio"] == pytest.approx(measured["busbw"] / rows[-1]["busbw"], rel=1e-3)
    (row,) = told(command, "cost", "ring", *words, "--bytes", "24")["costs"]
    assert "measured" not in row
    both = told(
        command, "cost", *words[:1], "--algorithms", "optimal,ring", "--fabric", "dgx-a100", *words[3:]
    )["costs"]
    assert [each["algorithm"] for each in both] == ["ring"] * 24 + ["optimal"] * 24
    assert all(each["measured"]["bytes"] == each["bytes"] for each in both)
    for more, message in (
        (["--ranks", "4"], "holds all-reduce of 8 ranks; allowed: all-reduce of 4 ranks, as costed"),
        (["--nccl-tests", "nothing.txt"], "nccl-tests: nothing.txt"),
    ):
        code, out, err = command("collective", "cost", "ring", *words, *more)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err


@pytest.mark.parametrize(
    "file",
    ["nccl-nvswitch.xml", "nccl-cube-mesh.xml", "smi-cube-mesh.txt", "rocm-two.txt", "amd-smi-mi300x.txt"],
)
def test_topologies_of_other_programs_are_fabrics(command, file):
    path = DATA / file
    row = told(command, "cost", "ring", "all-gather", "--fabric", path, "--bytes", "1M")["costs"][0]
    assert row["seconds"] >= row["bound"]["seconds"] > 0


@pytest.mark.parametrize("file", ["astra-hgx-h100.yml", "astra-hierarchical.json"])
def test_networks_of_astra_sim_are_fabrics(command, file):
    row = told(command, "cost", "ring", "all-gather", "--fabric", DATA / file, "--bytes", "1M")["costs"][0]
    assert row["seconds"] > row["bound"]["seconds"] > 0


@pytest.mark.filterwarnings("default:.*names no NVLinks")
def test_a_topology_without_nvlinks_is_used_with_a_warning(command):
    words = "cost", "ring", "all-gather", "--fabric", DATA / "nccl-virtual-machine.xml"
    code, _, err = command("collective", *words)
    assert code == 0
    assert "names no NVLinks to others; `wavefabric fabric show" in err
    assert err.count("\n") == 1


def test_circuits_keep_their_link_budget(tmp_path):
    position = replace(load_fabric("lightpath:2x2"), budget=LinkBudget(launch_power=-3.0))
    result = plan_circuits(ring_all_gather([1] * 4), position)
    path = tmp_path / "c.json"
    path.write_text(circuits_text(result))
    assert load_circuits(path) == result
    path.write_text(circuits_text(result).replace('"switch_loss": 0.3', '"switch_loss": -1'))
    with pytest.raises(InputError, match=r"c.json: fabric.budget.switch_loss: -1 given; allowed: from 0"):
        load_circuits(path)


# --- run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("collective-run.json", ["-o", "."]),
        ("collective-run.png", ["-o", "."]),
        ("collective-run.png", ["--plot"]),
    ],
)
def test_run_replaces_nothing(command, tmp_path, there, words):
    (tmp_path / there).write_text("mine")
    run = ("collective", "run", "ring", "all-gather", "--ranks", 1, "--device", "cpu", "--sizes", "4K")
    code, out, err = command(*run, *words)
    assert (code, out) == (2, "")
    assert err == f"wavefabric: error: --output: {there} exists; allowed: another folder, or --force\n"
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec")
def test_run_starts_as_many_ranks_as_the_schedule_has(command, tmp_path, monkeypatch):
    from wavefabric.runtime.exchange.launch import launcher

    jobs = []
    monkeypatch.setattr(launcher, "launch", lambda job: jobs.append(job) or 0)
    save(tmp_path / "three.json", ring_all_gather([1] * 3))
    options = ["--device", "cpu", "--sizes", "3K"]
    for words in (["three.json"], ["ring", "all-gather", "--ranks", 3]):
        code, out, err = command("collective", "run", *words, *options)
        assert (code, out, err) == (0, "", "")
    assert [job.ranks for job in jobs] == [3, 3]
    assert jobs[0].arguments == ["collective", "run", "three.json", *options]

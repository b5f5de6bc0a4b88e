"""Figures 10 and 11 of the LUMORPH paper: their setting, divisions of gradients, and the scripts."""

import json
from collections import Counter
from math import log
from pathlib import Path

import pytest

from papers.lumorph import claims, co_scheduling, figure10, figure11, sensitivity
from papers.lumorph import closed_forms as forms
from papers.lumorph.closed_forms import MIB
from papers.lumorph.logged import LOGGED, stored
from papers.lumorph.training import CASES, LOOKS, fabric, gain, iteration, loaded, paper_gain
from papers.lumorph.training_calls import DIVISIONS, flexflow_transformer
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.gpu.work import forward_work
from wavefabric.training.iteration.task_graph import Call
from wavefabric.training.iteration.tasks import build_tasks

BY_LABEL = {(division.figure, division.label): division for division in DIVISIONS}


def test_the_data_are_all_there():
    for case in CASES:
        assert set(case.drawn) == set(LOOKS)
        assert all([x for x, _ in drawn] == [4, 8, 16, 32, 64, 128, 256] for drawn in case.drawn.values())
    assert [round(paper_gain(case, 256), 2) for case in CASES] == [1.73, 1.32, 1.08]


@pytest.mark.parametrize("ranks", [16, 64])
@pytest.mark.parametrize(
    ("series", "formula"),
    [("Ring", forms.ring), ("Lumorph-2", forms.lumorph2), ("Lumorph-4", forms.lumorph4)],
)
def test_calls_take_what_figure_7_says(ranks, series, formula):
    for nbytes in (1e4, 16 * MIB):
        call = Call("all-reduce", (tuple(range(ranks)),), nbytes, "gradients")
        assert fabric(series, ranks).seconds([call]) == pytest.approx(formula(ranks, nbytes), rel=1e-9)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.figure)
def test_an_iteration_is_computation_and_a_queue_of_all_reduces(case):
    """One call after the other from when its gradient is there, then the update of its parameters."""
    one = iteration(loaded(case.model), 64, "Ring")
    graph, free = one.graph, 0.0
    for task, call in enumerate(graph.call):
        if call is not None:
            (ready,) = (one.timeline.end[task] for task in graph.waits[task])
            free = max(free, ready) + forms.ring(64, call.bytes)
            assert one.timeline.end[task] == pytest.approx(free, rel=1e-9)
    updates = sum(s for s, kind in zip(graph.seconds, graph.kind, strict=True) if kind == "update")
    computed = sum(graph.seconds)
    assert max(free, computed) <= one.seconds * (1 + 1e-9)
    assert one.seconds <= max(free, computed - updates) + updates + 1e-12


# --- divisions of gradients -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figure", "label", "count"),
    [
        ("Bert", "BERT-large, a layer", 201),
        ("Bert", "BERT-large, a tensor", 398),
        ("Bert", "BERT-large, attention in one", 201 - 3 * 24),
        ("Bert", "BERT-base, three a block", 3 * 12 + 1 + 5),
        ("Inception", "a layer", 94 + 94 + 1),
        ("Inception", "a tensor", 94 + 2 * 94 + 2),
        ("Inception", "normalisation with convolution", 94 + 1),
        ("NCF", "a tensor", 4 + 2 * 4),
    ],
)
def test_as_many_calls_as_a_division_says_and_all_bytes(figure, label, count):
    division = BY_LABEL[figure, label]
    model, graph = division.make(), division.tasks(4, 2)
    calls = [call for call in graph.call if call is not None and call.bytes > 0]
    assert len(calls) == count
    assert sum(call.bytes for call in calls) == pytest.approx(4 * model.parameters, rel=1e-12)


def test_updates_wait_for_all_tensors_of_their_layer():
    graph = BY_LABEL["NCF", "a tensor"].tasks(4, 2)
    waited = {task for task, kind in enumerate(graph.kind) if kind == "update" for task in graph.waits[task]}
    assert waited >= {task for task, call in enumerate(graph.call) if call is not None}


def test_a_division_keeps_the_parameters():
    for division in DIVISIONS:
        if division.label.startswith("BERT-large"):
            assert division.make().parameters == loaded("bert-large").parameters


def test_tensors_of_a_layer():
    model = loaded("inception-v3")
    assert model.layers[model.index["classifier logits"]].tensors == (2048 * 1000, 1000)
    assert sum(len(layer.tensors) for layer in model.layers) == 94 + 2 * 94 + 2


def test_the_transformer_of_flexflow():
    """Width w, s tokens, 12 blocks: 6 w² parameters, 12 s w² + 4 s² w FLOPs of products in each."""
    model, width, tokens = flexflow_transformer(), 1024, 512
    assert model.parameters == 12 * 6 * width**2 + width
    products = 12 * (12 * tokens * width**2 + 4 * tokens**2 * width)
    assert products < model.flops < 1.01 * products
    assert max(4 * layer.parameters for layer in model.layers) == 16 * MIB


# --- what the numbers imply -------------------------------------------------------------------------------


def test_crossings():
    assert sensitivity._crossing(lambda x: -log(x), -log(7.0), 1, 1000) == pytest.approx(7, rel=2e-3)
    assert sensitivity._crossing(lambda x: x, 2000.0, 1, 1000) is None


def test_two_equations():
    assert sensitivity._solved((2.0, 1.0, 11.0), (1.0, -3.0, -5.0)) == pytest.approx((4.0, 3.0))


def test_the_closed_form_gives_the_batch_of_a_queue_that_is_never_empty():
    """φ b/s + C = b/s' for the C of calls and bytes that were given."""
    case, fraction = CASES[0], 0.3
    batch = sensitivity._batch_from_ring(case, 1e9, 150, fraction)
    ring, zero = (case.paper(name, 256) / 256 for name in ("Ring", "Zero"))
    calls = 150 * forms.ring(256, 1e9 / 150)
    assert batch / ring == pytest.approx(fraction * batch / zero + calls, rel=1e-9)


def test_what_ncf_implies_agrees_with_its_three_throughputs():
    """Differences of the paper's times, from calls and bytes put into the formulas of figure 7."""
    result = sensitivity._ncf_implies()
    ring, two, four = (256 / CASES[2].paper(name, 256) for name in ("Ring", "Lumorph-2", "Lumorph-4"))
    times = [
        result["calls"] * formula(256, result["mean"])
        for formula in (forms.ring, forms.lumorph2, forms.lumorph4)
    ]
    assert times[0] - times[1] == pytest.approx(ring - two, rel=1e-9)
    assert times[2] - times[1] == pytest.approx(four - two, rel=1e-9)


# --- scripts ----------------------------------------------------------------------------------------------


MODELS = {case.figure: case for case in LOGGED}


@pytest.mark.parametrize(
    ("figure", "ranks", "count", "mebibytes"),
    [
        ("Bert", 256, 134, 768.2),
        ("Inception", 256, 190, 83.1),
        ("NCF", 256, 17, 512.1),
        ("NCF", 128, 18, 756.3),
    ],
)
def test_calls_and_bytes_are_those_of_the_logs(figure, ranks, count, mebibytes):
    calls, nbytes = MODELS[figure].iteration(ranks, "Zero").communication()["gradients"]
    assert calls == count
    assert nbytes / MIB == pytest.approx(mebibytes, abs=0.05)


def test_sizes_of_calls_are_those_of_the_logs():
    sizes = {name: Counter() for name in MODELS}
    for name, result in sizes.items():
        graph = build_tasks(MODELS[name].workload(256))
        result.update(call.bytes for call in graph.call if call and call.purpose == "gradients")
    assert sizes["Bert"] == {16 * MIB: 36, 4 * MIB: 48, 4096: 49, 4: 1}
    assert sizes["NCF"] == {128 * MIB: 1, 64 * MIB: 6, 16384: 7, 8192: 1, 16388: 1, 4: 1}


@pytest.mark.slow
def test_ratios_by_the_logs():
    """BERT within 10 % of the paper once an iteration without communication takes as long as there."""
    for ranks, ours in ((128, 1.10), (256, 1.67)):
        case = MODELS["Bert"]
        speed = case.speed(ranks)
        times = {name: case.iteration(ranks, name, speed).seconds for name in LOOKS}
        assert times["Zero"] == pytest.approx(case.paper_free(ranks), rel=1e-9)
        assert gain(times) == pytest.approx(ours, abs=0.005)
        assert gain(times) == pytest.approx(paper_gain(case.case, ranks), rel=0.1)
    assert MODELS["NCF"].behind_all(256) == pytest.approx(1.067, abs=5e-4)


def test_work_of_a_whole_table_grows_with_the_batch():
    """128 tables: as many GPUs have one each; of twice as many half have none, for twice the pairs."""
    model = stored("flexflow-ncf-32")
    (rows,) = (layer for layer in model.layers if layer.whole)
    precision = PRECISIONS["tf32"]
    work = {n: forward_work(rows, 256 * n, n, precision) for n in (64, 128, 256)}
    assert work[64].flops == work[128].flops == work[256].flops / 2
    assert work[256].nbytes == pytest.approx(2 * work[128].nbytes, rel=1e-6)


def test_figure_10(numbers):
    bert, inception, ncf = numbers(figure10)["series"]
    assert [one["calls"] for one in (bert, inception, ncf)] == [134, 190, 17]
    assert bert["small"] == inception["small"] == 1
    assert ncf["mean"] > 5 * bert["mean"] > 50 * inception["mean"]
    assert ncf["small_bytes"] < 1e-3


@pytest.mark.slow
def test_figure_11_of_few_gpus(monkeypatch, script, tmp_path):
    monkeypatch.setattr(figure11, "SIZES", (4, 64))
    code, out, err = script(figure11, "-o", tmp_path)
    assert (code, err) == (0, "")
    assert "setting, by the authors' logs" in out
    result = json.loads((tmp_path / "figure11.json").read_text())
    assert (tmp_path / "figure11.png").exists()
    for number, case in enumerate(LOGGED):
        for setting, key in (("A", "A"), ("B", "ours")):
            mine = figure11._series(result, case.figure, setting)
            for name in ("Ring", "Lumorph-2", "Lumorph-4"):
                assert all(a <= b for a, b in zip(mine[name]["ours"], mine["Zero"]["ours"], strict=True))
            last = {name: one["seconds"][-1] for name, one in mine.items()}
            assert result["gains"][2 * number + 1][key] == pytest.approx(gain(last))


@pytest.mark.slow
def test_orders_of_calls_of_few_gpus(monkeypatch, numbers):
    monkeypatch.setattr(co_scheduling, "_RANKS", 16)
    monkeypatch.setattr(co_scheduling, "_BATCH", 64)
    rows = numbers(co_scheduling)["rows"]
    for name in dict.fromkeys(row["strategy"] for row in rows):
        seconds = {row["policy"]: row["seconds"] for row in rows if row["strategy"] == name}
        assert seconds["batched"] == min(seconds.values())
        assert seconds["end"] == max(seconds.values())
        for row in rows:
            single = row["policy"] in ("in-order", "end")
            assert (row["largest"] == 1 and row["several"] == 0) or not single
    pipeline = next(row for row in rows if row["strategy"].startswith("pipeline 4 × data"))
    assert pipeline["several"] > 0


@pytest.mark.slow
def test_claims_about_training():
    kept = json.loads(Path(figure11.__file__).with_suffix(".json").read_text())
    assert [line["holds"] for line in claims.claims({"figure11": kept})[-2:]] == [
        "yes",
        "yes",
    ]
    for one in kept["gains"]:
        one["ours"] = 2 * one["paper"]
    assert claims.claims({"figure11": kept})[-2]["holds"] == "in this order, not in size"


@pytest.mark.slow
def test_the_results_are_those_of_the_scripts(numbers):
    for module in (figure11, sensitivity, co_scheduling):
        kept = json.loads(Path(module.__file__).with_suffix(".json").read_text())
        result = numbers(module)
        for key in ("gains", "orders", "divisions", "grid", "implied", "rows"):
            assert _close(result.get(key), kept.get(key)), key


def _close(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_close(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_close, a, b))
    return a == pytest.approx(b, rel=1e-6) if isinstance(a, float) else a == b

"""Published training runs: what is simulated of them, what is shown, and that no row is left out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from papers.training import published_runs as module
from papers.training.published_runs import RUNS

BY_NAME = {(one.name, one.gpus): one for one in RUNS}


def test_the_kept_results_have_every_row():
    kept = json.loads(Path(module.__file__).with_suffix(".json").read_text())["runs"]
    assert [(one["name"], one["gpus"], one["published"], one["source"]) for one in kept] == [
        (one.name, one.gpus, one.published, one.source) for one in RUNS
    ]
    assert not any("from memory" in one.source for one in RUNS)
    assert all(one["simulated"] and one["reason"] and one["source"] for one in kept)
    ratios = [one["ratio"] for one in kept if not one["name"].startswith("ZeRO")]
    assert 0.9 < min(ratios) <= max(ratios) < 1.4


@pytest.mark.parametrize(
    ("name", "gpus", "parameters"),
    [
        ("Megatron 1.7B", 32, 1.7e9),
        ("Megatron 39.1B", 512, 39.1e9),
        ("Megatron 145.6B", 1536, 145.6e9),
        ("Korthikanti 22B", 8, 22e9),
    ],
)
def test_models_have_their_parameters(name, gpus, parameters):
    assert BY_NAME[name, gpus].graph().parameters == pytest.approx(parameters, rel=0.03)


def test_every_run_fits_the_gpus():
    for one in RUNS:
        strategy = one.workload().strategy
        assert (strategy.gpus, strategy.batch) == (one.gpus, one.batch)
        assert strategy.samples(0) == one.microbatch


def test_megatron_counts_recomputation():
    """Four passes where the model asks for three."""
    one = BY_NAME["Megatron 7.5B", 128]
    assert one.flops() == pytest.approx(4 / 3 * one.graph().training_flops * one.batch, rel=0.02)


def test_ratios_are_of_speeds():
    one = replace(BY_NAME["Korthikanti 22B", 8], model=(2, 6144, 64))
    seconds = module._compared(one, str)
    assert seconds["ratio"] == pytest.approx(one.published / seconds["simulated"])
    speed = module._compared(replace(one, unit="TFLOP/s"), str)
    assert speed["ratio"] == pytest.approx(speed["simulated"] / one.published)
    tokens = module._compared(replace(one, unit="tokens/s"), str)
    assert tokens["simulated"] * seconds["simulated"] * 8 == pytest.approx(4 * 2048)


def test_what_is_refused_keeps_its_row(monkeypatch, script, tmp_path):
    small = replace(BY_NAME["Korthikanti 22B", 8], model=(2, 6144, 64))
    refused = replace(small, name="refused", tensor=3)
    monkeypatch.setattr(module, "RUNS", (small, refused))
    code, out, err = script(module, "-o", tmp_path)
    assert (code, err) == (0, "")
    assert "refused" in out
    first, second = json.loads((tmp_path / "published_runs.json").read_text())["runs"]
    assert first["refusal"] == ""
    assert second["refusal"].startswith("tensor: 3")
    assert second["ratio"] is None
    assert (tmp_path / "published_runs.png").exists()


def test_nodes_are_joined_by_their_own_links():
    fabric = module.nodes(20, 300e9, 50e9)
    assert len(fabric.gpus) == 20
    assert fabric.switches == ("node0", "node1", "node2", "network")
    assert sorted({link.bandwidth for link in fabric.links}) == [50e9, 300e9]
    assert len(fabric.links) == 2 * (20 + 3)
    assert module.nodes(8, 300e9, 50e9).switches == ("node0",)

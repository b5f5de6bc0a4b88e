"""Published training runs: what is simulated of them, what is shown, and that no row is left out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from papers.training import published_runs as module
from papers.training.published_rows import RUNS
from wavefabric.training.models import load_model

BY_NAME = {(one.name, one.gpus): one for one in RUNS}


def test_the_kept_results_have_every_row():
    kept = json.loads(Path(module.__file__).with_suffix(".json").read_text())["runs"]
    assert [(one["name"], one["gpus"], one["published"], one["source"]) for one in kept] == [
        (one.name, one.gpus, one.published, one.source) for one in RUNS
    ]
    assert len({(one.name, one.gpus) for one in RUNS}) == len(RUNS)
    for one in kept:  # nothing is refused, and what is off by more than 15 % has a reason
        assert not one["refusal"]
        assert abs(one["ratio"] - 1) <= 0.15 or not one["reason"].startswith("agrees"), one
    assert all(0.85 < one["ratio"] < 1.15 for one in kept if one["name"][:10] in ("Megatron 1", "Korthikant"))


def test_models_have_their_parameters():
    sizes = {("Megatron 1.7B", 32): 1.7e9, ("Megatron 39.1B", 512): 39.1e9, ("Megatron 1008B", 3072): 1008e9}
    sizes |= {("Korthikanti 22B, full", 8): 22e9, ("Llama 3 405B", 8192): 405e9}
    sizes |= {
        ("NeMo 25.11: DeepSeek-V3, GB200, bf16", 256): 671e9,
        ("NeMo 24.07: Llama 2 7B, H100, fp8", 8): 6.74e9,
    }
    for key, parameters in sizes.items():
        assert module.graph(BY_NAME[key]).parameters == pytest.approx(parameters, rel=0.03)


@pytest.mark.slow
def test_every_run_fits_the_gpus():
    for one in RUNS[::4]:
        strategy = module.workload(one).strategy
        assert (strategy.gpus, strategy.batch) == (one.gpus, one.batch)
        assert strategy.samples(0) * strategy.context == one.microbatch or not one.microbatch


def test_megatron_counts_recomputation():
    """Four passes where the model asks for three."""
    one = BY_NAME["Megatron 7.5B", 128]
    assert module.flops(one) == pytest.approx(4 / 3 * module.graph(one).training_flops * one.batch, rel=0.02)


def test_ratios_are_of_speeds():
    one = replace(BY_NAME["Korthikanti 22B, full", 8], size=(2, 6144, 64))
    seconds = module._compared(one, str)
    assert seconds["ratio"] == pytest.approx(one.published / seconds["simulated"])
    speed = module._compared(replace(one, unit="TFLOP/s"), str)
    assert speed["ratio"] == pytest.approx(speed["simulated"] / one.published)
    tokens = module._compared(replace(one, unit="tokens/s"), str)
    assert tokens["simulated"] * seconds["simulated"] * 8 == pytest.approx(4 * 2048)


def test_what_is_refused_keeps_its_row(monkeypatch, script, tmp_path):
    small = replace(BY_NAME["Korthikanti 22B, full", 8], size=(2, 6144, 64))
    refused = replace(small, name="refused", strategy="tensor:3")
    monkeypatch.setattr(module, "RUNS", (small, refused))
    code, out, err = script(module, "-o", tmp_path)
    assert (code, err) == (0, "")
    assert "refused" in out
    first, second = json.loads((tmp_path / "published_runs.json").read_text())["runs"]
    assert first["refusal"] == ""
    assert second["refusal"].startswith("tensor: 3")
    assert second["ratio"] is None
    assert (tmp_path / "published_runs.png").exists()


def test_only_chosen_runs_are_simulated(monkeypatch):
    """Others are as in the kept results, with the settings and reasons of today."""
    one = next(one for one in RUNS if one.name.startswith("torchtitan: Llama 3 8B, eager"))
    other = replace(BY_NAME["Megatron 1.7B", 32], reason="changed")
    monkeypatch.setattr(module, "RUNS", (one, other))
    said = []
    chosen, kept = module.figure(said.append, "NeMo,torchtitan")["runs"]
    assert said == [one.name]
    assert chosen["simulated"] > 0
    earlier = json.loads(Path(module.__file__).with_suffix(".json").read_text())["runs"][0]
    assert kept == earlier | {"reason": "changed", "precision": "bf16"}


def test_presets_are_causal_and_gpus_have_their_memory():
    """Half of the scores of a preset, and the H100s of torchtitan with 96 GB."""
    one = next(one for one in RUNS if one.model)
    whole = load_model(one.model, tokens=one.tokens)
    halves = {
        a.flops / b.flops for a, b in zip(module.graph(one).layers, whole.layers, strict=True) if b.flops
    }
    assert halves == {0.5, 1.0}
    titan = module.workload(next(one for one in RUNS if one.memory)).device
    assert (titan.memory, titan.bandwidth, titan.peak["fp8"]) == (96e9, 2.4e12, 1979e12)


def test_nodes_are_joined_by_their_own_links():
    fabric = module.nodes(20, 300e9, 50e9, 1e-6)
    assert len(fabric.gpus) == 20
    assert fabric.switches == ("node0", "node1", "node2", "network")
    assert sorted({link.bandwidth for link in fabric.links}) == [50e9, 300e9]
    assert len(fabric.links) == 2 * (20 + 3)
    assert module.nodes(8, 300e9, 50e9, 1e-6).switches == ("node0",)
    assert module.nodes(128, 700e9, 3e12, 1e-6, 64).switches == ("node0", "node1", "network")

"""`wavefabric train` on sound input."""

import json
import re

import pytest

from wavefabric.training.communication import searched
from wavefabric.training.communication.times import Communication
from wavefabric.training.fabrics import fabric_for
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.engine import FreeCommunication
from wavefabric.training.iteration.simulate import simulate
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models import MODELS, load_model
from wavefabric.training.strategies.strategy import uniform


def told(command, *words):
    """What a command prints with --json."""
    code, out, err = command("train", *words, "--json")
    assert (code, err) == (0, ""), err
    return json.loads(out)


def test_help_shows_the_default_command_and_the_others(command):
    code, out, err = command("train", "--help")
    assert (code, err) == (0, "")
    for word in (
        "MODEL",
        "--gpus",
        "--fabric",
        "--compare",
        "recursive:4",
        "bf16",
        "models",
        "measure",
        "h200",
    ):
        assert word in out, word
    assert "simulate" not in out
    assert "Usage: wavefabric train [OPTIONS] MODEL" in command("train", "bert-large", "--help")[1]


def test_no_words_are_answered_by_help(command):
    code, out, _ = command("train")
    assert code == 2
    assert "--gpus" in out


def test_an_iteration(command):
    code, out, err = command("train", "bert-base", "--gpus", "8", "--fabric", "switch")
    assert (code, err) == (0, "")
    for word in (
        "iteration",
        "samples/s",
        "exposed",
        "hidden",
        "bound by",
        "gradients",
        "TFLOP/s per GPU",
        "memory",
        "1.000 x ring",
    ):
        assert word in out, out


def test_options_may_stand_before_the_model(command):
    words = ("--gpus", "4", "--fabric", "ring", "ncf")
    assert command("train", *words) == command("train", "ncf", *words[:-1])


def test_numbers_are_those_of_the_library(command):
    result = told(command, "bert-base", "--gpus", "4", "--collective", "zero", "--precision", "bf16")
    model = load_model("bert-base")
    workload = Workload(model, uniform(model, 4), DEVICES["h200"], PRECISIONS["bf16"])
    expected = simulate(workload, FreeCommunication())
    assert result["seconds"] == expected.seconds
    assert result["samples_per_second"] == pytest.approx(4 * model.batch / expected.seconds)
    assert result["model_flops_per_second_per_gpu"] == expected.model_flops_per_second
    assert result["model_flops_utilisation"] == expected.model_flops_utilisation
    assert (result["ratio_to_free"], result["exposed_seconds"], result["batch"]) == (
        1.0,
        0.0,
        4 * model.batch,
    )


def test_gradients_are_all_the_parameters(command):
    calls = told(command, "inception-v3", "--gpus", "4")["calls"]
    assert list(calls) == ["gradients"]
    assert calls["gradients"]["bytes"] == 4 * load_model("inception-v3").parameters


def test_rings_on_the_ideal_switch_are_the_reference(command):
    result = told(command, "bert-base", "--gpus", "8", "--fabric", "switch", "--collective", "ring")
    assert result["ratio_to_ring"] == 1.0
    assert result["seconds"] == result["ring_seconds"] >= result["free_seconds"]
    # The fabric is busy for what is exposed and what is hidden.
    busy = result["exposed_seconds"] + result["hidden_seconds"]
    assert busy == pytest.approx(result["fabric_busy_seconds"])


def test_batches_may_be_given_for_a_gpu_or_for_all(command):
    each = told(command, "bert-base", "--gpus", "4", "--batch", "3")
    total = told(command, "bert-base", "--gpus", "4", "--global-batch", "12")
    assert each == total
    assert each["batch"] == 12


def test_stragglers_and_slow_links_beside_what_is_healthy(command):
    words = ("bert-base", "--gpus", "4")
    slow = told(command, *words, "--straggler", "1:2")
    assert (
        1.5 < slow["seconds"] / told(command, *words)["seconds"] == slow["seconds"] / slow["healthy_seconds"]
    )
    assert "slow parts" in command("train", *words, "--slow-link", "GPU0-switch:9")[1]


def test_a_pipeline_has_a_bubble(command):
    words = ("bert-base", "--gpus", "4", "--strategy", "pipeline:2,data", "--microbatches", "2")
    result = told(command, *words, "--collective", "zero")
    assert (result["stages"], result["microbatches"]) == (2, 2)
    assert 0.2 < result["bubble"] < 0.5  # 1/3 if all stages took as long
    assert "pipeline bubble" in command("train", *words)[1]


def test_a_host_is_no_stage_of_a_pipeline(command, tmp_path):
    host = {"Id": 1, "Name": "host", "NodeType": 4, "data_deps": [], "runtime": 10, "is_cpu_op": True}
    kernel = {"Id": 2, "Name": "kernel", "NodeType": 4, "data_deps": [1], "runtime": 90, "is_cpu_op": False}
    (tmp_path / "lone.0.json").write_text(json.dumps({"workload_graph": [host, kernel]}))
    result = told(command, "lone", "--fabric", "switch")
    assert (result["bubble"], result["idle"]) == (0.0, pytest.approx(0.1))
    assert result["compute_seconds"] == [pytest.approx(90e-6)]
    assert result["host_seconds"] == [pytest.approx(10e-6)]
    out = command("train", "lone", "--fabric", "switch")[1]
    assert "pipeline" not in out
    assert "GPUs idle" in out
    assert told(command, "fibre:8x4096", "--gpus", "2")["bubble"] == 0.0


@pytest.mark.slow
def test_rings_by_rails_and_searched_schedules_are_named(command, monkeypatch):
    monkeypatch.setattr(searched, "SECONDS", 300.0)  # searches end long before, on a busy machine too

    def by(fabric, collective):
        result = told(command, "ncf", "--gpus", "8", "--fabric", fabric, "--collective", collective)
        return {name for one in result["calls"].values() for name in one["algorithms"]}, result

    assert by("nodes:2x4", "ring")[0] == {"ring, 2x4"}
    (names, optimal), (_, auto) = by("ring:8", "optimal"), by("ring:8", "auto")
    assert any(name.startswith("searched: ") for name in names)
    assert optimal["fabric_busy_seconds"] < auto["fabric_busy_seconds"]
    code, out, err = command("train", "ncf", "--gpus", "8", "--collective", "optimal:2")
    assert (code, out) == (2, "")
    assert 'collective: "optimal:2" given; allowed: ring, ' in err


def test_calls_name_their_algorithms_and_what_was_not_compared(command):
    words = ("bert-base", "--gpus", "8", "--fabric", "nodes:2x4", "--collective", "auto")
    result = told(command, *words)
    assert result["model"] == "alpha-beta"
    assert any(name.startswith("hierarchical, 2x4") for name in result["calls"]["gradients"]["algorithms"])
    assert (
        result["left_out"]["all-reduce of 8 GPUs"]["nvls"] == "no switch of nodes:2x4 multicasts and reduces"
    )
    out = command("train", *words)[1]
    assert "calls: alpha-beta model on nodes:2x4" in out
    assert "left out for all-reduce of 8 GPUs: nvls (no switch of nodes:2x4 multicasts" in out
    for name in ("hierarchical", "hierarchical:4x2", "tree", "tree:4"):
        slower = told(command, *words[:-1], name)
        assert slower["seconds"] >= result["seconds"] * (1 - 1e-9)
    code, _, err = command("train", *words[:-1], "nvls")
    assert (code, err.count("\n")) == (2, 1)
    assert "multicast" in err


@pytest.mark.parametrize(
    "words",
    [
        ("gpt-7b", "--gpus", "4", "--memory", "60GB"),
        ("gpt-7b", "--gpus", "4", "--memory", "140GB", "--strategy", "tensor:4", "--batch", "16"),
        ("bert-large", "--gpus", "2", "--batch", "4096"),
        ("gpt-70b", "--gpus", "8", "--strategy", "tensor:8"),
        ("gpt3-175b", "--gpus", "8"),
    ],
)
def test_what_does_not_fit_fits_as_it_is_told(command, words):
    code, out, err = command("train", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "needed per GPU" in err
    assert "search" in err
    advice = err.rpartition("it fits ")[2]
    options = dict(zip(words[1::2], words[2::2], strict=True))
    if degrees := re.match(r"on (\d+) GPUs with --strategy (\S+) \(", advice):
        options |= {"--gpus": degrees[1], "--strategy": degrees[2]}
    else:
        added = re.match(r"with (\S+) \(", advice)[1]
        options["--strategy"] = f"{options.get('--strategy', 'data')},{added}"
    size = float(re.search(r"\(([0-9.]+) GB\)", advice)[1])
    result = told(command, words[0], *(word for pair in options.items() for word in pair))
    assert result["memory_bytes"]["total"] / 1e9 == pytest.approx(size, rel=6e-3)


def test_a_strategy_is_saved_and_read(command):
    words = ("bert-base", "--gpus", "4", "--strategy", "tensor:2,sharded,bucket:25M")
    first = told(command, *words, "--save-strategy", "s.json")
    assert first.pop("written") == ["s.json"]
    again = told(command, "bert-base", "--gpus", "4", "--strategy", "s.json")
    for result in (first, again):
        del result["work"]
    again.pop("written")
    assert first == again


def test_fabrics_are_as_large_as_needed_or_larger(command):
    assert told(command, "ncf", "--gpus", "8", "--fabric", "lightpath")["fabric"] == "lightpath:2x4"
    assert told(command, "ncf", "--gpus", "8", "--fabric", "hypercube")["fabric"] == "hypercube:3"
    assert told(command, "ncf", "--gpus", "4", "--fabric", "dgx-a100")["gpus"] == 4
    assert told(command, "ncf", "--fabric", "torus:2x3")["gpus"] == 6


def test_a_comparison_is_a_table_and_a_picture(command, tmp_path):
    words = (
        "ncf",
        "--gpus",
        "2,4",
        "--fabric",
        "switch,lightpath",
        "--collective",
        "ring,recursive:4,zero",
    )
    code, out, err = command("train", *words, "--compare", "-o", "c.png")
    assert (code, err) == (0, "")
    for word in ("switch", "lightpath", "recursive:4", "x ring", "wrote c.png"):
        assert word in out, out
    assert (tmp_path / "c.png").stat().st_size > 10_000
    cases = told(command, *words, "--compare")["cases"]
    assert [(c["gpus"], c["fabric"]) for c in cases[::3]] == [
        (2, "switch:2"), (2, "lightpath:1x2"), (4, "switch:4"), (4, "lightpath:2x2"),
    ]  # fmt: skip
    single = told(command, "ncf", "--gpus", "4", "--fabric", "lightpath", "--collective", "recursive:4")
    assert {**cases[10], "work": single["work"], "written": []} == single


def test_no_word_of_a_wide_comparison_is_cut(command, tmp_path):
    assert command("fabric", "show", "lightpath:2x2", "--save", "f.toml")[0] == 0
    text = (tmp_path / "f.toml").read_text()
    (tmp_path / "f.toml").write_text(text.replace("lightpath:2x2", "a wafer with a long name of its own", 1))
    words = ("fibre:8x65536", "--gpus", "4", "--collective", "bidirectional-ring,recursive:4", "--compare")
    code, out, _ = command("train", *words, "--fabric", "switch,f.toml")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 120
    for word in ("x ring", "x free", "a GPU", "bound by", "bidirectional-ring", "recursive:4 *"):
        assert word in out
    # Names take several lines: word by word.
    assert "a wafer with a long" in out
    assert out.count("layer-to-layer,") == 4


def test_circuits_are_planned_as_asked_for(command):
    words = ("ncf", "--gpus", "8", "--collective", "lumorph-4", "--sharing", "paper", "--incremental")
    cases = told(command, *words, "--fabric", "switch,lightpath", "--compare")["cases"]
    single = told(command, *words, "--fabric", "lightpath")
    assert single["work"].endswith(", batched calls, sharing paper, incremental")
    assert {**cases[1], "work": single["work"], "written": []} == single
    model = load_model("ncf")
    workload = Workload(model, uniform(model, 8), DEVICES["h200"], PRECISIONS["tf32"])
    times = Communication(fabric_for("lightpath", 8), "lumorph-4", sharing="paper", incremental=True)
    busy = single["fabric_busy_seconds"]
    assert busy == simulate(workload, times).timeline.fabric_busy
    assert busy != told(command, *words[:-3], "--fabric", "lightpath")["fabric_busy_seconds"]


def test_a_comparison_of_one_size_is_drawn_as_bars(command, tmp_path):
    words = ("fibre:8x1024", "--gpus", "4", "--collective", "ring,auto", "--compare", "-o", "bars.svg")
    assert command("train", *words)[0] == 0
    drawn = (tmp_path / "bars.svg").read_text()
    assert "x ring" in drawn
    assert "4 GPUs of switch" in drawn


def test_models_are_listed(command):
    code, out, err = command("train", "models")
    assert (code, err) == (0, "")
    for name in MODELS:
        assert name in out
    result = told(command, "models")["models"]
    assert result["bert-base"]["parameters"] == load_model("bert-base").parameters


def test_a_json_graph_is_a_model(command, tmp_path):
    from wavefabric.training.models.graph_file import save_graph

    save_graph(tmp_path / "mine.json", load_model("ncf"))
    by_file, by_name = (told(command, name, "--gpus", "2") for name in ("mine.json", "ncf"))
    assert by_file == by_name


@pytest.mark.slow
def test_measured_operators_are_a_device(command, tmp_path):
    words = (
        "measure",
        "ncf",
        "--device",
        "cpu",
        "--samples",
        "4",
        "--repeats",
        "1",
        "--precision",
        "fp32",
    )
    code, out, err = command("train", *words, "--device-file", "mine.toml", "--name", "mine")
    assert (code, err) == (0, "")
    assert "wrote mine.toml" in out
    device = load_device(tmp_path / "mine.toml")
    assert device.measured
    # The whole iteration is of operators that were measured.
    result = told(
        command, "ncf", "--gpus", "1", "--batch", "4", "--device", "mine.toml", "--precision", "fp32"
    )
    assert 0 < result["seconds"] < 60
    assert result["work"].endswith("on mine, batched calls")


@pytest.mark.slow
def test_a_timeline_and_traces_are_written(command, tmp_path):
    pytest.importorskip("google.protobuf")
    words = ("bert-base", "--gpus", "4", "--fabric", "lightpath", "--strategy", "pipeline:2,data")
    names = ["t.png", "t.json", "t.0.et", "t.1.et", "t.2.et", "t.3.et"]
    files = ("-o", "t.png", "--trace", "t.json", "--chakra", "t")
    result = told(command, *words, *files)
    assert result["written"] == names
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    # The trace is a model: it takes as long, on any fabric.
    again = told(command, "t", "--fabric", "lightpath")
    assert again["seconds"] == pytest.approx(result["seconds"], rel=1e-9)
    assert again["calls"] == result["calls"]
    assert told(command, "t.0.et", "--collective", "zero")["gpus"] == 4
    code, _, err = command("train", "t", "--gpus", "8")
    assert (code, err.count("\n")) == (2, 1)
    assert "--gpus: 8 given; allowed: 4" in err
    code, _, err = command("train", "t", "--chakra", "t", "--force")
    assert code == 2
    assert "t.0.et is an input of this run" in err
    code, _, err = command("train", *words, "--chakra", "t")
    assert (code, err.count("\n")) == (2, 1)
    assert "t.0.et exists" in err
    # A set without the file of rank 0 is one all the same.
    (tmp_path / "t.0.et").unlink()
    code, _, err = command("train", "t")
    assert (code, err.count("\n")) == (2, 1)
    assert "no file of rank 0" in err


def test_a_searched_strategy_is_no_slower_than_data_parallelism(command):
    words = ("ncf", "--gpus", "4", "--fabric", "ring")
    data = told(command, *words)
    result = told(command, *words, "--strategy", "search", "--proposals", "8", "--save-strategy", "s.json")
    assert result["seconds"] <= data["seconds"]
    again = told(command, *words, "--strategy", "s.json")
    assert again["seconds"] == result["seconds"]
    chain = told(command, *words, "--strategy", "chain")
    assert chain["stages"] == 1


def test_a_search_is_told_what_is_simulated(command, monkeypatch):
    from wavefabric.cli.train import work as module

    seen, search = [], module.search

    def noting(*words, **options):
        seen.append((words[1], options))
        return search(*words, **options)

    monkeypatch.setattr(module, "search", noting)
    words = ("ncf", "--gpus", "2", "--strategy", "search", "--proposals", "3", "--seed", "5")
    told(command, *words, "--policy", "end", "--memory", "20GB", "--global-batch", "8")
    ((gpus, options),) = seen
    expected = {"policy": "end", "memory": 20e9, "batch": 8, "proposals": 3, "seed": 5, "method": "markov"}
    assert gpus == 2
    assert {key: options[key] for key in expected} == expected


def test_an_interrupted_search_gives_the_best_so_far(command, monkeypatch):
    from wavefabric.base.system.progress import Progress
    from wavefabric.cli.train import work

    class Impatient(Progress):
        def update(self, done, message=""):
            if done >= 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(work, "make_progress", lambda quiet=False: Impatient())
    code, out, err = command("train", "ncf", "--gpus", "4", "--strategy", "search")
    assert code == 0
    assert "iteration" in out
    assert err.startswith("wavefabric: search interrupted after")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["fibre:8x1024", "ultrasound:64x64x64", "ultrasound:128x64x64:local"])
def test_time_steps_of_our_own_simulations(command, name):
    result = told(command, name, "--gpus", "4", "--fabric", "lightpath", "--collective", "lumorph-2")
    assert list(result["calls"]) == ["layer-to-layer"]
    assert result["seconds"] > result["free_seconds"] > 0
    code, out, _ = command("train", name, "--gpus", "2,4", "--compare")
    assert code == 0
    assert "iterations/s" in out


def test_context_parallelism_and_eight_bits_are_shown(command):
    words = (
        "gpt-7b:16384",
        "--gpus",
        "8",
        "--device",
        "b200",
        "--precision",
        "mxfp8",
        "--fabric",
        "hgx-b200",
    )
    code, out, _ = command("train", *words, "--strategy", "tensor:2,sequence,context:4,ring")
    assert code == 0
    assert "data 1 x context 4 x tensor 2; sequence-parallel; keys and values on a ring" in out
    assert "of the mxfp8 peak of 4500" in out
    assert " context " in out

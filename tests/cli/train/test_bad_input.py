"""`wavefabric train` on bad input: one line, exit code 2, nothing written."""

import gzip
import json
import os

import pytest

GOOD = ("ncf", "--gpus", "4")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nonsense", "--gpus", "4"), "model: "),
        (("absent.json", "--gpus", "4"), "absent.json"),
        (("ncf",), "--gpus: none given"),
        (("ncf", "--gpus", "0"), "--gpus: 0 given"),
        (("ncf", "--gpus", "four"), "--gpus: four given"),
        (("ncf", "--gpus", "4,8"), "--gpus: 4,8 given; allowed: one"),
        (("ncf", "--gpus", ","), "gpus: none given"),
        (("ncf", "--gpus", "9999999"), "--gpus: 9999999 given"),
        ((*GOOD, "--fabric", "nonsense"), "fabric: "),
        ((*GOOD, "--fabric", "switch,ring"), "--fabric: switch,ring given; allowed: one"),
        ((*GOOD, "--fabric", "switch:2"), "gpus: 4 given; allowed: up to 2"),
        (("ncf", "--gpus", "6", "--fabric", "hypercube"), "powers of two"),
        ((*GOOD, "--collective", "nonsense"), "collective: "),
        ((*GOOD, "--collective", "ring,zero"), "--collective: ring,zero given; allowed: one"),
        ((*GOOD, "--collective", "ring,ring", "--compare"), "collective: ring given twice"),
        ((*GOOD, "--strategy", "nonsense"), "strategy: "),
        ((*GOOD, "--strategy", "tensor:3"), "tensor: 3"),
        ((*GOOD, "--strategy", "absent.json"), "absent.json"),
        ((*GOOD, "--batch", "0"), "--batch: 0 given"),
        ((*GOOD, "--batch", "4", "--global-batch", "16"), "--global-batch: 16 given with --batch 4"),
        ((*GOOD, "--global-batch", "5"), "batch: 5"),
        ((*GOOD, "--microbatches", "0"), "--microbatches: 0 given"),
        ((*GOOD, "--device", "abacus"), "device: "),
        ((*GOOD, "--precision", "fp7"), '--precision: "fp7" given'),
        (
            (*GOOD, "--precision", "fp8", "--device", "a100"),
            "precision: fp8 given; allowed: fp32, tf32, bf16",
        ),
        ((*GOOD, "--precision", "mxfp8"), "precision: mxfp8 given; allowed: fp32, tf32, bf16, fp8 on h200"),
        ((*GOOD, "--strategy", "context:2"), "context: 2 given; allowed: 1, attention of ncf is not there"),
        ((*GOOD, "--policy", "nonsense"), '--policy: "nonsense" given'),
        ((*GOOD, "--sharing", "paper"), 'sharing: "paper" given with electrical fabrics alone'),
        ((*GOOD, "--routing", "nonsense", "--fabric", "lightpath"), '--routing: "nonsense" given'),
        ((*GOOD, "--incremental", "--fabric", "switch,ring", "--compare"), "incremental: true given with"),
        ((*GOOD, "--memory", "much"), "--memory: "),
        ((*GOOD, "--memory", "0 GB"), "--memory: "),
        ((*GOOD, "--memory", "1 MB"), "needed per GPU"),
        (("gpt-70b", "--gpus", "4"), "needed per GPU"),
        pytest.param(
            ("gpt3-175b", "--gpus", "1", "--memory", "1B"),
            "no number of GPUs is enough",
            marks=pytest.mark.slow,
        ),
        ((*GOOD, "--collective", "hierarchical:0x8"), 'collective: "hierarchical:0x8" given'),
        ((*GOOD, "--collective", "nvls:0"), "nvls: and 1 to 4096"),
        ((*GOOD, "--collective", "nvls", "--fabric", "dgx-1"), "multicasts and reduces"),
        ((*GOOD, "--collective", "nvls-tree", "--fabric", "dgx-1"), "multicasts and reduces"),
        ((*GOOD, "--collective", "nvls-tree", "--fabric", "nodes:2x4"), "multicasts and reduces"),
        ((*GOOD, "-o", "picture.txt"), "--output: picture.txt given"),
        ((*GOOD, "--trace", "t.txt"), "--trace: t.txt given"),
        ((*GOOD, "--trace", "t.json", "--save-strategy", "t.json"), "--trace: t.json given"),
        ((*GOOD, "--chakra", "absent/t"), "--chakra: absent/t.0.et cannot be written"),
        ((*GOOD, "--chakra", ""), "--chakra: . or nothing given"),
        ((*GOOD, "--chakra", "/"), "--chakra: / given"),
        ((*GOOD, "--chakra", ".."), "--chakra: .. given"),
        (
            ("ncf", "--gpus", "1", "--batch", "10000000", "--microbatches", "10000000"),
            "microbatches: 10000000",
        ),
        (("ultrasound:1000000x1000000x1000000:local", "--gpus", "8"), "memory: 8350000000 GB needed"),
        (("bert-lage", "--gpus", "4"), 'model: "bert-lage" given (did you mean bert-large?)'),
        (("bert-base", "--gpus", "5000"), "--gpus: 5000 given; allowed: whole numbers from 1 to 4096"),
        (
            ("bert-base", "--gpus", "10000000"),
            "--gpus: 10000000 given; allowed: whole numbers from 1 to",
        ),
        (
            ("bert-base", "--gpus", "32", "--strategy", "tensor:32"),
            'tensor: 32 given for layer "heads masked loss"; allowed: up to 20',
        ),
        ((*GOOD, "--compare", "--trace", "t.json"), "--trace: t.json given with --compare"),
        ((*GOOD, "--seed", "1"), "--seed: 1 given with --strategy data"),
        ((*GOOD, "--strategy", "search", "--proposals", "0"), "--proposals: 0 given"),
        ((*GOOD, "--strategy", "search", "--seconds", "-1"), "--seconds: -1.0 given"),
        ((*GOOD, "--strategy", "search", "--microbatches", "2"), "--microbatches: 2 given"),
        ((*GOOD, "--strategy", "search", "--memory", "1 MB"), "memory: 0.001 GB given"),
        ((*GOOD, "--strategy", "chain", "--seed", "3"), "--seed: 3 given with --strategy chain"),
        ((*GOOD, "--groups", "g.json"), "--groups: g.json given with ncf; allowed: with a Chakra trace"),
        ((*GOOD, "--straggler", "4:2"), "straggler: GPU 4 given; allowed: 0 to 3"),
        (
            (*GOOD, "--slow-link", "GPU0-switch:2", "--compare"),
            "--slow-link: GPU0-switch:2 given with --compare",
        ),
        (("absent.0.et",), "absent"),
        (("fibre:12", "--gpus", "4"), 'model: "fibre:12" given'),
        (("fibre:4x64", "--gpus", "8"), "8"),
        (("ultrasound:64", "--gpus", "4"), 'model: "ultrasound:64" given'),
        (("fibre", "--gpus", "4", "--strategy", "sharded"), "--strategy: sharded given with fibre"),
        (("fibre", "--gpus", "4", "--save-strategy", "s.json"), "--save-strategy: s.json given without"),
        ((*GOOD, "--compare", "-o", "picture.txt"), "--output: picture.txt given"),
        ((*GOOD, "--compare", "-o", "absent/p.png"), "--output: "),
        ((*GOOD, "--compare", "--save-strategy", "s.json"), "--save-strategy: s.json given"),
        ((*GOOD, "--save-strategy", "s.toml"), "--save-strategy: s.toml given"),
        ((*GOOD, "--nonsense"), "--nonsense"),
        ((*GOOD, "extra"), "extra"),
        (("measure", "nonsense"), "model: "),
        (("measure", "ncf", "--samples", "0"), "--samples: 0 given"),
        (("measure", "ncf", "--repeats", "0"), "--repeats: 0 given"),
        (("measure", "ncf", "--device-file", "d.txt"), "--device-file: d.txt given"),
        (("models", "extra"), "extra"),
    ],
)
def test_one_line_and_nothing_written(command, tmp_path, words, told):
    code, out, err = command("train", *words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert told in err, err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "words",
    [
        (*GOOD, "--save-strategy", "old.json"),
        (*GOOD, "--compare", "-o", "old.png"),
        pytest.param(
            (
                "measure",
                "ncf",
                "--device",
                "cpu",
                "--samples",
                "1",
                "--repeats",
                "1",
                "--device-file",
                "old.toml",
            ),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_files_are_replaced_by_force_alone(command, tmp_path, words):
    old = tmp_path / words[-1]
    old.write_text("old")
    code, _, err = command("train", *words)
    assert (code, err.count("\n")) == (2, 1)
    assert "exists" in err
    assert old.read_text() == "old"
    assert command("train", *words, "--force")[0] == 0
    assert old.read_bytes() != b"old"


def test_a_model_file_is_not_overwritten_by_its_strategy(command, tmp_path):
    from wavefabric.training.models import load_model
    from wavefabric.training.models.graph_file import save_graph

    save_graph(tmp_path / "mine.json", load_model("ncf"))
    words = ("mine.json", "--gpus", "2", "--save-strategy", "mine.json", "--force")
    code, _, err = command("train", *words)
    assert (code, err.count("\n")) == (2, 1)
    assert "input of this run" in err


@pytest.mark.parametrize("name", ["step.json", "step.0.json", "host_1.42.pt.trace.json", "step.json.gz"])
def test_a_trace_of_the_profiler_names_what_converts_it(command, tmp_path, name):
    """Kineto's JSON, by any of the names that it has, is refused with Chakra's two commands."""
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 2.0}
    content = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [event]}
    text = json.dumps(content).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    code, out, err = command("train", name, "--gpus", "2")
    assert (code, out, err.count("\n")) == (2, "", 1)
    host = "chakra_trace_link --rank R --chakra-host-trace HOST.json --chakra-device-trace PROFILE.json"
    for words in (name, "a trace of PyTorch's profiler given", host, "chakra_converter PyTorch --input"):
        assert words in err

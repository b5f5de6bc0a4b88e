"""`wavefabric train` on bad input: one line, exit code 2, nothing written."""

import os

import pytest

GOOD = ("ncf-1m", "--gpus", "4")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nonsense", "--gpus", "4"), "model: "),
        (("absent.json", "--gpus", "4"), "absent.json"),
        (("ncf-1m",), "--gpus: none given"),
        (("ncf-1m", "--gpus", "0"), "--gpus: 0 given"),
        (("ncf-1m", "--gpus", "four"), "--gpus: four given"),
        (("ncf-1m", "--gpus", "4,8"), "--gpus: 4,8 given; allowed: one"),
        (("ncf-1m", "--gpus", ","), "gpus: none given"),
        (("ncf-1m", "--gpus", "9999999"), "--gpus: 9999999 given"),
        ((*GOOD, "--fabric", "nonsense"), "fabric: "),
        ((*GOOD, "--fabric", "switch,ring"), "--fabric: switch,ring given; allowed: one"),
        ((*GOOD, "--fabric", "switch:2"), "gpus: 4 given; allowed: up to 2"),
        (("ncf-1m", "--gpus", "6", "--fabric", "hypercube"), "powers of two"),
        ((*GOOD, "--collective", "nonsense"), "collective: "),
        ((*GOOD, "--collective", "ring,zero"), "--collective: ring,zero given; allowed: one"),
        ((*GOOD, "--collective", "ring,ring", "--compare"), "collective: ring given twice"),
        ((*GOOD, "--strategy", "nonsense"), "strategy: "),
        ((*GOOD, "--strategy", "tensor:3"), "tensor: 3"),
        ((*GOOD, "--strategy", "absent.json"), "absent.json"),
        (("bert-larg", "--gpus", "4"), 'model: "bert-larg" given (did you mean bert-large?)'),
        (("ncf-1m", "--gpus", "10000000"), "--gpus: 10000000 given; allowed: 1 to 4096"),
        (("ncf-1m", "--gpus", "5000"), "--gpus: 5000 given; allowed: 1 to 4096"),
        (
            ("bert-large", "--gpus", "32", "--strategy", "tensor:32"),
            'tensor: 32 given, layer "heads masked loss" has 20 features; allowed: up to 20',
        ),
        (
            ("bert-large", "--gpus", "1", "--global-batch", "10000000", "--microbatches", "10000000"),
            "microbatches: 10000000 given, of 2 tasks each; allowed: up to 52",
        ),
        (("ultrasound:1000000x1000000x1000000:local", "--gpus", "4"), "GB needed of each of 4 GPUs"),
        (("fibre:120x9999999999", "--gpus", "4"), "GB needed of each of 4 GPUs; allowed: up to 141 GB"),
        ((*GOOD, "--batch", "0"), "--batch: 0 given"),
        ((*GOOD, "--batch", "4", "--global-batch", "16"), "--global-batch: 16 given with --batch 4"),
        ((*GOOD, "--global-batch", "5"), "batch: 5"),
        ((*GOOD, "--microbatches", "0"), "--microbatches: 0 given"),
        ((*GOOD, "--device", "abacus"), "device: "),
        ((*GOOD, "--precision", "fp7"), "--precision: fp7 given"),
        ((*GOOD, "--policy", "nonsense"), "--policy: nonsense given"),
        ((*GOOD, "--sharing", "paper"), 'sharing: "paper" given with electrical fabrics alone'),
        ((*GOOD, "--routing", "nonsense", "--fabric", "lightpath"), "--routing: nonsense given"),
        ((*GOOD, "--incremental", "--fabric", "switch,ring", "--compare"), "incremental: true given with"),
        ((*GOOD, "--memory", "much"), "--memory: "),
        ((*GOOD, "--memory", "0 GB"), "--memory: "),
        ((*GOOD, "--memory", "1 MB"), "needed a GPU"),
        (("gpt-70b", "--gpus", "4"), "needed a GPU"),
        ((*GOOD, "-o", "picture.txt"), "--output: picture.txt given"),
        ((*GOOD, "--trace", "t.txt"), "--trace: t.txt given"),
        ((*GOOD, "--trace", "t.json", "--save-strategy", "t.json"), "--trace: t.json given"),
        ((*GOOD, "--chakra", "absent/t"), "--chakra: "),
        ((*GOOD, "--chakra", ""), "--chakra: . given; allowed: NAME of files"),
        ((*GOOD, "--chakra", "/"), "--chakra: / given; allowed: NAME of files"),
        ((*GOOD, "--compare", "--trace", "t.json"), "--trace: t.json given with --compare"),
        ((*GOOD, "--seed", "1"), "--seed: 1 given with --strategy data"),
        ((*GOOD, "--strategy", "search", "--proposals", "0"), "--proposals: 0 given"),
        ((*GOOD, "--strategy", "search", "--seconds", "-1"), "--seconds: -1.0 given"),
        ((*GOOD, "--strategy", "search", "--microbatches", "2"), "--microbatches: 2 given"),
        ((*GOOD, "--strategy", "search", "--memory", "1 MB"), "memory: 0.001 GB given"),
        ((*GOOD, "--strategy", "chain", "--seed", "3"), "--seed: 3 given with --strategy chain"),
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
        (("measure", "ncf-1m", "--samples", "0"), "--samples: 0 given"),
        (("measure", "ncf-1m", "--repeats", "0"), "--repeats: 0 given"),
        (("measure", "ncf-1m", "--device-file", "d.txt"), "--device-file: d.txt given"),
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
        (
            "measure",
            "ncf-1m",
            "--device",
            "cpu",
            "--samples",
            "1",
            "--repeats",
            "1",
            "--device-file",
            "old.toml",
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

    save_graph(tmp_path / "mine.json", load_model("ncf-1m"))
    words = ("mine.json", "--gpus", "2", "--save-strategy", "mine.json", "--force")
    code, _, err = command("train", *words)
    assert (code, err.count("\n")) == (2, 1)
    assert "input of this run" in err


def test_traces_are_not_overwritten_by_those_of_themselves(command, tmp_path):
    assert command("train", "ncf-1m", "--gpus", "2", "--chakra", "t")[0] == 0
    before = (tmp_path / "t.1.et").read_bytes()
    code, _, err = command("train", "t", "--chakra", "t", "--force")
    assert (code, err.count("\n")) == (2, 1)
    assert "--chakra: t.0.et is an input of this run" in err
    assert (tmp_path / "t.1.et").read_bytes() == before


@pytest.mark.parametrize("where", ["model", "layer"])
def test_half_of_a_surrogate_pair_is_no_name(command, tmp_path, where):
    model, layer = ("\\ud800", "a") if where == "model" else ("m", "\\udfff")
    text = f'{{"name": "{model}", "layers": [{{"name": "{layer}", "operator": "matmul", "output": [4]}}]}}'
    (tmp_path / "m.json").write_text(text)
    code, out, err = command("train", "m.json", "--gpus", "1")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "given, half of a surrogate pair; allowed: characters" in err
    (tmp_path / "m.json").write_text(text.replace(model, "\\ud83d\\ude00") if where == "model" else text)
    assert command("train", "m.json", "--gpus", "1")[0] == (0 if where == "model" else 2)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('"bucket": 1e15', "bucket: 1000000000000000.0 given; allowed: below 1000000000000000.0"),
        ('"layers": [1]', "layers: [1] given; allowed: a table"),
    ],
)
def test_bad_strategies_in_plain_words(command, tmp_path, table, told):
    (tmp_path / "s.json").write_text(f'{{"gpus": 4, "batch": 64, "data": 4, {table}}}')
    code, _, err = command("train", "ncf-1m", "--gpus", "4", "--strategy", "s.json")
    assert (code, err.count("\n")) == (2, 1)
    assert told in err

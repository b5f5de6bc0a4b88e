"""`benchmarks/suite.py`: its options, a run at small sizes, and the report of stored results."""

import json
from copy import deepcopy
from pathlib import Path

import pytest

from benchmarks.parts import make_parts
from benchmarks.report import Results, write_report

#: File and result by part, as two CPUs gave them.
STORED = json.loads((Path(__file__).parents[1] / "data" / "benchmarks" / "results.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "suite: no GPU here, which its sizes need; allowed: with --small"),
        (["--small", "--ranks", "9"], "--ranks: 9 given; allowed: 1 to 8"),
        (["--small", "--ranks", "0"], "--ranks: 0 given; allowed: 1 to 8"),
        (["--small", "--only", "fiber-*"], "--only: fiber-* given, which is no part"),
        (["--small", "--time-limit", "0 s"], "--time-limit: 0 s given; allowed: a time above 0"),
        (["--small", "--budget", "9 kg"], "--budget"),
        (["--list", "--report-only"], "given with --report-only; allowed: without"),
        (["--report-only"], "holds no results of a suite"),
        (["--report-only", "--small"], "--small: given with --report-only"),
        (["--small", "-o", "full"], "--output: full holds no results of a suite"),
        (["--small", "-o", "damaged"], "suite.json cannot be read"),
        (["--small", "-o", "full/file"], "--output"),
    ],
)
def test_one_clear_line(command, machine, words, message):
    for folder, file in (("full", "file"), ("damaged", "suite.json")):
        Path(folder).mkdir()
        Path(folder, file).write_text('{"ranks": 2, "small": true, "machine": {}}')
    before = sorted(Path().rglob("*"))
    code, out, err = command(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert sorted(Path().rglob("*")) == before


def test_no_mpi(command, machine):
    machine["transports"]["mpi"] = {"available": False, "detail": "not installed"}
    code, _, err = command("--small")
    assert (code, err.count("\n")) == (2, 1)
    assert "no ranks here (not installed); allowed: with MPI, or --ranks 1" in err
    code, out, _ = command("--small", "--ranks", "1", "--list")
    assert code == 0
    assert "fibre-step-1" in out


def test_list_on_eight_gpus(command, machine):
    machine["gpus"] = [{"model": "a GPU"}] * 8
    machine["transports"] = {name: {"available": True, "detail": ""} for name in machine["transports"]}
    code, out, _ = command("--list", "--only", "*-8")
    name, line, *_ = out.splitlines()
    assert (code, name) == (0, "fibre-8 (about 150 s)")
    assert line.startswith("  python benchmarks bench fibre-scaling --ranks 8 --modes-per-rank 15 --log2n 21")
    assert "left out" not in out
    assert not list(Path().iterdir())


@pytest.mark.slow
def test_one_part_and_its_report(command):
    words = ["--small", "--ranks", "1", "--only", "ultrasound-1", "-o", "out"]
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    assert out.startswith("ultrasound-1 ")
    assert "1 done\nwrote out/report.md" in out
    assert "| 1 | 24x24x24 | local |" in Path("out/report.md").read_text()
    assert "done before" in command(*words)[1]
    assert command("-o", "out", "--report-only")[:2] == (0, "wrote out/report.md\n")


@pytest.mark.slow
def test_a_failed_part_is_said_in_the_exit_code(command, machine):
    code, out, _ = command(
        "--small", "--ranks", "1", "--only", "*step*", "--time-limit", "0.3 s", "-o", "out"
    )
    assert code == 1
    assert "2 failed\nfailed: fibre-step-1, ultrasound-step-1" in out
    assert "ran past its limit" in Path("out/report.md").read_text()


@pytest.mark.slow
def test_the_whole_at_small_sizes_on_two_ranks(command):
    code, out, _ = command("--small", "--ranks", "2", "-o", "out")
    assert (code, " failed" in out) == (0, False)
    report = Path("out/report.md").read_text()
    assert "Missing" not in report
    assert "Cannot be shown" not in report
    assert all(Path("out", name).exists() for name in ("fibre-over-ranks.png", "ultrasound-scaling.png"))


@pytest.fixture
def results(tmp_path, machine):
    """Stored results of parts on up to eight GPUs, by default of all kinds, each changed by a function."""

    def make(change=lambda name, result: None, names=None, small=False):
        machine["transports"]["p2p"]["available"] = True
        parts = make_parts(8, machine["transports"], small=False)
        folder = tmp_path / "results" / "parts"
        folder.mkdir(parents=True)
        for part in parts:
            key = next(
                (key for key in (part.name, f"{part.name.rpartition('-')[0]}-2") if key in STORED), None
            )
            if part.left_out or key is None or (names and part.name not in names):
                continue
            file, result = deepcopy(STORED[key])
            result |= {"ranks": part.ranks} if "ranks" in result else {}
            for case in result.get("cases", ()):
                case |= {"transport": "p2p"} if part.ranks > 1 and "transport" in case else {}
            change(part.name, result)
            (folder / part.name).mkdir()
            (folder / part.name / file).write_text(json.dumps(result))
            record = {"arguments": [], "command": f"wavefabric {part.name}", "state": "done", "seconds": 12.5}
            record |= {"program": "0.1.0", "machine": machine, "why": "", "said": []}
            (folder / f"{part.name}.json").write_text(json.dumps(record))
        return Results(tmp_path / "results", parts, machine, small)

    return make


def text_of(result):
    write_report(result)
    return (result.root / "report.md").read_text("utf-8")


def section(text, title):
    return text.split(f"## {title}\n")[1].split("\n## ")[0]


def as_the_paper(name, result):
    """Modes and samples of the paper, and what eight ranks are to reach, or not."""
    if "forms" in result:
        result |= {"modes_per_rank": 15, "samples": 1 << 21}
        for case in result["cases"]:
            case["ratio"] = 1.17 if case["exchange"] == "factored" else 2.6
    for case in result.get("cases", ()):
        case |= {"efficiency": 0.94} if "efficiency" in case else {}
        for row in case["rows"] if "protocol" in case else ():
            row["ratio"] = 0.9 if row["bytes"] > 5000 else 0.5


def test_an_empty_folder_says_what_is_missing(results):
    text = text_of(results(names=["none"]))
    assert text.count("Missing: no part of it is done.") == 9
    assert section(text, "Goals").count("missing") == 4
    assert "| fibre-8 | missing |  |" in text
    assert "mpi-cuda: no GPU" in text


def test_everything(results):
    result = results(as_the_paper)
    text = text_of(result)
    assert "Missing" not in text
    assert "Cannot be shown" not in text
    assert "| K = 1 | K = 2 | K = 4 | K = 6 | K = 8 |" in section(text, "Fibre over ranks")
    assert all(f"**all-reduce, {ranks} ranks" in text for ranks in (2, 4, 6, 8))
    assert "120 modes" in section(text, "Link")
    for name in ("fibre-over-ranks", "ultrasound-scaling"):
        assert f"({name}.png)" in text
        assert (result.root / f"{name}.png").stat().st_size > 8000


@pytest.mark.slow
def test_goals_beside_what_was_measured(results):
    text = text_of(results(as_the_paper, ["fibre-2", "fibre-8", "ultrasound-1d-8", "all-reduce-ring-8"]))
    rows = [[cell.strip() for cell in row.split("|")] for row in section(text, "Goals").splitlines()[3:]]
    assert [row[3:5] for row in rows if row[1:]] == [
        ["P2P 1.17", "P2P"],
        ["P2P 2.60", "no"],
        ["P2P 0.94", "P2P"],
        ["0.50 to 0.90", "3 of 4 times"],
    ]
    assert "MPI 6.76, NCCL 4.26" in text


def test_small_sizes_have_no_goals(results):
    assert "**Small sizes**" in section(text_of(results(names=["cuts-2"], small=True)), "Goals")


@pytest.mark.slow
def test_results_of_another_form_cost_their_section_alone(results):
    def change(name, result):
        if name.startswith("cuts"):
            del result["shape"]
        elif name.startswith("exchange"):
            result |= {"cases": [], "unavailable": {"nccl": "its library is missing"}}
        elif name.startswith("fibre"):
            result["modes_per_rank"] = int(name[-1])

    text = text_of(results(change))
    assert "Cannot be shown: KeyError: 'shape'" in section(text, "Cuts and placements")
    assert "NCCL: not measured; its library is missing" in section(text, "Exchange")
    assert "InputError: --from:" in section(text, "Fibre over ranks")
    assert text.count("Cannot be shown") == 2


def test_what_failed_is_said_and_its_results_are_not_used(results):
    result = results(names=["fibre-8"])
    path = result.root / "parts" / "fibre-8.json"
    record = json.loads(path.read_text()) | {
        "state": "failed",
        "why": "exit code 1",
        "said": ["out of | memory"],
    }
    path.write_text(json.dumps(record))
    text = text_of(result)
    assert "Missing" in section(text, "Fibre over ranks")
    assert "| fibre-8 | failed | 12.5 | `wavefabric fibre-8` | exit code 1: out of \\| memory |" in text

"""`wavefabric plan`, and `run --plan`: candidates, files, what is refused, and runs that follow a plan."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import h5py
import pytest

from wavefabric.collectives import load
from wavefabric.collectives.structure import sent_and_received
from wavefabric.runtime.exchange.launch import launcher
from wavefabric.runtime.exchange.launch.environment import PLAN

DATA = Path(__file__).parents[1] / "data"
HGX = ("--fabric", "hgx-h200")
AUTO = ("--plan", "auto", "--fabric", "switch:2", "--device-file", "cpu.json")
RANKS = ("--ranks", "2", "--device", "cpu", "-q", "--record-schedule", "step.json")
needs_ranks = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec")


@pytest.fixture(autouse=True)
def files(tmp_path, run_text, monkeypatch):
    """A k-Wave file of 48 x 40 x 32 points, a run file, and the device file of a CPU."""
    monkeypatch.setenv(PLAN, "")
    shutil.copy(DATA / "kwave" / "p0_homogeneous.h5", tmp_path / "case.h5")
    shutil.copy(DATA / "planner" / "cpu.json", tmp_path / "cpu.json")
    text = run_text.replace('"80 km"', '"2 km"').replace('"1 km"', '"500 m"')
    (tmp_path / "run.toml").write_text(text + "[output]\nfigures = false\n")


@pytest.fixture
def jobs(monkeypatch):
    """Ranks are not started; what would have been is kept."""
    kept = []
    monkeypatch.setattr(
        launcher, "launch", lambda job: kept.append((job, os.environ.get("WAVEFABRIC_PROTOCOL"))) or 0
    )
    return kept


def test_a_table(command):
    code, out, err = command("plan", "case.h5", *HGX, "--gpus", 2, "--max-error", "1e-3")
    assert (code, err) == (0, "")
    assert "48 x 40 x 32 points, homogeneous, single precision; 2 x h200 on hgx-h200" in out
    for words in ("29 more, slower: --all shows them", "120 steps: ", "chosen: one GPU: the fastest"):
        assert words in out
    (starred,) = [line for line in out.splitlines() if line.strip().startswith("*")]
    assert "one GPU" in starred
    assert "run it: wavefabric run case.h5\n" in out
    out = command("plan", "case.h5", *HGX, "--gpus", 2, "--all", "--transports", "mpi; nccl")[1]
    assert ("slower: --all" in out, "p2p" in out, ", nccl" in out) == (False, False, True)
    out = command("plan", "run.toml", *HGX, "--gpus", 2)[1]
    assert "6 rows x 1024 samples, rk4ip, double precision; 2 x h200" in out
    assert "8 steps: " in out
    told = json.loads(
        command("plan", "case.h5", *HGX, "--json", "--overlaps", "4", "--precision", "double")[1]
    )
    plan = told["plan"]
    assert (told["written"], plan["ranks"], "double precision" in plan["problem"]) == ([], 8, True)
    assert {c["options"].get("overlap", 4) for c in plan["candidates"]} == {4}
    assert sum(not c["carrier"] for c in plan["candidates"]) == 1
    out = command("plan", "case.h5", *HGX, "--gpus", 1)[1]
    assert ("run it" in out, out.count("one GPU")) == (False, 2)


@pytest.mark.parametrize("name", ["plan.json", pytest.param("plan.png", marks=pytest.mark.slow)])
def test_files_are_written_and_kept(command, name):
    code, out, err = command("plan", "case.h5", *HGX, "-o", name)
    assert (code, err, f"wrote {name}" in out) == (0, "", True)
    before = Path(name).read_bytes()
    code, _, err = command("plan", "case.h5", *HGX, "-o", name)
    assert (code, err.count("\n")) == (2, 1)
    assert f"{name} exists; allowed: another name, or --force" in err
    assert Path(name).read_bytes() == before
    assert command("plan", "case.h5", *HGX, "--gpus", 4, "-o", name, "--force")[0] == 0
    assert Path(name).read_bytes() != before
    assert name == "plan.png" or json.loads(Path("plan.json").read_text())["kind"] == "wavefabric plan"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("case.h5", "--fabric: missing; allowed: a preset (wavefabric fabric show), or a file"),
        ("case.h5 --fabric hgx", 'fabric: "hgx" given (did you mean hgx-b200?); allowed: a file'),
        ("case.h5 --fabric hgx-h200 --gpus 9", "gpus: 9 given; allowed: 1 to the 8 of hgx-h200"),
        ("case.h5 --fabric hgx-h200 --gpus 0", "gpus: 0 given; allowed: 1 to the 8 of hgx-h200"),
        ("case.h5 --fabric hgx-h200 --overlaps 8,x", "--overlaps: '8,x' given; allowed: whole numbers"),
        ("case.h5 --fabric hgx-h200 --transports tcp", 'transport: "tcp" given; allowed: p2p'),
        ("case.h5 --fabric hgx-h200 --max-error 2", "max-error: 2.0 given; allowed: 0, or a number below 1"),
        ("case.h5 --fabric hgx-h200 --precision half", "--precision: \"half\" given; allowed: "),
        ("case.h5 --fabric hgx-h200 --device-file v9", 'device: "v9" given; allowed: a JSON or TOML file'),
        ("none.h5 --fabric hgx-h200", "none.h5: no such file; allowed: a k-Wave input file"),
        ("cpu.json --fabric hgx-h200", "cpu.json: is not an HDF5 file"),
        ("run.toml --fabric hgx-h200 --gpus 4", "ranks: 4 given for 3 modes; allowed: 1 to 3"),
        ("case.h5 --fabric hgx-h200 -o a.doc", "--output: a.doc given; allowed: a name that ends in .json"),
        ("case.h5 --fabric hgx-h200 --device-file small.toml", "gpus: 8 given; 0.1 GiB needed at"),
    ],
)  # fmt: skip
def test_bad_input_to_plan(command, tmp_path, words, message):
    Path("small.toml").write_text('name = "small"\nbased_on = "h200"\ntimes = 1\nmemory = "9 kB"\n')
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = command("plan", *words.split(), *["-o", "plan.json"] * ("-o" not in words))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"wavefabric: error: {message}")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


SECONDS = {"step": 1.0, "compute": 1.0, "pack": 0.0, "exchange": 0.0, "exposed": 0.0}
CHOSEN = {"options": {}, "carrier": "mpi", "seconds": SECONDS, "bytes": 1, "sent": 0.0}
PLANNED = {
    "problem": "",
    "device": "cpu",
    "fabric": "switch:2",
    "ranks": 4,
    "steps": 1,
    "memory": 1,
    "cpu": True,
}


def plan_file(name, changed=(), **more):
    """A plan of one candidate."""
    plan = PLANNED | more | {"candidates": [CHOSEN | dict(changed)]}
    Path(name).write_text(json.dumps({"kind": "wavefabric plan", "plan": plan}))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--plan auto", "--plan: auto given for one rank; allowed: with --ranks 2 or more"),
        ("--fabric ring:2 --ranks 2", "--fabric: ring:2 given without --plan; allowed: with --plan auto"),
        ("--plan auto --ranks 2 --device-file cpu.json", "--fabric: missing"),
        ("--plan auto --ranks 2 --fabric ring:2", "--device-file: missing, none is known of a CPU"),
        ("--plan auto --ranks 3 --fabric ring:2 --device-file cpu.json", "gpus: 3 given; allowed: 1 to"),
        ("--plan auto --ranks 2 --decomposition local", "--decomposition: local given with --plan"),
        ("--plan auto --ranks 2 --exchange dense", "--exchange: dense given with --plan; allowed: without"),
        ("--plan plan.json --ranks 2 --max-error 1e-3", "--max-error: 0.001 given with a plan's file"),
        ("--plan plan.json --ranks 2", "--plan: plan.json is for 4 ranks; allowed: a plan for 2"),
        ("--plan none.json --ranks 2", "--plan: none.json (No such file or directory)"),
        ("--plan cpu.json --ranks 2", "--plan: cpu.json is no plan (plan: missing"),
        ("--plan odd0.json --ranks 4", "--plan: odd0.json is no plan"),
        ("--plan odd1.json --ranks 4", "--plan: odd1.json is no plan"),
        ("--plan odd2.json --ranks 4", "--plan: odd2.json is no plan (options: colour = 'red' given"),
        ("--plan odd3.json --ranks 4", "--plan: odd3.json is no plan (chosen: 7 given"),
        ("--plan other.json --ranks 4", "--plan: other.json is for a grid, 1 steps; allowed: a plan"),
        ("--plan gpu.json --ranks 4", "--plan: a plan for GPUs (cpu), and ranks on CPUs; allowed: "),
    ],
)  # fmt: skip
def test_bad_input_to_run(command, tmp_path, jobs, words, message):
    plan_file("plan.json")
    for number, odd in enumerate(({"options": [1]}, {"carrier": None}, {"options": {"colour": "red"}})):
        plan_file(f"odd{number}.json", odd)
    plan_file("odd3.json", chosen=7)
    plan_file("gpu.json", cpu=False)
    plan_file("other.json", problem="a grid")
    code, out, err = command("run", "case.h5", "-o", "out.h5", "--device", "cpu", *words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"wavefabric: error: {message}")
    assert not jobs
    assert not (tmp_path / "out.h5").exists()


def test_a_plan_says_how_ranks_are_started(command, jobs, monkeypatch):
    monkeypatch.setattr("wavefabric.cli.run.cuda_count", lambda: 4)
    problem, steps = "48 x 40 x 32 points, homogeneous, {} precision", 120
    for cpu, order in ((False, [2, 0, 1, 3]), (True, [])):
        plan_file(
            "plan.json",
            {"carrier": "p2p, signals", "order": [2, 0, 1, 3]},
            cpu=cpu,
            steps=steps,
            problem=problem.format("double" if cpu else "single"),
            memory=9,
        )
        monkeypatch.setenv(PLAN, "")
        monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "copies")
        command("run", "case.h5", "-o", "out.h5", "--ranks", 4, "--plan", "plan.json")
        job, protocol = jobs[-1]
        assert (job.ranks, job.transport, job.placement, protocol) == (4, "p2p", order, "signals")
        if not cpu:  # by copies, where kernels were compared with them; else p2p stays as it is
            for compared, wanted in ((("p2p, signals",), "copies"), ((), "signals")):
                others = [CHOSEN | {"carrier": carrier} for carrier in compared]
                plan = json.loads(Path("plan.json").read_text())
                plan["plan"]["candidates"] = [CHOSEN | {"carrier": "p2p"}, *others]
                Path("copies.json").write_text(json.dumps(plan))
                monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
                command("run", "case.h5", "-o", "out.h5", "--ranks", 4, "--plan", "copies.json")
                assert (jobs[-1][0].transport, jobs[-1][1]) == ("p2p", wanted)
            monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "copies")
        # For this run alone.
        assert (os.environ["WAVEFABRIC_PROTOCOL"], os.environ[PLAN]) == ("copies", "")


def run_planned(*words):
    """A run in a process of its own; the plan that its result keeps, and what its ranks sent in a step."""
    program = "from wavefabric.cli import main; main()"
    how = {"capture_output": True, "text": True, "timeout": 300, "env": os.environ | {PLAN: ""}}
    done = subprocess.run([sys.executable, "-c", program, "run", *words, *RANKS], **how)
    assert done.returncode == 0, done.stderr
    with h5py.File("out.h5") as file:
        plan = file.attrs["plan"]
    step = load("step.json")
    sent = int(max(sent_and_received(step)[0])) * step.element_bytes
    return json.loads(plan), sent, done.stderr


@needs_ranks
@pytest.mark.slow
@pytest.mark.usefixtures("ranks_apart")
@pytest.mark.parametrize("file", ["case.h5", "run.toml"])
def test_runs_plan_themselves(command, file):
    plan, sent, err = run_planned(file, "-o", "out.h5", *AUTO)
    facts = json.loads(command("plan", file, *AUTO[2:], "--json")[1])
    # Ranks that were asked for take the best of several, also where one GPU alone is advised.
    configuration = "factored, mpi" if facts["choice"] == "one GPU" else facts["choice"]
    assert plan["configuration"] == configuration
    assert {key: plan[key] for key in CHOSEN} in [
        {k: c[k] for k in CHOSEN} for c in facts["plan"]["candidates"]
    ]
    assert plan["carrier"] == "mpi"
    assert err.startswith(f"plan: {configuration}, ")
    # Ranks do what was planned: to the byte.
    assert sent == plan["sent"] > 0


@needs_ranks
@pytest.mark.slow
@pytest.mark.usefixtures("ranks_apart")
def test_a_run_follows_a_file(command):
    assert command("plan", "case.h5", *AUTO[2:], "--overlaps", "4", "-o", "plan.json")[0] == 0
    facts = json.loads(Path("plan.json").read_text())
    assert "single precision" in facts["plan"]["problem"]
    wanted = {"decomposition": "local", "grid": "1x2x1", "overlap": 4, "bell": "nested-sine"}
    facts["plan"]["chosen"] = [c["options"] for c in facts["plan"]["candidates"]].index(wanted)
    Path("plan.json").write_text(json.dumps(facts))
    plan, sent, err = run_planned("case.h5", "-o", "out.h5", "--plan", "plan.json")
    assert err == ""
    assert plan["options"] == wanted
    assert sent == plan["sent"] == 4 * 2 * 4 * 48 * 32 * 4

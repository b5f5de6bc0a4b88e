"""Parts run, kept, resumed and ended, with a fake program."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import runner
from benchmarks.parts import Part
from benchmarks.runner import read_json, read_record
from wavefabric.base.errors import InputError
from wavefabric.runtime.exchange.launch import watch


def run(work, *parts):
    """Words of the outcomes."""
    return [outcome.word for outcome in work.run(parts, lambda name: None)]


def test_parts_are_run_once(make_runner, writes):
    work, second = make_runner(), writes("b-1", '{"x": 2}', prints="said.json")
    parts = writes("a-1"), replace(second, words=("WAVEFABRIC_PROTOCOL=signals", *second.words))
    assert run(work, *parts) == ["done", "done"]
    folder = work.folder
    assert read_json(folder / "b-1" / "out.json") == {"x": 2}
    assert read_json(folder / "b-1" / "said.json") == {"printed": "signals"}
    assert "printed" in (folder / "a-1.log").read_text()
    result = read_record(folder, "a-1")
    assert (result["state"], result["exit_code"], result["said"]) == ("done", 0, [])
    assert result["command"] == f"wavefabric write {folder}/a-1/out.json '{{}}'"
    assert result["machine"] == work.machine
    marks = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run(make_runner(), *parts) == ["done before", "done before"]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == marks


def test_what_another_version_command_or_machine_measured_is_kept(make_runner, writes, monkeypatch):
    part, other = writes("a-1", "1"), writes("a-1", "2")
    run(make_runner(), part)
    gpu = make_runner().machine | {"gpus": [{"model": "a GPU"}]}
    (kept,) = make_runner(machine=gpu).run([other], print)
    assert kept.why == "of another command and another kind of device; --force measures it again"
    result = make_runner().folder / "a-1" / "out.json"
    assert (run(make_runner(), other), result.read_text()) == (["kept"], "1")
    assert (run(make_runner(force=True), other), result.read_text()) == (["done"], "2")
    assert run(make_runner(force=True), other) == ["done before"]
    monkeypatch.setattr(runner, "program_version", lambda: "next")
    assert run(make_runner(), other) == ["kept"]


def test_the_version_is_that_of_what_measures(monkeypatch, tmp_path):
    (tmp_path / "cli").mkdir()
    monkeypatch.setattr(runner.wavefabric, "__file__", str(tmp_path / "__init__.py"))
    versions = []
    for name in ("step.py", "cli/app.py", "step.cu"):
        (tmp_path / name).write_text("1")
        versions.append(runner.program_version.__wrapped__())
    assert versions[0] == versions[1] != versions[2]


@pytest.mark.parametrize(
    ("words", "limit", "why"),
    [
        (("fail", "3", "no such luck"), 600, "exit code 3: no such luck"),
        (("sleep", "60"), 0.5, "ran past its limit of 0 s"),
    ],
)
def test_a_failure_is_recorded_and_the_next_part_goes_on(make_runner, writes, words, limit, why):
    work = make_runner(time_limit=limit)
    outcomes = list(work.run([Part("bad-1", 1, words, 1), writes("a-1")], lambda name: None))
    assert [outcome.word for outcome in outcomes] == ["failed", "done"]
    assert outcomes[0].why.startswith(why)
    assert read_record(work.folder, "bad-1")["state"] == "failed"
    assert not (work.folder / "bad-1").exists()
    assert not list(work.folder.glob(".*"))
    assert run(make_runner(), writes("bad-1"), writes("a-1")) == ["done", "done before"]


def test_a_failure_keeps_what_was_there(make_runner, writes):
    run(make_runner(), writes("a-1", "1"))
    assert run(make_runner(force=True), Part("a-1", 1, ("fail", "1", "x"), 1)) == ["failed"]
    assert read_record(make_runner().folder, "a-1")["state"] == "done"
    assert (make_runner().folder / "a-1" / "out.json").read_text() == "1"


def test_a_budget_leaves_out_what_would_not_end_in_it(make_runner, writes):
    parts = writes("long-1", seconds=500), writes("short-1"), writes("none-1", left_out="nccl: no GPU")
    work = make_runner(budget=30)
    outcomes = list(work.run(parts, lambda name: None))
    assert [outcome.word for outcome in outcomes] == ["not begun", "done", "left out"]
    assert outcomes[0].why == "500 s expected, 30 s of the budget left"
    # What it took is known from then on.
    assert work.expected(parts[1]) == runner.read_record(work.folder, "short-1")["seconds"]


def alive(process_id):
    process = watch._process(process_id)
    return process is not None and process[1] != "Z"


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
def test_ctrl_c_ends_the_part_with_all_its_processes(make_runner, writes, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "ENDING", [(signal.SIGINT, 0.1), (signal.SIGTERM, 0.1)])
    mark, work = tmp_path / "started", make_runner()

    def press():
        wait_until(mark.exists)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        run(work, writes("a-1"), Part("stubborn-1", 1, ("stubborn", str(mark)), 1), writes("b-1"))
    for process_id in mark.read_text().split():
        wait_until(lambda process_id=process_id: not alive(process_id))
    result = read_record(work.folder, "stubborn-1")
    assert (result["state"], result["exit_code"]) == ("interrupted", 130)
    assert not (work.folder / "b-1").exists()
    assert run(work, writes("a-1"), writes("stubborn-1")) == ["done before", "done"]


def test_a_killed_suite_leaves_nothing_running_and_is_resumed(make_runner, writes, tmp_path):
    work = make_runner()
    code = f"""
from pathlib import Path
from benchmarks.runner import run_command
run_command([*{work.program!r}, "sleep", "60"], Path("log"), Path("log"), 60)
"""
    here = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([here, *sys.path])}
    started = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment)
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
    wait_until(lambda: started.poll() is not None or children.read_text().strip())
    child = children.read_text().split()[0]
    started.kill()
    started.wait()
    wait_until(lambda: not alive(child))
    # What was half done is no result.
    partial = work.folder / ".a-1.partial"
    partial.mkdir(parents=True)
    (partial / "out.json").write_text("half")
    assert run(work, writes("a-1", "1")) == ["done"]
    assert (work.folder / "a-1" / "out.json").read_text() == "1"


@pytest.mark.slow
def test_results_of_another_run_are_never_beside_a_record(make_runner, writes, monkeypatch):
    run(make_runner(), writes("a-1", "1"))

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            run(make_runner(force=True), writes("a-1", "2"))
    assert read_record(make_runner().folder, "a-1") is None
    assert run(make_runner(), writes("a-1", "2")) == ["done"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        pytest.param("[]", marks=pytest.mark.slow),
        pytest.param("{}", marks=pytest.mark.slow),
        pytest.param('{"name": 1}', marks=pytest.mark.slow),
        pytest.param("\x00", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_record_is_none(make_runner, writes, text):
    run(make_runner(), writes("a-1"))
    (make_runner().folder / "a-1.json").write_text(text)
    assert run(make_runner(), writes("a-1")) == ["done"]


def test_the_machine_is_described_with_what_changes_how_ranks_talk(monkeypatch, tmp_path):
    path = tmp_path / "info.py"
    path.write_text(f"print({json.dumps(json.dumps({'python': 'x'}))})")
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    result = runner.describe_machine([sys.executable, str(path)])
    assert result["environment"]["NCCL_NVLS_ENABLE"] == "0"
    assert "HOME" not in result["environment"]
    path.write_text("print('no JSON')")
    with pytest.raises(InputError, match="machine: wavefabric info failed"):
        runner.describe_machine([sys.executable, str(path)])

"""Parts run, kept, resumed and ended, with a stand-in for the program."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.bench.suite import process, record
from wavefabric.bench.suite.parts import Part
from wavefabric.bench.suite.process import Ended, run_command
from wavefabric.bench.suite.record import read_record, read_result
from wavefabric.bench.suite.run import Suite, describe_machine
from wavefabric.errors import InputError
from wavefabric.system.progress import Progress


def run(suite, parts):
    """Words of the outcomes; each part was said once."""
    said = []
    outcomes = suite.run(parts, Progress(), said.append, lambda: None)
    assert said == outcomes
    return [outcome.word for outcome in outcomes]


def test_parts_are_run_once(suite, writes, tmp_path):
    parts = [writes("a-1", "{}"), writes("b-1", '{"x": 2}', prints="said.json")]
    here = suite()
    assert run(here, parts) == ["done", "done"]
    folder = here.parts_folder
    assert read_result(folder, "b-1", "out.json") == {"x": 2}
    assert read_result(folder, "b-1", "said.json") == {"printed": 1}
    assert "printed" in (folder / "a-1.log").read_text()
    found = read_record(folder, "a-1")
    assert (found.state, found.exit_code, found.said) == ("done", 0, [])
    assert found.command == f"wavefabric write {folder}/a-1/out.json '{{}}'"
    assert found.machine == here.machine
    assert found.seconds > 0
    marks = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run(suite(), parts) == ["done before", "done before"]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == marks


def test_what_another_version_command_or_machine_measured_is_kept(suite, writes, monkeypatch):
    part, other = writes("a-1", "1"), writes("a-1", "2")
    run(suite(), [part])
    folder = suite().parts_folder
    gpu = suite().machine | {"gpus": [{"model": "a GPU"}]}
    kept = suite(machine=gpu).run([other], Progress(), print, print)
    assert kept[0].why == "of another command and another kind of device; --force measures it again"
    assert run(suite(machine=gpu), [part]) == ["kept"]
    assert run(suite(), [other]) == ["kept"]
    assert (folder / "a-1" / "out.json").read_text() == "1"
    assert run(suite(force=True), [other]) == ["done"]
    assert (folder / "a-1" / "out.json").read_text() == "2"
    assert run(suite(force=True), [other]) == ["done before"]
    monkeypatch.setattr(record, "program_version", lambda: "next")
    assert run(suite(), [other]) == ["kept"]


def test_the_version_is_that_of_what_measures(monkeypatch, tmp_path):
    import wavefabric

    (tmp_path / "cli").mkdir()
    for name in ("__init__.py", "cli/app.py", "step.py"):
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(wavefabric, "__file__", str(tmp_path / "__init__.py"))
    first = record.program_version.__wrapped__()
    (tmp_path / "cli" / "app.py").write_text("2")
    assert record.program_version.__wrapped__() == first
    (tmp_path / "step.py").write_text("2")
    assert record.program_version.__wrapped__() != first


def test_a_failure_is_recorded_and_the_next_part_goes_on(suite, writes):
    bad = Part("bad-1", 1, ("fail", "3", "no such luck"), 1)
    here = suite()
    outcomes = here.run([bad, writes("a-1")], Progress(), lambda outcome: None, lambda: None)
    assert [outcome.word for outcome in outcomes] == ["failed", "done"]
    assert outcomes[0].why == "exit code 3: no such luck"
    found = read_record(here.parts_folder, "bad-1")
    assert (found.state, found.exit_code, found.said) == ("failed", 3, ["some line", "no such luck"])
    assert not (here.parts_folder / "bad-1").exists()
    assert not list(here.parts_folder.glob(".*"))
    # Once it works it is done.
    assert run(suite(), [writes("bad-1"), writes("a-1")]) == ["done", "done before"]


def test_a_failure_keeps_what_was_there(suite, writes):
    run(suite(), [writes("a-1", "1")])
    bad = Part("a-1", 1, ("fail", "1", "x"), 1)
    assert run(suite(force=True), [bad]) == ["failed"]
    assert read_record(suite().parts_folder, "a-1").state == "done"
    assert (suite().parts_folder / "a-1" / "out.json").read_text() == "1"


def test_a_part_that_runs_past_its_limit_is_ended(suite, writes):
    slow = Part("slow-1", 1, ("sleep", "60"), 1)
    begun = time.monotonic()
    assert run(suite(time_limit=0.5), [slow, writes("a-1")]) == ["failed", "done"]
    assert time.monotonic() - begun < 10
    assert read_record(suite().parts_folder, "slow-1").why.startswith("ran past its limit of 0 s")


def test_a_budget_leaves_out_what_would_not_end_in_it(suite, writes):
    parts = [writes("long-1", seconds=500), writes("short-1", seconds=1)]
    here = suite(budget=30)
    outcomes = here.run(parts, Progress(), lambda outcome: None, lambda: None)
    assert [outcome.word for outcome in outcomes] == ["not begun", "done"]
    assert outcomes[0].why == "500 s expected, 30 s of the budget left"
    # What it took is known from then on.
    assert here.expected(parts[1]) < 1


class Timed(Suite):
    """A suite whose parts take the time that they are expected to take, on a clock of its own."""

    def _run(self, part, limit, tick):
        self.clock.now += part.seconds
        self.begun.append(part.name)
        assert part.seconds <= limit
        from wavefabric.bench.suite.run import Outcome

        return Outcome(part, "done", part.seconds)


@given(st.lists(st.floats(0.5, 900), max_size=12), st.floats(1, 2000))
def test_any_budget_is_kept(tmp_path_factory, seconds, budget):
    from types import SimpleNamespace
    from unittest.mock import patch

    here = Timed(tmp_path_factory.mktemp("suite"), {}, True, 1000.0, budget)
    here.clock, here.begun = SimpleNamespace(now=0.0), []
    parts = [Part(f"{k}-1", 1, (), took) for k, took in enumerate(seconds)]
    with patch("wavefabric.bench.suite.run.time.monotonic", lambda: here.clock.now):
        words = run(here, parts)
    assert here.clock.now <= budget
    assert here.begun == [part.name for part, word in zip(parts, words, strict=True) if word == "done"]
    left = budget - here.clock.now
    assert all(part.seconds > left for part, word in zip(parts, words, strict=True) if word == "not begun")


def test_what_cannot_be_run_here_is_left_out(suite, writes):
    part = replace(writes("a-1"), left_out="nccl: no CUDA device")
    assert run(suite(), [part]) == ["left out"]
    assert not list(suite().parts_folder.iterdir())


def alive(process_id):
    try:
        with open(f"/proc/{process_id}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_ctrl_c_ends_the_part_with_all_its_processes(suite, writes, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_ENDING", ((signal.SIGINT, 0.1), (signal.SIGTERM, 0.1)))
    mark, reported = tmp_path / "started", []
    stubborn = Part("stubborn-1", 1, ("stubborn", str(mark)), 1)
    here = suite()

    def press():
        wait_until(mark.exists)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        here.run([writes("a-1"), stubborn, writes("b-1")], Progress(), print, lambda: reported.append(1))
    for process_id in mark.read_text().split():
        wait_until(lambda process_id=process_id: not alive(process_id))
    assert len(reported) == 2
    found = read_record(here.parts_folder, "stubborn-1")
    assert (found.state, found.exit_code) == ("interrupted", 130)
    assert not (here.parts_folder / "b-1").exists()
    assert run(here, [writes("a-1"), writes("stubborn-1")]) == ["done before", "done"]


def test_a_killed_suite_leaves_nothing_running_and_is_resumed(program, suite, writes, tmp_path):
    mark = tmp_path / "started"
    code = f"""
from pathlib import Path
from wavefabric.bench.suite.process import run_command
run_command(["stubborn", {str(mark)!r}], Path("log"), None, 60, print, {program!r})
"""
    # The stand-in ignores SIGTERM, which it is sent then: without that it would be gone.
    gentle = (
        (tmp_path / "stand_in.py").read_text().replace("SIGTERM, signal.SIG_IGN", "SIGTERM, signal.SIG_DFL")
    )
    (tmp_path / "stand_in.py").write_text(gentle)
    started = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.DEVNULL)
    wait_until(mark.exists)
    first, child = mark.read_text().split()
    started.kill()
    started.wait()
    wait_until(lambda: not alive(first))
    os.kill(int(child), signal.SIGKILL)  # only `wavefabric` takes its own children with it
    # What was half done is no result.
    partial = suite().parts_folder / ".a-1.partial"
    partial.mkdir(parents=True)
    (partial / "out.json").write_text("half")
    assert run(suite(), [writes("a-1", "1")]) == ["done"]
    assert (suite().parts_folder / "a-1" / "out.json").read_text() == "1"
    assert not partial.exists()


def test_results_of_another_run_are_never_beside_a_record(suite, writes, monkeypatch):
    run(suite(), [writes("a-1", "1")])
    folder = suite().parts_folder

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(record, "write_record", killed)
    with pytest.raises(KeyboardInterrupt):
        run(suite(force=True), [writes("a-1", "2")])
    assert read_record(folder, "a-1") is None
    monkeypatch.undo()
    assert run(suite(), [writes("a-1", "2")]) == ["done"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1}', "\x00"])
def test_a_damaged_record_is_none(suite, writes, text):
    run(suite(), [writes("a-1")])
    record.record_path(suite().parts_folder, "a-1").write_text(text)
    assert read_record(suite().parts_folder, "a-1") is None
    assert run(suite(), [writes("a-1")]) == ["done"]


def test_the_machine_is_described_with_what_changes_how_ranks_talk(monkeypatch, tmp_path):
    facts = dict.fromkeys((*record.MACHINE, "extras"), "x")
    path = tmp_path / "info.py"
    path.write_text(f"print({json.dumps(json.dumps(facts))})")
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    found = describe_machine([sys.executable, str(path)])
    assert found["environment"]["NCCL_NVLS_ENABLE"] == "0"
    assert "HOME" not in found["environment"]
    assert set(found) == {*record.MACHINE, "environment"}
    path.write_text("print('no JSON')")
    with pytest.raises(InputError, match="machine: wavefabric info failed"):
        describe_machine([sys.executable, str(path)])


def test_a_command_tells_how_it_ended(program, tmp_path):
    ticks = []
    ended = run_command(["fail", "4", "x"], tmp_path / "log", None, 10, ticks.append, program)
    assert (ended.code, ended.late) == (4, False)
    assert ticks[-1] <= ended.seconds
    assert isinstance(ended, Ended)
    assert json.loads(json.dumps(ticks)) == sorted(ticks)


def test_settings_are_in_the_environment(tmp_path):
    words = ["-c", "import os; print(os.environ['NAME'], 'PATH' in os.environ)"]
    run_command(words, tmp_path / "log", None, 10, lambda seconds: None, [sys.executable], ("NAME=a=b",))
    assert (tmp_path / "log").read_text() == "a=b True\n"

"""The commands on sound input. The simulation itself is replaced: it has its own tests."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from wavefabric.base.errors import LateRank
from wavefabric.base.results import Data, ResultWriter
from wavefabric.base.system.progress import Bar, Progress
from wavefabric.cli import app, gpu_of
from wavefabric.cli.common.progress import make_progress


def received(q, km):
    return {
        "attrs": {"distance_m": km * 1e3},
        "q_squared_db": Data(np.asarray(q, float), "dB", "Q²"),
    }


PAYLOAD = {
    "fibre": {
        "labels": Data(["LP01", "LP11a", "LP11b"], "", "modes"),
        "groups": Data(np.array([1, 2, 2]), "", "groups"),
    },
    "received": {
        "back_to_back": received([[16.0, 16.0], [16.0, 16.0], [16.0, 16.0]], 0),
        "span_1": received([[15.9, 15.9], [15.95, 15.95], [15.95, 15.95]], 80),
        "span_2": received([[15.7, 15.9], [15.8, 15.8], [15.8, 15.8]], 160),
        "span_10": received([[15.0, 15.0], [15.0, 15.0], [15.0, 15.0]], 800),
    },
    "solver": {"attrs": {"integrator": "rk4ip", "steps": np.int64(160)}},
}


@pytest.fixture
def calls(monkeypatch):
    """A fake simulation: notes its arguments and writes a small result."""
    seen = []

    def run_link(runfile, *, output, force, resume, progress, comm=None):
        seen.append(SimpleNamespace(runfile=runfile, force=force, resume=resume))
        progress.start(4, "span 1")
        progress.update(4, "done")
        return SimpleNamespace(
            payload=PAYLOAD, path=ResultWriter(output, force).write(PAYLOAD, run_file=runfile.text)
        )

    monkeypatch.setattr("wavefabric.cli.run_fibre.run_link", run_link)
    return seen


def test_run_prints_the_table_and_writes_figures(command, run_text, tmp_path, calls):
    (tmp_path / "demo.toml").write_text(run_text)
    code, out, err = command("run", "demo.toml")
    assert (code, err) == (0, "")
    for word in ("back to", "80 km", "160 km", "-0.100", "-0.050", "-0.199", "penalty", "wrote demo.h5"):
        assert word in out, out
    assert "…" not in out
    assert out.index("160 km") < out.index("800 km")
    assert sorted(os.listdir(tmp_path)) == ["demo-penalty.png", "demo-q2.png", "demo.h5", "demo.toml"]
    assert calls[0].resume
    assert not calls[0].force


def test_run_options_reach_the_simulation(command, run_text, tmp_path, calls):
    (tmp_path / "demo.toml").write_text(run_text + "\n[output]\nfigures = false\n")
    (tmp_path / "o.h5").write_text("old")
    options = ["-o", "o.h5", "--force", "--no-resume", "--device", "cpu", "--threads", 2, "--quiet"]
    assert command("run", "demo.toml", *options) == (0, "", "")
    assert calls[0].force
    assert not calls[0].resume
    assert (calls[0].runfile.solver.device, calls[0].runfile.solver.threads) == ("cpu", 2)
    assert sorted(os.listdir(tmp_path)) == ["demo.toml", "o.h5"]


def test_run_json(command, run_text, tmp_path, calls):
    (tmp_path / "demo.toml").write_text(run_text)
    code, out, _ = command("run", "demo.toml", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["output"] == "demo.h5"
    assert told["solver"] == {"integrator": "rk4ip", "steps": 160}
    first, second = told["groups"]
    assert (first["modes"], second["modes"]) == (1, 2)
    assert first["received"]["span_1"]["penalty_db"] == pytest.approx(-0.1)
    assert first["received"]["span_2"]["q_squared_min_db"] == 15.7


@pytest.mark.parametrize("saved", [True, False])
def test_interrupt_says_where_the_checkpoint_is(command, run_text, tmp_path, monkeypatch, calls, saved):
    def run_link(runfile, **_):
        if saved:
            (tmp_path / "demo.h5.checkpoint").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("wavefabric.cli.run_fibre.run_link", run_link)
    (tmp_path / "demo.toml").write_text(run_text)
    code, out, err = command("run", "demo.toml")
    assert (code, out, err.count("\n")) == (130, "", 1)
    assert ("demo.h5.checkpoint" if saved else "no checkpoint yet") in err


@pytest.mark.parametrize("fault", [MemoryError("240 GB of 16 GB"), OSError(28, "No space left on device")])
def test_faults_of_the_machine_are_one_line(command, run_text, tmp_path, monkeypatch, calls, fault):
    def run_link(runfile, **_):
        raise fault

    monkeypatch.setattr("wavefabric.cli.run_fibre.run_link", run_link)
    (tmp_path / "demo.toml").write_text(run_text)
    code, _, err = command("run", "demo.toml")
    assert (code, err.count("\n")) == (2, 1)
    assert "240 GB" in err or "No space left" in err
    assert os.listdir(tmp_path) == ["demo.toml"]


def test_a_rank_that_did_not_come_is_one_line(command, run_text, tmp_path, monkeypatch, calls):
    """Nobody's input is bad, and no bug is shown."""

    def run_link(runfile, **_):
        raise LateRank("transposes: rank 1 did not come to the exchange in time")

    monkeypatch.setattr("wavefabric.cli.run_fibre.run_link", run_link)
    (tmp_path / "demo.toml").write_text(run_text)
    line = "wavefabric: error: transposes: rank 1 did not come to the exchange in time\n"
    assert command("run", "demo.toml") == (1, "", line)


def test_debug_shows_the_traceback(command, tmp_path):
    from wavefabric.base.errors import InputError
    from wavefabric.cli import main

    with pytest.raises(InputError):
        main(["--debug", "run", str(tmp_path / "absent.toml")])


def test_plot(command, tmp_path):
    ResultWriter(tmp_path / "r.h5").write(PAYLOAD)
    code, out, err = command("plot", "r.h5", "--output", "figures", "--format", "svg")
    assert (code, err) == (0, "")
    assert sorted(os.listdir(tmp_path / "figures")) == ["r-penalty.svg", "r-q2.svg"]
    assert out.count("wrote ") == 2


def test_info(command):
    code, out, err = command("info", "--json")
    facts = json.loads(out)
    assert (code, err) == (0, "")
    assert facts["python"].startswith("3.")
    assert set(facts["extras"]) == {"cuda", "mpi", "schedules"}
    assert facts["extras"]["mpi"]["present"] == (importlib.util.find_spec("mpi4py") is not None)
    code, out, _ = command("info")
    assert code == 0
    assert "[cuda]" in out


def test_version_and_help(command):
    from wavefabric import __version__

    assert command("--version") == (0, f"wavefabric {__version__}\n", "")
    code, out, _ = command("--help")
    assert code == 0
    for name in ("run", "plot", "info"):
        assert name in out


@pytest.mark.parametrize(
    "name", ["run", "plan", "sweep", "kwave", "transcranial", "plot", "report", "theory", "info"]
)
def test_help_has_the_first_line_of_each_command(name):
    module = importlib.import_module(f"wavefabric.cli.{name}")
    assert app.commands[name].help == module.command.__doc__.partition("\n")[0]


def test_help_imports_nothing_heavy():
    program = (
        "import sys\nfrom wavefabric.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'h5py', 'matplotlib', 'pint', 'pydantic', 'cupy', 'rich', 'asyncio'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "heavy: []"


def test_progress_is_silent_off_a_terminal(monkeypatch):
    assert type(make_progress()) is Progress
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert type(make_progress(quiet=True)) is Progress
    bar = make_progress()
    assert isinstance(bar, Bar)
    bar.start(10, "span 1")
    bar.update(5, "half")
    bar.start(None, "span 2")
    bar.finish()
    bar.finish()


def test_a_lost_signal_is_null_in_json(command, run_text, tmp_path, monkeypatch, calls):
    lost = {**PAYLOAD, "received": {"back_to_back": received([[-np.inf]] * 3, 0)}}
    monkeypatch.setitem(globals(), "PAYLOAD", lost)
    (tmp_path / "demo.toml").write_text(run_text)
    told = json.loads(command("run", "demo.toml", "--json")[1], parse_constant=pytest.fail)
    assert told["groups"][0]["received"]["back_to_back"]["q_squared_mean_db"] is None


def test_a_noiseless_back_to_back_is_no_reference(command, run_text, tmp_path, monkeypatch, calls):
    positions = {"back_to_back": received([[306.0]] * 3, 0), "span_1": received([[30.0]] * 3, 80)}
    monkeypatch.setitem(globals(), "PAYLOAD", {**PAYLOAD, "received": positions})
    (tmp_path / "demo.toml").write_text(run_text)
    out = command("run", "demo.toml")[1]
    assert "30.00" in out
    assert "306" not in out
    assert "free of noise" in out
    assert not (tmp_path / "demo-penalty.png").exists()


@pytest.mark.parametrize(
    ("words", "gpu"),
    [
        ("kwave -i a.h5 -o b.h5", 0),
        ("kwave -i a.h5 -o b.h5 -g 3", 3),
        ("kwave -i a.h5 -o b.h5 -g3", None),
        ("kwave -i a.h5 -o b.h5 --device cuda:2", 2),
        ("kwave -i a.h5 -o b.h5 --device=cpu", None),
        ("kwave -i a.h5 -o b.h5 --ranks 2", None),
        ("kwave --help", None),
        ("run a.toml", None),
        ("run a.toml --device=cuda", 0),
        ("info", None),
        ("", None),
    ],
)
def test_the_gpu_whose_context_is_begun_while_the_command_is_imported(words, gpu):
    assert gpu_of(words.split()) == gpu

"""A program that stands for `wavefabric`, and the machine that it runs on."""

import sys

import pytest

from benchmarks import runner
from benchmarks.parts import Part
from papers import common

#: ``write FILE TEXT``, ``fail CODE TEXT``, ``sleep SECONDS``, ``stubborn FILE`` (ignores signals).
FAKE = """\
import os, signal, subprocess, sys, time
what, first, *more = sys.argv[1:]
if what == "write":
    open(first, "w").write(more[0])
    print('{"printed": "%s"}' % os.environ.get("WAVEFABRIC_PROTOCOL"))
elif what == "fail":
    print("some line\\n" + more[0], file=sys.stderr)
    sys.exit(int(first))
elif what == "sleep":
    time.sleep(float(first))
elif what == "stubborn":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    open(first + "~", "w").write(f"{os.getpid()} {child.pid}")
    os.replace(first + "~", first)
    time.sleep(60)
"""


@pytest.fixture
def machine(monkeypatch):
    """What the suite takes this machine for; may be changed."""
    transports = {"mpi": {"available": True, "detail": "an MPI"}}
    transports |= {name: {"available": False, "detail": "no GPU"} for name in ("p2p", "nccl", "mpi-cuda")}
    result = {
        **dict.fromkeys(("wavefabric", "git_commit", "python", "system", "driver"), "x"),
        **{"cpu": {"model": "a processor"}, "gpus": [], "transports": transports},
        **{"versions": {"numpy": "2.0"}, "environment": {}},
    }
    monkeypatch.setattr(runner, "describe_machine", lambda: result)
    return result


@pytest.fixture
def make_runner(tmp_path, machine):
    """A runner of the fake program; options replace its own."""
    path = tmp_path / "fake.py"
    path.write_text(FAKE)

    def make(**options):
        options = {"machine": machine, "program": [sys.executable, str(path)]} | options
        return runner.Runner(tmp_path / "results" / "parts", **options)

    return make


@pytest.fixture
def writes():
    """A part that writes a file."""

    def make(name, text="{}", seconds=1.0, **more):
        return Part(name, 1, ("write", "{here}/out.json", text), seconds, **more)

    return make


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run ``suite.py`` in an empty folder; gives exit code, stdout, stderr."""
    from benchmarks import suite

    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")

    def call(*words):
        with pytest.raises(SystemExit) as left:
            common.run(suite.suite, list(words))
        shown = capsys.readouterr()
        return left.value.code, shown.out, shown.err

    return call

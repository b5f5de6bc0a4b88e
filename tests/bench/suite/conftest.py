"""A program that stands for `wavefabric`, and the machine that it runs on."""

import sys

import pytest

from wavefabric.bench.suite.parts import Part
from wavefabric.bench.suite.run import Suite

#: ``write FILE TEXT``, ``fail CODE TEXT``, ``sleep SECONDS``, ``stubborn FILE`` (ignores signals).
STAND_IN = """\
import os, signal, subprocess, sys, time
what, first, *more = sys.argv[1:]
if what == "write":
    open(first, "w").write(more[0])
    print('{"printed": 1}')
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
MACHINE = {
    "wavefabric": "0.1.0",
    "git_commit": "",
    "python": "3.12",
    "system": "Linux",
    "cpu": {"model": "a processor", "threads": 2},
    "gpus": [],
    "driver": "",
    "cuda": "not installed",
    "transports": {
        "mpi": {"available": True, "detail": "an MPI"},
        "nccl": {"available": False, "detail": "no CUDA device"},
    },
    "links": None,
    "versions": {"numpy": "2.0"},
}


@pytest.fixture
def program(tmp_path):
    """Words that start the stand-in."""
    path = tmp_path / "stand_in.py"
    path.write_text(STAND_IN)
    return [sys.executable, str(path)]


@pytest.fixture
def suite(tmp_path, program):
    """A suite of the stand-in; options replace its own."""

    def make(**options):
        options = {"machine": MACHINE, "small": True, "program": program} | options
        return Suite(tmp_path / "results", **options)

    return make


@pytest.fixture
def writes():
    """A part that writes a file."""

    def make(name, text="{}", seconds=1.0, **more):
        return Part(name, 1, ("write", "{here}/out.json", text), seconds, **more)

    return make

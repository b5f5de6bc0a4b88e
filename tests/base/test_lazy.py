"""Names that packages import on first use."""

import subprocess
import sys

import pytest

import wavefabric.optics as optics

PACKAGES = ("acoustics", "fabric", "fabric.planner", "optics", "report", "runtime.exchange", "training")
#: `from package import name` for each name, in a fresh process: some modules are named as what they define.
ALL = """
import importlib, sys
packages = [importlib.import_module("wavefabric." + name) for name in sys.argv[1:]]
names = [(p.__name__, name) for p in packages for name in set(dir(p)) - set(vars(p))]
for package, name in names:
    found = {}
    exec(f"from {package} import {name}", found)
    starred = {}
    exec(f"from {package} import *", starred)
    assert starred[name] is found[name]
    assert type(found[name]).__name__ != "module", name
    print(package, name)
"""


def test_every_exported_name_is_there():
    done = subprocess.run([sys.executable, "-c", ALL, *PACKAGES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = done.stdout.splitlines()
    for one in (
        "acoustics simulate",
        "runtime.exchange world",
        "fabric cost",
        "optics run_link",
        "training compare",
    ):
        assert f"wavefabric.{one}" in names


def test_names_stay_after_their_modules_are_imported():

    assert callable(optics.propagate)
    assert "run_link" in dir(optics)


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match=r"'wavefabric\.optics' has no attribute 'nothing'"):
        _ = optics.nothing

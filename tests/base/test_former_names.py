"""Scripts import packages by their former names, and get the same modules."""

import subprocess
import sys

import pytest

NAMES = {
    "bench": "cli.bench",
    "device.cpu": "runtime.device.cpu",
    "errors": "base.errors",
    "exchange.transports.base": "runtime.exchange.transports.base",
    "files.output": "base.files.output",
    "planner.rates": "fabric.planner.rates",
    "results.file": "base.results.file",
}


@pytest.mark.parametrize("first", ["former", "new"])
@pytest.mark.parametrize("name", NAMES)
def test_both_names_are_one_module(name, first):
    former, new = f"wavefabric.{name}", f"wavefabric.{NAMES[name]}"
    order = (former, new) if first == "former" else (new, former)
    program = f"""
import sys
from importlib import import_module
for name in {order}: import_module(name)
assert sys.modules["{former}"] is sys.modules["{new}"]
assert sys.modules["{new}"].__spec__.name == sys.modules["{new}"].__name__ == "{new}"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_names_as_attributes_and_from_imports():
    program = """
import wavefabric.device
from wavefabric import exchange
from wavefabric.results import read_result
from wavefabric.base.results import read_result as now
assert wavefabric.device.get_device("cpu", 1).name == "cpu" and exchange.world and read_result is now
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_other_names_are_still_missing():
    with pytest.raises(ModuleNotFoundError, match=r"wavefabric\.nothing"):
        __import__("wavefabric.nothing")
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        __import__("wavefabric.device.nothing")

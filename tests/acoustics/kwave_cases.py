"""The cases of tests/data/kwave_python as objects with k-wave-python's attributes, and its answers."""

import importlib.util
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np

FOLDER = Path(__file__).parents[1] / "data" / "kwave_python"


@cache
def cases():
    """Name to case."""
    spec = importlib.util.spec_from_file_location("kwave_python_cases", FOLDER / "cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.cases()


def objects(name):
    """kgrid, medium, source, sensor, options of a case."""
    case = cases()[name]
    shape, spacing = case["grid"]
    steps, dt = case["time"]
    kgrid = SimpleNamespace(N=np.array(shape), spacing=np.array(spacing), dt=dt, Nt=steps)
    parts = (SimpleNamespace(**case[part]) for part in ("medium", "source", "sensor"))
    return (kgrid, *parts, case["options"])


def answers(name):
    """k-wave-python's arrays of a case."""
    with np.load(FOLDER / "answers.npz") as file:
        return {key.partition("/")[2]: file[key] for key in file if key.startswith(name + "/")}

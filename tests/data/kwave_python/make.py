"""Solve the cases with k-wave-python's own NumPy solver, in float64, and write answers.npz.

Needs ``pip install k-wave-python==0.6.2`` and nothing of Wavefabric. It takes a few seconds.
"""

from importlib.metadata import version
from pathlib import Path

import numpy as np
from cases import cases
from kwave.kgrid import kWaveGrid
from kwave.kmedium import kWaveMedium
from kwave.ksensor import kSensor
from kwave.ksource import kSource
from kwave.kspaceFirstOrder import kspaceFirstOrder


def solve(case: dict) -> dict[str, np.ndarray]:
    """One case's recorded arrays, by k-wave-python's names."""
    grid = kWaveGrid(*case["grid"])
    grid.setTime(*case["time"])
    medium = kWaveMedium(**case["medium"])
    source, sensor = kSource(), kSensor()
    for thing, values in ((source, case["source"]), (sensor, case["sensor"])):
        for name, value in values.items():
            setattr(thing, name, value)
    return kspaceFirstOrder(grid, medium, source, sensor, backend="python", quiet=True, **case["options"])


answers = {f"{name}/{key}": value for name, case in cases().items() for key, value in solve(case).items()}
for key, value in answers.items():
    assert value.dtype == np.float64, key
    assert np.isfinite(value).all(), key
path = Path(__file__).with_name("answers.npz")
np.savez_compressed(path, version=np.array(version("k-wave-python")), **answers)
print(f"{path.name}: {len(answers)} arrays, {path.stat().st_size / 1e3:.0f} kB")
for key, value in answers.items():
    print(key, value.shape, f"{abs(value).max():.3g}")

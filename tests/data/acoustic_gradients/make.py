"""Differentiate the cases of tests/acoustics/gradients by JAX, in float64, and write answers.npz.

Needs ``pip install jax==0.10.2`` beside Wavefabric. It takes a minute.
"""

import sys
from pathlib import Path

import jax
import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "acoustics" / name) for name in ("", "gradients")]

from gradient_cases import cases  # noqa: E402
from plain_step import gradient_by_jax  # noqa: E402

answers = {
    f"{name}/{key}": array
    for name, case in cases().items()
    for key, array in gradient_by_jax(case, jax).items()
}
for key, array in answers.items():
    assert array.dtype == np.float64, key
    assert np.isfinite(array).all(), key
path = HERE / "answers.npz"
np.savez_compressed(path, version=np.array(jax.__version__), **answers)
print(f"{path.name}: {len(answers)} arrays, {path.stat().st_size / 1e3:.0f} kB")

"""Kernels that are kept: the same bits from the cache as just compiled, and none that is out of date."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import wavefabric
from wavefabric.system import numba_cache

PACKAGE = Path(wavefabric.__file__).parent

# Kernels that call helpers, and both orders of a product and a sum.
BITS = """
import hashlib
import numpy as np
from wavefabric.device import get_device
from wavefabric.optics.propagation.kernels import kerr, linear
from wavefabric.optics.propagation.operators import RK4IP_MIDDLE, ROTATE

rng, digest = np.random.default_rng(1), hashlib.sha256()
field = rng.standard_normal((5, 1000)) + 1j * rng.standard_normal((5, 1000))
rate, energy, numbers = rng.standard_normal((3, 1000)), np.zeros(5), rng.standard_normal((3, 3, 1000))
layout = kerr.KerrChunkLayout(get_device("cpu", threads=1), [0, 2, 3, 5], 1000, complex)
kerr.kerr_update(ROTATE, field, field, 0, rate, 0.37, numbers, layout)
digest.update(field.tobytes())
kerr.kerr_update(RK4IP_MIDDLE, field, field.copy(), 0, rate, 0.37, numbers, layout)
digest.update(field.tobytes())
linear.row_energy(field, energy)
digest.update(energy.tobytes())
print(digest.hexdigest())
"""


def run(code, cache, package=PACKAGE):
    environment = dict(os.environ, NUMBA_CACHE_DIR=str(cache), PYTHONPATH=str(package.parent))
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_cache_gives_the_bits_of_a_fresh_compilation(tmp_path):
    fresh = run(BITS, tmp_path)
    assert list(tmp_path.rglob("kerr._kerr_update*.nbc"))
    assert run(BITS, tmp_path) == fresh


@pytest.mark.slow
def test_copies_of_the_package_share_their_kernels(tmp_path):
    """A fresh clone or another environment finds what an equal version has compiled."""
    code = """
import numpy as np
from wavefabric.optics.propagation.kernels import linear
linear.row_energy(np.ones((1, 8), complex), np.zeros(1))
"""
    package, cache = tmp_path / "copy" / "wavefabric", tmp_path / "cache"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    written = []
    for source in (PACKAGE, package):
        run(code, cache, source)
        written.append({path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")})
    first, second = written
    assert any("row_energy" in path.name for path in first)
    assert second == first


@pytest.mark.slow
def test_a_changed_helper_in_another_file_is_seen(tmp_path):
    """`kerr_update` of kerr.py calls `rotation` by way of kerr_formulas.py."""
    package = tmp_path / "wavefabric"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    code = """
import numpy as np
from wavefabric.device import get_device
from wavefabric.optics.propagation.kernels import kerr
from wavefabric.optics.propagation.operators import ROTATE
field = np.ones((1, 64), complex)
layout = kerr.KerrChunkLayout(get_device("cpu", threads=1), [0, 1], 64, complex)
kerr.kerr_update(ROTATE, field, field, 0, np.ones((1, 64)), 0.5, np.ones((0, 1, 64)), layout)
print(round(float(field[0, 0].real), 6))
"""
    assert run(code, tmp_path / "cache", package) == "0.877583\n"
    kernels = package / "optics" / "propagation" / "kernels" / "kerr_formulas.py"
    text = kernels.read_text("utf-8")
    changed = text.replace("s[t] = two * sn * cs", "s[t] = 0 * sn * cs").replace(
        "c1[t] = -two * sn * sn", "c1[t] = two"
    )
    assert changed != text
    kernels.write_text(changed, "utf-8")
    assert run(code, tmp_path / "cache", package) == "3.0\n"


def test_all_kernels_are_counted():
    """Every file with compiled code is part of the hash, and Numba compiles through our `njit`.

    So are those that emit vector code, and what they take from their own folder.
    """
    result = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        names = {
            (node.module, name.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        }
        relative = path.relative_to(PACKAGE).as_posix()
        if names & {
            ("wavefabric.system.numba_cache", "njit"),
            ("numba.extending", "intrinsic"),
            ("wavefabric.device.vector_code", "VectorCode"),
            ("wavefabric.device.vector_code", "Function"),
        }:
            result.add(relative)
        if relative.startswith("spectral/vector_"):
            folder = {f"{module.replace('.', '/')}.py" for module, _ in names if module}
            result |= {relative, *(one[len("wavefabric/") :] for one in folder if "/spectral/" in one)}
        assert not names & {("numba", "njit"), ("numba", "jit"), ("numba", "vectorize")}, relative
    assert result | {"system/numba_cache.py"} == set(numba_cache.SOURCES)


def test_kernels_take_no_fastmath():
    with pytest.raises(TypeError, match="fastmath"):
        numba_cache.njit(fastmath=True)


def test_the_cache_of_others_is_left_alone(tmp_path, monkeypatch):
    before = numba.config.CACHE_DIR
    made = numba_cache.njit()(lambda x: x)
    assert before == numba.config.CACHE_DIR
    assert numba_cache.source_hash() in made._cache.cache_path


def test_versions_that_nobody_uses_go(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    old, young, other = tmp_path / ("0" * 16), tmp_path / ("1" * 16), tmp_path / "mine"
    for folder in (old, young, other):
        folder.mkdir()
    for folder in (old, other):
        os.utime(folder, (0, 0))
    numba_cache.directory.cache_clear()
    try:
        result = numba_cache.directory()
    finally:
        numba_cache.directory.cache_clear()
    assert result == tmp_path / numba_cache.source_hash()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([young.name, other.name, result.name])

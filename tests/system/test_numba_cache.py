"""Kernels that are kept: all sources count, and the directories of other versions go."""

import ast
import os
from pathlib import Path

import numba
import pytest

import wavefabric
from wavefabric.system import numba_cache

PACKAGE = Path(wavefabric.__file__).parent


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

"""How the library is compiled: a compiler is looked for, and what it says is shown in one line."""

import os
import subprocess
import sys

import pytest

from wavefabric.runtime.kernels import build_cpu, library


def test_the_compiler_of_the_environment_comes_first(monkeypatch):
    monkeypatch.setenv("CXX", "ccache my-c++ -v")
    assert build_cpu.compiler() == ["ccache", "my-c++", "-v"]


def test_without_a_compiler(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(build_cpu.shutil, "which", lambda name: None)
    monkeypatch.setattr(build_cpu, "find_spec", lambda name: None)
    with pytest.raises(build_cpu.NoCompiler, match=r"no C\+\+ compiler: set CXX, or install g\+\+"):
        build_cpu.compiler()


def test_zig_is_the_last(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(build_cpu.shutil, "which", lambda name: None)
    monkeypatch.setattr(build_cpu, "find_spec", lambda name: name == "ziglang")
    assert build_cpu.compiler() == [sys.executable, "-m", "ziglang", "c++"]


def test_a_compiler_that_fails_leaves_nothing(monkeypatch, tmp_path):
    program = tmp_path / "bad-c++"
    program.write_text("#!/bin/sh\necho 'x.cpp:1: error: no such thing' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    with pytest.raises(build_cpu.NoCompiler, match="error: no such thing"):
        build_cpu.build(tmp_path / "lib")
    assert os.listdir(tmp_path / "lib") == []


def test_a_changed_source_changes_the_hash(monkeypatch, tmp_path):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "a.cpp").write_text("int a;")
    monkeypatch.setattr(build_cpu, "HERE", tmp_path)
    first = build_cpu.source_hash()
    (tmp_path / "cpu" / "a.cpp").write_text("int b;")
    assert build_cpu.source_hash() != first


def test_the_variant_of_a_processor(monkeypatch):
    everything = "avx512f avx512bw avx512cd avx512dq avx512vl avx2 fma bmi2 sse4_2"
    monkeypatch.setattr(library.platform, "machine", lambda: "x86_64")
    for flags, best in [(everything, "x86-64-v4"), ("avx2 fma bmi2", "x86-64-v3"), ("sse4_2", "x86-64-v2")]:
        monkeypatch.setattr(build_cpu, "processor_flags", lambda flags=flags: set(flags.split()))
        assert library._levels()[0] == best
    monkeypatch.setattr(library.platform, "machine", lambda: "aarch64")
    assert library._levels() == ["arm64"]


def test_the_library_of_a_processor(monkeypatch):
    """A shared folder may have one for each; one that is not there is compiled."""
    names = set()
    for flags in ("avx2 fma", "fma avx2", "avx512f avx2 fma"):
        monkeypatch.setattr(build_cpu, "processor_flags", lambda flags=flags: set(flags.split()))
        names.add(build_cpu.native_name())
    assert len(names) == 2


def test_a_library_that_is_missing_is_compiled_once(monkeypatch, tmp_path, capsys):
    def compiled(folder):
        calls.append(folder)
        (folder / "native-1-b.so").write_text("")

    calls = []
    monkeypatch.setattr(build_cpu, "build", compiled)
    monkeypatch.setattr(build_cpu, "suffix", lambda: ".so")
    for name in ("native-1-a.so", "native-2-a.so"):
        (tmp_path / name).write_text("")
    for _ in range(2):
        assert library._built(tmp_path, "native-1-b.so") == tmp_path / "native-1-b.so"
    assert calls == [tmp_path]
    assert sorted(os.listdir(tmp_path)) == ["lock", "native-1-b.so", "native-2-a.so"]
    assert capsys.readouterr().err.count("compiling kernels") == 1


FORK = """
import os
import numpy as np
from wavefabric.acoustics.solver.kernels import TABLE
from wavefabric.runtime.device.cpu import CpuDevice

def check():
    field = np.zeros(1000)
    kernels.add_pattern(field, field + 1, np.ones((1, 1)), np.zeros(1, np.int64))
    assert (field == 1).all()

os.cpu_count = lambda: 4
kernels = CpuDevice(2).kernels(TABLE)
check()
child = os.fork()
check()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_kernels_run_in_a_process_that_was_forked():
    """A fork has none of the threads of its parent."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")

"""The hash of the CUDA kernels' sources."""

import shutil
from pathlib import Path

import wavefabric
from wavefabric.base.results.provenance import CUDA_SOURCES, cuda_source_hash


def test_any_change_of_a_kernel_or_a_launch_changes_it(tmp_path, monkeypatch):
    source = Path(wavefabric.__file__).parent
    for pattern in CUDA_SOURCES:
        for file in source.rglob(pattern):
            copy = tmp_path / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    here = cuda_source_hash.__wrapped__()
    monkeypatch.setattr(wavefabric, "__file__", str(tmp_path / "__init__.py"))
    assert cuda_source_hash.__wrapped__() == here
    seen = {here}
    kernels = "optics/propagation/kernels"
    names = (f"{kernels}/fused_linear.cu", f"{kernels}/fused_plan.py", f"{kernels}/kerr_cuda.py")
    for name in (*names, "runtime/kernels/philox.h", "runtime/kernels/cuda_launch.py"):
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        seen.add(cuda_source_hash.__wrapped__())
    (tmp_path / "new.cu").write_text("")
    seen.add(cuda_source_hash.__wrapped__())
    assert len(seen) == 7

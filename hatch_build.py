"""Compiles the CPU kernels while a wheel or an editable installation is made."""

import importlib.util
import os
import platform
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ROOT = Path(__file__).parent
#: The variable that names the platform of a wheel, one of `build.TARGETS`; see tools/wheels.sh.
_TARGET = "WAVEFABRIC_WHEEL"


def _build() -> Any:
    """Load the module ``build`` of the kernels alone: the package's dependencies may not be there yet."""
    path = _ROOT / "src/wavefabric/runtime/kernels/build_cpu.py"
    spec = importlib.util.spec_from_file_location("kernels_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class KernelBuildHook(BuildHookInterface):
    """Adds the libraries of kernels to a wheel: compiled for this machine, or all variants of a platform."""

    def dependencies(self) -> list[str]:
        """Return ziglang as a requirement of the build if there is no compiler, or for another platform."""
        if os.environ.get(_TARGET):
            return ["ziglang"]
        try:
            _build().compiler()
        except Exception:
            return ["ziglang"]
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the system that the wheel is for."""
        build, name = _build(), os.environ.get(_TARGET)
        self.app.display_info("compiling kernels")
        system, machine = platform.system().lower(), platform.machine().lower()
        tag = f"py3-none-{system}_{machine}" if system == "linux" else None
        if name:
            target = build.TARGETS[name]
            libraries, tag = build.build(_ROOT / "build" / name, target), f"py3-none-{target.tag}"
        else:
            # Installed a second time, with more extras: the name says sources and processor.
            path = build.LIBRARIES / f"{build.native_name()}{build.suffix()}"
            libraries = [path] if path.is_file() else build.build()
        build_data["pure_python"] = False
        build_data["tag"] = tag
        build_data["force_include"] |= {
            str(path): f"wavefabric/runtime/kernels/lib/{path.name}" for path in libraries
        }

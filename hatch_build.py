"""Compiles the CPU kernels while a wheel or an editable installation is made."""

import importlib.util
import platform
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ROOT = Path(__file__).parent


def _build() -> Any:
    """Load the module `wavefabric.kernels.build` alone: the package's dependencies may not be there yet."""
    path = _ROOT / "src/wavefabric/kernels/build.py"
    spec = importlib.util.spec_from_file_location("kernels_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class KernelBuildHook(BuildHookInterface):
    """Adds the library of kernels, compiled for this machine, to a wheel."""

    def dependencies(self) -> list[str]:
        """Ask for zig as a compiler where there is no other."""
        try:
            _build().compiler()
        except Exception:
            return ["ziglang"]
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the system that the wheel is for."""
        build = _build()
        self.app.display_info("compiling kernels")
        build.build()
        build_data["pure_python"] = False
        build_data["artifacts"] += [f"src/wavefabric/kernels/lib/*{build.suffix()}"]
        system = platform.system().lower()
        machine = platform.machine().lower()
        build_data["tag"] = f"py3-none-{system}_{machine}" if system == "linux" else None

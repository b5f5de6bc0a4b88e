"""Let scripts import modules by names of earlier versions: ``wavefabric.results`` for `base.results`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Packages and modules that were moved, by the package that now contains them.
_NOW_IN = {
    "base": ("errors", "files", "lazy", "results", "system", "units"),
    "cli": ("bench",),
    "fabric": ("execution", "planner"),
    "runtime": ("device", "exchange", "kernels", "lifecycle", "spectral"),
}
_PACKAGES = {name: package for package, names in _NOW_IN.items() for name in names}


class FormerNames:
    """An import finder that maps a module's former name to the module itself, not to a second copy of it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        """Return an import specification if ``fullname`` is the former name of a module, else None."""
        top, _, rest = fullname.partition(".")
        package = _PACKAGES.get(rest.split(".")[0]) if top == "wavefabric" else None
        loader: Any = self
        return (
            None if package is None else ModuleSpec(fullname, loader, origin=f"wavefabric.{package}.{rest}")
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(str(spec.origin))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # which the import system has replaced


def keep_former_names() -> None:
    """Install the import finder that makes modules importable by their former names."""
    finder: Any = FormerNames()
    sys.meta_path.insert(0, finder)  # before the finder of files, which would load a second copy

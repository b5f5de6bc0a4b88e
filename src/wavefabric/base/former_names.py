"""Lets scripts import modules by former names: ``wavefabric.results`` is `wavefabric.base.results`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Packages and modules by the package that now has them.
_NOW_IN = {
    "base": ("errors", "files", "lazy", "results", "system", "units"),
    "cli": ("bench",),
    "fabric": ("execution", "planner"),
    "runtime": ("device", "exchange", "kernels", "lifecycle", "spectral"),
}
_PACKAGES = {name: package for package, names in _NOW_IN.items() for name in names}


class FormerNames:
    """Finds a module by its former name: the module that now has the new name, not a copy of it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        """Return a specification of the module that has the new name; None for other names."""
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
        module.__spec__ = module.__spec__.loader_state  # importing has replaced it by that of the former name


def keep_former_names() -> None:
    """Make modules importable by their former names."""
    finder: Any = FormerNames()
    sys.meta_path.insert(0, finder)  # before the finder of files, which would load a second copy

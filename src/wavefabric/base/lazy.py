"""Import a package's public names on first use, so that a script that reads a file does not load solvers."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, exports: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return functions ``__getattr__`` and ``__dir__`` for a package that imports public names on first use.

    ``exports`` is a dictionary from each module of the package to its public names.
    """
    modules = {name: module for module, names in exports.items() for name in names}
    vars(sys.modules[package])["__all__"] = sorted(modules)  # for "from package import *"

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)  # replaces a submodule of the same name
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *modules})

"""Fabrics between GPUs, electrical and photonic, and what a schedule costs on them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

# These two share their names with modules: imported here, the functions keep them.
from wavefabric.fabric.cost.cost import cost
from wavefabric.fabric.presets import presets

if TYPE_CHECKING:
    from wavefabric.fabric.cost.result import Bound, Cost, RoundCost
    from wavefabric.fabric.electrical.fabric import Fabric, Link
    from wavefabric.fabric.io.files import load, save
    from wavefabric.fabric.photonic.wafer import PhotonicFabric

    AnyFabric: TypeAlias = Fabric | PhotonicFabric

__all__ = [
    "AnyFabric",
    "Bound",
    "Cost",
    "Fabric",
    "Link",
    "PhotonicFabric",
    "RoundCost",
    "cost",
    "load",
    "presets",
    "save",
]

_HOMES = {
    "Bound": "cost.result",
    "Cost": "cost.result",
    "RoundCost": "cost.result",
    "Fabric": "electrical.fabric",
    "Link": "electrical.fabric",
    "PhotonicFabric": "photonic.wafer",
    "load": "io.files",
    "save": "io.files",
}


def __getattr__(name: str):
    # Pydantic and NumPy are slow to import: only whoever needs them waits.
    if name == "AnyFabric":
        from wavefabric.fabric.electrical.fabric import Fabric
        from wavefabric.fabric.photonic.wafer import PhotonicFabric

        found = Fabric | PhotonicFabric
    elif name in _HOMES:
        found = getattr(import_module(f"wavefabric.fabric.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found

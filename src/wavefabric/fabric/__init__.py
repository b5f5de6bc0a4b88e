"""Fabrics between GPUs, electrical and photonic, and what a collective schedule costs on them.

Rooms: electrical, photonic (fabrics and routes); cost_models, bounds (time); io (files); draw (pictures).
Imports collectives, files, system and units; of the rooms, draw imports all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from wavefabric.lazy import lazy

if TYPE_CHECKING:
    from wavefabric.fabric.cost_models.cost import Cost, LowerBound, RoundCost, cost
    from wavefabric.fabric.draw.pictures import draw_circuits, draw_fabric
    from wavefabric.fabric.electrical.fabric import Fabric, Link
    from wavefabric.fabric.io.files import load, save
    from wavefabric.fabric.io.presets import presets
    from wavefabric.fabric.photonic.check import check_plan
    from wavefabric.fabric.photonic.fabric import PhotonicFabric
    from wavefabric.fabric.photonic.planning import plan_circuits
    from wavefabric.fabric.photonic.routing.routes import route

    AnyFabric: TypeAlias = Fabric | PhotonicFabric

_MODULES = {
    "Cost": "cost_models.cost",
    "LowerBound": "cost_models.cost",
    "RoundCost": "cost_models.cost",
    "cost": "cost_models.cost",
    "Fabric": "electrical.fabric",
    "Link": "electrical.fabric",
    "PhotonicFabric": "photonic.fabric",
    "check_plan": "photonic.check",
    "plan_circuits": "photonic.planning",
    "route": "photonic.routing.routes",
    "draw_circuits": "draw.pictures",
    "draw_fabric": "draw.pictures",
    "load": "io.files",
    "presets": "io.presets",
    "save": "io.files",
}

__all__ = [
    "AnyFabric",
    "Cost",
    "Fabric",
    "Link",
    "LowerBound",
    "PhotonicFabric",
    "RoundCost",
    "check_plan",
    "cost",
    "draw_circuits",
    "draw_fabric",
    "load",
    "plan_circuits",
    "presets",
    "route",
    "save",
]


_exported, __dir__ = lazy(__name__, _MODULES)


def __getattr__(name: str):
    # Pydantic and NumPy are slow to import: only whoever needs them waits.
    value = _exported("Fabric") | _exported("PhotonicFabric") if name == "AnyFabric" else _exported(name)
    globals()[name] = value
    return value

"""Fabrics between GPUs, electrical and photonic, and what a collective schedule costs on them.

Rooms: electrical, photonic (fabrics and routes); cost_models, bounds (time); io (files); draw (pictures).
Imports collectives, results, files, system and units; of the rooms, draw imports all others.
"""

from wavefabric.lazy import lazy

#: Public name to the module that defines it.
_EXPORTS = {
    "AnyFabric": "cost_models.cost",
    "Cost": "cost_models.cost",
    "Fabric": "electrical.fabric",
    "Link": "electrical.fabric",
    "LowerBound": "bounds.bound",
    "PhotonicFabric": "photonic.fabric",
    "RoundCost": "cost_models.cost",
    "check_plan": "photonic.check",
    "cost": "cost_models.cost",
    "draw_circuits": "draw.pictures",
    "draw_fabric": "draw.pictures",
    "load": "io.files",
    "plan_circuits": "photonic.planning",
    "presets": "io.presets",
    "route": "photonic.routing.routes",
    "save": "io.files",
}

__getattr__, __dir__ = lazy(__name__, _EXPORTS)

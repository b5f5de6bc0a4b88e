"""Describes electrical and photonic fabrics between GPUs, and predicts the time of schedules on them.

Packages: electrical, photonic (fabrics and routes); cost_models, bounds (predicted time); io (files); draw
(pictures); execution (measurements); planner (run time of a simulation). Only planner imports solvers.
"""

from wavefabric.base.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "cost_models.cost": ("AnyFabric", "Cost", "RoundCost", "cost"),
        "electrical.fabric": ("Fabric", "Link"),
        "bounds.bound": ("LowerBound",),
        "photonic.fabric": ("PhotonicFabric",),
        "photonic.check": ("check_plan",),
        "draw.pictures": ("draw_circuits", "draw_fabric"),
        "fastest": ("FastestSchedule", "fastest_schedule"),
        "io.files": ("load", "save"),
        "photonic.planning": ("plan_circuits",),
        "io.presets": ("presets",),
        "photonic.routing.routes": ("route",),
    },
)

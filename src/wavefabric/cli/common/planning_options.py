"""Define the options of planning circuits on photonic fabrics."""

from wavefabric.cli.common.options import option, options

PANEL = "Photonic fabrics"


@options(PANEL)
class PlanningOptions:
    """Options of planning and setting up circuits of light on photonic fabrics."""

    routing: str = option("{wavefabric.fabric.photonic.routing.routes:METHODS}.", default="auto")
    sharing: str = option(
        "Lasers of a tile over its peers, {wavefabric.fabric.photonic.wavelengths:SHARING}: evenly, or as "
        "the paper does.",
        default="even",
    )
    oversubscribed: str = option(
        "Where not all circuits fit, {wavefabric.fabric.photonic.planning:OVERSUBSCRIBED}: split the "
        "round, or thin: give circuits fewer wavelengths.",
        default="split",
    )
    incremental: bool = option("Circuits that stay are not set up anew.", default=False)

"""Time of a schedule on any fabric, under any of the models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wavefabric.errors import InputError
from wavefabric.fabric.photonic.fabric import PhotonicFabric

if TYPE_CHECKING:
    from wavefabric.collectives.schedule import Schedule
    from wavefabric.fabric.cost_models.result import Cost
    from wavefabric.fabric.electrical.fabric import Fabric

#: Models by name; ``"auto"`` is ``"photonic"`` on a photonic fabric and ``"alpha-beta"`` on others.
MODELS = ("auto", "alpha-beta", "flow", "photonic")


def cost(
    schedule: Schedule,
    fabric: Fabric | PhotonicFabric,
    element_bytes: float,
    model: str = "auto",
    **options: Any,
) -> Cost:
    """Time of a schedule on a fabric.

    Parameters
    ----------
    schedule : Schedule
        Of as many ranks as the fabric has GPUs (or tiles), or fewer: rank r is GPU r.
    fabric : Fabric or PhotonicFabric
    element_bytes : float
        B an element; need not be whole, so that one schedule serves every size.
    model : str
        Of `MODELS`. Electrical fabrics: ``"alpha-beta"`` (rounds follow one another) or ``"flow"`` (transfers
        wait for their data alone). Photonic ones: ``"photonic"``.
    **options
        Of the model: see `alpha_beta.alpha_beta`, `flow.flow`, `photonic.photonic`.

    Returns
    -------
    Cost

    Raises
    ------
    InputError
        For an unknown model, one that does not fit the fabric, more ranks than GPUs, or bad `element_bytes`.

    Examples
    --------
    >>> from wavefabric.collectives import ring_all_gather
    >>> from wavefabric.fabric import cost, load
    >>> time = cost(ring_all_gather([1] * 8), load("switch:8"), 1e6)
    >>> f"{time.seconds * 1e6:.2f} us in {len(time.rounds)} rounds"
    '26.63 us in 7 rounds'
    """
    if model not in MODELS:
        raise InputError(f"model: {model!r} given; allowed: {', '.join(MODELS)}")
    if isinstance(fabric, PhotonicFabric):
        if model not in ("auto", "photonic"):
            raise InputError(f"model: {model!r} given for photonic {fabric.name}; allowed: auto, photonic")
        from wavefabric.fabric.cost_models.photonic import photonic

        return photonic(schedule, fabric, element_bytes, **options)
    if model == "photonic":
        raise InputError(f"model: 'photonic' given for electrical {fabric.name}; allowed: alpha-beta, flow")
    if model == "flow":
        from wavefabric.fabric.cost_models.flow import flow

        return flow(schedule, fabric, element_bytes, **options)
    from wavefabric.fabric.cost_models.alpha_beta import alpha_beta

    return alpha_beta(schedule, fabric, element_bytes, **options)

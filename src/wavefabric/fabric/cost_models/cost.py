"""Time of a schedule on any fabric, under any of the models."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wavefabric.errors import InputError
from wavefabric.fabric.photonic.fabric import PhotonicFabric

if TYPE_CHECKING:
    from wavefabric.collectives.schedule import Schedule
    from wavefabric.fabric.cost_models.result import Cost
    from wavefabric.fabric.electrical.fabric import Fabric


@dataclass(frozen=True)
class CostModel:
    """``function(schedule, fabric, element_bytes, **options) -> Cost`` of a module, imported when used."""

    module: str
    function: str
    photonic: bool = False

    def __call__(self, *arguments: Any, **options: Any) -> Cost:
        return getattr(import_module(self.module), self.function)(*arguments, **options)


_HERE = "wavefabric.fabric.cost_models"
#: Models by name: the one list of them. The first of each kind of fabric is its ``"auto"``.
COST_MODELS = {
    "alpha-beta": CostModel(f"{_HERE}.alpha_beta", "alpha_beta"),
    "flow": CostModel(f"{_HERE}.flow", "flow"),
    "photonic": CostModel(f"{_HERE}.photonic", "photonic", photonic=True),
}


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
        ``"auto"``, or of `COST_MODELS`. Electrical fabrics: ``"alpha-beta"`` (rounds follow one another) or
        ``"flow"`` (transfers wait for their data alone). Photonic ones: ``"photonic"``.
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
    if model != "auto" and model not in COST_MODELS:
        raise InputError(f"model: {model!r} given; allowed: auto, {', '.join(COST_MODELS)}")
    light = isinstance(fabric, PhotonicFabric)
    fitting = [name for name, each in COST_MODELS.items() if each.photonic == light]
    if model not in ("auto", *fitting):
        kind = "photonic" if light else "electrical"
        allowed = ", ".join(["auto", *fitting])
        raise InputError(f"model: {model!r} given for {kind} {fabric.name}; allowed: {allowed}")
    name = fitting[0] if model == "auto" else model
    return COST_MODELS[name](schedule, fabric, element_bytes, **options)

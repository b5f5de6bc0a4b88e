"""Time of a schedule on any fabric, under any of the models; what every model returns and checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from wavefabric.errors import InputError, not_one_of, require
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes
from wavefabric.fabric.photonic.fabric import PhotonicFabric

if TYPE_CHECKING:
    import numpy as np

    from wavefabric.collectives.schedule import Schedule
    from wavefabric.fabric.bounds.bound import LowerBound
    from wavefabric.fabric.photonic.reconfiguration.plan import ReconfigurationPlan

AnyFabric: TypeAlias = Fabric | PhotonicFabric


@dataclass(frozen=True)
class RoundCost:
    """One round of a schedule; rounds that stay within ranks cost nothing and are not listed."""

    round: int
    parts: int  # circuits of one round that do not fit at once are set up one part after the other; else 1
    seconds: float  # the sum of the three that follow
    latency: float  # s, synchronisation included
    reconfiguration: float  # s
    transfer: float  # s
    bytes: float  # what all ranks send to others
    limit: str  # what bounds it, in words: "link GPU0 -> GPU1", "GPU3 sends", …


@dataclass(frozen=True)
class Cost:
    """Time of a schedule on a fabric (names) under a model."""

    schedule: str
    fabric: str
    model: str  # of `COST_MODELS`
    seconds: float
    rounds: tuple[RoundCost, ...]  # none of "flow" and "kernel", where rounds overlap
    bound: LowerBound
    #: When each transfer begins and ends, s: shape (transfers, 2).
    times: np.ndarray | None = field(default=None, repr=False, compare=False)
    busiest: str = ""  # the resource that was used longest, in words
    unaided: LowerBound | None = None  # where switches multicast and reduce, the bound without their help
    reconfiguration: ReconfigurationPlan | None = field(default=None, repr=False, compare=False)


def check_sizes(schedule: Schedule, fabric: AnyFabric, element_bytes: float) -> None:
    """Refuse a schedule that is none or not for the fabric, and element sizes that are no positive number."""
    from wavefabric.collectives.structure import checked_structure, refuse_switches

    checked_structure(schedule)
    if isinstance(fabric, PhotonicFabric):
        refuse_switches(schedule, "photonic fabrics")
    allowed = f"at most the {fabric.ranks} GPUs of {fabric.name}"
    require(schedule.ranks <= fabric.ranks, "ranks", f"{schedule.ranks} in {schedule.name}", allowed)
    number = hasattr(element_bytes, "__float__") and not isinstance(element_bytes, bool)
    right = number and 0 < float(element_bytes) < 1e18
    require(right, "element_bytes", f"{element_bytes!r} given", "above 0 and below 1e18")


@dataclass(frozen=True)
class CostModel:
    """``function(schedule, fabric, element_bytes, **options) -> Cost`` of a module, imported when used."""

    module: str
    function: str
    photonic: bool = False

    def __call__(self, *arguments: Any, **options: Any) -> Cost:
        return getattr(import_module(self.module), self.function)(*arguments, **options)


_HERE = "wavefabric.fabric.cost_models"
#: Models by name: the one list of them; `model_for` says which is ``"auto"``.
COST_MODELS = {
    "alpha-beta": CostModel(f"{_HERE}.alpha_beta", "alpha_beta"),
    "flow": CostModel(f"{_HERE}.flow", "flow"),
    "kernel": CostModel(f"{_HERE}.kernel", "kernel"),
    "photonic": CostModel(f"{_HERE}.photonic", "photonic", photonic=True),
}


def model_for(fabric: AnyFabric, ranks: int, model: str = "auto", kernels: bool = True) -> str:
    """Return the model of `COST_MODELS` that every command takes, by what its user asks for.

    ``"auto"`` is the most faithful that the fabric has numbers for: ``"photonic"`` for light; ``"kernel"``
    where it has a table of kernels (`Fabric.kernels`) and a plan takes so many ranks; else ``"alpha-beta"``.
    ``kernels`` False: something else moves the data, such as copy engines, NCCL or MPI. `InputError` for an
    unknown model, and for one that the fabric has no numbers for.
    """
    from wavefabric.collectives.plans.plan import MOST_RANKS

    if model != "auto" and model not in COST_MODELS:
        raise InputError(f"model: {not_one_of(model, COST_MODELS, 'auto')}")
    light = isinstance(fabric, PhotonicFabric)
    fitting = [name for name, each in COST_MODELS.items() if each.photonic == light]
    kind = "photonic" if light else "electrical"
    allowed = ", ".join(["auto", *fitting])
    require(model in ("auto", *fitting), "model", f"{model!r} given for {kind} {fabric.name}", allowed)
    if isinstance(fabric, PhotonicFabric):
        return fitting[0]
    if model == "kernel":
        kernel_times(fabric)
    if model != "auto":
        return model
    return "kernel" if kernels and fabric.kernels is not None and ranks <= MOST_RANKS else "alpha-beta"


def kernel_times(fabric: Fabric) -> KernelTimes:
    """Return what kernels take on a fabric; `InputError` if it says nothing of them."""
    if fabric.kernels is None:
        allowed = "one whose file has a table kernels, such as hgx-h200"
        raise InputError(f"fabric: {fabric.name} says nothing of kernels; allowed: {allowed}")
    return fabric.kernels


def cost(
    schedule: Schedule, fabric: AnyFabric, element_bytes: float, model: str = "auto", **options: Any
) -> Cost:
    """Time of a schedule on a fabric of as many GPUs (or tiles) as it has ranks, or more: rank r is GPU r.

    `element_bytes` (B an element) need not be whole, so that one schedule serves every size. The `model` is
    ``"auto"`` (see `model_for`), or of `COST_MODELS`. Electrical fabrics: ``"alpha-beta"`` (rounds follow
    one another), ``"flow"`` (transfers wait for their data alone) or ``"kernel"`` (one kernel a GPU runs a
    plan). Photonic ones: ``"photonic"``. For its `options` see `alpha_beta.alpha_beta`, `flow.flow`,
    `kernel.kernel`, `photonic.photonic`.

    `InputError` for an unknown model, one that does not fit the fabric, more ranks than GPUs, bad
    `element_bytes`, or a pair that uses no route.

    Examples
    --------
    >>> from wavefabric.collectives import ring_all_gather
    >>> from wavefabric.fabric import cost, load
    >>> time = cost(ring_all_gather([1] * 8), load("switch:8"), 1e6)
    >>> f"{time.seconds * 1e6:.2f} us in {len(time.rounds)} rounds"
    '26.63 us in 7 rounds'
    """
    model = model_for(fabric, schedule.ranks, model)
    return COST_MODELS[model](schedule, fabric, element_bytes, **options)

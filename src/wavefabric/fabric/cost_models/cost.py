"""Predicts the time of a schedule on any fabric; defines the cost models, and the `Cost` that they return."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from wavefabric.base.errors import InputError, ensure, not_one_of
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
    """Holds the time of one round; rounds that take no time are not listed."""

    round: int
    parts: int  # number of circuit set-ups if the circuits of the round do not fit at once; else 1
    seconds: float  # sum of the next three fields
    latency: float  # s, synchronisation included
    reconfiguration: float  # s
    transfer: float  # s
    bytes: float  # total that ranks send to others
    limit: str  # description of the bottleneck: "link GPU0 -> GPU1", "GPU3 sends", …


@dataclass(frozen=True)
class Cost:
    """Holds the time of a schedule on a fabric, as predicted by a cost model."""

    schedule: str
    fabric: str
    model: str  # key of `COST_MODELS`
    seconds: float  # total time
    rounds: tuple[RoundCost, ...]  # empty for "flow" and "kernel", where rounds overlap
    bound: LowerBound
    #: Begin and end of each transfer in s: shape (transfers, 2).
    times: np.ndarray | None = field(default=None, repr=False, compare=False)
    busiest: str = ""  # description of the resource that was busy longest
    unaided: LowerBound | None = None  # bound without multicast switches, if the fabric has them
    reconfiguration: ReconfigurationPlan | None = field(default=None, repr=False, compare=False)

    def ratio(self, least: LowerBound) -> float | None:
        """Return the total time over a lower bound of it, or None if the bound is 0."""
        return self.seconds / least.seconds if least.seconds else None


def check_sizes(schedule: Schedule, fabric: AnyFabric, element_bytes: float) -> None:
    """Raise `InputError` unless the schedule is valid, fits the fabric, and the element size is positive."""
    from wavefabric.collectives.structure import checked_structure, refuse_switches

    checked_structure(schedule)
    if isinstance(fabric, PhotonicFabric):
        refuse_switches(schedule, "photonic fabrics")
    allowed = f"at most the {fabric.ranks} GPUs of {fabric.name}"
    ensure(schedule.ranks <= fabric.ranks, "ranks", f"{schedule.ranks} in {schedule.name}", allowed)
    number = hasattr(element_bytes, "__float__") and not isinstance(element_bytes, bool)
    right = number and 0 < float(element_bytes) < 1e18
    ensure(right, "element_bytes", f"{element_bytes!r} given", "above 0 and below 1e18")


@dataclass(frozen=True)
class CostModel:
    """Wraps a cost model ``function(schedule, fabric, element_bytes, **options)``, imported on first use."""

    module: str
    function: str
    photonic: bool = False

    def __call__(self, *arguments: Any, **options: Any) -> Cost:
        return getattr(import_module(self.module), self.function)(*arguments, **options)


_HERE = "wavefabric.fabric.cost_models"
#: All models by name; `model_for` defines ``"auto"``.
COST_MODELS = {
    "alpha-beta": CostModel(f"{_HERE}.alpha_beta", "alpha_beta"),
    "flow": CostModel(f"{_HERE}.flow", "flow"),
    "kernel": CostModel(f"{_HERE}.kernel", "kernel"),
    "photonic": CostModel(f"{_HERE}.photonic", "photonic", photonic=True),
}


def model_for(fabric: AnyFabric, ranks: int, model: str = "auto", kernels: bool = True) -> str:
    """Return the name of the cost model to use on a fabric: ``model`` itself, or what ``"auto"`` selects.

    ``"auto"`` selects the most accurate model that the fabric has data for: ``"photonic"`` for a photonic
    fabric; ``"kernel"`` if the fabric has times of kernels (`Fabric.kernels`) and execution plans support
    this number of ranks; else ``"alpha-beta"``. ``kernels`` False means that copy engines, NCCL or MPI move
    the data: ``"auto"`` then never selects ``"kernel"``. `InputError` for a model that is unknown or does not
    fit the fabric.
    """
    from wavefabric.collectives.plans.plan import MOST_RANKS

    if model != "auto" and model not in COST_MODELS:
        raise InputError(f"model: {not_one_of(model, COST_MODELS, 'auto')}")
    light = isinstance(fabric, PhotonicFabric)
    fitting = [name for name, each in COST_MODELS.items() if each.photonic == light]
    kind = "photonic" if light else "electrical"
    allowed = ", ".join(["auto", *fitting])
    ensure(model in ("auto", *fitting), "model", f"{model!r} given for {kind} {fabric.name}", allowed)
    if isinstance(fabric, PhotonicFabric):
        return fitting[0]
    if model == "kernel":
        kernel_times(fabric)
    if model != "auto":
        return model
    return "kernel" if kernels and fabric.kernels is not None and ranks <= MOST_RANKS else "alpha-beta"


def kernel_times(fabric: Fabric) -> KernelTimes:
    """Return `Fabric.kernels`, the times of kernels; `InputError` if the fabric has none."""
    if fabric.kernels is None:
        allowed = "one whose file has a table kernels, such as hgx-h200"
        raise InputError(f"fabric: {fabric.name} says nothing of kernels; allowed: {allowed}")
    return fabric.kernels


def cost(
    schedule: Schedule, fabric: AnyFabric, element_bytes: float, model: str = "auto", **options: Any
) -> Cost:
    """Return the time of a schedule on a fabric with at least as many GPUs (tiles) as ranks; rank r is GPU r.

    ``element_bytes`` (bytes per element) need not be whole, so one schedule can be evaluated for any size.
    ``model`` is ``"auto"`` (see `model_for`) or a key of `COST_MODELS`. Electrical fabrics: ``"alpha-beta"``
    (rounds in sequence), ``"flow"`` (transfers wait only for their data) or ``"kernel"`` (one kernel per GPU
    runs a plan). Photonic fabrics: ``"photonic"``. For ``options`` see `alpha_beta.alpha_beta`, `flow.flow`,
    `kernel.kernel`, `photonic.photonic`.

    Raises `InputError` for a model that is unknown or does not fit the fabric, more ranks than GPUs, bad
    ``element_bytes``, or a pair without a route.

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

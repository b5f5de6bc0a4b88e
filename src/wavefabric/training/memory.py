"""Bytes that training needs on one GPU: parameters, gradients, optimizer states, saved activations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from wavefabric.errors import InputError
from wavefabric.training.graph import Layer
from wavefabric.training.precision import Precision
from wavefabric.training.work import optimizer_states, parameters_held


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes on one GPU. ``states`` are the optimizer's, with the copy of the parameters in fp32."""

    parameters: float = 0.0
    gradients: float = 0.0
    states: float = 0.0
    activations: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return self.parameters + self.gradients + self.states + self.activations

    def __add__(self, other: MemoryNeed) -> MemoryNeed:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return MemoryNeed(*(a + b for a, b in pairs))


def memory_bytes(
    layers: Iterable[Layer],
    samples: float,
    in_flight: int,
    tensor: int,
    precision: Precision,
    optimizer: str,
    *,
    sharded: int = 1,
    experts: int = 1,
    recompute: bool = False,
) -> MemoryNeed:
    """What one GPU holds for some layers.

    Parameters
    ----------
    layers : iterable of Layer
        Those of its pipeline stage that share the numbers below; needs of others add up.
    samples : float
        Of one microbatch.
    in_flight : int
        Microbatches whose activations it keeps at the same time; of 1F1B on stage s of p, up to p − s
        (PipeDream-Flush, arXiv:2006.09503).
    tensor, experts : int
        As of `wavefabric.training.work.forward_work`. Saved activations are taken to be the layers' inputs:
        whole of ``column``, divided of ``row`` and ``local``.
    precision : Precision
    optimizer : str
    sharded : int
        GPUs that divide parameters, gradients and optimizer states among them (ZeRO's stage 3,
        arXiv:1910.02054); the largest two layers are whole at a time, one used and the next gathered.
    recompute : bool
        Of each block only the input is kept, that is what its first layer saves, and one block's other
        activations at a time; layers without a block keep theirs.

    Raises
    ------
    InputError
        For an optimizer that is unknown.
    """
    layers = tuple(layers)
    each = [parameters_held(layer, tensor, experts) for layer in layers]
    states = 4 * optimizer_states(optimizer) + precision.master
    held, whole = sum(each) / sharded, sum(sorted(each)[-2:]) * (1 - 1 / sharded)
    return MemoryNeed(
        parameters=(held + whole) * precision.parameter,
        gradients=(held + whole) * precision.gradient,
        states=held * states,
        activations=_kept(layers, in_flight, tensor, recompute) * samples * precision.activation,
    )


def _kept(layers: tuple[Layer, ...], in_flight: int, tensor: int, recompute: bool) -> float:
    """Elements of activations that are kept for one sample of each microbatch in flight."""
    saved = [layer.saved / (tensor if layer.split in ("row", "local") else 1) for layer in layers]
    if not recompute:
        return sum(saved) * in_flight
    kept = largest = 0.0
    for _, members in groupby(range(len(layers)), key=lambda i: layers[i].block or i):
        elements = [saved[i] for i in members]
        kept += elements[0]
        largest = max(largest, sum(elements[1:]))
    return kept * in_flight + largest


def check_memory(need: MemoryNeed, allowed: float, where: str = "memory") -> None:
    """Refuse what does not fit; ``allowed`` in B, ``where`` begins the line.

    Raises
    ------
    InputError
        With what is needed and what is allowed.
    """
    if need.total <= allowed:
        return
    parts = ", ".join(f"{name} {_gigabytes(value)}" for name, value in vars(need).items() if value)
    raise InputError(f"{where}: {_gigabytes(need.total)} GB needed a GPU ({parts}); "
                     f"allowed: up to {_gigabytes(allowed)} GB")  # fmt: skip


def _gigabytes(nbytes: float) -> str:
    return f"{nbytes / 1e9:.3g}"

"""The setting of figures 10 and 11 of the LUMORPH paper, fixed for all three models, and runs of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from papers.lumorph.data import Points, lightpath, points, switch
from wavefabric.base.results.figure_style import BLUE, GREEN, GREY, RED
from wavefabric.fabric.execution import report
from wavefabric.training.communication.times import Communication
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.engine import FreeCommunication
from wavefabric.training.iteration.simulate import Iteration, simulate
from wavefabric.training.iteration.tasks import Workload
from wavefabric.training.models import load_model
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.strategies.strategy import uniform

#: What is assumed: the same for all models, chosen from their publications and not from the paper's ratios.
ASSUMPTIONS = (
    ("GPU", "NVIDIA A100 80GB, roofline of its data sheet", "the paper's appendix C: two A100 with 80 GB"),
    ("efficiencies, launches", "defaults of the device model", "the same for all models; none is fitted"),
    ("arithmetic", "tf32, all stored in fp32", "what frameworks do on an A100 unless told otherwise"),
    ("BERT", "BERT-large, 128 tokens, 4 sequences a GPU, Adam", "256 on 64 TPU chips, arXiv:1810.04805"),
    ("Inception", "Inception-v3, 32 images a GPU, RMSProp", "arXiv:1512.00567, section 8"),
    ("NCF", "NeuMF of MovieLens-20M, 131 072 pairs a GPU, Adam", "NVIDIA's MLPerf v0.5 entry: 2²⁰ on 8"),
    (
        "batch",
        "the same a GPU for 4 to 256 GPUs",
        "the paper's free throughput grows with N",
    ),
    ("strategy", "data-parallel, tables of NCF too", "section 6.1: few all-reduces with large buffers"),
    ("gradients", "one all-reduce a layer, when it is there", "section 6.1: at least one a layer"),
    ("ring", "ideal switch, α 0.7 µs, 300 GiB/s", "as in figure 7"),
    ("Lumorph-2, Lumorph-4", "LIGHTPATH, α + 3.7 µs a round, 4 lasers a peer", "as in figure 7"),
    ("calls", "one after the other, beside computation", "section 6: no order, before the next forward pass"),
)


@dataclass(frozen=True)
class Case:
    """A model of figure 11: its name there and ours."""

    figure: str
    model: str
    label: str
    sample: str

    @property
    def drawn(self) -> Points:
        """The paper's points: series → (GPUs, samples/s)."""
        return points(f"fig11-{self.figure}")

    def paper(self, series: str, ranks: int) -> float:
        """The paper's throughput, samples/s."""
        return dict(self.drawn[series])[ranks]


CASES = (
    Case("Bert", "bert-large", "BERT-large", "sequences"),
    Case("Inception", "inception-v3", "Inception-v3", "images"),
    Case("NCF", "ncf", "NCF", "pairs"),
)
#: Series of figure 11: colour and marker.
LOOKS = {"Zero": (GREEN, "^"), "Lumorph-4": (RED, "D"), "Lumorph-2": (BLUE, "s"), "Ring": (GREY, "o")}
_PLANNED: dict[str, tuple[str, dict[str, Any]]] = {
    "Lumorph-2": ("lumorph-2", {}),
    "Lumorph-4": ("lumorph-4", {"sharing": "paper"}),
}


@lru_cache(maxsize=8)
def loaded(name: str) -> ModelGraph:
    """A model by name."""
    return load_model(name)


@cache
def fabric(series: str, ranks: int) -> Communication | FreeCommunication:
    """What a series of figure 11 sends over."""
    if series == "Zero":
        return FreeCommunication()
    if series == "Ring":
        return Communication(switch(ranks), "ring")
    collective, planning = _PLANNED[series]
    return Communication(lightpath(ranks), collective, **planning)


def workload(
    model: ModelGraph, ranks: int, *, batch: int | None = None, speed: float = 1.0, **changes: Any
) -> Workload:
    """An iteration in the fixed setting; with another batch a GPU, or GPUs `speed` times as fast.

    Other changes are those of `wavefabric.training.strategies.strategy.uniform`.
    """
    strategy = uniform(model, ranks, batch=(batch or model.batch) * ranks, **changes)
    device = load_device("a100")
    return Workload(model, strategy, device if speed == 1.0 else device.scaled(speed), PRECISIONS["tf32"])


def iteration(model: ModelGraph, ranks: int, series: str, **changes: Any) -> Iteration:
    """One simulated iteration; `changes` as of `workload`."""
    return simulate(workload(model, ranks, **changes), fabric(series, ranks))


def gain(times: dict[str, float]) -> float:
    """Time with the ring over that with the better of Lumorph-2 and Lumorph-4."""
    return times["Ring"] / min(times["Lumorph-2"], times["Lumorph-4"])


def paper_gain(case: Case, ranks: int) -> float:
    """The same of the paper's throughputs."""
    return gain({series: 1 / case.paper(series, ranks) for series in LOOKS})


def merged(model: ModelGraph, first: dict[str, str]) -> ModelGraph:
    """The model with gradients of some layers in the calls of others.

    Parameters
    ----------
    model : ModelGraph
    first : dict
        Layer → the layer whose call holds its gradients; that one is earlier, so its backward pass is later.
    """
    added: dict[str, int] = {}
    for name, other in first.items():
        added[other] = added.get(other, 0) + model.layers[model.index[name]].parameters
    layers = []
    for layer in model.layers:
        own = 0 if layer.name in first else layer.parameters + added.get(layer.name, 0)
        layers.append(layer if own == layer.parameters else replace(layer, parameters=own, tensors=()))
    return replace(model, layers=tuple(layers))


def assumptions() -> Any:
    """The table of what is assumed."""
    return report.table(
        "setting, the same for all models", ("<what", "<assumed", "<from"), ASSUMPTIONS, wrap=True
    )

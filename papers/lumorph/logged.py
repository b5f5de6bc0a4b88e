"""Settings of figures 10 and 11 by the call logs of the LUMORPH paper's authors.

The logs (github.com/lumorphnetwork/code) hold calls, sizes and strategies for 4 to 256 GPUs, and the elements
of activations, from which batches follow; no times of computation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from papers.lumorph import closed_forms as forms
from papers.lumorph.training import CASES, Case, fabric
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.simulate import Iteration, simulate
from wavefabric.training.iteration.tasks import Workload
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.graph_file import load_graph
from wavefabric.training.strategies.strategy import LayerLayout, uniform

#: What is assumed beside the logs.
SETTING = (
    ("BERT", "FlexFlow's Transformer, 12 + 12 blocks 1024 wide, 16 x 64 tokens a GPU", "logs; 16 x 64: ours"),
    ("Inception", "Inception-v3 without batch normalisation, 10 classes, 64 images a GPU", "logs"),
    ("NCF", "128 whole tables of 10⁶ rows, each on one GPU; 256 pairs a GPU", "logs"),
    ("gradients", "one all-reduce a tensor: 134, 190 and 17 calls", "logs"),
    ("strategy", "data-parallel but for NCF's tables; at 128 GPUs one table is on all", "logs"),
    ("order of calls", "as gradients are there; NCF's after its tables' backward pass", "ours"),
    ("A: GPU", "NVIDIA A100 80GB, TF32, roofline of its data sheet", "appendix C of the paper: two A100"),
    ("B: GPU", "so fast that an iteration without communication takes the paper's", "its points “Zero”"),
    ("ring", "ideal switch, α 0.7 µs, 300 GiB/s", "as in figure 7"),
    ("Lumorph-2, Lumorph-4", "LIGHTPATH, α + 3.7 µs a round, 4 lasers a peer", "as in figure 7"),
)  # fmt: skip


@dataclass(frozen=True)
class Logged:
    """A model of figure 11 as the logs have it: the case, samples a GPU, and the order of its calls."""

    case: Case
    make: Callable[[int], ModelGraph]
    batch: int
    policy: str = "batched"

    @property
    def figure(self) -> str:
        """Its panel in the paper."""
        return self.case.figure

    def workload(self, ranks: int, speed: float = 1.0) -> Workload:
        """An iteration on A100s that are `speed` times as fast."""
        model = self.make(ranks)
        tables = {layer.name: LayerLayout(1, ranks) for layer in model.layers if layer.whole}
        strategy = uniform(model, ranks, batch=self.batch * ranks, layers=tables)
        device = load_device("a100")
        return Workload(model, strategy, device if speed == 1 else device.scaled(speed), PRECISIONS["tf32"])

    def paper_free(self, ranks: int) -> float:
        """Seconds of the paper's iteration without communication."""
        return self.batch * ranks / self.case.paper("Zero", ranks)

    def speed(self, ranks: int) -> float:
        """How many A100s a GPU of setting B is."""
        return self.iteration(ranks, "Zero").seconds / self.paper_free(ranks)

    def iteration(self, ranks: int, series: str, speed: float = 1.0, policy: str = "") -> Iteration:
        """One simulated iteration over what a series of figure 11 sends over."""
        return simulate(self.workload(ranks, speed), fabric(series, ranks), policy or self.policy)

    def behind_all(self, ranks: int) -> float:
        """Time with the ring over that with the better LUMORPH if no call were hidden, as in the formulas."""
        calls = self.iteration(ranks, "Zero").graph.call
        sizes = [call.bytes for call in calls if call is not None and call.purpose == "gradients"]
        ring, two, four = (
            sum(time(ranks, size) for size in sizes) for time in (forms.ring, forms.lumorph2, forms.lumorph4)
        )
        free = self.paper_free(ranks)
        return float((free + ring) / (free + min(two, four)))


MODELS = Path(__file__).resolve().parents[1] / "models"


@cache
def stored(name: str) -> ModelGraph:
    """A model of ``papers/models``."""
    return load_graph(MODELS / f"{name}.json")


def _ncf(ranks: int) -> ModelGraph:
    """4 x 32 tables; with 128 GPUs one of them is on all."""
    return stored("flexflow-ncf-32" + ("-replicated" if ranks == 128 else ""))


LOGGED = (
    Logged(CASES[0], lambda _: stored("flexflow-transformer"), 16),
    Logged(CASES[1], lambda _: stored("flexflow-inception"), 64),
    Logged(CASES[2], _ncf, 256, "end"),
)
#: Names of the models in tables and pictures.
NAMES = {"Bert": "BERT (Transformer)", "Inception": "Inception-v3", "NCF": "NCF"}

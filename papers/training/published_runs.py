"""Published training runs beside the same runs simulated: speeds, their ratio, and why they differ."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from wavefabric.errors import InputError
from wavefabric.execution import report
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.results.plots import BLUE, GREY
from wavefabric.training.communication.times import Communication
from wavefabric.training.gpu.device_file import load_device
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.simulate import Iteration, simulate
from wavefabric.training.iteration.tasks import Workload
from wavefabric.training.models import load_model
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.transformers import gpt3
from wavefabric.training.strategies.strategy import uniform

_A_NODE = 8
_MEGATRON = "arXiv:2104.04473, table 1; read as the table of Megatron-LM's README of April 2021"
_DEGREES = "; tensor and pipeline degrees read in transcriptions of the table, microbatches assumed"
_KORTHIKANTI = "arXiv:2205.05198, tables 3 and 5, read in a transcription"
_ZERO = "arXiv:2104.04473, table 2, read in transcriptions"
_MOSAIC = "github.com/mosaicml/llm-foundry, scripts/train/benchmarking: read"
_IBM = "github.com/foundation-model-stack/fms-fsdp, README.md: read; 400 Gbit/s a node by a later version"


@dataclass(frozen=True)
class Run:
    """A published run.

    Parameters
    ----------
    name : str
    gpus : int
    published : float
        In `unit`: ``"TFLOP/s"`` a GPU as its authors count them, recomputation included; ``"s"`` an
        iteration; ``"tokens/s"`` a GPU.
    unit, source, reason : str
        ``reason``: why the simulated speed differs.
    model : str or tuple of int
        A name of `load_model`, or blocks, width and heads of a GPT.
    batch : int
        Samples of an iteration of all GPUs.
    microbatch : int
        Samples of a microbatch on each data-parallel GPU.
    tokens : int
    tensor, pipeline : int
    device : str
    sharded, recompute : bool
    node : float
        B/s that a node sends to others.
    """

    name: str
    gpus: int
    published: float
    unit: str
    source: str
    reason: str
    model: str | tuple[int, int, int]
    batch: int
    microbatch: int
    tokens: int = 2048
    tensor: int = 1
    pipeline: int = 1
    device: str = "a100"
    sharded: bool = False
    recompute: bool = False
    node: float = 200e9

    def graph(self) -> ModelGraph:
        """The model; GPTs have Megatron's vocabulary of 51 200."""
        if isinstance(self.model, str):
            return load_model(f"{self.model}:{self.tokens}")
        blocks, width, heads = self.model
        return gpt3(self.name, self.tokens, blocks=blocks, width=width, heads=heads, vocabulary=51_200)

    def workload(self) -> Workload:
        """Model, strategy, GPUs and precision."""
        model = self.graph()
        data = self.gpus // (self.tensor * self.pipeline)
        strategy = uniform(
            model,
            self.gpus,
            tensor=self.tensor,
            pipeline=self.pipeline,
            batch=self.batch,
            microbatches=self.batch // (data * self.microbatch),
            sharded=self.sharded,
            recompute=self.recompute,
        )
        return Workload(model, strategy, load_device(self.device), PRECISIONS["bf16"])

    def simulated(self) -> Iteration:
        """One iteration, with the fastest collective for each call."""
        inside = 450e9 if self.device == "h100" else 300e9
        return simulate(self.workload(), Communication(nodes(self.gpus, inside, self.node), "auto"))

    def value(self, iteration: Iteration) -> float:
        """The simulated speed or time in `unit`."""
        if self.unit == "s":
            return iteration.seconds
        if self.unit == "tokens/s":
            return self.batch * self.tokens / (iteration.seconds * self.gpus)
        return self.flops() / (iteration.seconds * self.gpus * 1e12)

    def flops(self) -> float:
        """Of an iteration with recomputation, as Megatron counts: 96 B s l h² (1 + s/6h + V/16lh)."""
        if isinstance(self.model, str):
            raise InputError(f"model: {self.model} given; allowed: blocks, width and heads")
        blocks, width, _ = self.model
        rest = 1 + self.tokens / (6 * width) + 51_200 / (16 * blocks * width)
        return 96.0 * self.batch * self.tokens * blocks * width**2 * rest


def nodes(gpus: int, inside: float, outside: float) -> Fabric:
    """Nodes of up to eight GPUs on a switch each, joined by a switch that never blocks; B/s one way."""
    names = tuple(f"GPU{i}" for i in range(gpus))
    local = [f"node{i}" for i in range(-(-gpus // _A_NODE))]
    joined = [(gpu, local[i // _A_NODE], inside, "nvlink") for i, gpu in enumerate(names)]
    joined += [(node, "network", outside, "network") for node in local] if len(local) > 1 else []
    links = [Link(*pair, rate, kind=kind) for a, b, rate, kind in joined for pair in ((a, b), (b, a))]
    switches = (*local, "network") if len(local) > 1 else tuple(local)
    return Fabric(f"{len(local)} nodes", names, switches, tuple(links), alpha=0.7e-6)


def _megatron(
    name: str, gpus: int, tflops: float, model: tuple[int, int, int], batch: int, **how: Any
) -> Run:
    reason = how.pop("reason")
    source = _MEGATRON + _DEGREES
    return Run(name, gpus, tflops, "TFLOP/s", source, reason, model, batch, recompute=True, **how)


def _zero(gpus: int, tflops: float, microbatch: int) -> Run:
    reason = (
        "communication: an iteration there takes 67 s on 768 and on 1536 GPUs alike, as if each gathered "
        "at 16 GB/s; here rings cross a node's boundary at its 200 GB/s"
    )
    how: dict[str, Any] = {"sharded": True, "recompute": True}
    size = (96, 12288, 96)
    return Run("ZeRO-3 175B", gpus, tflops, "TFLOP/s", _ZERO, reason, size, 1536, microbatch, **how)


_KERNELS = "computation: likely kernels of 2021, no fused attention"
_PIPELINE = f"{_KERNELS}; stages are not interleaved here, as they were there"
RUNS = (
    _megatron("Megatron 1.7B", 32, 137, (24, 2304, 24), 512, microbatch=16,
              reason=f"{_KERNELS}, of which a small model has more; no communication is exposed here"),
    _megatron("Megatron 7.5B", 128, 142, (36, 4096, 32), 512, microbatch=4, tensor=4, reason=_KERNELS),
    _megatron("Megatron 18.4B", 256, 135, (40, 6144, 48), 1024, microbatch=4, tensor=8, reason=_KERNELS),
    _megatron("Megatron 39.1B", 512, 138, (48, 8192, 64), 1536, microbatch=2, tensor=8, pipeline=2,
              reason=_PIPELINE),
    _megatron("Megatron 145.6B", 1536, 148, (80, 12288, 96), 2304, microbatch=1, tensor=8, pipeline=8,
              reason=_PIPELINE),
    Run("Korthikanti 22B", 8, 1.42, "s", _KORTHIKANTI, _KERNELS, (48, 6144, 64), 4, 4, tensor=8,
        recompute=True),
    Run("Korthikanti 175B", 64, 18.13, "s", _KORTHIKANTI, _PIPELINE, (96, 12288, 96), 64, 1,
        tensor=8, pipeline=8, recompute=True),
    _zero(384, 144, 4),
    _zero(768, 88, 2),
    _zero(1536, 44, 1),
    Run("Mosaic 7B", 8, 4641, "tokens/s", _MOSAIC, "agrees; Llama 2 7B stands for MPT-7B", "gpt-7b", 96, 6,
        sharded=True),
    Run("Mosaic 7B, H100", 8, 10643, "tokens/s", _MOSAIC,
        "computation: shares of the peak are an A100's here; 46 % MFU there, and nothing is exposed here",
        "gpt-7b", 48, 6, device="h100", sharded=True),
    Run("IBM Llama 2 7B", 128, 3760, "tokens/s", _IBM,
        "agrees, though HSDP there gathers in groups of nodes and here all GPUs do; 4550 later, compiled",
        "gpt-7b", 256, 2, 4096, sharded=True, node=50e9),
    Run("IBM Llama 2 70B", 128, 380, "tokens/s", _IBM,
        "computation: with recomputation 72 % of the peak there, 66 % here", "gpt-70b", 768, 6, 4096,
        sharded=True, recompute=True, node=50e9),
)  # fmt: skip


def figure(say=lambda line: None) -> dict[str, Any]:
    """Published runs beside simulated ones.

    Returns
    -------
    dict
        ``runs``: for each ``name``, ``gpus``, ``unit``, ``published``, ``simulated`` (None where it is
        refused, with the ``refusal``), ``ratio`` of speeds, simulated over published, ``utilisation`` (model
        FLOPs utilisation), ``exposed`` (share of the time that communication adds), ``bubble``, ``source``,
        ``reason``.
    """
    return {"benchmark": "published_runs", "runs": [_compared(one, say) for one in RUNS]}


def _compared(one: Run, say) -> dict[str, Any]:
    say(one.name)
    keys = ("name", "gpus", "unit", "published", "source", "reason")
    result: dict[str, Any] = {key: getattr(one, key) for key in keys}
    try:
        iteration = one.simulated()
    except InputError as error:
        nothing = dict.fromkeys(("simulated", "ratio", "utilisation", "exposed", "bubble"))
        return result | nothing | {"refusal": str(error)}
    value = one.value(iteration)
    ratio = one.published / value if one.unit == "s" else value / one.published
    return result | {
        "simulated": value,
        "ratio": ratio,
        "utilisation": iteration.model_flops_utilisation,
        "exposed": iteration.exposed_seconds / iteration.seconds,
        "bubble": iteration.bubble,
        "refusal": "",
    }


def table(result: dict[str, Any]) -> list:
    """Speeds and ratios; why; where from."""
    rows = []
    for one in result["runs"]:
        got = one["simulated"] is not None
        value = f"{one['simulated']:.4g}" if got else "refused"
        cells = [value, f"{one['published']:.4g}", one["unit"]]
        more = [f"{one['ratio']:.2f}"] if got else [""]
        more += [f"{one[key]:.0%}" if got else "" for key in ("utilisation", "exposed", "bubble")]
        rows.append((one["name"], str(one["gpus"]), *cells, *more))
    headings = ("<run", "GPUs", "simulated", "published", "<unit", "ratio", "MFU", "exposed", "bubble")
    why = [(one["name"], one["refusal"] or one["reason"], one["source"]) for one in result["runs"]]
    return [
        report.table("published training runs, bf16, and shares of the simulated iteration", headings, rows),
        report.table("why they differ", ("<run", "<reason", "<published in"), why, wrap=True),
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """Ratios of speeds as bars."""
    runs = [one for one in result["runs"] if one["ratio"] is not None][::-1]
    with report.figure(path, (7.2, 4.6)) as drawn:
        axes = drawn.subplots()
        names = [f"{one['name']}, {one['gpus']} GPUs" for one in runs]
        axes.barh(names, [one["ratio"] for one in runs], color=BLUE)
        axes.axvline(1, color=GREY, linewidth=1)
        axes.set_xlabel("simulated speed over published")
        axes.grid(axis="y", visible=False)


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)

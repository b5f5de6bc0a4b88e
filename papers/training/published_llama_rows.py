"""Published runs of Llama and DeepSeek-V3 in bf16, FP8 and MXFP8: torchtitan and NVIDIA NeMo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from papers.training.published_run import AGREES, Run

#: Blocks, width, heads, inner width, heads of keys and values.
LLAMAS = {
    "Llama 3 8B": (32, 4096, 32, 14336, 8),
    "Llama 3 70B": (80, 8192, 64, 28672, 8),
    "Llama 3 405B": (126, 16384, 128, 53248, 8),
    "Llama 2 7B": (32, 4096, 32, 11008, 32),
    "Llama 2 13B": (40, 5120, 40, 13824, 40),
    "Llama 2 70B": (80, 8192, 64, 28672, 8),
}
_TITAN = "github.com/pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, table {}: read"
_TITAN_A100 = (
    "github.com/pytorch/torchtitan, docs/performance.md: read; network not published, 200 GB/s a node here"
)
_BRIDGE = "github.com/NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary-archive.md, {} container: read"
_NEMO = "github.com/NVIDIA/NeMo, docs/source/performance/performance_summary.md, 24.07 container: read"


def _llama(name: str, gpus: int, speed: float, batch: int, micro: int, words: str, **more: Any) -> Run:
    """A run of the Llama that the first words of ``name`` say, measured in tokens/s a GPU."""
    model = next(model for model in LLAMAS if name.split(": ")[1].startswith(model))
    values: dict[str, Any] = (
        {"tokens": 8192, "vocabulary": 128_256}
        if "Llama 3" in name
        else {"tokens": 4096, "vocabulary": 32_000}
    )
    values |= {"fused": True, "device": "h100", "node": 400e9} | more
    return Run(name, gpus, speed, "tokens/s", LLAMAS[model], batch, micro, words, **values)


def _torchtitan() -> list[Run]:
    """On H100s with 96 GB of HBM2e, 2.4 TB/s, 500 W, and 50 GB/s a GPU between nodes."""
    deep = "tensor:8,pipeline:8,zero:1,sequence,overlap,recompute"
    wide = "tensor:8,sequence,sharded,recompute"
    eager, compiled, cut = ", eager", ", compiled", ", {} K tokens"
    rows = [
        (1, f"8B{eager}", "bf16", 8, 5762, 16, 2, "sharded", 8192),
        (1, f"8B{compiled}", "bf16", 8, 6667, 16, 2, "sharded", 8192),
        (1, "8B", "fp8", 8, 8532, 16, 2, "sharded", 8192),
        (3, f"8B{eager}", "bf16", 128, 5605, 256, 2, "sharded", 8192),
        (3, f"8B{compiled}", "bf16", 128, 6514, 256, 2, "sharded", 8192),
        (3, "8B", "fp8", 128, 8380, 256, 2, "sharded", 8192),
        (4, "70B", "fp8", 256, 829, 512, 16, wide, 8192),
        (4, "70B, async TP", "fp8", 256, 876, 512, 16, f"{wide},overlap", 8192),
        (5, "405B, 1F1B", "fp8", 512, 100, 256, 4, deep, 8192),
        (5, "405B, interleaved", "fp8", 512, 128, 256, 4, f"{deep},interleave:2", 8192),
    ]
    for table, size, gpus, words, speeds in (
        (2, "8B", 8, "sharded,recompute", (3890, 2540, 1071, 548)),
        (6, "405B", 512, deep, (76, 47, 31, 16)),
    ):
        for context, speed in zip((1, 2, 4, 8), speeds, strict=True):
            more = f"{words},context:{context}" if context > 1 else words
            name, batch = size + cut.format(32 * context), (8 if table == 2 else 64) // context
            rows.append((table, name, "fp8", gpus, speed, batch, 1, more, 32_768 * context))
    guess = "; microbatches not published, 8 here"
    rows.sort(key=lambda row: row[0])
    return [
        _llama(f"torchtitan: Llama 3 {name}, {precision}", gpus, speed, batch, micro, words, tokens=tokens,
               precision=precision, memory=(96e9, 2.4e12), source=_TITAN.format(table) + guess * (table > 4))
        for table, name, precision, gpus, speed, batch, micro, words, tokens in rows
    ]  # fmt: skip


def _torchtitan_a100() -> list[Run]:
    rows = (
        ("Llama 3 8B, selective layer", 2904, 1, "sharded"),
        ("Llama 3 8B, selective op", 2973, 1, "sharded"),
        ("Llama 3 70B, full", 331, 1, "sharded,recompute"),
        ("Llama 2 13B, none", 2162, 2, "sharded"),
        ("Llama 2 13B, selective layer", 1914, 2, "sharded"),
        ("Llama 2 13B, selective op", 1904, 2, "sharded"),
        ("Llama 2 70B, selective op", 355, 1, "sharded"),
        ("Llama 2 70B, full", 353, 2, "sharded,recompute"),
    )
    more: dict[str, Any] = {"device": "a100", "node": 200e9, "source": _TITAN_A100}
    return [
        _llama(f"torchtitan A100: {name}", 64, speed, 64 * micro, micro, words, **more)
        for name, speed, micro, words in rows
    ]


def _nemo() -> list[Run]:
    """On DGX systems, 50 GB/s a GPU between nodes; 64 GPUs of an NVL72 joined by NVLink."""
    b200: dict[str, Any] = {"device": "b200"}
    gb200: dict[str, Any] = {"device": "gb200", "domain": 64, "node": 64 * 50e9}
    long = "tensor:8,pipeline:8,interleave:8,context:2,ring,zero:1,sequence,overlap"
    wide = "tensor:4,pipeline:8,interleave:8,context:2,ring,zero:1,sequence,overlap"
    deep = "tensor:4,pipeline:16,interleave:{},zero:1,sequence,overlap"
    tall = "tensor:4,pipeline:8,interleave:5,zero:1,sequence,overlap"
    small = "data,zero:1"
    rows = (
        ("24.07", "Llama 3 8B", "H100", "fp8", 8, 12036, 128, 1, "context:2,ring,zero:1", {}),
        ("24.07", "Llama 3 70B", "H100", "fp8", 64, 1533, 128, 1,
         "tensor:4,pipeline:4,interleave:5,context:2,ring,zero:1,sequence,overlap", {}),
        ("24.07", "Llama 2 7B", "H100", "fp8", 8, 16847, 128, 1, small, {}),
        ("24.07", "Llama 2 13B", "H100", "fp8", 16, 8646, 128, 1, "pipeline:4,interleave:10,zero:1", {}),
        ("24.07", "Llama 2 70B", "H100", "fp8", 64, 1707, 128, 1,
         "tensor:4,pipeline:4,interleave:20,zero:1,sequence,overlap", {}),
        ("25.11", "Llama 3 8B", "H100", "fp8", 8, 14451, 128, 1, "sharded", {}),
        ("25.11", "Llama 3 70B", "H100", "fp8", 64, 1602, 128, 1, tall, {}),
        ("25.11", "Llama 3 405B", "H100", "fp8", 1024, 292, 512, 1, long, {}),
        ("26.02", "Llama 3 70B", "H100", "fp8", 64, 1621, 256, 1, tall, {}),
        ("26.02", "Llama 3 405B", "H100", "fp8", 1024, 311, 1536, 1, long, {}),
        ("25.11", "Llama 3 8B", "B200", "fp8", 8, 30624, 128, 2, small, b200),
        ("25.11", "Llama 3 8B", "B200", "mxfp8", 8, 29521, 128, 2, small, b200),
        ("25.11", "Llama 3 405B", "B200", "fp8", 128, 661, 64, 1, wide, b200),
        ("25.11", "Llama 3 405B", "B200", "mxfp8", 128, 624, 64, 1, wide, b200),
        ("25.11", "Llama 3 8B", "GB200", "fp8", 8, 31508, 128, 2, small, gb200),
        ("25.11", "Llama 3 8B", "GB200", "mxfp8", 8, 29789, 128, 2, small, gb200),
        ("25.11", "Llama 3 70B", "GB200", "fp8", 64, 4312, 256, 2, "sharded", gb200),
        ("25.11", "Llama 3 405B", "GB200", "fp8", 256, 813, 1536, 1, deep.format(4), gb200),
        ("26.02", "Llama 3 70B", "GB200", "fp8", 64, 4040, 256, 2, "sharded", gb200),
        ("26.02", "Llama 3 70B", "GB200", "mxfp8", 64, 3613, 256, 1,
         "tensor:2,pipeline:4,interleave:5,zero:1,sequence,overlap", gb200),
        ("26.02", "Llama 3 405B", "GB200", "fp8", 256, 793, 1536, 1, deep.format(4), gb200),
        ("26.02", "Llama 3 405B", "GB200", "mxfp8", 256, 786, 1536, 1, deep.format(8), gb200),
    )  # fmt: skip
    runs = [
        _llama(f"NeMo {release}: {name}, {gpu}, {precision}", gpus, speed, batch, micro, words,
               precision=precision, source=_NEMO if release == "24.07" else _BRIDGE.format(release), **more)
        for release, name, gpu, precision, gpus, speed, batch, micro, words, more in rows
    ]  # fmt: skip
    more = {"tokens": 4096, "model": "deepseek-v3", "source": _BRIDGE.format("25.11"), **gb200}
    experts = (
        ("bf16", 3139, "pipeline:4,interleave:4,expert:64,zero:1"),
        ("mxfp8", 4018, "pipeline:8,interleave:4,expert:32,zero:1"),
    )
    return runs + [
        Run(f"NeMo 25.11: DeepSeek-V3, GB200, {precision}", 256, speed, "tokens/s", (), 4096, 1, words,
            precision=precision, **more)
        for precision, speed, words in experts
    ]  # fmt: skip


_WATTS = "computation: H100s at 500 W instead of 700; 33 to 39 % MFU without float8 by its page"
_SELECTIVE = "selective checkpointing: half of the products or every second block recomputed there, none here"
_SHARDS = f"attention in context parallelism, which loses with its degree there, none here; {_WATTS}"
_MX = "MXFP8 is 1 to 11 % slower than FP8 there, as fast here: products are taken to reach the same share"
_CONTAINER = "2 to 7 % slower there than in container 25.11, with which it agrees"
_EXPERTS = (
    "not known: what is recomputed is not in the table, and sorting tokens by experts is not counted here"
)


def _explained(one: Run) -> Run:
    """The run with the reason why it is off by more than 15 %, for those that are."""
    reasons = {
        "A100: ": _SELECTIVE if "selective" in one.name else AGREES,
        "torchtitan: Llama 3 8B": f"{_SELECTIVE}; {_WATTS}" if "recompute" not in one.strategy else _WATTS,
        "torchtitan: ": _WATTS,
        "DeepSeek": _EXPERTS,
        "26.02": _CONTAINER if one.device == "gb200" and one.precision == "fp8" else AGREES,
    }
    reason = next((why for words, why in reasons.items() if words in one.name), AGREES)
    if "titan" in one.name and "context" in one.strategy:
        reason = _SHARDS
    if one.precision == "mxfp8" and one.size and "B200, mxfp8" in one.name and "405B, B200" not in one.name:
        reason = _MX
    return replace(one, reason=reason)


TORCHTITAN = tuple(map(_explained, [*_torchtitan(), *_torchtitan_a100()]))
NEMO = tuple(map(_explained, _nemo()))

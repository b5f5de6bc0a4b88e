"""Published training runs: settings, what was measured, where it was read, why the simulated one differs."""

from __future__ import annotations

from typing import Any

from papers.training.published_llama_rows import NEMO, TORCHTITAN
from papers.training.published_run import AGREES, Run

_SC21 = "arXiv:2104.04473, {}; settings of Megatron-LM's examples/sc21; both read in its repository"
_TABLE_1 = _SC21.format("table 1 (images/cases_april2021.png)")
_TABLE_2 = (
    "arXiv:2104.04473, table 2; read as the picture of github.com/cli99/llm-analysis, degrees in its scripts"
)
_KORTHIKANTI = "arXiv:2205.05198, tables 3 and 5; read in github.com/calculon-ai/calculon, validation"
_H100 = (
    "Megatron-LM's README of July 2024 (images/model_table.png): read; microbatches and chunks not published"
)
_LLAMA = (
    "arXiv:2407.21783, table 4: read in copies of its text; chunks of stages not published, a block each here"
)
_MOSAIC = "github.com/mosaicml/llm-foundry, scripts/train/benchmarking: read"
_IBM = "github.com/foundation-model-stack/fms-fsdp, README.md: read; 400 Gbit/s a node by a later version"

_CHUNKS = "pipeline bubble: chunks of stages are not published, none here; with 7 a stage it agrees"
_ZERO = ("communication: not hidden there, it seems (see serial); the rest is not known. A ring of "
         "so many GPUs takes 13 us a step")  # fmt: skip


def _table_1() -> list[Run]:
    rows = (
        ("1.7B", 32, 137, (24, 2304, 24), 512, 16, "data"),
        ("3.6B", 64, 138, (30, 3072, 32), 512, 16, "tensor:2"),
        ("7.5B", 128, 142, (36, 4096, 32), 512, 16, "tensor:4"),
        ("18.4B", 256, 135, (40, 6144, 48), 1024, 8, "tensor:8"),
        ("39.1B", 512, 138, (48, 8192, 64), 1536, 4, "tensor:8,pipeline:2"),
        ("76.1B", 1024, 140, (60, 10240, 80), 1792, 2, "tensor:8,pipeline:4,interleave:3"),
        ("145.6B", 1536, 148, (80, 12288, 96), 2304, 2, "tensor:8,pipeline:8,interleave:2"),
        ("310.1B", 1920, 155, (96, 16384, 128), 2160, 1, "tensor:8,pipeline:16,interleave:2"),
        ("529.6B", 2520, 163, (105, 20480, 128), 2520, 1, "tensor:8,pipeline:35,interleave:3"),
        ("1008B", 3072, 163, (128, 25600, 160), 3072, 1, "tensor:8,pipeline:64"),
    )
    return [
        Run(f"Megatron {name}", gpus, flops, "TFLOP/s", size, batch, micro, f"{words},recompute", _TABLE_1,
            policy="end" if "pipeline" in words else "batched")
        for name, gpus, flops, size, batch, micro, words in rows
    ]  # fmt: skip


def _table_2() -> list[Run]:
    sizes = {"175B": (96, 12288, 96), "530B": (105, 20480, 128)}
    pipelines = (
        ("175B", 12, 1536, {384: 153, 768: 149, 1536: 141}),
        ("530B", 35, 2240, {560: 171, 1120: 167, 2240: 159}),
    )
    runs = [
        Run(f"Megatron {name}", gpus, flops, "TFLOP/s", sizes[name], batch, 1,
            f"tensor:8,pipeline:{stages},recompute", f"{_TABLE_2}; no chunks assumed", policy="end")
        for name, stages, batch, speeds in pipelines
        for gpus, flops in speeds.items()
    ]  # fmt: skip
    sharded = (
        ("175B", 384, 144, 1536, 4), ("175B", 768, 88, 1536, 2), ("175B", 1536, 44, 1536, 1),
        ("530B", 640, 138, 2560, 4), ("530B", 1120, 98, 2240, 2), ("530B", 2240, 48, 2240, 1),
    )  # fmt: skip
    return runs + [
        Run(
            f"ZeRO-3 {name}",
            gpus,
            flops,
            "TFLOP/s",
            sizes[name],
            batch,
            micro,
            "sharded,recompute",
            _TABLE_2,
            _ZERO,
        )
        for name, gpus, flops, batch, micro in sharded
    ]


def _korthikanti() -> list[Run]:
    rows = (
        ("22B", 8, (1.42, 1.10), (48, 6144, 64), 4, 4, "tensor:8"),
        ("175B", 64, (18.13, 13.75), (96, 12288, 96), 64, 1, "tensor:8,pipeline:8,interleave:3"),
        ("530B", 280, (49.05, 37.83), (105, 20480, 128), 280, 1, "tensor:8,pipeline:35,interleave:3"),
        ("1T", 512, (94.42, 71.49), (128, 25600, 160), 512, 1, "tensor:8,pipeline:64"),
    )
    return [
        Run(f"Korthikanti {name}, {what}", gpus, seconds[which], "s", size, batch, micro, f"{words},{more}",
            _KORTHIKANTI)
        for name, gpus, seconds, size, batch, micro, words in rows
        for which, (what, more) in enumerate((("full", "recompute"), ("selective", "sequence,selective")))
    ]  # fmt: skip


def _h100() -> list[Run]:
    rows = (
        (
            "1.7B",
            48,
            408.8,
            (24, 2048, 16),
            192,
            "data",
            "small matrices: 41 % MFU there, the least of its table",
        ),
        ("7.1B", 96, 465.9, (30, 4096, 32), 192, "tensor:2", AGREES),
        ("16B", 192, 489.1, (32, 6144, 48), 192, "tensor:4", AGREES),
        ("32B", 384, 459.6, (48, 7168, 56), 192, "tensor:8", AGREES),
        ("70B", 768, 419.7, (84, 8192, 64), 384, "tensor:8,pipeline:2", _CHUNKS),
        ("119B", 1536, 420.5, (92, 10240, 80), 768, "tensor:8,pipeline:4", AGREES),
        ("177B", 2304, 432.8, (96, 12288, 96), 1152, "tensor:8,pipeline:6", AGREES),
        ("314B", 3072, 474.4, (96, 16384, 128), 1536, "tensor:8,pipeline:8", AGREES),
        ("462B", 6144, 459.9, (112, 18432, 144), 3072, "tensor:8,pipeline:16", AGREES),
    )
    return [
        Run(f"Megatron H100 {name}", gpus, flops, "model TFLOP/s", size, batch, int("pipeline" in words),
            f"{words},zero:1" + ",sequence,overlap" * ("tensor" in words), _H100, reason, 4096, 131_072, True,
            "h100", 400e9)
        for name, gpus, flops, size, batch, words, reason in rows
    ]  # fmt: skip


def _others() -> list[Run]:
    words = "tensor:8,pipeline:16,interleave:8,sequence,zero:2"
    size, small, large = (126, 16384, 128, 53248, 8), (32, 4096, 32, 11008, 32), (80, 8192, 64, 28672, 8)
    mpt = (32, 4096, 32)
    llama: dict[str, Any] = {"tokens": 8192, "vocabulary": 128_256, "source": _LLAMA, "fused": True}
    llama |= {"device": "h100", "node": 400e9}
    mosaic: dict[str, Any] = {"vocabulary": 50_368, "fused": True, "source": _MOSAIC}
    ibm: dict[str, Any] = {"tokens": 4096, "vocabulary": 32_000, "fused": True, "node": 50e9, "source": _IBM}
    return [
        Run("Llama 3 405B", 8192, 430, "model TFLOP/s", size, 2048, 1, words, **llama),
        Run("Llama 3 405B", 16384, 400, "model TFLOP/s", size, 2048, 1, words, **llama),
        Run("Llama 3 405B, 131072 tokens", 16384, 380, "model TFLOP/s", size, 128, 1, f"{words},context:16",
            **dict(llama, tokens=131_072)),
        Run("Mosaic MPT-7B", 8, 4641, "tokens/s", mpt, 96, 6, "sharded", **mosaic),
        Run("Mosaic MPT-7B, H100", 8, 10643, "tokens/s", mpt, 48, 6, "sharded", **mosaic, device="h100",
            reason="computation: 46 % MFU there, nothing exposed here; kernels of 2023, it seems"),
        Run("IBM Llama 2 7B", 128, 3760, "tokens/s", small, 256, 2, "sharded", **ibm,
            reason="agrees, though HSDP there gathers in nodes and here all GPUs do; 4550 later, compiled"),
        Run("IBM Llama 2 70B", 128, 380, "tokens/s", large, 768, 6, "sharded,recompute", **ibm),
    ]  # fmt: skip


RUNS = (*_table_1(), *_table_2(), *_korthikanti(), *_h100(), *_others(), *TORCHTITAN, *NEMO)

"""What a published training run is, and the links of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass

AGREES = "agrees"

#: One-way B/s of a GPU inside a node, s of a step of a ring. NCCL's bus bandwidth of large all-reduces by
#: rings of 8 GPUs as nccl-tests gave it, and what its times at 64 MiB and 1 GiB leave over that, over 14
#: steps: A100 684.6 and 8203.9 µs; H200 338.9 and 4053 µs (github.com/stas00/ml-engineering,
#: network/README.md).
#: B200: no table by rings was found, so the H200's share of its link, 81.7 %, of NVLink 5's 900 GB/s.
LINKS = {"a100": (234.9e9, 13e-6), "h100": (367.6e9, 6.5e-6)}
LINKS |= dict.fromkeys(("b200", "gb200"), (735e9, 6.5e-6))


@dataclass(frozen=True)
class Run:
    """A published run.

    Parameters
    ----------
    name : str
    gpus : int
    published : float
        In `unit`: ``"TFLOP/s"`` a GPU as Megatron counted in 2021, recomputation included; without it
        ``"model TFLOP/s"``; ``"s"`` an iteration; ``"tokens/s"`` a GPU.
    unit : str
    size : tuple of int
        Blocks, width, heads; of a Llama also the inner width and heads of keys and values.
    batch, microbatch : int
        Samples of an iteration of all GPUs, and of a microbatch on each data-parallel GPU (0: the largest of
        4, 2, 1 that fits).
    strategy : str
        Words of `parse_strategy`.
    source, reason : str
        ``reason``: why the simulated speed differs.
    tokens, vocabulary : int
    fused : bool
        FlashAttention and no dropout; see `published_models`.
    device : str
    node : float
        B/s that a node sends to others.
    policy : str
        ``"end"``: gradients are reduced after all backward passes (Megatron's local DDP).
    precision : str
    domain : int
        GPUs that NVLink joins: of a node, or of the rack of an NVL72.
    memory : tuple of float
        B, and B/s, of GPUs that differ from `device` in it; empty: none.
    model : str
        A model of `wavefabric.training.models`, whose attention is taken as causal, instead of `size`.
    """

    name: str
    gpus: int
    published: float
    unit: str
    size: tuple[int, ...]
    batch: int
    microbatch: int
    strategy: str
    source: str
    reason: str = AGREES
    tokens: int = 2048
    vocabulary: int = 51_200
    fused: bool = False
    device: str = "a100"
    node: float = 200e9
    policy: str = "batched"
    precision: str = "bf16"
    domain: int = 8
    memory: tuple[float, ...] = ()
    model: str = ""

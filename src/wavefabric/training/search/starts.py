"""Strategies from which a search starts: data parallelism, what experts would choose, the chain's optimum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import gcd

from wavefabric.errors import InputError
from wavefabric.training.search.chain import best_chain
from wavefabric.training.search.chain_costs import SearchSetting, SerialOptions
from wavefabric.training.strategies.strategy import Strategy, uniform
from wavefabric.training.strategies.strategy_text import parse_strategy

#: Bytes of gradients that PyTorch reduces together (its ``bucket_cap_mb``).
BUCKET = 25.0 * 2**20
#: Degrees of tensor and pipeline parallelism that experts try: of GPUs in one machine, of few stages.
TENSOR, PIPELINE = (1, 2, 4, 8), (1, 2, 4, 8)


def data_parallel(setting: SearchSetting) -> Strategy:
    """All GPUs share the samples, or as many as have whole ones; with PyTorch's buckets."""
    across = gcd(setting.gpus, setting.batch) or 1
    tensor = setting.gpus // across
    return uniform(setting.model, setting.gpus, tensor=tensor, batch=setting.batch, bucket=BUCKET)


def expert_designed(setting: SearchSetting) -> Iterator[Strategy]:
    """One layout for all layers, of the usual degrees, plain and sharded; split tables; those that fit."""
    model, gpus = setting.model, setting.gpus
    for text in ("data", "data,sharded", "tables", "tables,sharded"):
        with suppress(InputError):
            yield parse_strategy(text, model, gpus, batch=setting.batch)
    experts = gcd(*(layer.experts for layer in model.layers))
    for tensor, pipeline in product(TENSOR, PIPELINE):
        data = gpus // (tensor * pipeline)
        for expert in sorted({1, gcd(experts, data) if experts else 1}):
            with suppress(InputError):
                plain = uniform(
                    model, gpus, tensor=tensor, pipeline=pipeline, expert=expert,
                    batch=setting.batch, bucket=BUCKET,
                )  # fmt: skip
                for sharded, recompute in product((False, True), repeat=2):
                    yield replace(plain, sharded=sharded, recompute=recompute)


def chain_optima(setting: SearchSetting, memory: float) -> Iterator[Strategy]:
    """The strategies of `best_chain` with and without sharding and recomputation, those that fit."""
    for sharded, recompute in product((False, True), repeat=2):
        with suppress(InputError):
            yield best_chain(setting, SerialOptions(1, sharded, recompute), memory).strategy

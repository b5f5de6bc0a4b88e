"""Strategies as a user writes them: words and degrees with commas between, or the name of a JSON file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from wavefabric.errors import InputError, show
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, uniform
from wavefabric.training.strategies.strategy_file import load_strategy

#: Words without a number, and keys with one, of what `parse_strategy` reads.
WORDS = ("data", "sharded", "tables", "recompute")
KEYS = ("data", "tensor", "pipeline", "expert", "microbatches", "bucket")
#: What an error says is allowed.
ALLOWED = f"{', '.join(WORDS)}, {', '.join(f'{key}:N' for key in KEYS)} with commas between, or a JSON file"

_BYTES = re.compile(r"([0-9]{1,15})([kmgt]?)(?:i?b)?", re.I)
_EXPONENTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def parse_strategy(
    text: str | Path, model: ModelGraph, gpus: int | None = None, *, batch: int | None = None
) -> Strategy:
    """The strategy that a text describes.

    Parameters
    ----------
    text : str or Path
        Words and degrees in any order, each once: ``data``, ``sharded``, ``recompute``, ``tables``,
        ``data:8``, ``tensor:4``, ``pipeline:2``, ``expert:8``, ``microbatches:16``, ``bucket:25M`` (bytes;
        K, M, G: 2^10, …). GPUs that no degree names share the samples, so ``data`` alone is data
        parallelism. With ``tables`` the GPUs of a stage divide the features of embedding tables among them,
        as many GPUs as that allows, while other layers stay as they are: the hybrid of DLRM
        (arXiv:1906.00091). Or the path of a file (see `wavefabric.training.strategies.strategy_file`).
    model : ModelGraph
    gpus : int, optional
        A file says for how many GPUs it is; else they must be given.
    batch : int, optional
        Samples of an iteration; by default the file's, or the model's for each data-parallel GPU.

    Raises
    ------
    InputError
        In one line: for words that are unknown or given twice, numbers that are none, and strategies that
        do not fit the model or the GPUs.

    Examples
    --------
    >>> from wavefabric.training.models.graph import Layer, ModelGraph
    >>> model = ModelGraph("two", (Layer("a", "matmul"), Layer("b", "matmul", ("a",))), batch=32)
    >>> strategy = parse_strategy("pipeline:2,microbatches:8,sharded", model, 8)
    >>> strategy.stage, strategy.layouts[0].data, strategy.batch
    ((0, 1), 4, 128)
    """
    if isinstance(text, Path) or text.endswith(".json") or os.sep in text or "/" in text:
        return load_strategy(text, model, gpus, batch=batch)
    if gpus is None:
        raise InputError(f"gpus: none given with strategy {show(text)}; allowed: whole numbers from 1")
    options = _options(text)
    if options.get("expert", 1) > 1 and not any(layer.experts for layer in model.layers):
        raise InputError(
            f"strategy.expert: {options['expert']} given; allowed: 1, {model.name} has no experts"
        )
    if options.pop("tables", False):
        options["layers"] = _tables(model, gpus, options.get("pipeline", 1))
    return uniform(model, gpus, batch=batch, **options)


def _options(text: str) -> dict[str, Any]:
    """Arguments of `uniform`, and whether there are ``tables``."""
    options: dict[str, Any] = {}
    seen: set[str] = set()
    for item in text.split(","):
        word = item.strip().lower()
        key, colon, number = word.partition(":")
        key, number = key.strip(), number.strip()
        if key not in (KEYS if colon else WORDS):
            raise InputError(f"strategy: {show(item.strip())} given; allowed: {ALLOWED}")
        if key in seen:
            raise InputError(f"strategy: {key} given twice in {show(text)}; allowed: each once")
        seen.add(key)
        if colon:
            options[key] = _bytes(number) if key == "bucket" else _degree(key, number)
        elif key != "data":
            options[key] = True
    return options


def _degree(key: str, number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) <= 9 and int(number)):
        raise InputError(f"strategy.{key}: {show(number)} given; allowed: whole numbers from 1")
    return int(number)


def _bytes(number: str) -> float:
    match = _BYTES.fullmatch(number)
    size = int(match[1]) << _EXPONENTS[match[2].lower()] if match else -1
    if not 0 <= size < 10**15:
        raise InputError(
            f"strategy.bucket: {show(number)} given; allowed: bytes such as 25M (K, M, G: 2^10, …)"
        )
    return float(size)


def _tables(model: ModelGraph, gpus: int, pipeline: int) -> dict[str, LayerLayout]:
    """Layouts of the tables that can be split, each by as many GPUs of its stage as its features allow."""
    tables = [
        layer
        for layer in model.layers
        if layer.operator == "embedding" and layer.parameters > 0 and layer.split == "column"
    ]
    if not tables:
        raise InputError(
            f"strategy: tables given; allowed: for models with embeddings, {model.name} has none"
        )
    if gpus % pipeline:
        return {}  # `uniform` refuses the degree of the pipeline
    stage = gpus // pipeline
    tensor = [max(n for n in range(1, min(stage, t.features) + 1) if stage % n == 0) for t in tables]
    return {t.name: LayerLayout(stage // n, n) for t, n in zip(tables, tensor, strict=True)}

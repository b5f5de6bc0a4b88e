"""Read and write parallelisation strategies: words and degrees that a user types, or JSON files.

A JSON file has the degrees of most layers, the layers that differ, and the first layers of pipeline stages.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal

from pydantic import StrictStr

from wavefabric.base.errors import InputError, show
from wavefabric.base.files.input import naming, parse_json, read_text
from wavefabric.base.files.output import json_rows, write_text
from wavefabric.base.files.validation_errors import checked
from wavefabric.base.units import binary_size
from wavefabric.fabric.io.tables import fields_of, make_table
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.strategies.strategy import (
    LayerLayout,
    Strategy,
    Whole,
    check_strategy,
    mixed_layouts,
    uniform,
)

#: Words without a number, and keys followed by a number, that `parse_strategy` accepts.
WORDS = ("data", "sharded", "tables", "recompute", "selective", "sequence", "overlap", "ring")
KEYS = ("data", "tensor", "pipeline", "interleave", "expert", "context", "microbatches", "zero", "bucket")
#: Description of what `parse_strategy` accepts, for error messages.
ALLOWED = f"{', '.join(WORDS)}, {', '.join(f'{key}:N' for key in KEYS)} with commas between, or a JSON file"


def parse_strategy(
    text: str | Path, model: ModelGraph, gpus: int | None = None, *, batch: int | None = None
) -> Strategy:
    """Return the strategy that ``text`` describes: words and degrees, or the path of a file (see `to_json`).

    Words and degrees are separated by commas, each at most once: `WORDS`, ``data:8``, ``tensor:4``,
    ``pipeline:2``, ``interleave:2``, ``expert:8``, ``context:2``, ``microbatches:8``, ``zero:1`` (``sharded``
    is ``zero:3``), ``bucket:25M`` (bytes; K, M, G: 2^10, …). GPUs not used by the other degrees divide the
    samples, so ``data`` alone is data parallelism. ``tables`` splits only the embedding tables, by features,
    over as many GPUs of a stage as possible: the hybrid of DLRM (arXiv:1906.00091).

    ``gpus`` is required unless ``text`` is a file. ``batch`` is the number of samples per iteration, by
    default from the file, or the model's batch × data-parallel degree. Raises `InputError` for unknown or
    repeated words, invalid numbers, and strategies that do not fit the model or the GPUs.

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
        actual = f"strategy.expert: {options['expert']} given"
        raise InputError(f"{actual}; allowed: 1, {model.name} has no experts")
    if options.pop("tables", False):
        options["layers"] = _tables(model, gpus, options.get("pipeline", 1))
    return uniform(model, gpus, batch=batch, **options)


def _options(text: str) -> dict[str, Any]:
    """Parse ``text`` into keyword arguments of `uniform`, plus ``tables`` if that word is present."""
    options: dict[str, Any] = {}
    seen: set[str] = set()
    for item in text.split(","):
        key, colon, number = item.strip().lower().partition(":")
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
    if options.get("ring") and options.get("context", 1) == 1:
        raise InputError("strategy: ring given without context; allowed: with context:N, N above 1")
    if options.pop("sharded", False):
        if "zero" in options:
            raise InputError(f"strategy.zero: {options['zero']} given with sharded; allowed: one of the two")
        options["zero"] = 3
    return options


def _degree(key: str, number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) <= 9 and int(number)):
        raise InputError(f"strategy.{key}: {show(number)} given; allowed: whole numbers from 1")
    return int(number)


def _bytes(number: str) -> float:
    size = binary_size(number)
    if size is None or size >= 10**15:
        allowed = "bytes such as 25M (K, M, G: 2^10, …)"
        raise InputError(f"strategy.bucket: {show(number)} given; allowed: {allowed}")
    return float(size)


def _tables(model: ModelGraph, gpus: int, pipeline: int) -> dict[str, LayerLayout]:
    """Return a dictionary from embedding table to layout: split over as many GPUs of a stage as possible."""
    tables = [
        layer
        for layer in model.layers
        if layer.operator == "embedding" and layer.parameters > 0 and layer.split == "column"
    ]
    if not tables:
        allowed = f"for models with embeddings, {model.name} has none"
        raise InputError(f"strategy: tables given; allowed: {allowed}")
    if gpus % pipeline:
        return {}  # `uniform` raises the error for the pipeline degree
    stage = gpus // pipeline
    tensor = [max(n for n in range(1, min(stage, t.features) + 1) if stage % n == 0) for t in tables]
    return {t.name: LayerLayout(stage // n, n) for t, n in zip(tables, tensor, strict=True)}


#: Fields of `Strategy` that are written to the JSON file unchanged.
_FLAGS = ("recompute", "selective", "sequence", "overlap", "ring")
_OPTIONS = ("zero", "bucket", *_FLAGS, "interleave", "context")
FORMAT: Literal["wavefabric strategy"] = "wavefabric strategy"
VERSION: Literal[1] = 1

#: Layout of a layer in JSON: the fields of `wavefabric.training.strategies.strategy.LayerLayout`.
LayoutTable = make_table("LayoutTable", **fields_of(LayerLayout))
#: A strategy in JSON. ``data``, ``tensor``, ``expert`` are the degrees of the layers not in ``layers``.
#: ``stages`` names the layers at which pipeline stages (with ``interleave``, chunks) begin, from the second.
StrategyTable = make_table(
    "StrategyTable",
    LayoutTable,
    format=(Literal["wavefabric strategy"], FORMAT),
    version=(Literal[1], VERSION),
    model=(StrictStr, ""),
    **fields_of(Strategy, "stage", "layouts", "microbatches"),
    microbatches=(Whole, 1),
    stages=(list[StrictStr], []),
    layers=(GenericAlias(dict, (StrictStr, LayoutTable)), {}),
)


def to_json(model: ModelGraph, strategy: Strategy) -> str:
    """Return ``strategy`` as JSON text, with one key or one layer per line.

    ::

        {"format": "wavefabric strategy", "version": 1, "model": "ncf", "gpus": 8, "batch": 8192,
         "data": 8, "tensor": 1, "expert": 1, "microbatches": 1, "stages": [],
         "zero": 0, "bucket": 0.0, "recompute": false, "selective": false, "sequence": false,
         "overlap": false, "ring": false, "interleave": 1, "context": 1,
         "layers": {
          "user factors": {"data": 1, "tensor": 8, "expert": 1}}}

    ``expert`` applies only to layers with experts. ``stages`` names the layers at which the second and later
    pipeline stages begin; each is the first layer of its block. ``model`` only informs the reader.
    """
    common = _common(model, strategy)
    values: dict[str, Any] = {"format": FORMAT, "version": VERSION, "model": model.name}
    values |= {"gpus": strategy.gpus, "batch": strategy.batch, **vars(common)}
    stage = strategy.stage
    begins = [model.layers[n].name for n in range(1, len(stage)) if stage[n] != stage[n - 1]]
    values |= {"microbatches": strategy.microbatches, "stages": begins}
    values |= {key: getattr(strategy, key) for key in _OPTIONS} | {"bucket": float(strategy.bucket)}
    pairs = zip(model.layers, strategy.layouts, strict=True)
    others = {layer.name: vars(layout) for layer, layout in pairs if layout != common.of(layer)}
    return json_rows(values | {"layers": others}, ("layers",))


def _common(model: ModelGraph, strategy: Strategy) -> LayerLayout:
    """Return the most frequent layout; its expert degree is the most frequent of layers with experts."""
    pairs = list(zip(model.layers, strategy.layouts, strict=True))
    plain = Counter((layout.data, layout.tensor) for _, layout in pairs).most_common(1)[0][0]
    experts = Counter(layout.expert for layer, layout in pairs if layer.experts)
    expert = experts.most_common(1)[0][0] if experts else 1
    return LayerLayout(*plain, expert)


def from_json(text: str, model: ModelGraph, batch: int | None = None) -> Strategy:
    """Return the strategy that JSON text describes (see `to_json`).

    ``batch``, if given, replaces the batch in ``text``. Raises an `InputError` of one line with the key, the
    value given and the values allowed.
    """
    content = parse_json(text, "strategy", allowed="one with gpus, batch and data")
    table = checked(StrategyTable, content)
    own = {name: LayerLayout(**vars(layout)) for name, layout in table.layers.items()}
    layouts = mixed_layouts(model, LayerLayout(table.data, table.tensor, table.expert), own)
    stage = _stage(model, table.stages)
    if table.gpus % ((stage[-1] + 1) // table.interleave or 1):
        allowed = f"numbers of stages that divide {table.gpus}, the GPUs"
        raise InputError(f"stages: {stage[-1]} given, of {stage[-1] + 1} stages in all; allowed: {allowed}")
    values = table.model_dump(include={"gpus", "microbatches", *_OPTIONS})
    strategy = Strategy(batch=table.batch if batch is None else batch, stage=stage, layouts=layouts, **values)
    check_strategy(model, strategy)
    return strategy


def _stage(model: ModelGraph, names: Sequence[str]) -> tuple[int, ...]:
    """Return the pipeline stage of each layer, if the layers ``names`` begin all stages but the first."""
    firsts = {model.layers[block[0]].name for block in model.blocks[1:]}
    last = 0
    for name in names:
        if name not in firsts or model.index[name] <= last:
            allowed = f"first layers of blocks of {model.name}, in order, not the first"
            raise InputError(f"stages: {show(name)} given; allowed: {allowed}")
        last = model.index[name]
    begins = [model.index[name] for name in names]
    return tuple(sum(n >= begin for begin in begins) for n in range(len(model.layers)))


def load_strategy(
    path: str | Path, model: ModelGraph, gpus: int | None = None, *, batch: int | None = None
) -> Strategy:
    """Load a strategy from a JSON file.

    ``batch``, if given, replaces the batch in the file. Raises an `InputError` of one line, with the file and
    the key, for an invalid file, and if ``gpus`` is given and differs from the number of GPUs in the file.
    """
    text = read_text(path, "strategy")
    with naming(path):
        strategy = from_json(text, model, batch)
        if gpus not in (None, strategy.gpus):
            raise InputError(f"gpus: {gpus} given; allowed: {strategy.gpus}, for which the strategy is")
    return strategy


def save_strategy(path: str | Path, model: ModelGraph, strategy: Strategy, force: bool = False) -> Path:
    """Write a strategy to a JSON file atomically; ``force`` replaces an existing file.

    Raises `InputError` if the file exists (without ``force``), is a folder, or cannot be written.
    """
    return write_text(path, to_json(model, strategy), "strategy", force)

"""Strategies as text: words and degrees as a user writes them, and JSON files, which the search writes.

A file has degrees, layers that differ, and where stages begin.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal

from pydantic import StrictStr

from wavefabric.errors import InputError, show
from wavefabric.fabric.io.tables import fields_of, make_table
from wavefabric.files.faults import checked
from wavefabric.files.input import naming, parse_json, read_text
from wavefabric.files.output import json_rows, write_text
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.strategies.strategy import (
    LayerLayout,
    Strategy,
    Whole,
    check_strategy,
    mixed_layouts,
    uniform,
)
from wavefabric.units import binary_size

#: Words without a number, and keys with one, of what `parse_strategy` reads.
WORDS = ("data", "sharded", "tables", "recompute", "selective", "sequence", "overlap")
KEYS = ("data", "tensor", "pipeline", "interleave", "expert", "microbatches", "zero", "bucket")
#: What an error says is allowed.
ALLOWED = f"{', '.join(WORDS)}, {', '.join(f'{key}:N' for key in KEYS)} with commas between, or a JSON file"


def parse_strategy(
    text: str | Path, model: ModelGraph, gpus: int | None = None, *, batch: int | None = None
) -> Strategy:
    """The strategy that ``text`` describes: words and degrees, or the path of a file (see `to_json`).

    Words and degrees stand in any order, each once: `WORDS`, ``data:8``, ``tensor:4``, ``pipeline:2``,
    ``interleave:2``, ``expert:8``, ``microbatches:8``, ``zero:1`` (``sharded`` is ``zero:3``), ``bucket:25M``
    (bytes; K, M, G: 2^10, …). GPUs that no degree names share the samples, so ``data`` alone is data
    parallelism. With ``tables`` the GPUs of a stage divide the features of embedding tables among them, as
    many as that allows, while other layers stay as they are: the hybrid of DLRM (arXiv:1906.00091).

    A file says for how many ``gpus`` it is; else they must be given. ``batch``: samples of an iteration, by
    default the file's, or the model's for each data-parallel GPU. `InputError`: words that are unknown or
    given twice, numbers that are none, and strategies that do not fit the model or the GPUs.

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
    """Arguments of `uniform`, and whether there are ``tables``."""
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
    """Layouts of the tables that can be split, each by as many GPUs of its stage as its features allow."""
    tables = [
        layer
        for layer in model.layers
        if layer.operator == "embedding" and layer.parameters > 0 and layer.split == "column"
    ]
    if not tables:
        allowed = f"for models with embeddings, {model.name} has none"
        raise InputError(f"strategy: tables given; allowed: {allowed}")
    if gpus % pipeline:
        return {}  # `uniform` refuses the degree of the pipeline
    stage = gpus // pipeline
    tensor = [max(n for n in range(1, min(stage, t.features) + 1) if stage % n == 0) for t in tables]
    return {t.name: LayerLayout(stage // n, n) for t, n in zip(tables, tensor, strict=True)}


#: Fields of a strategy that its file has as they are.
_OPTIONS = ("zero", "bucket", "recompute", "selective", "sequence", "overlap", "interleave")
FORMAT: Literal["wavefabric strategy"] = "wavefabric strategy"
VERSION: Literal[1] = 1

#: A layer's layout, with the keys of `wavefabric.training.strategies.strategy.LayerLayout`.
LayoutTable = make_table("LayoutTable", **fields_of(LayerLayout))
#: A strategy, with the keys of `Strategy`; ``data``, ``tensor``, ``expert`` of all layers but ``layers``.
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
    """A strategy as JSON text, a key and a layer a line.

    ::

        {"format": "wavefabric strategy", "version": 1, "model": "ncf", "gpus": 8, "batch": 8192,
         "data": 8, "tensor": 1, "expert": 1, "microbatches": 1, "stages": [],
         "zero": 0, "bucket": 0.0, "recompute": false, "selective": false, "sequence": false,
         "overlap": false, "interleave": 1,
         "layers": {
          "user factors": {"data": 1, "tensor": 8, "expert": 1}}}

    ``expert`` counts for layers that have experts. ``stages`` are the layers at which the second and later
    stages of the pipeline begin, each the first of its block. ``model`` is for the reader.
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
    """The layout of most layers, with the expert degree of most of those with experts."""
    pairs = list(zip(model.layers, strategy.layouts, strict=True))
    plain = Counter((layout.data, layout.tensor) for _, layout in pairs).most_common(1)[0][0]
    experts = Counter(layout.expert for layer, layout in pairs if layer.experts)
    expert = experts.most_common(1)[0][0] if experts else 1
    return LayerLayout(*plain, expert)


def from_json(text: str, model: ModelGraph, batch: int | None = None) -> Strategy:
    """The strategy that JSON text describes (see `to_json`); ``batch`` replaces the text's.

    `InputError` in one line: the key, what was given, what is allowed.
    """
    content = parse_json(text, "strategy")
    if not isinstance(content, dict):
        raise InputError("strategy: no JSON object given; allowed: one with gpus, batch and data")
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
    """Stage of each layer, from the layers at which the later stages begin."""
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
    """A strategy from a JSON file, for ``gpus`` GPUs if given; ``batch`` replaces the file's.

    `InputError` in one line, which names the file and the key.
    """
    text = read_text(path, "strategy")
    with naming(path):
        strategy = from_json(text, model, batch)
        if gpus not in (None, strategy.gpus):
            raise InputError(f"gpus: {gpus} given; allowed: {strategy.gpus}, for which the strategy is")
    return strategy


def save_strategy(path: str | Path, model: ModelGraph, strategy: Strategy, force: bool = False) -> Path:
    """Write a strategy to a JSON file, whole or not at all; `force` replaces a file that is there.

    `InputError` if it exists (without `force`), is a folder, or cannot be written.
    """
    return write_text(path, to_json(model, strategy), "strategy", force)

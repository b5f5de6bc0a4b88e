"""Strategies as JSON files, which the search writes: degrees, layers that differ, where stages begin."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from wavefabric.errors import InputError, show
from wavefabric.fabric.io.tables import FabricFileTable
from wavefabric.files.faults import checked
from wavefabric.files.input import naming, parse_json, read_text
from wavefabric.files.output import write_text
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, check_strategy, mixed_layouts

FORMAT: Literal["wavefabric strategy"] = "wavefabric strategy"
VERSION: Literal[1] = 1

_Whole = Annotated[StrictInt, Field(ge=1, lt=2**53)]


class LayoutTable(FabricFileTable):
    """A layer's layout, with the keys of `wavefabric.training.strategies.strategy.LayerLayout`."""

    data: _Whole
    tensor: _Whole = 1
    expert: _Whole = 1


class StrategyTable(LayoutTable):
    """A strategy, with the keys of `Strategy`; ``data``, ``tensor``, ``expert`` of all layers but ``layers``.

    ``stages`` names the layers at which pipeline stages begin, but for the first stage.
    """

    format: Literal["wavefabric strategy"] = FORMAT
    version: Literal[1] = VERSION
    model: StrictStr = ""
    gpus: _Whole
    batch: _Whole
    microbatches: _Whole = 1
    stages: list[StrictStr] = Field(default_factory=list)
    sharded: StrictBool = False
    bucket: Annotated[float, Field(ge=0, lt=1e15, strict=True)] = 0.0
    recompute: StrictBool = False
    layers: dict[StrictStr, LayoutTable] = Field(default_factory=dict)


def to_json(model: ModelGraph, strategy: Strategy) -> str:
    """A strategy as JSON text, a key and a layer a line.

    ::

        {"format": "wavefabric strategy", "version": 1, "model": "ncf", "gpus": 8, "batch": 8192,
         "data": 8, "tensor": 1, "expert": 1, "microbatches": 1, "stages": [],
         "sharded": false, "bucket": 0.0, "recompute": false,
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
    values |= {"sharded": strategy.sharded, "bucket": float(strategy.bucket), "recompute": strategy.recompute}
    lines = [f"  {_dump(key)}: {_dump(value)}," for key, value in values.items()]
    others = ",\n".join(
        f"    {_dump(layer.name)}: {_dump(vars(layout))}"
        for layer, layout in zip(model.layers, strategy.layouts, strict=True)
        if layout != common.of(layer)
    )
    closing = ['  "layers": {', others, "  }", "}"] if others else ['  "layers": {}', "}"]
    return "\n".join(["{", *lines, *closing]) + "\n"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _common(model: ModelGraph, strategy: Strategy) -> LayerLayout:
    """The layout of most layers, with the expert degree of most of those with experts."""
    pairs = list(zip(model.layers, strategy.layouts, strict=True))
    plain = Counter((layout.data, layout.tensor) for _, layout in pairs).most_common(1)[0][0]
    experts = Counter(layout.expert for layer, layout in pairs if layer.experts)
    expert = experts.most_common(1)[0][0] if experts else 1
    return LayerLayout(*plain, expert)


def from_json(text: str, model: ModelGraph, batch: int | None = None) -> Strategy:
    """The strategy that JSON text describes (see `to_json`); ``batch`` replaces the text's.

    Raises
    ------
    InputError
        In one line: the key, what was given, what is allowed.
    """
    content = parse_json(text, "strategy")
    if not isinstance(content, dict):
        raise InputError("strategy: no JSON object given; allowed: one with gpus, batch and data")
    table = checked(StrategyTable, content)
    own = {name: LayerLayout(**vars(layout)) for name, layout in table.layers.items()}
    layouts = mixed_layouts(model, LayerLayout(table.data, table.tensor, table.expert), own)
    stage = _stage(model, table.stages)
    if table.gpus % (stage[-1] + 1):
        raise InputError(
            f"stages: {stage[-1]} given, of {stage[-1] + 1} stages in all; "
            f"allowed: numbers of stages that divide {table.gpus}, the GPUs"
        )
    strategy = Strategy(
        table.gpus,
        table.batch if batch is None else batch,
        table.microbatches,
        stage,
        layouts,
        table.sharded,
        table.bucket,
        table.recompute,
    )
    check_strategy(model, strategy)
    return strategy


def _stage(model: ModelGraph, names: Sequence[str]) -> tuple[int, ...]:
    """Stage of each layer, from the layers at which the later stages begin."""
    allowed = {model.layers[block[0]].name for block in model.blocks[1:]}
    last = 0
    for name in names:
        if name not in allowed or model.index[name] <= last:
            actual = f"stages: {show(name)} given"
            raise InputError(
                f"{actual}; allowed: first layers of blocks of {model.name}, in order, not the first"
            )
        last = model.index[name]
    begins = [model.index[name] for name in names]
    return tuple(sum(n >= begin for begin in begins) for n in range(len(model.layers)))


def load_strategy(
    path: str | Path, model: ModelGraph, gpus: int | None = None, *, batch: int | None = None
) -> Strategy:
    """A strategy from a JSON file, for ``gpus`` GPUs if given; ``batch`` replaces the file's.

    Raises
    ------
    InputError
        In one line, which names the file and the key.
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

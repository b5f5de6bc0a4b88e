"""Random changes of a strategy: every strategy that a file may hold is some changes away from every other.

But for three bounds that keep simulations short: microbatches up to `MOST_MICROBATCHES` a stage, buckets of
`BUCKETS`, and stages and layouts that `check_strategy` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import gcd
from random import Random

from wavefabric.errors import InputError
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.search.chain_costs import divisors, layouts_of, part_of
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, check_strategy, cut_stages

#: Microbatches that are tried for each stage of the pipeline.
MOST_MICROBATCHES = 8
#: B of buckets that are tried.
BUCKETS = (0.0, *(float(2**power) for power in range(20, 31)))


class StrategyMoves:
    """Changes of strategies of one model and one number of GPUs; the batch stays.

    Kinds, each with how often it is proposed: a layout for one layer, for one block, for all blocks equal to
    one, for all layers; number of stages; place of one cut; microbatches; sharded; recomputed; bucket.
    """

    def __init__(self, model: ModelGraph, gpus: int):
        self.model, self.gpus = model, gpus
        self.blocks = model.blocks
        parts = [part_of(model, block) for block in self.blocks]
        #: For each block the layers of all blocks equal to it.
        self.equal = [
            tuple(n for other, block in zip(parts, self.blocks, strict=True) if other == part for n in block)
            for part in parts
        ]
        self.pipelines = [p for p in divisors(gpus) if p <= len(self.blocks)]
        self.cut = lru_cache(maxsize=None)(lambda stages: cut_stages(model, stages))
        layers = range(len(model.layers))
        self.kinds: dict[Callable[[Strategy, Random], Strategy | None], float] = {
            self._layouts(lambda random: [random.choice(layers)]): 2.0,
            self._layouts(lambda random: random.choice(self.blocks)): 2.0,
            self._layouts(lambda random: random.choice(self.equal)): 3.0,
            self._layouts(lambda random: layers): 2.0,
            self._pipeline: 2.0,
            self._boundary: 1.0,
            _microbatches: 1.0,
            lambda strategy, _: replace(strategy, sharded=not strategy.sharded): 1.0,
            lambda strategy, _: replace(strategy, recompute=not strategy.recompute): 0.5,
            lambda strategy, random: replace(strategy, bucket=random.choice(BUCKETS)): 1.0,
        }

    def propose(self, strategy: Strategy, random: Random) -> Strategy | None:
        """Another strategy, one change away; None where the change drawn is impossible."""
        kind = random.choices(list(self.kinds), list(self.kinds.values()))[0]
        changed = kind(strategy, random)
        if changed is None or changed == strategy:
            return None
        try:
            check_strategy(self.model, changed)
        except InputError:
            return None
        return changed

    def _layouts(self, drawn: Callable[[Random], Sequence[int]]) -> Callable[..., Strategy | None]:
        """Another layout for some layers, and other microbatches where it does not allow those there are."""

        def change(strategy: Strategy, random: Random) -> Strategy | None:
            numbers = drawn(random)
            layers = [self.model.layers[n] for n in numbers]
            every = layouts_of(layers, strategy.stage_gpus)
            choices = [layout for layout in every if strategy.batch % layout.data == 0]
            if not choices:
                return None
            layout, layouts = random.choice(choices), list(strategy.layouts)
            for n, layer in zip(numbers, layers, strict=True):
                layouts[n] = layout.of(layer)
            changed = replace(strategy, layouts=tuple(layouts))
            allowed = strategy.microbatches in _allowed_microbatches(changed)
            return changed if allowed else _microbatches(changed, random)

        return change

    def _pipeline(self, strategy: Strategy, random: Random) -> Strategy | None:
        stages = random.choice(self.pipelines)
        if stages == strategy.stages:
            return None
        gpus = self.gpus // stages
        layouts = tuple(_fitted(layout, gpus) for layout in strategy.layouts)
        changed = replace(strategy, stage=self.cut(stages), layouts=layouts)
        return _microbatches(changed, random)

    def _boundary(self, strategy: Strategy, random: Random) -> Strategy | None:
        """One cut between stages moved by one block."""
        stages = [strategy.stage[block[0]] for block in self.blocks]
        cuts = [k for k in range(1, len(stages)) if stages[k] != stages[k - 1]]
        if not cuts:
            return None
        cut, later = random.choice(cuts), random.random() < 0.5
        position = cut if later else cut - 1
        if stages.count(stages[position]) == 1:
            return None
        stages[position] = stages[cut - 1] if later else stages[cut]
        stage = [0] * len(strategy.stage)
        for block, own in zip(self.blocks, stages, strict=True):
            for n in block:
                stage[n] = own
        return replace(strategy, stage=tuple(stage))


def _microbatches(strategy: Strategy, random: Random) -> Strategy | None:
    allowed = _allowed_microbatches(strategy)
    return replace(strategy, microbatches=random.choice(allowed)) if allowed else None


def _fitted(layout: LayerLayout, gpus: int) -> LayerLayout:
    """The layout for another number of GPUs, its tensor and expert degrees kept as far as they divide it."""
    tensor = gcd(layout.tensor, gpus)
    return LayerLayout(gpus // tensor, tensor, gcd(layout.expert, gpus // tensor))


def _allowed_microbatches(strategy: Strategy) -> list[int]:
    """Numbers of microbatches in which every layer has whole samples."""
    degrees = {layout.data for layout in strategy.layouts}
    if any(strategy.batch % data for data in degrees):
        return []
    common = gcd(*(strategy.batch // data for data in degrees))
    most = MOST_MICROBATCHES * strategy.stages
    return [n for n in range(1, most + 1) if common % n == 0]

"""Exact dynamic program: the layouts of a chain with the least serial time under a memory limit.

For which cost it is exact: one pipeline stage, a call of its own for each layer's gradients (``bucket`` 0),
and nothing overlapped (`chain_costs.serial_seconds`). Then time is a sum over units and pairs of neighbours
(`chain_costs`), whatever the number of microbatches, sharding or recomputation, which are given. Units are
those of `chain_units`, with one layout each. Overlapped execution hides communication: of the same strategy
it takes no longer, so that the serial time is an upper bound, but another strategy may then be better. The
program's serves as a start for the Markov chain.

Without a limit this is Viterbi's algorithm. With one, it is the shortest path with a constraint: each state
keeps its Pareto front of time and memory (Joksch 1966, doi:10.1016/0022-247X(66)90020-5), and a Lagrangian
relaxation gives bounds by which labels are dropped that no best solution can begin with (Handler and Zang
1980, doi:10.1002/net.3230100403).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from wavefabric.errors import InputError
from wavefabric.training.search.chain_costs import (
    ChainCosts,
    SearchSetting,
    SerialOptions,
    chain_costs,
    chain_strategy,
    chain_units,
    is_chain_of_layers,
)
from wavefabric.training.strategies.strategy import Strategy

#: Rounding that bounds allow for.
_SLACK = 1e-12
#: Steps in which the Lagrangian multiplier is found.
_STEPS = 40


@dataclass(frozen=True)
class ChainResult:
    """The best strategy of a chain, its serial time in s, and B on one GPU."""

    strategy: Strategy
    seconds: float
    memory: float


def best_chain(
    setting: SearchSetting, options: SerialOptions | None = None, memory: float = inf
) -> ChainResult:
    """The layouts with the least serial time of those whose memory is within a limit.

    ``options``: microbatches, sharding, recomputation; all strategies have one stage and no buckets.
    ``memory``: B that a GPU may hold, as `strategy_memory` counts them. Each layer of a chain of layers has a
    layout, without recomputation, which is of blocks; else each block. `InputError` if no layout fits the
    batch, or none the memory.
    """
    options = options or SerialOptions()
    units = chain_units(setting.model, is_chain_of_layers(setting.model) and not options.recompute)
    costs = chain_costs(setting, options, units)
    path, seconds, held = least_time(costs, memory)
    chosen = [layouts[i] for layouts, i in zip(costs.layouts, path, strict=True)]
    return ChainResult(chain_strategy(setting, options, units, chosen), seconds, held)


def least_time(costs: ChainCosts, memory: float = inf) -> tuple[tuple[int, ...], float, float]:
    """The layout of each unit by number, s, and B, of the best that the memory allows; see `best_chain`."""
    path = _relaxed(costs, 1.0, 0.0).path()
    seconds, held = cost_of(costs, path)
    if held <= memory:
        return path, seconds, held
    least = _relaxed(costs, 0.0, 1.0).least
    fits = least <= memory * (1 + _SLACK)
    label = _labels(costs, memory, *_lagrangian(costs, memory)) if fits else None
    if label is None:
        need = f"no layout fits, at least {least / 1e9:.3g} GB needed a GPU"
        raise InputError(f"memory: {memory / 1e9:.3g} GB given; allowed: more ({need})")
    return label.path(), label.seconds, label.total


def cost_of(costs: ChainCosts, path: Sequence[int]) -> tuple[float, float]:
    """s and B of a choice of layouts, by number for each unit."""
    seconds = sum(float(own[i]) for own, i in zip(costs.own, path, strict=True))
    pairs = zip(costs.between, path, path[1:], strict=False)
    seconds += sum(float(between[i, j]) for between, i, j in pairs)
    chosen = [each[i] for each, i in zip(costs.memory, path, strict=True)]
    whole = sorted((size for own in chosen for size in own.whole), reverse=True)[:2]
    held = sum(own.kept for own in chosen) + sum(whole) + max(own.again for own in chosen)
    return seconds, held


@dataclass(frozen=True)
class _Relaxed:
    """Least sum of weighted time and memory from each state to the end, shape (layouts,) for each unit."""

    to_go: list[np.ndarray]  # without the state's own
    node: list[np.ndarray]
    edge: list[np.ndarray]

    @property
    def least(self) -> float:
        return float((self.node[0] + self.to_go[0]).min())

    def path(self) -> tuple[int, ...]:
        """The states of the least sum; the first of equals."""
        state = int((self.node[0] + self.to_go[0]).argmin())
        result = [state]
        for k, edge in enumerate(self.edge):
            state = int((edge[state] + self.node[k + 1] + self.to_go[k + 1]).argmin())
            result.append(state)
        return tuple(result)


def _relaxed(costs: ChainCosts, time: float, memory: float) -> _Relaxed:
    """Time and kept memory added with weights; the other memory is left out, so that it bounds from below."""
    kept = (np.array([own.kept for own in each]) for each in costs.memory)
    node = [time * own + memory * held for own, held in zip(costs.own, kept, strict=True)]
    edge = [time * between for between in costs.between]
    to_go = [np.zeros(len(node[-1]))]
    for k in range(len(edge) - 1, -1, -1):
        to_go.insert(0, (edge[k] + node[k + 1] + to_go[0]).min(axis=1))
    return _Relaxed(to_go, node, edge)


def _lagrangian(costs: ChainCosts, memory: float) -> tuple[float, float]:
    """s a byte at which the relaxed time is bounded best, and s of the best path found that fits."""
    low, high = 0.0, _relaxed(costs, 1.0, 0.0).least / memory if memory > 0 else 1.0
    best, bound, multiplier, growing = inf, -inf, 0.0, True
    for _ in range(_STEPS):
        middle = high if growing else (low + high) / 2
        relaxed = _relaxed(costs, 1.0, middle)
        seconds, held = cost_of(costs, relaxed.path())
        if relaxed.least - middle * memory > bound:
            bound, multiplier = relaxed.least - middle * memory, middle
        if held <= memory:
            best, high, growing = min(best, seconds), middle, False
        else:
            low, high = middle, high * 8 if growing else high
    return multiplier, best


class _Label(NamedTuple):
    """A choice of layouts up to a unit; smaller in all of the first five is better."""

    seconds: float
    kept: float
    first: float  # the largest two of `UnitMemory.whole`
    second: float
    again: float
    layout: int
    before: "_Label | None"

    @property
    def total(self) -> float:
        return self.kept + self.first + self.second + self.again

    def path(self) -> tuple[int, ...]:
        """Layouts of all units."""
        label, result = self, [self.layout]
        while label.before is not None:
            label = label.before
            result.append(label.layout)
        return tuple(reversed(result))


def _labels(costs: ChainCosts, memory: float, multiplier: float, most: float) -> _Label | None:
    """The best label at the end whose memory fits; ``most``: s that some solution is known to take."""
    limit, latest = memory * (1 + _SLACK), most * (1 + _SLACK)
    fast, light = _relaxed(costs, 1.0, 0.0), _relaxed(costs, 0.0, 1.0)
    mixed = _relaxed(costs, 1.0, multiplier)
    start = _Label(0.0, 0.0, 0.0, 0.0, 0.0, -1, None)
    fronts: list[list[_Label]] = [[start]]
    for k in range(len(costs.units)):
        fronts_next = []
        for j, own in enumerate(costs.memory[k]):
            node = float(costs.own[k][j])
            grown = []
            for label in (label for front in fronts for label in front):
                edge = float(costs.between[k - 1][label.layout, j]) if k else 0.0
                first, second = sorted((label.first, label.second, *own.whole), reverse=True)[:2]
                again, before = max(label.again, own.again), label if k else None
                new = _Label(
                    label.seconds + edge + node, label.kept + own.kept, first, second, again, j, before
                )
                priced = new.seconds + multiplier * (new.kept - memory) + mixed.to_go[k][j]
                if (
                    new.total + light.to_go[k][j] <= limit
                    and new.seconds + fast.to_go[k][j] <= latest
                    and priced <= latest
                ):
                    grown.append(new)
            fronts_next.append(_pareto(grown))
        fronts = fronts_next
    return min([label for front in fronts for label in front], key=lambda label: label[:5], default=None)


def _pareto(labels: Iterable[_Label]) -> list[_Label]:
    """Labels that no other is at least as good as in everything; the first of equals."""
    front: list[_Label] = []
    for label in sorted(labels, key=lambda label: label[:5]):
        # Earlier ones took no longer: only their memory is to be compared.
        if not any(all(a <= b for a, b in zip(other[1:5], label[1:5], strict=True)) for other in front):
            front.append(label)
    return front

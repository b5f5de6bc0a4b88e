"""A model as a chain of units, whose layers give their outputs to their own unit or the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from wavefabric.training.models.graph import Layer, ModelGraph
from wavefabric.training.strategies.strategy import LayerLayout

Unit = tuple[int, ...]


def chain_units(model: ModelGraph, by_layer: bool = False) -> tuple[Unit, ...]:
    """Consecutive layers, by number, such that outputs go no further than to the next unit.

    Units are blocks, or single layers with ``by_layer``; those that an output passes over are joined with
    the one that takes it, so that any model is a chain, of one unit at worst.
    """
    atoms = [(n,) for n in range(len(model.layers))] if by_layer else list(model.blocks)
    position = [number for number, atom in enumerate(atoms) for _ in atom]
    # An output of atom i that atom j takes joins atoms i + 1 to j; joining moves no output further.
    joined = [False] * len(atoms)  # to the atom before
    for producer, consumers in enumerate(model.consumers):
        for consumer in consumers:
            for between in range(position[producer] + 2, position[consumer] + 1):
                joined[between] = True
    units: list[Unit] = []
    for atom, with_last in zip(atoms, joined, strict=True):
        before = units.pop() if with_last else ()
        units.append(before + tuple(atom))
    return tuple(units)


def is_chain_of_layers(model: ModelGraph) -> bool:
    """Whether each layer takes the output of the one before alone."""
    pairs = zip(model.layers, model.layers[1:], strict=False)
    return not model.layers[0].inputs and all(b.inputs == (a.name,) for a, b in pairs)


def boundary(model: ModelGraph, unit: Unit, following: Unit) -> tuple[Unit, Unit]:
    """Layers of a unit whose outputs the next one takes; all that take these, with their other inputs there.

    Experts with no input of their own unit are sent the model's input, so that these inputs count.
    """
    givers = {n for n in unit if any(consumer in following for consumer in model.consumers[n])}
    takers = {consumer for n in givers for consumer in model.consumers[n]}
    inputs = {model.index[name] for n in takers for name in model.layers[n].inputs}
    chosen = givers | takers | inputs
    return tuple(n for n in unit if n in chosen), tuple(n for n in following if n in chosen)


def part_of(model: ModelGraph, numbers: Sequence[int]) -> ModelGraph:
    """Some layers as a model of their own, with plain names: equal parts of a model are equal.

    What they take from other layers is given to them like the model's input.
    """
    names = {model.layers[n].name: str(position) for position, n in enumerate(numbers)}
    # Blocks of one name that are apart stay two when what is between them is left out.
    block_of = {n: number for number, block in enumerate(model.blocks) for n in block}
    blocks: dict[int, str] = {}
    layers = []
    for n in numbers:
        layer = model.layers[n]
        inputs = tuple(names[name] for name in layer.inputs if name in names)
        block = blocks.setdefault(block_of[n], str(len(blocks))) if layer.block else ""
        layers.append(replace(layer, name=names[layer.name], inputs=inputs, block=block))
    return ModelGraph("part", tuple(layers), optimizer=model.optimizer)


def layouts_of(layers: Sequence[Layer], gpus: int) -> list[LayerLayout]:
    """Layouts of so many GPUs that some layers may have together: data, tensor and expert degrees."""
    experts = gcd(*(layer.experts for layer in layers))
    return [
        LayerLayout(gpus // tensor, tensor, expert)
        for tensor in divisors(gpus)
        for expert in (divisors(gcd(experts, gpus // tensor)) if experts else (1,))
    ]


def divisors(number: int) -> list[int]:
    """All of them, the least first."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})

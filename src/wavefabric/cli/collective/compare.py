"""`collective cost --algorithms`: schedules of several algorithms for one collective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from wavefabric.cli.collective.algorithm import AlgorithmOptions, build_by_name, grid_of, refusal
from wavefabric.cli.collective.cost_table import Costed
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.fabric import AnyFabric

#: Options that not all algorithms have.
_SPECIAL = ("radix", "grid", "pieces")


def compared(
    text: str,
    words: list[str] | None,
    options: AlgorithmOptions,
    fabric: AnyFabric,
    leave_out: Callable[[str, str], None],
) -> dict[str, Costed]:
    """Schedules by what was given; ``all`` stands for every algorithm that does this collective.

    Those of them that refuse the ranks or options are told to `leave_out`, with the reason.
    """
    from wavefabric.collectives.registry import ALGORITHMS

    if not words or len(words) != 1:
        given = " ".join(words) if words else "nothing"
        raise InputError(f"COLLECTIVE: {given} given with --algorithms; allowed: one, such as all-reduce")
    listed = [word.strip() for word in text.split(",")]
    chosen: dict[str, tuple[str, AlgorithmOptions]] = {}
    for word in _expanded(listed, words[0], options, fabric, leave_out):
        name, colon, number = word.partition(":")
        if name not in ALGORITHMS:
            raise InputError(f"--algorithms: {name or text} given; allowed: all, {', '.join(ALGORITHMS)}")
        if word in chosen:
            raise InputError(f"--algorithms: {word} given twice; allowed: each once")
        chosen[word] = name, _numbered(_usable(name, options), name, word, number if colon else None)
    for option in _SPECIAL:
        value = getattr(options, option)
        if f"--{option}" in options.given() and all(getattr(o, option) != value for _, o in chosen.values()):
            raise InputError(f"--{option}: {value} given; allowed: with an algorithm that has a use for it")
    pipelined = any(own.parts > 1 for _, own in chosen.values())
    costed = {}
    for word, (name, own) in chosen.items():
        schedule = build_by_name(name, words[0], own, fabric)
        grid = grid_of(name, schedule.ranks, fabric) if own.grid is None else None
        # Whether a tree is pipelined is said where others are.
        tree = name in ("tree", "double-tree", "binomial") and pipelined and own.parts == 1
        costed[word] = Costed(schedule, f"{word}, pieces 1" if tree else word, grid)
    return costed


def _numbered(own: AlgorithmOptions, name: str, word: str, number: str | None) -> AlgorithmOptions:
    """Options with the radix or the pieces that stand behind the colon."""
    from wavefabric.collectives.registry import ALGORITHMS

    if number is None:
        return own
    option = next((o for o in ("radix", "pieces") if o in ALGORITHMS[name].options), None)
    if option is None or not (number.isascii() and number.isdigit() and len(number) < 7):
        allowed = "a radix or pieces" if option else f"no number, {name} has no radix and no pieces"
        raise InputError(f"--algorithms: {word} given; allowed: {allowed} behind the colon")
    return replace(own, **{option: int(number)})


def _usable(name: str, options: AlgorithmOptions) -> AlgorithmOptions:
    """Options that an algorithm has a use for; the others are meant for those that it is compared with."""
    from wavefabric.collectives.registry import ALGORITHMS

    defaults = {field.name: field.default for field in fields(options)}
    unused = [option for option in _SPECIAL if option not in ALGORITHMS[name].options]
    return replace(options, **{option: defaults[option] for option in unused})


def _expanded(
    listed: list[str],
    collective: str,
    options: AlgorithmOptions,
    fabric: AnyFabric,
    leave_out: Callable[[str, str], None],
) -> list[str]:
    """A list of algorithms with ``all`` spelt out."""
    from wavefabric.collectives.registry import ALGORITHMS

    if "all" not in listed:
        return listed
    able = [name for name, algorithm in ALGORITHMS.items() if collective in algorithm.collectives]
    if not able:
        every = dict.fromkeys(c for algorithm in ALGORITHMS.values() for c in algorithm.collectives)
        raise InputError(f"COLLECTIVE: {collective[:60]} given; allowed: {', '.join(every)}")
    ranks = options.ranks or fabric.ranks
    reasons = {
        name: refusal(name, collective, ranks, _usable(name, options), fabric)
        for name in able
        if name not in listed
    }
    accepted = [name for name, why in reasons.items() if why is None]
    refused = {name: why for name, why in reasons.items() if why is not None}
    for name, why in refused.items():
        leave_out(name, why)
    if not accepted and len(listed) == 1:
        raise InputError(f"--algorithms: all given; {next(iter(refused.values()))}")
    at = listed.index("all")
    return [*listed[:at], *accepted, *listed[at + 1 :]]

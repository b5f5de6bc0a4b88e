"""Candidates of a tuning with their predicted times, and which of them are worth measuring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from wavefabric.collectives import Schedule
from wavefabric.collectives.plans.plan import PROTOCOLS
from wavefabric.collectives.tuning import Choice, TimedChoice
from wavefabric.execution.tune_candidates import elements_of
from wavefabric.fabric import AnyFabric
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.planning import plan_circuits

#: Candidates by collective operation and bytes.
Rows: TypeAlias = dict[tuple[str, int], list[TimedChoice]]


def predict(
    found: Mapping[str, Iterator[tuple[Choice, Schedule]]],
    sizes: Sequence[int],
    fabric: AnyFabric | None,
    model: str,
) -> tuple[Rows, str]:
    """All candidates, with their times if there is a fabric, and the model that gave these.

    Of the model of kernels a candidate for each of their protocols, of others one that names none.
    """
    rows: Rows = {(collective, size): [] for collective in found for size in sizes}
    # A fabric that says nothing of kernels is refused by the model.
    kernels = fabric.kernels if isinstance(fabric, Fabric) and model == "kernel" else None
    for collective, schedules in found.items():
        for choice, schedule in schedules:
            for protocol in PROTOCOLS if kernels else ("auto",):
                times: Sequence[float | None] = [None] * len(sizes)
                if fabric is not None:
                    options = {"protocol": protocol, "graph": True} if kernels else {}
                    times, model = _times(schedule, sizes, fabric, model, options)
                for size, time in zip(sizes, times, strict=True):
                    rows[collective, size].append(TimedChoice(replace(choice, protocol=protocol), time))
            del schedule  # before the next is built
    if kernels is not None:
        rows = {key: _launched(row, kernels.issue * 1e6) for key, row in rows.items()}
    return rows, model


def _launched(row: list[TimedChoice], issue: float) -> list[TimedChoice]:
    """What GPUs take where a host needs so many µs to launch a call; of equals the least for GPUs first."""
    return [replace(each, predicted_us=max(each.us, issue)) for each in sorted(row, key=rounded)]


def rounded(each: TimedChoice) -> float:
    """The time that decides, with which what is equal but for round-off is equal."""
    return float(f"{each.us:.9g}")


def _times(
    schedule: Schedule, sizes: Sequence[int], fabric: AnyFabric, model: str, options: dict[str, Any]
) -> tuple[list[float], str]:
    """Predicted times in µs of rising sizes, and the model that gave them."""
    costed = list(sizes)
    if isinstance(fabric, PhotonicFabric):
        # Circuits do not depend on bytes, so that time grows in proportion between two sizes.
        options, costed = {"plan": plan_circuits(schedule, fabric)}, [sizes[0], sizes[-1]]
    elements = elements_of(schedule.ranks)
    costs = [cost(schedule, fabric, size / elements, model, **options) for size in costed]
    return np.interp(sizes, costed, [each.seconds * 1e6 for each in costs]).tolist(), costs[0].model


def promising(rows: Rows, within: float) -> dict[tuple[str, int], set[Choice]]:
    """What is not predicted to take more than so many times the fastest, or not predicted at all."""
    return {
        key: {
            each.choice
            for each in row
            if each.predicted_us is None or each.us <= within * min(e.us for e in row)
        }
        for key, row in rows.items()
    }


def plain(choice: Choice) -> Choice:
    """The same without a protocol."""
    return replace(choice, protocol="auto")


def of_protocols(row: Sequence[TimedChoice], protocols: Sequence[str]) -> list[TimedChoice]:
    """Every algorithm of predicted candidates with each protocol of a transport.

    Predictions that name no protocol are of what a transport does by itself, and of copies.
    """
    known = {each.choice: each.predicted_us for each in row}
    made = []
    for choice in dict.fromkeys(map(plain, known)):
        by_itself = known.get(choice)
        for protocol in protocols:
            own = replace(choice, protocol=protocol)
            made.append(TimedChoice(own, known.get(own, by_itself if protocol == "copies" else None)))
    return made


def is_promising(choice: Choice, row: Sequence[TimedChoice], chosen: set[Choice]) -> bool:
    """Whether a candidate is among those chosen; where its protocol is not predicted, its algorithm."""
    if any(each.choice == choice for each in row):
        return choice in chosen
    return plain(choice) in map(plain, chosen)

"""`--order` of the commands of `wavefabric collective`: which GPU is which rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.fabric import AnyFabric

Order = Annotated[
    str | None,
    typer.Option("--order", help="GPU of rank 0, 1, …, such as 0,2,1,3; or auto: look for a better one."),
]
#: Said where ranks are GPUs in order, and another order might take less time.
NOTE = "rank r is GPU r; --order auto looks for a better one"


def check_order(text: str | None, place: AnyFabric) -> tuple[int, ...] | None:
    """Numbers of ``--order``; None without the option, and for ``auto``.

    Raises
    ------
    InputError
        For other text, GPUs that are not there or named twice, or a photonic fabric.
    """
    from wavefabric.fabric import PhotonicFabric
    from wavefabric.fabric.rank_order import reordered

    if text is None:
        return None
    if isinstance(place, PhotonicFabric):
        given = f"{text[:60]} given with photonic {place.name}"
        raise InputError(f"--order: {given}; allowed: with electrical ones, rank r is tile r here")
    if text == "auto":
        return None
    words = text.split(",")
    if not all(w.isascii() and w.isdigit() and len(w) < 7 for w in words):
        raise InputError(f"--order: {text[:60]} given; allowed: auto, or GPUs with a comma between")
    numbers = tuple(map(int, words))
    try:
        reordered(place, numbers)
    except InputError as error:
        raise InputError(f"--{error}") from None
    return numbers


def placed(
    text: str | None,
    schedule: Schedule,
    place: AnyFabric,
    element_bytes: float,
    model: str = "auto",
    seed: int = 0,
) -> tuple[AnyFabric, tuple[int, ...] | None]:
    """The fabric with its GPUs in the order of ranks, and that order; None where ranks are GPUs in order.

    Raises
    ------
    InputError
    """
    from wavefabric.fabric import Fabric
    from wavefabric.fabric.rank_order import best_order, reordered

    numbers = check_order(text, place)
    if text is None or not isinstance(place, Fabric):
        return place, None
    if numbers is None:
        numbers = best_order(schedule, place, element_bytes, model=model, seed=seed)
    elif len(numbers) < schedule.ranks:
        given = f"{len(numbers)} GPUs given for the {schedule.ranks} ranks of {schedule.name}"
        raise InputError(f"--order: {given}; allowed: a GPU for each rank")
    return reordered(place, numbers), numbers[: schedule.ranks]


def may_matter(schedules: Sequence[Schedule], place: AnyFabric) -> bool:
    """Whether in another order one of the schedules might take less time."""
    from wavefabric.fabric.rank_order import depends_on_pair

    return any(each.communication_rounds for each in schedules) and depends_on_pair(place)


def words(order: tuple[int, ...]) -> str:
    """An order as ``--order`` takes it."""
    return ",".join(map(str, order))

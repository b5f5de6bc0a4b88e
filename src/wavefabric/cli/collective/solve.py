"""Links and messages as the solvers of `collective make` take them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavefabric.cli.collective import source
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule


def links_of(fabric: Any):
    """Chunks a round over each link of GPUs that are joined directly, the slowest link carrying one.

    Raises
    ------
    InputError
        If no GPU is linked to another directly.

    Notes
    -----
    Links to switches are left out: they are shared in ways that rounds of chunks do not describe.
    """
    from wavefabric.collectives.synthesis.problem import Links

    number = {name: r for r, name in enumerate(fabric.gpus)}
    width: dict[tuple[int, int], float] = {}
    for link in fabric.links:
        if link.source in number and link.target in number:
            at = number[link.source], number[link.target]
            width[at] = width.get(at, 0.0) + link.bandwidth
    if not width:
        raise InputError(
            f"--fabric: {fabric.name} has switches alone; allowed: GPUs that are linked directly"
        )
    least = min(width.values())
    return Links(fabric.ranks, {at: max(1, int(w / least + 1e-9)) for at, w in width.items()})


def greedy_schedule(
    collective: str | None, shape: source.Shape, messages: Path | None, lasers: int | None, seed: int
) -> Schedule:
    """The schedule of a list of messages.

    Raises
    ------
    InputError
    """
    from wavefabric.collectives import verify
    from wavefabric.collectives.arguments import MOST_RANKS
    from wavefabric.collectives.builders.messages import greedy

    if collective is not None:
        raise InputError(f"COLLECTIVE: {collective} given with greedy; allowed: --messages FILE instead")
    if messages is None:
        raise InputError("--messages: none given with greedy; allowed: a JSON list of [src, dst, elements]")
    extra = [name for name in shape.given() if name != "--ranks"]
    if extra:
        raise InputError(f"{extra[0]}: given with greedy; allowed: --ranks, --messages, --lasers, --seed")
    wanted = read_messages(messages)
    ranks = shape.ranks or 1 + max((max(src, dst) for src, dst, _ in wanted), default=0)
    if ranks > MOST_RANKS:
        raise InputError(f"--ranks: {ranks} given; allowed: 1 to {MOST_RANKS}")
    schedule = greedy(ranks, wanted, 1 if lasers is None else lasers, seed)
    verify(schedule)
    return schedule


def read_messages(path: Path) -> list[tuple[int, int, int]]:
    """Messages of a JSON file.

    Raises
    ------
    InputError
        Naming the first that is none.
    """
    content = source.read_json(path, "--messages")
    if not isinstance(content, list):
        raise InputError(f"--messages: {path} holds no list; allowed: a JSON list of [src, dst, elements]")
    for number, each in enumerate(content):
        fits = isinstance(each, list) and len(each) == 3
        if not fits or not all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in each):
            shown = str(each)[:40]
            raise InputError(
                f"--messages: {path}[{number}]: {shown} given; allowed: [src, dst, elements], whole, from 0"
            )
    return [(src, dst, elements) for src, dst, elements in content]

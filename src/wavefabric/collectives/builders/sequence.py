"""Join schedules, one after another, into one."""

from collections.abc import Sequence

import numpy as np

from wavefabric.base.errors import ensure
from wavefabric.collectives.schedule import TRANSFER, Holdings, Schedule


def in_sequence(name: str, schedules: Sequence[Schedule], element_bytes: int | None = None) -> Schedule:
    """Return one schedule that has the rounds, chunks and items of all ``schedules``, one after another.

    Buffers of equal name become one buffer, in which the chunks of earlier schedules come first. The
    schedules share no data, so only round numbers order them. `InputError` without schedules, or if their
    numbers of ranks differ.

    Examples
    --------
    >>> from wavefabric.collectives import in_sequence, point_to_point, verify
    >>> both = in_sequence("there and back", [point_to_point("a", 2, [(s, 1 - s, 8)]) for s in (0, 1)])
    >>> verify(both)
    >>> both.transfers[["round", "src", "dst"]].tolist()
    [(0, 0, 1), (1, 1, 0)]
    """
    numbers = sorted({schedule.ranks for schedule in schedules})
    ensure(len(numbers) == 1, "schedules", f"of {numbers} ranks", "one or more of the same number of ranks")
    names = tuple(dict.fromkeys(buffer for schedule in schedules for buffer in schedule.buffers))
    sizes: list[list[np.ndarray]] = [[np.zeros((numbers[0], 0), np.int64)] for _ in names]
    transfers, rounds, items = [np.zeros(0, TRANSFER)], 0, 0
    held: tuple[Holdings, Holdings] = {}, {}
    for schedule in schedules:
        number = np.array([names.index(buffer) for buffer in schedule.buffers])
        first = np.array([sum(part.shape[1] for part in sizes[n]) for n in number])
        rows = schedule.transfers.copy()
        rows["round"] += rounds
        for end in ("src", "dst"):
            buffer = schedule.transfers[f"{end}_buffer"]
            rows[f"{end}_chunk"] += first[buffer]
            rows[f"{end}_buffer"] = number[buffer]
        transfers.append(rows)
        own = schedule.pre, schedule.post
        for part, whole in zip(own, held, strict=True):
            for (rank, b, chunk), (item, mask) in part.items():
                whole[rank, int(number[b]), int(first[b]) + chunk] = items + item, mask
        for n, part in zip(number, schedule.sizes, strict=True):
            sizes[n].append(part)
        rounds += schedule.rounds
        items += 1 + max((item for part in own for item, _ in part.values()), default=-1)
    joined = tuple(np.concatenate(parts, axis=1) for parts in sizes)
    rows = np.concatenate(transfers)
    return Schedule(name, numbers[0], names, joined, rows, *held, element_bytes=element_bytes)

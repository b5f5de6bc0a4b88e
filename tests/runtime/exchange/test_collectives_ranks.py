"""Every algorithm for every collective operation, run between ranks: exactly the right data."""

from dataclasses import replace

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives import TRANSFER, Schedule, verify
from wavefabric.collectives.builders.messages import greedy
from wavefabric.collectives.conditions import COLLECTIVES, ROOTED
from wavefabric.collectives.registry import ALGORITHMS, build, why_refused
from wavefabric.fabric.execution.timed_schedule import count_wrong, fill


def _everything(ranks):
    """All that the registry accepts for so many ranks: radix 2 and 4, 1 and 3 pieces, a root other than 0."""
    for algorithm in (each for each in ALGORITHMS.values() if not each.switched):
        for collective in algorithm.collectives:
            for pieces in (1, 3) if "pieces" in algorithm.options else (1,):
                for radix in (2, 4) if "radix" in algorithm.options else (None,):
                    options = {"pieces": pieces, "radix": radix, "root": ranks - 1}
                    if collective not in ROOTED or "root" not in algorithm.options:
                        del options["root"]
                    if why_refused(algorithm.name, collective, ranks, **options) is None:
                        # Uneven shares and pieces.
                        yield build(algorithm.name, collective, ranks, 3 * ranks + 2, **options)


def _wrong(comm, schedule, dtype="float64", protocol="auto"):
    buffers = {
        name: comm.allocate((max(1, int(sizes[comm.rank].sum())),), dtype)
        for name, sizes in zip(schedule.buffers, schedule.sizes, strict=True)
    }
    exchange = comm.bind(schedule, buffers, protocol)
    wrong = 0
    for _ in range(2):
        fill(comm, schedule, buffers, dtype)
        exchange.start()
        exchange.finish()
        wrong += count_wrong(comm, schedule, buffers, dtype)
    return wrong


def _serving(comm):
    """Protocols of a transport that run here: kernels do not where ranks share a GPU."""
    schedule, result = build("direct", "all-gather", comm.size, comm.size), []
    for protocol in comm.protocols:
        try:
            comm.bind(schedule, {"data": comm.allocate((comm.size,), "float32")}, protocol)
            result.append(protocol)
        except InputError as error:
            if "share a GPU" not in str(error):
                raise
    return result


@pytest.mark.parallel([2, 3, 4, 8])
def test_every_algorithm_moves_and_adds_the_right_data(comm):
    result, done = [], set()
    for schedule in _everything(comm.size):
        done.add(schedule.name.split(",")[0])
        for protocol in _serving(comm):
            result.append((schedule.name, protocol, _wrong(comm, schedule, protocol=protocol)))
    assert [each for each in result if each[2]] == []
    for collective in COLLECTIVES:
        assert f"direct {collective}" in done
    if comm.size == 8:
        plain = [name for name, each in ALGORITHMS.items() if not each.switched]
        missing = [name for name in plain if not any(d.startswith(name) for d in done)]
        assert missing == []


@pytest.mark.parallel([2])
def test_what_switches_add_up_is_refused_where_nothing_else_does_it(comm):
    """In calls too: plain transfers of such a schedule would give wrong sums."""
    if "signals" in comm.protocols:
        return
    for algorithm in ("nvls", "nvls-one-shot"):
        with pytest.raises(InputError, match="has multicasts or reductions by a switch"):
            comm.all_reduce(comm.allocate((8,), "float32"), algorithm=algorithm)


@pytest.mark.parallel([3, 8])
def test_messages_of_a_greedy_schedule_arrive(comm):
    n = comm.size
    # Two of a pair, one within a rank, and more than the lasers of rank 0 in a round.
    messages = (
        [(0, d, 3 + d) for d in range(1, n)] + [(0, 1, 2), (1, 1, 4)] + [(s, 0, 5) for s in range(1, n)]
    )
    schedule = greedy(n, messages, lasers=2)
    verify(schedule)
    assert schedule.rounds > 1
    assert _wrong(comm, schedule, "int32") == 0


def _own(ranks):
    """Neighbours' sums, by hand: pre and post that no named operation has.

    Items are wider on even ranks; two messages of a pair share a round; one of two chunks; two hops.
    """
    sizes = np.tile([2, 3, 2, 3, 2, 3], (ranks, 1))
    data, space = 0, 1
    rows = []
    for r in range(ranks):
        to = (r + 1) % ranks
        # Chunks 0 and 1 into space for what comes, in one transfer and again in two.
        rows.append((0, r, to, data, 0, space, 0, 2, False))
        rows += [(0, r, to, data, c, space, 2 + c, 1, False) for c in (0, 1)]
        # Added where chunks 2 and 3 hold a copy of one's own, made in the same round.
        rows.append((0, r, r, data, 0, data, 2, 2, False))
        rows.append((1, r, r, space, 0, data, 2, 2, True))
        # What came goes one rank further, on top of what that rank has of the same item.
        rows.append((1, r, to, space, 2, space, 4, 2, False))
    sums = {}
    held = {}
    for r in range(ranks):
        for c in (0, 1):
            held[r, data, c] = c, 1 << r
            sums[r, data, 2 + c] = c, 1 << r | 1 << (r - 1) % ranks
            sums[r, space, 4 + c] = c, 1 << (r - 2) % ranks
    ordered = np.array([(*row, 0) for row in sorted(rows, key=lambda row: row[0])], TRANSFER)
    return Schedule("neighbours", ranks, ("data", "spare"), (sizes, sizes.copy()), ordered, held, sums)


@pytest.mark.parallel([2, 3, 8])
def test_an_operation_of_ones_own(comm):
    schedule = _own(comm.size)
    verify(schedule)
    assert _wrong(comm, schedule, "float32") == 0
    # What is promised and does not come is seen: all of it, on every rank.
    lost = schedule.transfers[~((schedule.transfers["round"] == 1) & schedule.transfers["reduce"])]
    assert _wrong(comm, replace(schedule, transfers=lost), "float32") == 2 * comm.size * 5

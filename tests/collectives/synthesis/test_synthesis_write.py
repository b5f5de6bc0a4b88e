"""Moves written as transfers: places in scratch, and how much is looked at to find them."""

from collections import defaultdict

import pytest

from wavefabric.collectives import layout, verify
from wavefabric.collectives.synthesis.demand import task
from wavefabric.collectives.synthesis.write import ScheduleWriter


class Counting(dict):
    """A dictionary that counts the entries read by iteration."""

    read = 0

    def items(self):
        for each in super().items():
            type(self).read += 1
            yield each


@pytest.mark.parametrize("ranks", [4, 12, 24])
def test_sums_look_at_no_place_twice(ranks, monkeypatch):
    # Every rank's part of every sum arrives in one round: ranks − 2 places in scratch for each of them.
    writer = ScheduleWriter(task(layout("reduce-scatter", ranks, ranks)))
    writer.locations = Counting(writer.locations)
    monkeypatch.setattr(Counting, "read", 0)
    writer.sums([(0, c, s, c) for c in range(ranks) for s in range(ranks) if s != c])
    assert Counting.read <= len(writer.locations)
    assert all(len(slots) == ranks - 2 for slots in writer.slots.values())
    made = writer.schedule()
    verify(made)
    assert made.communication_rounds == 1


def test_scratch_is_used_again_but_not_while_it_is_needed():
    # Two sums of equal size pass through rank 1 on their way to rank 0, which has sums in two rounds.
    writer = ScheduleWriter(task(layout("reduce", 4, 8, 2)))
    writer.sums(
        [(r, c, s, d) for c in range(2) for r, s, d in ((0, 2, 0), (0, 3, 1), (1, 1, 0))],
    )
    verify(writer.schedule())
    writer = ScheduleWriter(task(layout("reduce", 4, 4)))
    writer.sums([(0, 0, 1, 0), (0, 0, 2, 0), (1, 0, 3, 0)])
    sizes = defaultdict(list, writer.slots)
    assert sizes == {0: [4]}
    verify(writer.schedule())

"""Whether powers in a slot are read before others overwrite them, whoever is faster."""

import re
from importlib.resources import files
from itertools import product

import pytest
from order_of_ranks import Event, order

from wavefabric.optics.propagation.kernels.kerr_one_sided_cuda import _SLOTS


def block(calls, ranks, rank):
    """The same block of each rank in calls of so many rounds and tiles, as ``kerr`` of kerr_one_sided.cu."""
    others = [other for other in range(ranks) if other != rank]
    before, events = [0, 0], []

    def send(tile, turn):
        events.append(Event(("write", tile, turn), announces=((turn, tile),)))

    def receive(tile, turn):
        events.append(Event(("read", tile, turn), waits=tuple((other, (turn, tile)) for other in others)))

    for rounds, tiles in calls:
        for _ in range(tiles):
            for turn in range(rounds):
                send(before[turn], turn)
                receive(before[turn], turn)
                before[turn] += 1
    return events


def faults(calls, ranks, slots):
    """Pairs of a tile that is read, and one whose powers may be in its slot instead."""
    programs = [block(calls, ranks, rank) for rank in range(ranks)]
    before, result = order(programs), []
    for i, (kind, tile, turn) in enumerate(event.what for event in programs[0]):
        if kind == "write":
            continue
        for j, (what, other, other_turn) in enumerate(event.what for event in programs[1]):
            if (what, other_turn, other % slots) != ("write", turn, tile % slots):
                continue
            # What is read, and all before it, was written; all else comes after.
            wanted = before(1, j, 0, i) if other <= tile else before(0, i, 1, j)
            result += [] if wanted else [(tile, other)]
    return result


def calls_of(most):
    """Up to three calls, of one round or two, with up to so many tiles a block."""
    for number in (1, 2, 3):
        yield from product(product((1, 2), range(1, most + 1)), repeat=number)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_no_power_is_overwritten_before_it_is_read(ranks):
    assert not [calls for calls in calls_of(5 if ranks == 2 else 3) if faults(calls, ranks, _SLOTS)]


def test_fewer_slots_are_too_few():
    assert faults([(1, 2)], 2, _SLOTS - 1)


def test_the_kernel_has_as_many_slots():
    text = files("wavefabric.optics.propagation.kernels").joinpath("kerr_one_sided.cu").read_text("utf-8")
    assert re.findall(r"#define SLOTS (\d+)", text) == [str(_SLOTS)]

"""What is in order between ranks that announce and wait, however fast each of them is."""

from typing import Any, NamedTuple


class Event(NamedTuple):
    """Something that a rank does, after what it ``waits`` for: (rank, key) for the next of that key.

    What it ``announces``, by keys, says that all it has done so far is over. ``what`` is for the test.
    """

    what: Any = None
    announces: tuple = ()
    waits: tuple = ()


def order(programs):
    """``before(r, i, s, j)``: whether event i of rank r is certainly over when event j of rank s begins.

    ``programs`` are lists of `Event`, one a rank. AssertionError if they wait for one another for ever.
    """
    ranks = range(len(programs))
    known = [[] for _ in ranks]  # after each event: the last event of each rank that is over
    announced, taken = {}, {}
    going = True
    while going:
        going = False
        for rank in ranks:
            while len(known[rank]) < len(programs[rank]):
                event = programs[rank][len(known[rank])]
                now = list(known[rank][-1]) if known[rank] else [-1] * len(programs)
                positions = [(key, taken.get((rank, *key), 0)) for key in event.waits]
                if any(len(announced.get(key, ())) <= position for key, position in positions):
                    break
                for key, position in positions:
                    now = list(map(max, now, announced[key][position]))
                    taken[rank, *key] = position + 1
                now[rank] = len(known[rank])
                known[rank].append(now)
                for key in event.announces:
                    announced.setdefault((rank, key), []).append(now)
                going = True
    assert list(map(len, known)) == list(map(len, programs)), "ranks wait for one another for ever"
    return lambda r, i, s, j: known[s][j][r] >= i

"""Binomial checkpointing: which states of a run are stored, so that fewest steps are taken again.

Griewank & Walther, "Algorithm 799: revolve", ACM TOMS 26, 19 (2000), doi:10.1145/347837.347846. They hold the
state before the last step in the working arrays. Here the run takes that step too and ends with state l, so a
run of l steps is theirs of l + 1: the states l, l − 1, …, 0 are needed in this order, the first without a step.

In all functions ``states`` counts state 0; a system that makes it anew stores one state less.
"""

import math


def capacity(states: int, repetitions: int) -> int:
    """C(s + r, s): most states of a run, of which s are stored and no step is taken more than r times."""
    return math.comb(states + repetitions, states)


def repetitions(steps: int, states: int) -> int:
    """How often the step that is taken most often is taken, the forward run included.

    ValueError if no state is stored, not even the first.
    """
    if states < 1:
        raise ValueError(f"states: {states} given; allowed: 1 or more")
    number, reached = 0, 1
    while reached <= steps:
        number += 1
        reached = reached * (states + number) // number
    return number


def advances(steps: int, states: int) -> int:
    """Least number of steps that are taken in all: those of the forward run, and those taken again.

    t(l + 1, s) of the article, t(l, s) = r l − C(s + r, s + 1). Errors: `repetitions`.
    """
    number = repetitions(steps, states)
    return number * (steps + 1) - math.comb(states + number, states + 1)


def split(steps: int, states: int) -> int:
    """How many steps after a stored state the next one is stored; ``steps`` if there is none to store.

    ``steps`` lie between the stored state and the last one needed, which is in the working arrays at the end;
    ``states`` are those that may be stored, the first one included. Errors: `repetitions`.
    """
    number = repetitions(steps, states)
    if states == 1 or number == 0:
        return steps
    # The latest of the optimal ones: both parts of the run are then within their repetitions.
    return min(capacity(states, number - 1), steps + 1 - capacity(states - 1, number - 1))

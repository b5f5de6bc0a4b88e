"""Binomial checkpointing: which states of a run are stored, so that fewest steps are taken again.

Griewank & Walther, "Algorithm 799: revolve", ACM TOMS 26, 19 (2000), doi:10.1145/347837.347846. There the
state before the last step is still in the working arrays. Here the forward run takes that step too: a run
of l steps needs the states l, l − 1, …, 0 in this order, as one of l + 1 steps does there.

``states`` are those stored, with state 0: one more than the store holds where the system makes that anew.
"""

import math


def capacity(states: int, repetitions: int) -> int:
    """C(s + r, s): most states of a run, of which s are stored and no step is taken more than r times."""
    return math.comb(states + repetitions, states)


def repetitions(steps: int, states: int) -> int:
    """Most times that a step is taken, the forward run included; ValueError if ``states`` is below 1."""
    if states < 1:
        raise ValueError(f"states: {states} given; allowed: 1 or more")
    number, reached = 0, 1
    while reached <= steps:
        number += 1
        reached = reached * (states + number) // number
    return number


def advances(steps: int, states: int) -> int:
    """Least number of steps in all: t(l + 1, s) of the article, with t(l, s) = r l − C(s + r, s + 1)."""
    number = repetitions(steps, states)
    return number * (steps + 1) - math.comb(states + number, states + 1)


def split(steps: int, states: int) -> int:
    """How many of ``steps`` steps to take from one of ``states`` states to the next to store; all if none."""
    number = repetitions(steps, states)
    if states == 1 or number == 0:
        return steps
    # The most of all optimal numbers: both parts of the run stay within their repetitions.
    return min(capacity(states, number - 1), steps + 1 - capacity(states - 1, number - 1))

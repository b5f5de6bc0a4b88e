"""Plans with one small fault each."""

from dataclasses import replace
from itertools import pairwise

from wavefabric.collectives.plans.moves import Move
from wavefabric.collectives.plans.order import Wait


def with_code(plan, rank, code):
    """The plan with other instructions for one rank."""
    codes = tuple(code if r == rank else other for r, other in enumerate(plan.instructions))
    return replace(plan, instructions=codes)


def _replaced(plan, rank, at, *instead, length=1):
    code = plan.instructions[rank]
    return with_code(plan, rank, (*code[:at], *instead, *code[at + length :]))


def dropped(plan):
    """Without one signal, wait or barrier, or one rank of a wait: (what, plan)."""
    for rank, code in enumerate(plan.instructions):
        for at, each in enumerate(code):
            if isinstance(each, Move):
                continue
            yield type(each).__name__, _replaced(plan, rank, at)
            if isinstance(each, Wait) and len(each.signals) > 1:
                for k in range(len(each.signals)):
                    fewer = each.signals[:k] + each.signals[k + 1 :]
                    yield "Wait", _replaced(plan, rank, at, Wait(fewer))


def renumbered(plan, by):
    """One wait for a signal before, or after, the one that it is for."""
    for rank, code in enumerate(plan.instructions):
        for at, each in enumerate(code):
            for k, (peer, number) in enumerate(each.signals if isinstance(each, Wait) else ()):
                signals = (*each.signals[:k], (peer, number + by), *each.signals[k + 1 :])
                yield _replaced(plan, rank, at, Wait(signals))


def swapped(plan):
    """Two neighbouring instructions the other way round: (which, plan)."""
    for rank, code in enumerate(plan.instructions):
        for at, (first, second) in enumerate(pairwise(code)):
            what = type(first).__name__, type(second).__name__
            yield what, _replaced(plan, rank, at, second, first, length=2)


def misplaced(plan):
    """One address of a move instead another of the same size that a move of the rank uses: (end, plan)."""
    for rank, code in enumerate(plan.instructions):
        moves = [each for each in code if isinstance(each, Move)]
        for at, each in enumerate(code):
            if not isinstance(each, Move):
                continue
            others = [p for m in moves if m.size == each.size for p in (*m.sources, *m.targets)]
            for end in ("sources", "targets"):
                addresses = getattr(each, end)
                allowed = [p for p in others if p not in addresses and (end == "targets" or p.rank == rank)]
                for k, other in enumerate(dict.fromkeys(allowed)):
                    k %= len(addresses)
                    wrong = replace(each, **{end: (*addresses[:k], other, *addresses[k + 1 :])})
                    yield end, _replaced(plan, rank, at, wrong)

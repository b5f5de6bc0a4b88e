"""Search for a strategy, with its progress; Ctrl-C takes the best so far."""

from __future__ import annotations

import sys
from math import isfinite
from typing import Any

from wavefabric.cli.common.options import check_range, check_seed, option, options
from wavefabric.cli.common.progress import make_progress
from wavefabric.training.strategies.strategy import Strategy
from wavefabric.units import time_words

#: What --strategy may say instead of a strategy, and the method of `search` that it means.
METHODS = {"search": "markov", "chain": "chain"}


@options("Search")
class TrainSearchOptions:
    """Of ``--strategy search``."""

    proposals: int | None = option("Strategies that the Markov chains try at most. \\[default: 600]")
    seconds: float | None = option("End after so long with the best so far.")
    seed: int = option("Of random choices.", default=0)

    def check(self) -> None:
        """Refuse numbers out of range."""
        check_range("--proposals", self.proposals, 1, 10**9, "1 to 1e9")
        check_range("--seconds", self.seconds, 1e-3, 1e9, "0.001 to 1e9")
        check_seed(self.seed)


def search_strategy(
    setting: tuple[Any, ...], method: str, options: TrainSearchOptions, **limits: Any
) -> Strategy:
    """The best strategy found; `setting`: the first arguments of `search`, `limits`: its others.

    After Ctrl-C it is the best so far, which a line on stderr says.
    """
    from wavefabric.training.search.search import PROPOSALS, search

    proposals = options.proposals or PROPOSALS
    bar = make_progress()
    bar.start(proposals if method == "search" else None, f"search, {setting[1]} GPUs")

    def tell(made: int, limit: int, best: float) -> None:
        bar.update(made, f"best {time_words(best)}" if isfinite(best) else "none fits yet")

    try:
        result = search(
            *setting, method=METHODS[method], proposals=proposals, seed=options.seed, seconds=options.seconds,
            progress=tell, **limits,
        )  # fmt: skip
    finally:
        bar.finish()
    if result.stopped == "interrupted":
        line = f"search interrupted after {result.tried} strategies; the best of them is taken"
        print(f"wavefabric: {line}", file=sys.stderr)
    return result.strategy

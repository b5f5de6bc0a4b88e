"""What was aimed at for eight GPUs, beside what was measured and what the paper has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wavefabric.bench.suite.collective_sections import COLLECTIVES, found_of, lines_of
from wavefabric.bench.suite.fibre_over_ranks import PAPER
from wavefabric.bench.suite.found import FoundResults, Section
from wavefabric.bench.suite.markdown import table
from wavefabric.bench.suite.sections import FIBRE, ONE_DIMENSION
from wavefabric.execution.report import transport_name

#: Ranks that the goals are of.
RANKS = 8
#: Largest T_K/T_1 by what ranks exchange; least efficiency of weak scaling; largest error of a prediction.
FIBRE_GOALS = {"factored": 1.2, "dense": 2.0}
WEAK_GOAL, PREDICTION_GOAL = 0.9, 0.15
_MISSING = "missing", "-"


def goals(results: FoundResults) -> Section:
    """A row a goal; what was not measured is missing."""
    paper = ", ".join(
        f"{transport_name(transport)} {ratio}" for (transport, k), ratio in PAPER.items() if k == RANKS
    )
    rows = []
    for form, most in FIBRE_GOALS.items():
        what = f"fibre: T_{RANKS}/T_1, 15 modes a GPU, {form}"
        rows.append(
            [what, f"at most {most}", *_fibre(results, form, most), paper if form == "dense" else "-"]
        )
    weak = f"ultrasound: weak scaling at {RANKS}, local, cut along z"
    rows.append([weak, f"{WEAK_GOAL:.0%} or more", *_weak(results), "-"])
    predicted = f"collective operations on {RANKS} GPUs: predicted over measured"
    rows.append([predicted, f"within {PREDICTION_GOAL:.0%}", *_predictions(results), "-"])
    return Section("Goals", [table(("<", "goal", "measured", "reached", "<the paper, K80"), rows)])


def _fibre(results: FoundResults, form: str, most: float) -> tuple[str, str]:
    ratios = {
        case["transport"]: case["ratio"]
        for each in results.of(*FIBRE, file="fibre-scaling.json")
        for case in each.result["cases"]
        if each.ranks == RANKS and case["exchange"] == form
    }
    return _verdict(ratios, "{:.2f}", lambda ratio: ratio <= most)


def _weak(results: FoundResults) -> tuple[str, str]:
    shares = {
        case["transport"]: case["efficiency"]
        for each in results.of(*ONE_DIMENSION, file="ultrasound-scaling.json")
        for case in each.result["cases"]
        if (each.ranks, case["kind"], case["form"]) == (RANKS, "weak", "local") and case["efficiency"]
    }
    return _verdict(shares, "{:.0%}", lambda share: share >= WEAK_GOAL)


def _verdict(values: dict[str, float], words: str, reached: Any) -> tuple[str, str]:
    """Values by transport, and the transports that reach the goal."""
    if not values:
        return _MISSING
    shown = ", ".join(f"{transport_name(name)} {words.format(value)}" for name, value in values.items())
    good = [transport_name(name) for name, value in values.items() if reached(value)]
    return shown, ", ".join(good) if good else "no"


def _predictions(results: FoundResults) -> tuple[str, str]:
    ratios = list(_ratios(results))
    if not ratios:
        return _MISSING
    good = sum(abs(ratio - 1) <= PREDICTION_GOAL for ratio in ratios)
    return f"{min(ratios):.2f} to {max(ratios):.2f}", f"{good} of {len(ratios)} times"


def _ratios(results: FoundResults) -> Iterable[float]:
    """Of all sizes and algorithms, of the transport that the fabric was measured over."""
    for collective in COLLECTIVES:
        found = [each for each in found_of(results, collective) if each.ranks == RANKS]
        for line in lines_of(found, collective):
            if line.way.startswith(transport_name("p2p")):
                yield from (row["ratio"] for row in line.rows if row["ratio"] is not None)

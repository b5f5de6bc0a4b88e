"""Draws a plan: one bar per candidate, divided into compute, pack and exposed exchange."""

from pathlib import Path

from wavefabric.base.results.figure_style import BLUE, GREEN, ORANGE
from wavefabric.fabric.execution import report
from wavefabric.fabric.planner.plan import RunPlan

#: Longest bar drawn, as a multiple of the fastest candidate's time.
_LONGEST = 6
_PARTS = {"compute": BLUE, "pack": GREEN, "exposed": ORANGE}


def draw_plan(plan: RunPlan, path: str | Path, most: int = 12) -> Path:
    """Draw the ``most`` fastest candidates of a plan and the selected one; save as PNG, SVG or PDF."""
    shown = [c for number, c in enumerate(plan.candidates) if number < most or c is plan.choice]
    with report.figure(path, (9.6, 1.3 + 0.34 * len(shown)), "x") as figure:
        axes = figure.subplots()
        # Cut off the longest bars, so that the others stay readable.
        most_ms = min(_LONGEST * shown[0].seconds.step, max(c.seconds.step for c in shown)) * 1e3
        for y, candidate in enumerate(shown):
            left = 0.0
            for part, colour in _PARTS.items():
                ms = 1e3 * getattr(candidate.seconds, part)
                axes.barh(y, ms, left=left, color=colour, height=0.62)
                left += ms
            shown_ms = f"{left:.3g}" if left < 1000 else f"{left:.0f}"
            axes.text(min(left, most_ms), y, f"  {shown_ms}", va="center", fontsize=9)
        names = [f"► {c.words}" if c is plan.choice else c.words for c in shown]
        report.name_bars(axes, names)
        axes.set(xlabel="time of one step (ms)", xlim=(0, 1.12 * most_ms))
        axes.set_title(f"{plan.problem}\n{plan.ranks} × {plan.device} on {plan.fabric}", fontsize=10)
        for part, colour in _PARTS.items():
            axes.barh(0, 0, color=colour, label=part)
        figure.legend(loc="outside lower right", ncols=3, fontsize=9)
    return Path(path)

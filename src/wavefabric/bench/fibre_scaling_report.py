"""Tables and the picture of ``fibre-scaling``, beside the figures of Brehler et al."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wavefabric.bench.exchange_report import unavailable
from wavefabric.execution.ranks import named

#: T_K/T_1 of table 1 (15 modes a GPU, K80 GPUs), by transport and GPUs.
PAPER = {("mpi", 2): 1.38, ("mpi", 8): 6.76, ("nccl", 2): 1.51, ("nccl", 8): 4.26}
#: The split code on one GPU over the unsplit one.
PAPER_SPLIT = 1.085


def table(result: dict[str, Any]) -> list:
    """The result of `wavefabric.bench.fibre_scaling.run` as one `rich.table.Table` for each form."""
    from rich.table import Table

    found: list = []
    ranks = result["ranks"]
    for form in result["forms"]:
        name = form["exchange"]
        lines = Table(
            title=f"{ranks} x {result['modes_per_rank']} modes x {result['samples']} samples, {name}",
            caption="only communication: powers of the others travel but are not used; exposed: more than "
            "the same work takes with nothing sent; paper: Brehler et al., table 1",
        )
        lines.add_column("", no_wrap=True)
        for heading in ("ms a step", "T_K/T_1", "paper", "only comm. ms", "T_K/T_1", "exposed ms"):
            lines.add_column(heading, justify="right")
        lines.add_row("one rank, unsplit", f"{form['one_rank']['ms']:.3g}", "1.00", "1.00", *["-"] * 3)
        for key, words, paper in (
            ("split", "one rank, split code", f"{PAPER_SPLIT:.3f}" if name == "dense" else "-"),
            ("no_exchange", f"{ranks} ranks, nothing sent", "-"),
        ):
            line = form[key]
            lines.add_row(words, f"{line['ms']:.3g}", f"{line['ratio']:.2f}", paper, *["-"] * 3)
        for case in result["cases"]:
            if case["exchange"] != name:
                continue
            bare = case["only_communication"]
            lines.add_row(
                f"{ranks} ranks, {named(case['transport'])}",
                f"{case['ms']:.3g}",
                f"{case['ratio']:.2f}",
                "-" if case["paper"] is None else f"{case['paper']:.2f}",
                f"{bare['ms']:.3g}",
                f"{bare['ratio']:.2f}",
                f"{case['exposed_ms']:.3g}",
            )
        found.append(lines)
    return found + unavailable(result)


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw T_K/T_1 of each transport and form, and what is left without the work of the others.

    Parameters
    ----------
    result : dict
        From `wavefabric.bench.fibre_scaling.run`.
    path : str or Path
        Image file; its ending picks the format.

    Returns
    -------
    list of Path
        What was written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import BLUE, GREY, ORANGE, STYLE

    ranks, bars = result["ranks"], []
    for form in result["forms"]:
        name = form["exchange"]
        bars.append((f"nothing sent, {name}", form["no_exchange"]["ratio"], None, BLUE))
        bars += [
            (f"{named(c['transport'])}, {name}", c["ratio"], c["only_communication"]["ratio"], BLUE)
            for c in result["cases"]
            if c["exchange"] == name
        ]
    bars += [
        (f"{named(transport)}, paper", ratio, None, GREY)
        for (transport, count), ratio in PAPER.items()
        if count == ranks
    ]
    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid.axis": "x"}):
        figure = Figure(figsize=(8.4, 1.4 + 0.36 * len(bars)), layout="constrained")
        axes = figure.subplots()
        for y, (_, whole, bare, colour) in enumerate(bars):
            axes.barh(y, whole, color=colour, height=0.62)
            if bare is not None:
                axes.barh(y, bare, color=ORANGE, height=0.3)
            axes.text(max(whole, bare or 0), y, f"  {whole:.2f}", va="center", fontsize=9)
        axes.axvline(1, color=GREY, linewidth=0.8)
        axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"time of a step on {ranks} ranks / on one, {result['modes_per_rank']} modes a rank")
        for colour, label in ((BLUE, "all"), (ORANGE, "only communication")):
            axes.barh(0, 0, color=colour, label=label)
        figure.legend(loc="outside lower right", ncols=2, fontsize=9)
        figure.savefig(path, dpi=160)
    return [Path(path)]

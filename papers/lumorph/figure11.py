"""Figure 11 of the LUMORPH paper: throughput of training on 4 to 256 GPUs, from simulated iterations.

Models, batches and calls are those of its authors' logs. A: plain A100s, nothing from the paper's results. B:
GPUs so fast that an iteration without communication takes as long as in the paper.
"""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.data import SIZES
from papers.lumorph.logged import LOGGED, NAMES, SETTING, Logged
from papers.lumorph.panels import rank_axis
from papers.lumorph.training import LOOKS, gain, paper_gain
from wavefabric.base.results.figure_style import GREY
from wavefabric.fabric.execution import report
from wavefabric.training.iteration.engine import POLICIES


def figure(say=lambda line: None) -> dict[str, Any]:
    """Throughput of three models by fabric and number of GPUs, by the authors' logs.

    Returns
    -------
    dict
        ``setting``; ``series``: for each model, setting (``"A"``, ``"B"``) and series ``x`` (GPUs), ``ours``
        and ``paper`` (samples/s), ``seconds`` (of an iteration), ``bound_by``; ``speeds``: for each model
        and size how many A100s a GPU of B is; ``gains``: time with the ring over that with the better
        LUMORPH, by A and B (``ours``), the paper, and in closed form if no call were hidden; ``calls`` of
        gradients and their ``bytes``; ``policies``: gains of B by order of calls; ``orders``: sizes at which
        two series of B are in another order than in the paper, with both throughputs of the first over that
        of the second, less one.
    """
    result: dict[str, Any] = {"benchmark": "figure11"}
    keys = "series", "speeds", "gains", "orders", "policies"
    series, speeds, gains, orders, policies = ([] for _ in keys)
    for one in LOGGED:
        say(NAMES[one.figure])
        faster = {ranks: one.speed(ranks) for ranks in SIZES}
        results: dict[str, dict[str, dict[int, float]]] = {"A": {}, "B": {}}
        for setting, times in results.items():
            for name in LOOKS:
                runs = [one.iteration(n, name, faster[n] if setting == "B" else 1.0) for n in SIZES]
                times[name] = {ranks: run.seconds for ranks, run in zip(SIZES, runs, strict=True)}
                series.append({
                    "panel": one.figure,
                    "setting": setting,
                    "series": name,
                    "x": list(SIZES),
                    "ours": [run.samples_per_second for run in runs],
                    "paper": [one.case.paper(name, ranks) for ranks in SIZES],
                    "seconds": [run.seconds for run in runs],
                    "bound_by": [run.bound_by for run in runs],
                })  # fmt: skip
        for ranks in SIZES:
            plain, scaled = ({name: of[ranks] for name, of in results[key].items()} for key in "AB")
            speeds.append({"panel": one.figure, "ranks": ranks, "speed": faster[ranks]})
            gains.append({
                "panel": one.figure,
                "ranks": ranks,
                "A": gain(plain),
                "ours": gain(scaled),
                "paper": paper_gain(one.case, ranks),
                "none hidden": one.behind_all(ranks),
                **_gradients(one, ranks),
            })  # fmt: skip
            orders += _differences(one, ranks, scaled)
        policies += [_policy(one, policy, faster[SIZES[-1]]) for policy in POLICIES]
    result |= dict(zip(keys, (series, speeds, gains, orders, policies), strict=True))
    result["setting"] = [dict(zip(("what", "assumed", "from"), row, strict=True)) for row in SETTING]
    return result


def _gradients(one: Logged, ranks: int) -> dict[str, float]:
    """How many calls reduce gradients, and B in them."""
    count, nbytes = one.iteration(ranks, "Zero").communication()["gradients"]
    return {"calls": count, "bytes": nbytes}


def _policy(one: Logged, policy: str, speed: float) -> dict[str, Any]:
    ranks = SIZES[-1]
    times = {name: one.iteration(ranks, name, speed, policy).seconds for name in LOOKS}
    return {"panel": one.figure, "policy": policy, "ranks": ranks, "ours": gain(times)}


def _differences(one: Logged, ranks: int, times: dict[str, float]) -> list[dict[str, Any]]:
    """Pairs of series that are in another order than in the paper."""
    result = []
    for a, b in combinations(LOOKS, 2):
        theirs = one.case.paper(a, ranks) / one.case.paper(b, ranks) - 1
        ours = times[b] / times[a] - 1
        if theirs * ours < 0 and abs(ours) > 1e-9:
            result.append({
                "panel": one.figure,
                "ranks": ranks,
                "first": a,
                "second": b,
                "ours": ours,
                "paper": theirs,
            })  # fmt: skip
    return result


def table(result: dict[str, Any]) -> list:
    """The setting, throughputs, gains, orders of calls, and where the order of series differs."""
    setting = report.table(
        "setting, by the authors' logs", ("<what", "<assumed", "<from"), SETTING, wrap=True
    )
    return [setting, *_throughputs(result), _gains(result), _policies(result), _orders(result)]


def _throughputs(result: dict[str, Any]) -> list:
    tables = []
    for case in LOGGED:
        plain, mine = (_series(result, case.figure, setting) for setting in "AB")
        speeds = [one["speed"] for one in result["speeds"] if one["panel"] == case.figure]
        rows = []
        for number, ranks in enumerate(SIZES):
            zero = {who: mine["Zero"][who][number] for who in ("ours", "paper")}
            rows.append((
                str(ranks),
                *(f"{1e3 * one['Zero']['seconds'][number]:.1f}" for one in (plain, mine)),
                f"{speeds[number]:.2f}",
                *(
                    f"{mine[name][who][number] / zero[who]:.3f}"
                    for name in ("Lumorph-4", "Lumorph-2", "Ring")
                    for who in ("ours", "paper")
                ),
                mine["Ring"]["bound_by"][number].partition(",")[0],
            ))  # fmt: skip
        headings = ("GPUs", "A free, ms", "B and paper", "A100s of B")
        headings += ("L4/free, B", "paper", "L2/free", "paper", "ring/free", "paper", "<the ring is bound by")
        tables.append(report.table(f"figure 11, {NAMES[case.figure]}: throughput", headings, rows))
    return tables


def _series(result: dict[str, Any], panel: str, setting: str) -> dict[str, Any]:
    """Series of a panel in setting A or B, by name."""
    chosen = (one for one in result["series"] if (one["panel"], one["setting"]) == (panel, setting))
    return {one["series"]: one for one in chosen}


def _gains(result: dict[str, Any]) -> Any:
    rows = []
    for one in result["gains"]:
        if one["ranks"] >= 64:
            values = (f"{one[key]:.2f}" for key in ("A", "ours", "paper"))
            apart, size = one["ours"] / one["paper"] - 1, f"{one['bytes'] / 2**20:.1f}"
            head = NAMES[one["panel"]], str(one["ranks"]), str(one["calls"]), size
            rows.append((*head, *values, f"{apart:+.0%}", f"{one['none hidden']:.3f}"))
    headings = ("<model", "GPUs", "calls", "MiB", "A", "B", "paper", "B to paper", "none hidden")
    return report.table("throughput of the better LUMORPH algorithm over the ring's", headings, rows)


def _policies(result: dict[str, Any]) -> Any:
    rows = []
    for case in LOGGED:
        mine = {one["policy"]: one["ours"] for one in result["policies"] if one["panel"] == case.figure}
        theirs = paper_gain(case.case, SIZES[-1])
        rows.append((NAMES[case.figure], *(f"{mine[policy]:.2f}" for policy in POLICIES), f"{theirs:.2f}"))
    title = f"the same by order of calls, B, {SIZES[-1]} GPUs"
    return report.table(title, ("<model", *POLICIES, "paper"), rows)


def _orders(result: dict[str, Any]) -> Any:
    rows = [
        (
            *(one["panel"], str(one["ranks"]), f"{one['first']} over {one['second']}"),
            *(f"{one[who]:+.2%}" for who in ("ours", "paper")),
        )
        for one in result["orders"]
    ]
    return report.table(
        "pairs of series in another order than in the paper",
        ("<model", "GPUs", "<throughput of", "ours", "paper"),
        rows,
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """Throughput over that of free communication, and over the ring's; a column for each model."""
    style = {"axes.titlesize": 10.5, "legend.fontsize": 8.5}
    with report.figure(path, (12.6, 6.8), style=style) as drawn:
        rows = drawn.subplots(2, len(LOGGED), sharex=True, sharey="row")
        for column, case in enumerate(LOGGED):
            plain, mine = (_series(result, case.figure, setting) for setting in "AB")
            for row, reference in zip(rows, ("Zero", "Ring"), strict=True):
                _over(row[column], mine, reference, plain)
            rows[0][column].set_title(f"Figure 11, {NAMES[case.figure]}")
            rank_axis(rows[1][column], list(SIZES))
            rows[0][column].set_ylim(0.25, 1.05)
            rows[1][column].set_yscale("log", base=2)
            rows[1][column].set_yticks((1, 1.25, 1.5, 2, 3), ("1", "1.25", "1.5", "2", "3"))
            rows[1][column].minorticks_off()
        rows[0][0].set_ylabel("throughput over that of\nfree communication")
        rows[1][0].set_ylabel("throughput over the ring's")
        rows[0][0].legend(handles=_handles(), loc="lower left")
        note = "lines: B, free time as the paper's\ndotted: A, plain A100s\nmarkers: the paper"
        rows[0][1].text(
            0.02, 0.04, note, transform=rows[0][1].transAxes, ha="left", va="bottom", fontsize=8.5, color=GREY
        )
        drawn.get_layout_engine().set(w_pad=0.09, h_pad=0.09)


def _over(axes, mine: dict[str, Any], reference: str, plain: dict[str, Any]) -> None:
    """All series over one of them: B as lines, A dotted, the paper's as markers."""
    for name, one in mine.items():
        colour, marker = LOOKS[name]
        drawn = (
            (mine, "ours", "-", {"linewidth": 1.6}),
            (plain, "ours", ":", {"linewidth": 1.1}),
            (mine, "paper", marker, {"markersize": 5, "linestyle": "none"}),
        )
        for of, who, look, sizes in drawn:
            values = [y / z for y, z in zip(of[name][who], of[reference][who], strict=True)]
            axes.plot(one["x"], values, look, color=colour, zorder=3 + (who == "paper"), **sizes)


def _handles() -> list[Any]:
    from matplotlib.lines import Line2D

    labels = {"Zero": "free communication", "Ring": "Ring, ideal switch"}
    return [
        Line2D([], [], color=c, marker=m, markersize=5, linewidth=1.6, label=labels.get(name, name))
        for name, (c, m) in LOOKS.items()
    ]


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)

"""What the ratios of figure 11 of the LUMORPH paper depend on: batch, GPU speed, division of gradients."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, log2_ticks, run
from papers.lumorph.closed_forms import MIB, PAPER
from papers.lumorph.data import SIZES
from papers.lumorph.training import CASES, LOOKS, Case, fabric, gain, loaded, paper_gain
from papers.lumorph.training_calls import DIVISIONS, Division
from wavefabric.base.results.figure_style import BAND, BLUE, GREY, INK, ORANGE
from wavefabric.fabric.execution import report
from wavefabric.training.iteration.engine import run as schedule
from wavefabric.training.iteration.task_graph import TaskGraph

RANKS = 256
#: Batches over the setting's, and speeds over an A100's.
BATCHES = (0.25, 0.5, 1, 2, 4, 8, 16)
SPEEDS = (0.25, 0.5, 1, 2, 4)
_COLOURS = ("#9ecae1", "#5aa5d6", "#2878b5", "#0f4f8a", "#062f5b")
_MOST_BATCH = 2**17


def figure(say=lambda line: None) -> dict[str, Any]:
    """Ratios at 256 GPUs over batch and speed, by division of gradients, and what the paper's numbers imply.

    Returns
    -------
    dict
        ``grid``: ratio for each model, batch and speed. ``divisions``: for each way to divide gradients the
        all-reduces, their bytes and the ratio at the recipe's batch; ``batch_for_ratio`` and
        ``speed_for_ratio``: where the paper's ratio comes out with the other as in the setting (null:
        nowhere in the range); ``batch``: with which both the paper's ratio and its throughput with free
        communication do, if the GPU's speed is scaled to that (``speed``, ``flops``: FLOP/s), and
        ``closed_form``, the same from one equation (not of NCF); ``fit``: throughput over that of free
        communication with that batch, beside the paper's, and its ``mean_distance``;
        ``setting_distance``: the same at the recipe's batch. ``implied``: calls and bytes a sample from the
        paper's throughputs alone.
    """
    grid, divided = [], []
    for case in CASES:
        say(f"{case.label}, batch and speed")
        grid += _grid(case)
    for division in DIVISIONS:
        say(division.label)
        divided.append(_study(division))
    implied = [_bert_implies(), _ncf_implies()]
    return {"benchmark": "sensitivity", "grid": grid, "divisions": divided, "implied": implied}


# --- Simulation ---------------------------------------------------------------------------------------------


def _times(
    graph: TaskGraph, ranks: int, scale: float, series: tuple[str, ...] = tuple(LOOKS)
) -> dict[str, float]:
    """s of an iteration by series, computation taking `scale` times as long."""
    scaled = replace(graph, seconds=[scale * seconds for seconds in graph.seconds])
    return {name: schedule(scaled, fabric(name, ranks)).seconds for name in series}


_GAIN = ("Ring", "Lumorph-2", "Lumorph-4")


def _grid(case: Case) -> list[dict[str, Any]]:
    model, result = loaded(case.model), []
    for factor in BATCHES:
        graph = Division(case.figure, "", lambda: model).tasks(RANKS, round(factor * model.batch))
        for speed in SPEEDS:
            ratio = gain(_times(graph, RANKS, 1 / speed, _GAIN))
            result.append({"panel": case.figure, "batch": factor, "speed": speed, "gain": ratio})
    return result


def _study(division: Division) -> dict[str, Any]:
    case = next(case for case in CASES if case.figure == division.figure)
    model, target = division.make(), paper_gain(case, RANKS)
    graph = division.tasks(RANKS, model.batch)
    reduced = [call for call in graph.call if call is not None and call.purpose == "gradients"]
    sizes = [call.bytes for call in reduced if call.bytes > 0]
    times = _times(graph, RANKS, 1.0)
    result: dict[str, Any] = {
        "panel": case.figure,
        "label": division.label,
        "batch_assumed": model.batch,
        "calls": len(sizes),
        "bytes": sum(sizes),
        "gain": gain(times),
        "paper": target,
    }
    result["speed_for_ratio"] = _crossing(
        lambda speed: gain(_times(graph, RANKS, 1 / speed, _GAIN)), target, 1e-3, 1e3
    )
    # With free communication an iteration with a batch of b takes the paper's b / (samples/s per GPU).
    rate = case.paper("Zero", RANKS) / RANKS
    both = _crossing(lambda batch: 1 / gain(_paced(division, batch, rate)), 1 / target, 1, _MOST_BATCH)
    needed = _crossing(
        lambda batch: 1 / gain(_times(division.tasks(RANKS, round(batch)), RANKS, 1.0, _GAIN)),
        1 / target, 1, 64 * model.batch,
    )  # fmt: skip
    result["batch_for_ratio"] = None if needed is None else round(needed)
    result["batch"] = both
    result["flops"] = 3 * model.flops * rate
    # NCF's largest gradients, of the tables, come last: the equation does not hold.
    if case.figure != "NCF":
        result["closed_form"] = _batch_from_ring(case, sum(sizes), len(sizes), _before_gradients(graph))
    result["setting_distance"] = _mean_distance(
        [_fit(case, division, None, ranks) for ranks in SIZES if ranks >= 32]
    )
    if both is not None:
        pace = both / rate
        nearest = division.tasks(RANKS, max(1, round(both)))
        result["speed"] = _times(nearest, RANKS, 1.0, ("Zero",))["Zero"] / pace
        result["fit"] = [
            {"ranks": ranks} | _fit(case, division, both, ranks) for ranks in SIZES if ranks >= 32
        ]
        result["mean_distance"] = _mean_distance(result["fit"])
    return result


def _paced(
    division: Division, batch: float, rate: float, ranks: int = RANKS, series=_GAIN
) -> dict[str, float]:
    """s of an iteration on GPUs whose free iteration takes batch / rate."""
    graph = division.tasks(ranks, max(1, round(batch)))
    free = _times(graph, ranks, 1.0, ("Zero",))["Zero"]
    return _times(graph, ranks, batch / rate / free, series)


def _fit(case: Case, division: Division, batch: float | None, ranks: int) -> dict[str, Any]:
    """Throughput over that of free communication, ours and the paper's.

    With a batch on GPUs as fast as the paper's are; without one as in the setting.
    """
    if batch is None:
        times = _times(division.tasks(ranks, division.make().batch), ranks, 1.0)
    else:
        times = _paced(division, batch, case.paper("Zero", ranks) / ranks, ranks, tuple(LOOKS))
    return {
        "ours": {name: times["Zero"] / seconds for name, seconds in times.items()},
        "paper": {name: case.paper(name, ranks) / case.paper("Zero", ranks) for name in times},
    }


def _mean_distance(fit: list[dict[str, Any]]) -> float:
    apart = [abs(one["ours"][name] / one["paper"][name] - 1) for one in fit for name in _GAIN]
    return sum(apart) / len(apart)


def _crossing(value, target: float, low: float, high: float) -> float | None:
    """Where a function that never falls or never rises from low to high meets the target; None: nowhere."""
    below, above = value(low) - target, value(high) - target
    if below * above > 0:
        return None
    for _ in range(12):
        middle = exp((log(low) + log(high)) / 2)
        here = value(middle) - target
        if here * below > 0:
            low, below = middle, here
        else:
            high = middle
    return exp((log(low) + log(high)) / 2)


# --- Closed form --------------------------------------------------------------------------------------------


def _before_gradients(graph: TaskGraph) -> float:
    """Share of a free iteration that is over when the first gradient is there."""
    timeline = schedule(graph, fabric("Zero", RANKS))
    calls = [task for task, call in enumerate(graph.call) if call is not None]
    return float(min(timeline.begin[calls])) / timeline.seconds


def _batch_from_ring(case: Case, nbytes: float, calls: int, fraction: float) -> float:
    """Batch with which all-reduces one after the other fill the ring's iteration from the first gradient on.

    b/s_ring = φ b/s_zero + n·2(N − 1)α + 2(N − 1)/N·B/BW, s in samples/s per GPU.
    """
    ring, zero = (case.paper(name, RANKS) / RANKS for name in ("Ring", "Zero"))
    latency = calls * 2 * (RANKS - 1) * PAPER.alpha
    return (latency + _transfer(RANKS) * nbytes) / (1 / ring - fraction / zero)


def _transfer(ranks: int) -> float:
    """s a byte of an all-reduce that sends as little as can be."""
    return 2 * (ranks - 1) / ranks / PAPER.bandwidth


def _bert_implies(fraction: float = 1 / 3) -> dict[str, Any]:
    """Calls and bytes a sample of a GPU from BERT's ring at 128 and 256 GPUs, both filled by all-reduces."""
    case, rows = CASES[0], []
    for ranks in (128, 256):
        ring, zero = (case.paper(name, ranks) / ranks for name in ("Ring", "Zero"))
        rows.append((2 * (ranks - 1) * PAPER.alpha, _transfer(ranks), 1 / ring - fraction / zero))
    calls, nbytes = _solved(*rows)
    return {"panel": "Bert", "calls": calls, "bytes": nbytes, "mean": nbytes / calls}


def _ncf_implies() -> dict[str, Any]:
    """The same from NCF's three algorithms at 256 GPUs, of which all transfer is exposed.

    Ring less Lumorph-2: n·2α(N − 1 − log₂N·(α + ρ)/α). Lumorph-4 less Lumorph-2: a third of the transfer
    less half of the rounds of Lumorph-2.
    """
    case = CASES[2]
    ring, two, four = (RANKS / case.paper(name, RANKS) for name in _GAIN)
    round_of = PAPER.alpha + PAPER.reconfiguration
    calls = (ring - two) / (2 * (RANKS - 1) * PAPER.alpha - 16 * round_of)
    nbytes = 3 * (four - two + 8 * round_of * calls) / _transfer(RANKS)
    return {"panel": "NCF", "calls": calls, "bytes": nbytes, "mean": nbytes / calls}


def _solved(first: tuple[float, float, float], second: tuple[float, float, float]) -> tuple[float, float]:
    """x and y of two equations a x + b y = c."""
    (a, b, c), (d, e, f) = first, second
    determinant = a * e - b * d
    return (c * e - b * f) / determinant, (a * f - c * d) / determinant


# --- Tables and picture -------------------------------------------------------------------------------------


def table(result: dict[str, Any]) -> list:
    """Ratios, what they need, and how well that agrees."""
    return [_divisions(result), _consistent(result), _grids(result), _implied(result)]


def _or(value: float | None, form: str = ".3g") -> str:
    return "nowhere" if value is None else format(value, form)


def _divisions(result: dict[str, Any]) -> Any:
    rows = [
        (
            *(one["panel"], one["label"], f"{one['calls']}", f"{one['bytes'] / MIB:.0f}"),
            *(f"{one['batch_assumed']:,}", f"{one['gain']:.2f}", f"{one['paper']:.2f}"),
            *(_or(one["batch_for_ratio"]), _or(one["speed_for_ratio"])),
        )
        for one in result["divisions"]
    ]
    return report.table(
        "256 GPUs: time with the ring over that with the better LUMORPH algorithm",
        ("<model", "<a call for", "calls", "MiB", "batch", "ratio", "paper", "batch for it", "speed for it"),
        rows,
        "for it: for the paper's ratio, with the other as in the setting; speed: over an A100. FlexFlow's"
        " models: with the batch of its own scripts",
    )


def _consistent(result: dict[str, Any]) -> Any:
    rows = []
    for one in result["divisions"]:
        words = one["panel"], one["label"], _or(one["batch"])
        words += (f"{one['closed_form']:.3g}" if "closed_form" in one else "",)
        here = f"{one['setting_distance']:.1%}"
        if one["batch"] is None:
            rows.append((*words, "", "", "", here))
            continue
        rows.append((
            *words,
            f"{one['speed']:.2g}",
            f"{one['flops'] / 1e12:.3g}",
            f"{one['mean_distance']:.1%}",
            here,
        ))  # fmt: skip
    return report.table(
        "batch with which both the paper's ratio and its free throughput come out",
        ("<model", "<a call for", "batch", "closed form", "speed", "TFLOP/s", "distance", "with recipe"),
        rows,
        "speed: over an A100 of the setting; distance: mean, from the paper's throughputs over that of free"
        " communication, 32 to 256 GPUs; with recipe: the same at the recipe's batch and speed 1",
    )


def _grids(result: dict[str, Any]) -> Any:
    rows = []
    for case in CASES:
        for speed in SPEEDS:
            mine = {
                one["batch"]: one["gain"]
                for one in result["grid"]
                if (one["panel"], one["speed"]) == (case.figure, speed)
            }
            rows.append((case.label, f"{speed:g}", *(f"{mine[batch]:.2f}" for batch in BATCHES)))
    headings = ("<model", "speed", *(f"batch x {batch:g}" for batch in BATCHES))
    return report.table("ratio by batch and speed", headings, rows)


def _implied(result: dict[str, Any]) -> Any:
    rows = [
        (one["panel"], f"{one['calls']:.3g}", f"{one['bytes'] / 1e6:.3g}", f"{one['mean'] / MIB:.3g}")
        for one in result["implied"]
    ]
    return report.table(
        "what the paper's throughputs alone imply",
        ("<model", "calls a sample", "MB a sample", "mean MiB a call"),
        rows,
        "a sample of a GPU's batch; BERT: ring at 128 and 256 GPUs; NCF: three algorithms at 256",
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """Ratio over batch, a line for each speed; and by division of gradients. The paper's ratio is marked."""
    style = {"axes.titlesize": 10.5, "legend.fontsize": 8.5}
    with report.figure(path, (12.6, 6.8), style=style) as drawn:
        upper, lower = drawn.subfigures(2, 1, height_ratios=(1.35, 1))
        above, below = upper.subplots(1, len(CASES)), lower.subplots(1, len(CASES))
        for axes, case in zip(above, CASES, strict=True):
            _speeds(axes, result, case)
        for axes, case in zip(below, CASES, strict=True):
            _dots(axes, result, case)
        above[0].set_ylabel("time with the ring over that\nwith the better LUMORPH")
        above[2].legend(title="GPU speed", title_fontsize=8.5, loc="upper right")
        drawn.get_layout_engine().set(w_pad=0.09, h_pad=0.09)


def _speeds(axes, result: dict[str, Any], case: Case) -> None:
    model, target = loaded(case.model), paper_gain(case, RANKS)
    for colour, speed in zip(_COLOURS, SPEEDS, strict=True):
        mine = [one for one in result["grid"] if (one["panel"], one["speed"]) == (case.figure, speed)]
        name = "A100" if speed == 1 else f"x {speed:g}"
        x, y = [one["batch"] * model.batch for one in mine], [one["gain"] for one in mine]
        axes.plot(x, y, "-", color=colour, linewidth=2.4 if speed == 1 else 1.4, label=name)
        if speed == 1:
            here = x[BATCHES.index(1)], y[BATCHES.index(1)]
            axes.plot(*here, "o", color=colour, markersize=7, zorder=5)
            axes.annotate(
                "setting", here, (-8, -11), ha="right", textcoords="offset points", fontsize=8.5, color=colour
            )
    axes.axhline(target, color=GREY, linewidth=1.2, linestyle="--")
    axes.text(1.01, target, f"{target:.2f}\npaper", transform=axes.get_yaxis_transform(),
              va="center", fontsize=8.5, color=INK)  # fmt: skip
    batches = [round(batch * model.batch) for batch in BATCHES]
    log2_ticks(axes, batches)
    if batches[0] > 1000:
        axes.set_xticks(batches[::2], [f"{batch // 1024:,}" for batch in batches[::2]])
    axes.set_xlabel(f"{case.sample} a GPU" + (", in 1024" if batches[0] > 1000 else ""))
    axes.set_title(f"{case.label}, {RANKS} GPUs")
    axes.set_yscale("log", base=2)
    ticks = [tick for tick in (1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8) if tick <= 1.01 * axes.get_ylim()[1]]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0.97)


def _dots(axes, result: dict[str, Any], case: Case) -> None:
    """A dot for each division of the gradients, at the recipe's batch; a band of 15 % of the paper's."""
    mine = [one for one in result["divisions"] if one["panel"] == case.figure]
    target = paper_gain(case, RANKS)
    axes.axvspan(target / 1.15, 1.15 * target, color=BAND, zorder=0)
    axes.axvline(target, color=GREY, linewidth=1.2, linestyle="--")
    for row, one in enumerate(mine):
        axes.plot(one["gain"], row, "o", color=BLUE if row == 0 else ORANGE, markersize=7, zorder=4)
        label = f"{one['gain']:.2f}"
        axes.annotate(
            label, (one["gain"], row), (8, 0), textcoords="offset points", va="center", fontsize=8.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85},
        )  # fmt: skip
    short = (("BERT-", ""), ("normalisation", "norm"), (" Transformer", ""))
    names = []
    for one in mine:
        name = one["label"]
        for long, brief in short:
            name = name.replace(long, brief)
        names.append(f"{name} ({one['calls']})")
    axes.set_yticks(range(len(mine)), names, fontsize=8.5)
    axes.set_ylim(len(mine) - 0.5, -0.5)
    axes.set_xlim(0.9, 1.18 * max(one["gain"] for one in mine))
    axes.grid(False, axis="y")
    axes.set_title(f"{case.label.removesuffix('-large')}: a call for each (calls)")
    axes.set_xlabel("ratio; band: paper's and 15 %")


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)

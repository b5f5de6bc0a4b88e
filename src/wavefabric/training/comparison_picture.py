"""Draw the throughput against the number of GPUs for each fabric and collective, and the ratio to rings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from wavefabric.base.results.figure_style import COLOURS, GREY, INK, MARKERS, Axes
from wavefabric.base.units import amount
from wavefabric.fabric.execution import report
from wavefabric.training.compare import Case

#: Line styles, one per fabric; a fifth fabric has the first style again.
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.4)), (0, (6, 1.6, 1.2, 1.6)))


def draw_comparison(path: str | Path, cases: Sequence[Case], title: str) -> Path:
    """Draw the throughput against the number of GPUs, and below it the ratio to rings on an ideal switch.

    Each combination of fabric and collective is a line: the colour shows the collective, the dashes the
    fabric. A grey line shows free communication. If all cases have one number of GPUs, bars replace the
    lines. The file is replaced atomically. Raises `InputError` if the file cannot be written.
    """
    series: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        series.setdefault((case.label, case.collective), []).append(case)
    alone = len({case.gpus for case in cases}) == 1
    size = 8.8, 1.5 + 0.36 * len(cases) if alone else 6.6
    with report.figure(path, size, style={"axes.titlepad": 10, "text.parse_math": False}) as figure:
        if alone:
            _bars(figure.subplots(), cases, title)
        else:
            above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
            _free(above, below, cases)
            _lines(above, below, series)
            _dress(above, below, cases, title)
            figure.align_ylabels([above, below])
    return Path(path)


def _bars(axes: Axes, cases: Sequence[Case], title: str) -> None:
    """Draw the throughput of each fabric and collective as a bar, labelled with its ratio to rings."""
    colours = _colours(case.collective for case in cases)
    rates = [case.iteration.samples_per_second for case in cases]
    several = len({case.label for case in cases}) > 1
    names = [f"{case.collective}, {case.label}" if several else case.collective for case in cases]
    axes.barh(range(len(cases)), rates, color=[colours[case.collective] for case in cases], height=0.66)
    for position, (case, rate) in enumerate(zip(cases, rates, strict=True)):
        words = f" {amount(rate)}, {case.ratio_to_ring:.2f} x ring"
        axes.text(rate, position, words, va="center", fontsize=9)
    report.name_bars(axes, names)
    axes.set_xlim(0, 1.22 * max(rates))
    axes.xaxis.set_major_formatter(lambda value, _: amount(value))
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(_unit(cases))
    axes.set_title(f"{title}; {cases[0].gpus} GPUs" + ("" if several else f" of {cases[0].label}"))


def _colours(collectives: Iterable[str]) -> dict[str, str]:
    """Return a dictionary from each collective to its colour; ``"zero"``, free communication, is grey."""
    names = dict.fromkeys(name for name in collectives if name != "zero")
    return dict(zip(names, cycle(COLOURS), strict=False)) | {"zero": GREY}


def _free(above: Axes, below: Axes, cases: Sequence[Case]) -> None:
    """Draw free communication on the first case's fabric in dotted grey: throughput, and ratio to rings."""
    first = {case.gpus: case for case in reversed(cases) if case.label == cases[0].label}
    counts = sorted(first)
    look: Any = {"color": GREY, "linewidth": 1.1, "linestyle": ":", "zorder": 1.5}
    iterations = {count: first[count].iteration for count in counts}
    rates = [i.samples_per_second * i.seconds / i.free_seconds for i in iterations.values()]
    above.plot(counts, rates, label="free communication", **look)
    below.plot(counts, [first[n].ring.seconds / iterations[n].free_seconds for n in counts], **look)


def _lines(above: Axes, below: Axes, series: dict[tuple[str, str], list[Case]]) -> None:
    labels = list(dict.fromkeys(label for label, _ in series))
    colours = _colours(name for _, name in series)
    for (label, collective), some in series.items():
        if collective == "zero":
            continue  # `_free` draws free communication
        position = labels.index(label)
        look: Any = {
            "color": colours[collective],
            "linewidth": 1.6,
            "linestyle": _DASHES[position % len(_DASHES)],
        }
        look |= {"marker": MARKERS[position % len(MARKERS)], "markersize": 5.5}
        look |= {"markeredgecolor": "white", "markeredgewidth": 0.7}
        points = sorted(some, key=lambda case: case.gpus)
        counts = [case.gpus for case in points]
        words = collective if len(labels) == 1 else f"{collective}, {label}"
        above.plot(counts, [case.iteration.samples_per_second for case in points], label=words, **look)
        below.plot(counts, [case.ratio_to_ring for case in points], **look)


def _dress(above: Axes, below: Axes, cases: Sequence[Case], title: str) -> None:
    """Set the scales, ticks and labels of the axes, the title and the legend."""
    counts = sorted({case.gpus for case in cases})
    for axes in (above, below):
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
    above.set_yscale("log")
    above.yaxis.set_major_formatter(lambda value, _: amount(value))
    above.yaxis.set_minor_formatter(lambda value, _: amount(value) if f"{value:e}"[0] in "25" else "")
    above.tick_params(labelbottom=False)
    labels = list(dict.fromkeys(case.label for case in cases))
    above.set_title(title if len(labels) > 1 else f"{title}; {labels[0]}")
    above.set_ylabel(_unit(cases))
    above.legend(loc="upper left", ncols=1 + (len(above.get_lines()) > 9))
    below.axhline(1.0, color=INK, linewidth=0.8, zorder=1)
    below.set_ylim(bottom=0)
    below.set(xlabel="GPUs", ylabel="ratio to rings on an ideal switch")


def _unit(cases: Sequence[Case]) -> str:
    return "samples/s" if cases[0].iteration.workload else "iterations/s"

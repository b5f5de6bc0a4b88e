"""Tables and the picture of ``ultrasound-step``."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def _size(case: dict[str, Any]) -> str:
    return " x ".join(map(str, case["shape"]))


def table(result: dict[str, Any]) -> list:
    """The result of `wavefabric.bench.ultrasound_step.run` as one `rich.table.Table` for each grid."""
    from rich.table import Table

    bandwidth, tables = result["copy_bytes_per_second"], []
    for case in result["cases"]:
        lines = Table(
            title=f"{_size(case)} {case['dtype']}, {case['field_bytes'] / 2**20:.1f} MiB a field; "
            f"copy {bandwidth / 1e9:.1f} GB/s (read + write)",
            caption="ratio: median of time / bare transforms of the same round; passes: reads or writes of "
            "one real field that the memory could do in that time" + _busy(case["bare"]["scatter"]),
        )
        lines.add_column("", no_wrap=True)
        for heading in ("ms", "best", "transforms", "ratio", "passes", "MiB", "floats/point"):
            lines.add_column(heading, justify="right")
        bare = case["bare"]
        lines.add_row("one bare transform", *_numbers(bare, 1, 1.0))
        for line in case["media"]:
            memory = line["memory"]
            lines.add_row(
                line["name"],
                *_numbers(line, line["transforms"], line["ratio"]),
                f"{memory['bytes'] / 2**20:.0f}",
                f"{memory['floats_per_point']:.1f}",
            )
            if "plain" in line:
                plain = line["plain"]
                lines.add_row("  plain stages", *_numbers(plain, plain["transforms"], plain["ratio"]))
            if "kwave" in line:
                found = line["kwave"]
                name = f"  {found['program']}, {found['ratio']:.2f} x our time"
                lines.add_row(name, *_kwave(found, found["ratio"] * line["ratio"]))
            if line["kwave_elsewhere"]:
                found = line["kwave_elsewhere"]
                times = found.get("to_ours")
                name = f"  {found['program']}" + (f", {times:.2f} x our time" if times else "")
                ratio = times * line["ratio"] if times else None
                lines.add_row(f"{name} (measured elsewhere)", *_kwave(found, ratio))
        tables.append(lines)
    return tables


def _busy(scatter: float) -> str:
    """Other work hits the bare transforms hardest, whose threads wait for each other: ratios are too low."""
    if scatter < 1.25:
        return ""
    return f". Bare transforms took {scatter:.1f} times their best: the machine is busy, ratios mean little"


def _numbers(line: dict[str, Any], transforms: int, ratio: float) -> list[str]:
    return [
        f"{line['ms']:.3g}",
        f"{line['ms_best']:.3g}",
        str(transforms),
        f"{ratio:.2f}",
        f"{line['passes']:.1f}",
    ]


def _kwave(found: dict[str, Any], ratio: float | None) -> list[str]:
    return [
        f"{found['ms']:.3g}" if "ms" in found else "-",
        *["-"] * 2,
        "-" if ratio is None else f"{ratio:.2f}",
        "-",
        f"{found['memory_bytes'] / 2**20:.0f}" if "memory_bytes" in found else "-",
    ]


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw a bar a medium: its transforms, as bare ones take, in one colour and the rest in another.

    Parameters
    ----------
    result : dict
        From `wavefabric.bench.ultrasound_step.run`.
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

    cases = [(case, _bars(case)) for case in result["cases"]]
    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid.axis": "x"}):
        height = sum(1.5 + len(bars) for _, bars in cases)
        figure = Figure(figsize=(8.4, 1.0 + 0.42 * height), layout="constrained")
        all_axes = figure.subplots(
            len(cases), 1, squeeze=False, height_ratios=[1 + len(bars) for _, bars in cases]
        )[:, 0]
        for axes, (case, bars) in zip(all_axes, cases, strict=True):
            for y, (_, transforms, total) in enumerate(bars):
                axes.barh(y, min(transforms, total), color=BLUE, height=0.62)
                axes.barh(
                    y,
                    max(total - transforms, 0),
                    left=transforms,
                    color=ORANGE if transforms else GREY,
                    height=0.62,
                )
                axes.text(total, y, f"  {total:.3g} ms", va="center", fontsize=9)
            axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
            axes.invert_yaxis()
            axes.margins(x=0.14)
            axes.set_xlim(left=0)
            axes.set_title(f"{_size(case).replace('x', '×')}, {case['dtype']}")
        all_axes[-1].set_xlabel("time of one step (ms)")
        labels = [(BLUE, "its transforms, bare"), (ORANGE, "the rest")]
        if any(not transforms for _, bars in cases for _, transforms, _ in bars):
            labels.append((GREY, "not told apart"))
        for colour, label in labels:
            all_axes[0].barh(0, 0, color=colour, label=label)
        figure.legend(loc="outside lower right", ncols=3, fontsize=9)
        figure.savefig(path, dpi=160)
    return [Path(path)]


def _bars(case: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Name, ms of its transforms (0: not known), ms of all."""
    bars = []
    for line in case["media"]:
        bars.append((line["name"], line["bare_ms"], line["ms"]))
        if "plain" in line:
            bars.append(("plain stages", line["plain"]["bare_ms"], line["plain"]["ms"]))
        for key, note in (("kwave", ""), ("kwave_elsewhere", ", elsewhere")):
            found = line.get(key)
            if found and "ms" in found:
                bars.append((found["program"] + note, 0.0, found["ms"]))
    return bars

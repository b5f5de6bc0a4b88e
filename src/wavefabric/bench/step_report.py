"""Tables and the picture of ``fibre-step``."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def table(result: dict[str, Any]) -> list:
    """The result of `wavefabric.bench.fibre_step.run` as one `rich.table.Table` for each case."""
    from rich.table import Table

    bandwidth = result["copy_bytes_per_second"]
    tables = []
    for case in result["cases"]:
        log2_n = case["samples"].bit_length() - 1
        lines = Table(
            title=f"{case['rows']} rows x 2^{log2_n} {case['dtype']}, {case['field_bytes'] / 2**20:.1f} MiB "
            f"a field; copy {bandwidth / 1e9:.1f} GB/s (read + write)",
            caption="passes: reads or writes of the whole field that the memory could do in that time",
        )
        lines.add_column("", no_wrap=True)
        for heading in ("ms", "FFTs", "FFT share", "passes", "x 8 FFTs", "plain /", "allocated", "fields"):
            lines.add_column(heading, justify="right")
        eight, plain = case["eight_ffts"], case["plain"]
        lines.add_row(
            "eight bare FFTs",
            f"{eight['ms']:.3g}",
            "8",
            "100 %",
            f"{eight['passes']:.1f}",
            "1.00",
            *["-"] * 3,
        )
        if plain:
            lines.add_row(
                "plain RK4IP",
                f"{plain['ms']:.3g}",
                "8",
                "-",
                f"{plain['passes']:.1f}",
                f"{plain['ms'] / eight['ms']:.2f}",
                "1.00",
                *["-"] * 2,
            )
        for line in case["integrators"]:
            faster = line.get("times_faster_than_plain")
            lines.add_row(
                line["name"],
                f"{line['ms']:.3g}",
                str(line["ffts"]),
                f"{line['fft_share'] * 100:.0f} %",
                f"{line['passes']:.1f}",
                f"{line['times_eight_ffts']:.2f}",
                "-" if faster is None else f"{faster:.2f}",
                f"{line['bytes_allocated']} B",
                f"{line['peak_fields']:.2f}",
            )
        tables.append(lines)
    errors = [
        (case, line) for case in result["cases"] for line in case["integrators"] if "error_steps" in line
    ]
    if errors:
        lines = Table(title=f"complex64 against complex128, steps of {result['step_m']:g} m")
        for heading in ("case", "integrator", "steps", "relative error", "a step"):
            lines.add_column(heading, justify="left" if heading in ("case", "integrator") else "right")
        for case, line in errors:
            error = line["error_against_complex128"]
            lines.add_row(
                f"{case['rows']} x 2^{case['samples'].bit_length() - 1}",
                line["name"],
                str(line["error_steps"]),
                f"{error:.2e}",
                f"{error / line['error_steps']:.1e}",
            )
        tables.append(lines)
    return tables


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw a bar a step: transforms in one colour, the rest in another, bare FFTs and plain RK4IP beside.

    Parameters
    ----------
    result : dict
        From `wavefabric.bench.fibre_step.run`.
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

    cases = result["cases"]
    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid.axis": "x"}):
        height = sum(2 + len(case["integrators"]) for case in cases)
        figure = Figure(figsize=(8.4, 0.9 + 0.36 * height + 0.5 * len(cases)), layout="constrained")
        all_axes = figure.subplots(
            len(cases),
            1,
            squeeze=False,
            height_ratios=[1 + (case["plain"] is not None) + len(case["integrators"]) for case in cases],
        )[:, 0]
        for axes, case in zip(all_axes, cases, strict=True):
            bars = [("eight bare FFTs", case["eight_ffts"]["ms"], 0.0, "")]
            for line in case["integrators"]:
                bars.append((line["name"], min(line["fft_ms"], line["ms"]), line["ms"], ""))
            if case["plain"]:
                bars.append(("plain RK4IP", 0.0, case["plain"]["ms"], ""))
            for y, (_, fft, total, _) in enumerate(bars):
                axes.barh(y, fft, color=BLUE, height=0.62)
                axes.barh(y, max(total - fft, 0), left=fft, color=ORANGE if fft else GREY, height=0.62)
                axes.text(max(fft, total), y, f"  {max(fft, total):.3g} ms", va="center", fontsize=9)
            axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
            axes.invert_yaxis()
            axes.margins(x=0.14)
            axes.set_xlim(left=0)
            axes.set_title(
                f"{case['rows']} rows × 2$^{{{case['samples'].bit_length() - 1}}}$ {case['dtype']}"
            )
        all_axes[-1].set_xlabel("time of one step (ms)")
        for colour, label in ((BLUE, "its FFTs alone"), (ORANGE, "the rest"), (GREY, "not told apart")):
            all_axes[0].barh(0, 0, color=colour, label=label)
        figure.legend(loc="outside lower right", ncols=3, fontsize=9)
        figure.savefig(path, dpi=160)
    return [Path(path)]

"""Benchmark ``local-vs-global``: a step with a Fourier basis a block over one with a single basis."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rank_steps import RankSteps, grouped
from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.base.results.figure_style import BLUE, ORANGE
from wavefabric.cli.bench.common import Triple, result_of, rows, silent
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.timing import Ranks

SIZES = {"cpu": ((64, 64, 64),), "cuda": ((256, 256, 256), (512, 512, 512), (512, 512, 1024))}
_COLOURS = {"global": BLUE, "local": ORANGE}


def run(
    ranks: Ranks,
    sizes: Sequence[Triple] = (),
    media: Sequence[str] = ("homogeneous",),
    overlap: int = 16,
    grid: Triple | None = None,
    precision: str = "single",
    repeats: int = 5,
    progress: Callable[[str], object] = silent,
) -> dict[str, Any]:
    """Time steps of both forms; collective.

    Whole grids are by default of `SIZES`; ``overlap`` and ``grid`` (blocks; by default those of least halo)
    are of the local form. Gives ``cases``, one for each medium, size and transport, with ``global`` and
    ``local`` (``ms`` a step, …) and ``ratio`` global/local.
    """
    sizes = sizes or SIZES["cuda" if ranks.on_gpu else "cpu"]
    steps = RankSteps(ranks, sizes, media, precision, repeats)
    forms = {"global": Decomposition(), "local": Decomposition("local", grid, overlap)}
    plans = [(medium, shape) for medium in media for shape in sizes]
    for plan, options in itertools.product(plans, forms.values()):
        steps.check_memory(*plan, options)
    cases = []
    for comm in ranks.each():
        for medium, shape in plans:
            case: dict[str, Any] = {"transport": comm.label, "medium": medium, "shape": list(shape)}
            for form, options in forms.items():
                progress(f"{comm.label}: {medium}, {report.shape_words(shape)}, {form}")
                case[form] = steps.time(comm, medium, shape, options)
            cases.append(case | {"ratio": case["global"]["ms"] / case["local"]["ms"]})
    facts = {"overlap": overlap, "precision": precision, "repeats": repeats}
    return result_of(ranks, "local-vs-global", cases, **facts)


def table(result: dict[str, Any]) -> list:
    """A table a medium."""
    tables: list = []
    for medium, cases in grouped(result["cases"], "medium").items():
        lines = [case | {"grid": report.shape_words(case["shape"])} for case in cases]
        cells = ("{grid}", "{via}", "{global[ms]:.3g}", "{local[ms]:.3g}", "{ratio:.2f}")
        title = f"{medium}, {result['ranks']} ranks, overlap {result['overlap']}"
        columns = ("grid", "<", "global ms", "local ms", "global / local")
        tables.append(report.table(title, columns, rows(lines, *cells)))
    return tables + report.unavailable(result)


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw step times of both forms, a bar each, with their ratio; a panel a medium."""
    groups = grouped(result["cases"], "medium") or {"": []}
    most = max(map(len, groups.values()))
    with report.figure(path, (8.4, 0.9 + len(groups) * (0.7 + 0.6 * most)), "x") as figure:
        panels = figure.subplots(len(groups), 1, squeeze=False)[:, 0]
        for axes, (medium, cases) in zip(panels, groups.items(), strict=True):
            names = []
            for y, case in enumerate(cases):
                for (form, colour), shift in zip(_COLOURS.items(), (-0.2, 0.2), strict=True):
                    axes.barh(y + shift, case[form]["ms"], 0.36, color=colour)
                right = max(case[form]["ms"] for form in _COLOURS)
                axes.text(right, y, f"  ratio {case['ratio']:.2f}", va="center", fontsize=9)
                transport = report.transport_name(case["transport"])
                names.append(f"{report.shape_words(case['shape'])}, {transport}")
            report.name_bars(axes, names)
            axes.set(title=medium, xlabel="time of one step (ms)")
        for form, colour in _COLOURS.items():
            panels[0].barh(0, 0, color=colour, label=form)
        figure.legend(loc="outside lower right", ncols=2, fontsize=9)

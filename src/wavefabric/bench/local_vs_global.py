"""Benchmark ``local-vs-global``: a step with a Fourier basis a block over one with a single basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wavefabric.acoustics.parallel.decomposition import Options
from wavefabric.bench import ultrasound_ranks as shared
from wavefabric.execution import report
from wavefabric.execution.measure import Ranks
from wavefabric.results.plots import BLUE, ORANGE

SIZES = {"cpu": ((64, 64, 64),), "cuda": ((256, 256, 256), (512, 512, 512), (512, 512, 1024))}
_COLOURS = {"global": BLUE, "local": ORANGE}


def run(
    ranks: Ranks,
    sizes: Sequence[tuple[int, int, int]] = (),
    media: Sequence[str] = ("homogeneous",),
    overlap: int = 16,
    grid: tuple[int, int, int] | None = None,
    precision: str = "single",
    repeats: int = 5,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Time steps of both forms; collective.

    Whole grids are by default of `SIZES`; ``overlap`` and ``grid`` (blocks; by default those of least halo)
    are of the local form.

    Returns
    -------
    dict
        ``cases``, one for each medium, size and transport, with ``global`` and ``local`` (``ms`` a step, …)
        and ``ratio`` global/local.

    Raises
    ------
    InputError
        If an option is not allowed, or a grid does not fit.
    """
    say = progress or (lambda line: None)
    sizes = sizes or SIZES["cuda" if ranks.on_gpu else "cpu"]
    shared.check(sizes, media, precision, repeats)
    forms = {"global": Options(), "local": Options("local", grid, overlap)}
    plans = [(medium, shape) for medium in media for shape in sizes]
    for plan in plans:
        for options in forms.values():
            shared.check_memory(ranks, *plan, precision, options)
    cases = []
    for comm in ranks.each():
        for medium, shape in plans:
            case: dict[str, Any] = {"transport": comm.transport, "medium": medium, "shape": list(shape)}
            for form, options in forms.items():
                say(f"{comm.transport}: {medium}, {report.shape_words(shape)}, {form}")
                case[form] = shared.step_time(ranks, comm, repeats, medium, shape, precision, options)
            cases.append(case | {"ratio": case["global"]["ms"] / case["local"]["ms"]})
    facts = {"overlap": overlap, "precision": precision, "repeats": repeats}
    return shared.result_of(ranks, "local-vs-global", cases, **facts)


def table(result: dict[str, Any]) -> list:
    """A table a medium."""
    tables: list = []
    for medium in report.distinct(result["cases"], "medium"):
        rows = []
        for case in result["cases"]:
            if case["medium"] == medium:
                names = report.shape_words(case["shape"]), report.transport_name(case["transport"])
                times = (f"{case[form]['ms']:.3g}" for form in _COLOURS)
                rows.append((*names, *times, f"{case['ratio']:.2f}"))
        title = f"{medium}, {result['ranks']} ranks, overlap {result['overlap']}"
        tables.append(report.table(title, ("grid", "<", "global ms", "local ms", "global / local"), rows))
    return tables + report.unavailable(result)


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw step times of both forms, a bar each, with their ratio; a panel a medium."""
    media = report.distinct(result["cases"], "medium") or [""]
    grouped = {medium: [case for case in result["cases"] if case["medium"] == medium] for medium in media}
    most = max(len(cases) for cases in grouped.values())
    with report.figure(path, (8.4, 0.9 + len(media) * (0.7 + 0.6 * most)), "x") as figure:
        panels = figure.subplots(len(media), 1, squeeze=False)[:, 0]
        for axes, (medium, cases) in zip(panels, grouped.items(), strict=True):
            names = []
            for y, case in enumerate(cases):
                for (form, colour), shift in zip(_COLOURS.items(), (-0.2, 0.2), strict=True):
                    axes.barh(y + shift, case[form]["ms"], 0.36, color=colour)
                right = max(case[form]["ms"] for form in _COLOURS)
                axes.text(right, y, f"  ratio {case['ratio']:.2f}", va="center", fontsize=9)
                transport = report.transport_name(case["transport"])
                names.append(f"{report.shape_words(case['shape'])}, {transport}")
            report.name_bars(axes, names)
            axes.set_title(medium)
            axes.set_xlabel("time of one step (ms)")
        for form, colour in _COLOURS.items():
            panels[0].barh(0, 0, color=colour, label=form)
        figure.legend(loc="outside lower right", ncols=2, fontsize=9)

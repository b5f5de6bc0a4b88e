"""Benchmark ``local-vs-global``: a step with a Fourier basis a block over one with a single basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wavefabric.acoustics.parallel.decomposition import Options
from wavefabric.bench import ultrasound_shared as shared
from wavefabric.bench.exchange_report import unavailable
from wavefabric.execution.ranks import Ranks, named

__all__ = ["SIZES", "plot", "run", "table"]

SIZES = {"cpu": ((64, 64, 64),), "cuda": ((256, 256, 256), (512, 512, 512), (512, 512, 1024))}
_FORMS = ("global", "local")


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

    Parameters
    ----------
    ranks : Ranks
    sizes : sequence of (Nx, Ny, Nz)
        Whole grids. Empty: see `SIZES`.
    media : sequence of {"homogeneous", "heterogeneous"}
    overlap : int
        Of the local form.
    grid : tuple of int, optional
        Blocks of the local form; by default those of least halo.
    precision : str
    repeats : int
        Samples; the median counts.
    progress : callable, optional

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
    for medium in media:
        for shape in sizes:
            for options in forms.values():
                shared.check_memory(ranks, medium, shape, precision, options)
    cases = []
    for comm in ranks.each():
        for medium in media:
            for shape in sizes:
                found: dict[str, Any] = {
                    "transport": comm.transport,
                    "medium": medium,
                    "shape": list(shape),
                }
                for form, options in forms.items():
                    say(f"{comm.transport}: {medium}, {shared.name_of(shape)}, {form}")
                    found[form] = shared.step_time(ranks, comm, repeats, medium, shape, precision, options)
                found["ratio"] = found["global"]["ms"] / found["local"]["ms"]
                cases.append(found)
    return {
        "benchmark": "local-vs-global",
        "ranks": ranks.size,
        "overlap": overlap,
        "precision": precision,
        "repeats": repeats,
        "cases": cases,
        "unavailable": ranks.unavailable,
        "machine": ranks.machine(),
    }


def table(result: dict[str, Any]) -> list:
    """The result of `run` as one `rich.table.Table` a medium."""
    from rich.table import Table

    found: list = []
    for medium in dict.fromkeys(case["medium"] for case in result["cases"]):
        lines = Table(title=f"{medium}, {result['ranks']} ranks, overlap {result['overlap']}")
        for heading in ("grid", "", "global ms", "local ms", "global / local"):
            lines.add_column(heading, justify="right" if heading else "left", no_wrap=True)
        for case in result["cases"]:
            if case["medium"] == medium:
                lines.add_row(
                    shared.name_of(case["shape"]),
                    named(case["transport"]),
                    f"{case['global']['ms']:.3g}",
                    f"{case['local']['ms']:.3g}",
                    f"{case['ratio']:.2f}",
                )
        found.append(lines)
    return found + unavailable(result)


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw step times of both forms, a bar each, with their ratio; a panel a medium.

    Parameters
    ----------
    result : dict
        From `run`.
    path : str or Path
        Image file; its ending picks the format.

    Returns
    -------
    list of Path
        What was written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import BLUE, ORANGE, STYLE

    media = list(dict.fromkeys(case["medium"] for case in result["cases"])) or [""]
    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid.axis": "x"}):
        most = max(sum(case["medium"] == medium for case in result["cases"]) for medium in media)
        figure = Figure(figsize=(8.4, 0.9 + len(media) * (0.7 + 0.6 * most)), layout="constrained")
        for axes, medium in zip(figure.subplots(len(media), 1, squeeze=False)[:, 0], media, strict=True):
            mine = [case for case in result["cases"] if case["medium"] == medium]
            for y, case in enumerate(mine):
                for form, shift, colour in zip(_FORMS, (-0.2, 0.2), (BLUE, ORANGE), strict=True):
                    axes.barh(y + shift, case[form]["ms"], 0.36, color=colour)
                right = max(case[form]["ms"] for form in _FORMS)
                axes.text(right, y, f"  ratio {case['ratio']:.2f}", va="center", fontsize=9)
            names = [f"{shared.name_of(case['shape'])}, {named(case['transport'])}" for case in mine]
            axes.set_yticks(range(len(mine)), names)
            axes.invert_yaxis()
            axes.margins(x=0.14)
            axes.set_xlim(left=0)
            axes.set_title(medium)
            axes.set_xlabel("time of one step (ms)")
            for form, colour in zip(_FORMS, (BLUE, ORANGE), strict=True):
                axes.barh(0, 0, color=colour, label=form if medium == media[0] else None)
        figure.legend(loc="outside lower right", ncols=2, fontsize=9)
        figure.savefig(path, dpi=160)
    return [Path(path)]

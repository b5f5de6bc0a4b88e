"""Table 1 and figure 3 of Brehler et al.: T_K/T_1 over the number of ranks K."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import Json, Output, Plot, run, show
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import GREY
from wavefabric.cli.common.options import option
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.report import transport_name

#: T_K/T_1 of table 1 (15 modes a GPU, K80 GPUs), by transport and GPUs.
PAPER = {("mpi", 2): 1.38, ("mpi", 8): 6.76, ("nccl", 2): 1.51, ("nccl", 8): 4.26}
#: The split code on one GPU over the unsplit one.
PAPER_SPLIT = 1.085

#: Modes a rank and samples a row of the paper's benchmark.
PAPER_CASE = (15, 1 << 21)


def combine(paths: Sequence[str | Path]) -> dict[str, Any]:
    """Put results of runs on different numbers of ranks together.

    Parameters
    ----------
    paths : sequence of path
        JSON of `python benchmarks bench fibre-scaling`, for each number of ranks one, or one a transport.

    Returns
    -------
    dict
        ``runs`` (file, ranks, T₁ in ms by form, machine), in ascending ranks; ``curves``, one for each
        transport and form, with ``points``: ``ranks``, ``ms``, ``ratio`` T_K/T₁, ``only_communication``
        (ratio), ``exposed_ms``. T₁ is that of the same run. At K = 1 stands the split code on one rank, the
        median of the runs. ``paper``: points of table 1, if modes and samples are the paper's.

    Raises
    ------
    InputError
        If a file is no such result, two have the same number of ranks and a transport in common, or modes a
        rank or samples differ.
    """
    outcome = sorted(((_read(path), str(path)) for path in paths), key=lambda pair: pair[0]["ranks"])
    first, name = outcome[0]
    for result, path in outcome[1:]:
        for key in ("modes_per_rank", "samples"):
            if result[key] != first[key]:
                raise InputError(
                    f"--from: {path} has {key} {result[key]}, {name} has {first[key]}; allowed: the same"
                )
    seen: dict[tuple[int, str], str] = {}
    for result, path in outcome:
        for transport in {case["transport"] for case in result["cases"]}:
            if other := seen.get(key := (result["ranks"], transport)):
                inputs = f"{other} and {path} are both of {key[0]} ranks over {transport}"
                raise InputError(f"--from: {inputs}; allowed: one of each")
            seen[key] = path
    results = [result for result, _ in outcome]
    pairs = {(case["transport"], case["exchange"]): None for result in results for case in result["cases"]}
    papers_case = (first["modes_per_rank"], first["samples"]) == PAPER_CASE
    return {
        "benchmark": "scaling",
        "modes_per_rank": first["modes_per_rank"],
        "samples": first["samples"],
        "runs": [
            {
                "file": path,
                "ranks": result["ranks"],
                "one_rank_ms": {form["exchange"]: form["one_rank"]["ms"] for form in result["forms"]},
                "machine": result["machine"],
            }
            for result, path in outcome
        ],
        "curves": [_curve(results, transport, form) for transport, form in pairs],
        "paper": [
            {"transport": transport, "ranks": ranks, "ratio": ratio}
            for (transport, ranks), ratio in (PAPER.items() if papers_case else ())
        ],
        "machine": results[-1]["machine"],
    }


def _read(path: str | Path) -> dict[str, Any]:
    try:
        result = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--from: {path} cannot be read ({error.strerror})") from None
    except ValueError:
        result = None
    wanted = {"ranks", "modes_per_rank", "samples", "forms", "cases", "machine"}
    if (
        not isinstance(result, dict)
        or result.get("benchmark") != "fibre-scaling"
        or not wanted <= result.keys()
    ):
        raise InputError(f"--from: {path} given; allowed: JSON of fibre-scaling")
    return result


def _curve(results: list[dict[str, Any]], transport: str, form: str) -> dict[str, Any]:
    split = [each["split"] for result in results for each in result["forms"] if each["exchange"] == form]
    points = [
        {
            "ranks": 1,
            "ms": median(each["ms"] for each in split),
            "ratio": median(each["ratio"] for each in split),
            "only_communication": None,
            "exposed_ms": None,
        }
    ]
    for result in results:
        for case in result["cases"]:
            if (case["transport"], case["exchange"]) == (transport, form):
                points.append(
                    {
                        "ranks": result["ranks"],
                        "ms": case["ms"],
                        "ratio": case["ratio"],
                        "only_communication": case["only_communication"]["ratio"],
                        "exposed_ms": case["exposed_ms"],
                    }
                )
    return {"transport": transport, "exchange": form, "points": points}


def table(result: dict[str, Any]) -> list:
    """T_K/T_1, ours and the paper's."""
    ranks = sorted({point["ranks"] for curve in result["curves"] for point in curve["points"]})
    ranks = sorted({*ranks, *(point["ranks"] for point in result["paper"])})
    lines = report.table(
        f"T_K/T_1, {result['modes_per_rank']} modes a rank x {result['samples']} samples",
        ("<", *(f"K = {count}" for count in ranks)),
        (),
        "T_1: the unsplit code on one rank, of the same run; K = 1: the split code on one rank; "
        "(only communication)",
    )
    for curve in result["curves"]:
        at = {point["ranks"]: point for point in curve["points"]}
        lines.add_row(
            f"{transport_name(curve['transport'])}, {curve['exchange']}", *(_cell(at.get(k)) for k in ranks)
        )
    for transport in dict.fromkeys(point["transport"] for point in result["paper"]):
        at = {p["ranks"]: f"{p['ratio']:.2f}" for p in result["paper"] if p["transport"] == transport}
        at[1] = f"{PAPER_SPLIT:.3f}"
        lines.add_row(f"{transport_name(transport)}, paper", *(at.get(k, "") for k in ranks))
    return [lines]


def _cell(point: dict[str, Any] | None) -> str:
    if point is None:
        return ""
    bare = point["only_communication"]
    return f"{point['ratio']:.2f}" + ("" if bare is None else f" ({bare:.2f})")


def plot(result: dict[str, Any], path: Path) -> None:
    """T_K/T_1 over K, dashed without the work on what others sent, and the paper's points."""
    with report.figure(path, (7.2, 4.6)) as figure:
        axes = figure.subplots()
        for k, curve in enumerate(result["curves"]):
            look = report.look(k)
            points = curve["points"]
            label = f"{transport_name(curve['transport'])}, {curve['exchange']}"
            axes.plot([p["ranks"] for p in points], [p["ratio"] for p in points], label=label, **look)
            bare = [p for p in points if p["only_communication"] is not None]
            ratios = [p["only_communication"] for p in bare]
            axes.plot([p["ranks"] for p in bare], ratios, ls="--", mfc="white", **look)
        for transport, marker in zip(("mpi", "nccl"), "xP", strict=True):
            mine = [point for point in result["paper"] if point["transport"] == transport]
            if mine:
                counts, ratios = [p["ranks"] for p in mine], [p["ratio"] for p in mine]
                label = f"{transport_name(transport)}, paper"
                axes.plot(counts, ratios, ls="", marker=marker, color=GREY, label=label)
        axes.axhline(1, color=GREY, linewidth=0.8)
        axes.set_xticks(sorted({1, *(run["ranks"] for run in result["runs"])}))
        axes.set_xlabel(f"ranks K, {result['modes_per_rank']} modes each")
        axes.set_ylabel("$T_K/T_1$")
        axes.set_ylim(bottom=0)
        axes.legend(title="dashed: only communication", fontsize=9)


def main(
    source: Annotated[
        list[Path],
        option("JSON of `python benchmarks bench fibre-scaling`; to be repeated.", "--from"),
    ],
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Table 1 and figure 3 of the paper, from `python benchmarks bench fibre-scaling -o FOLDER`."""
    show(__name__, combine(source), as_json, output, plot)


if __name__ == "__main__":
    run(main)

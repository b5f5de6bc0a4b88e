"""What the LUMORPH paper claims in words, and what its own numbers and ours say."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

from papers.common import Json, Output, run, show
from papers.lumorph import closed_forms as forms
from papers.lumorph.closed_forms import MIB, PAPER, SWITCH
from papers.lumorph.data import lightpath
from wavefabric.cli.common.options import option
from wavefabric.fabric.execution import report

#: Sizes over which claims without a number of bytes are looked at, B.
_SWEEP = np.geomspace(0.1, 64, 2000) * MIB


def claims(figures: dict[str, Any]) -> list[dict[str, str]]:
    """One line a claim: ``claim``, ``paper``, ``recomputed``, ``holds``.

    Parameters
    ----------
    figures : dict
        Results of ``figure3``, ``figure5``, ``figure11``, ``radices`` and ``baselines``; claims about
        missing ones are left out.
    """
    lines = [*_times(), _homogeneous()]
    if "figure5" in figures:
        lines.append(_waveguides(figures["figure5"]))
    if "figure3" in figures:
        lines.append(_seconds(figures["figure3"]))
    if "radices" in figures:
        lines += [_diminishing(), _more_waveguides(figures["radices"])]
    if "baselines" in figures:
        lines += _other_baselines()
    if "figure11" in figures:
        lines += _training(figures["figure11"])
    return lines


def _line(claim: str, said: str, recomputed: str, holds: str) -> dict[str, str]:
    return {"claim": claim, "paper": said, "recomputed": recomputed, "holds": holds}


def _times() -> list[dict[str, str]]:
    """Claims about figures 7 and 8, from the formulas that reproduce them."""
    small, large = 8 * MIB, 64 * MIB
    less = 1 - forms.lumorph4(256, small) / forms.ring(256, small)
    best = forms.lumorph2(256, large)
    ring64, tree64 = (1 - best / time(256, large) for time in (forms.ring, forms.tree))
    tree = _SWEEP[
        forms.tree(256, _SWEEP) < np.minimum(forms.lumorph4(256, _SWEEP), forms.lumorph2(256, _SWEEP))
    ]
    worse = _SWEEP[forms.divide_and_conquer(256, _SWEEP) > forms.ring(256, _SWEEP)]
    ratio = forms.ring(256, forms.BUFFER_8A) / forms.lumorph4(256, forms.BUFFER_8A)
    slow = replace(PAPER, reconfiguration=25e-6)
    two, four = (
        forms.ring(256, forms.BUFFER_8A) / time(256, forms.BUFFER_8A, slow)
        for time in (forms.lumorph2, forms.lumorph4)
    )
    return [
        _line(
            "faster all-reduce than Ring", "74 %", f"{less:.1%} (Lumorph-4, 8 MB, 256 GPUs)", "yes, at 8 MB"
        ),
        _line(
            "less time than Ring and Tree, 64 MB, 256 GPUs",
            "nearly 80 %",
            f"{ring64:.0%} (Ring), {tree64:.0%} (Tree), by Lumorph-2",
            "no",
        ),
        _line(
            "Lumorph-2 and -4 take the least time",
            "at all sizes",
            f"Tree, as printed, is faster below {tree.max() / MIB:.1f} MB" if tree.size else "at all sizes",
            "no" if tree.size else "yes",
        ),
        _line(
            "D&C becomes worse than Ring (256 GPUs)",
            "above 16 MB",
            f"above {worse.min() / MIB:.1f} MB",
            "yes" if 16 * MIB < worse.min() < 32 * MIB else "no",
        ),
        _line("against Ring at 3.7 µs (figure 8a)", "4x", f"{ratio:.2f}x (Lumorph-4)", "no"),
        _line(
            "no gain over Ring at 25 µs (figure 8a)",
            "none",
            f"Lumorph-2 {two:.2f}x, Lumorph-4 {four:.2f}x",
            "for Lumorph-2",
        ),
    ]


def _homogeneous() -> dict[str, str]:
    """From link budgets with typical losses: of straight routes in a wafer, and of plans for 256 GPUs."""

    from wavefabric.collectives.registry import build
    from wavefabric.fabric.photonic.budget import rates, slowest_circuit
    from wavefabric.fabric.photonic.planning import plan_circuits

    fabric = lightpath(256)
    straight = [range(last + 1) for last in range(1, fabric.wafer_columns)]
    reach = int((rates(fabric, straight) >= fabric.laser_bandwidth).sum())
    worst = [
        slowest_circuit(plan_circuits(build("recursive", "reduce-scatter", 256, 256, radix=radix), fabric))[0]
        * 8e-9
        for radix in (2, 4)
    ]
    return _line(
        "circuits have the same data rate, however long",
        f"{fabric.laser_bandwidth * 8e-9:.0f} Gbit/s a wavelength",
        f"over {reach} edges of a wafer; slowest with 256 GPUs: Lumorph-2 {worst[0]:.0f},"
        f" Lumorph-4 {worst[1]:.0f} Gbit/s, with typical losses",
        f"over {reach} edges",
    )


def _waveguides(figure: dict[str, Any]) -> dict[str, str]:
    left = {s["series"]: s for s in figure["series"] if s["panel"] == "left"}
    needed = left["L4+MCF"]["ours"][-1]
    random = {r["series"]: r for r in figure["random"] if r["ranks"] == 256}
    low, high = (random["L4+Random"][key] for key in ("least", "most"))
    return _line(
        "30 waveguides free all algorithms of congestion",
        "30",
        f"Lumorph-4: {needed:.0f} at best ({needed / 2:.0f} a direction), {low} to {high} at random",
        "no (its figure: 32, 47)",
    )


def _seconds(figure: dict[str, Any]) -> dict[str, str]:
    ours = [one for one in figure["ours"] if one["ranks"] == 256]
    drawn = [dict(curve)[256] for curve in figure["paper"].values()]
    proved = all(one["certified"] for one in figure["ours"])
    return _line(
        "least-overlap routes for 256 GPUs take",
        " and ".join(f"{seconds:.0f} s" for seconds in sorted(drawn)),
        " and ".join(f"{one['seconds']:.2f} s" for one in ours)
        + (", proved least" if proved else ", with a gap"),
        "no solver is needed",
    )


def _diminishing() -> dict[str, str]:
    ratios = [
        forms.recursive(256, size * MIB, PAPER, 4) / forms.recursive(256, size * MIB, PAPER, 16)
        for size in (0.1, 8, 64)
    ]
    said = ", ".join(f"{r:.2f}x at {size:g} MB" for r, size in zip(ratios, (0.1, 8, 64), strict=True))
    return _line(
        "radix above 4 has diminishing returns", "not shown", f"16 against 4: {said}", "for large arrays"
    )


def _more_waveguides(figure: dict[str, Any]) -> dict[str, str]:
    rows = {one["radix"]: one for one in figure["rows"]}
    two, four = rows[2], rows[4]
    return _line(
        "Lumorph-4 needs more waveguides than Lumorph-2",
        f"{2 * four['overlap']}, {2 * two['overlap']}",
        f"{four['overlap']}, {two['overlap']} a direction with broadband switches; {four['waveguides']},"
        f" {two['waveguides']} with switches that part wavelengths",
        "yes, with its switches" if four["overlap"] > two["overlap"] else "no",
    )


def _other_baselines() -> list[dict[str, str]]:
    two, four = forms.lumorph2(256, _SWEEP), forms.lumorph4(256, _SWEEP)
    same = forms.recursive(256, _SWEEP, SWITCH)
    tree = forms.double_tree(256, _SWEEP)
    wider = forms.recursive(256, _SWEEP, PAPER, 16)
    return [
        _line(
            "faster than the ideal switch, with recursive doubling there",
            "not compared",
            _where(two, four, wider, same),
            "no" if not (np.minimum(two, four) < same).any() else "in part",
        ),
        _line(
            "faster than the ideal switch, with a pipelined double tree there",
            "not compared",
            _where(two, four, wider, tree),
            "in part" if (np.minimum(two, four) < tree).any() else "no",
        ),
    ]


def _where(two: np.ndarray, four: np.ndarray, wider: np.ndarray, theirs: np.ndarray) -> str:
    rows = ("Lumorph-2", two), ("Lumorph-4", four), ("radix 16", wider)
    return ", ".join(f"{name} {_faster(ours, theirs)}" for name, ours in rows)


def _faster(ours: np.ndarray, theirs: np.ndarray) -> str:
    """At which of the sizes."""
    better = np.flatnonzero(ours < theirs)
    if not better.size:
        return "nowhere"
    if better.size == ours.size:
        return "everywhere"
    low, high = _SWEEP[better[0]] / MIB, _SWEEP[better[-1]] / MIB
    if better[0] == 0:
        return f"up to {high:.1f} MB"
    return f"from {low:.1f} MB" + ("" if better[-1] == ours.size - 1 else f" to {high:.1f} MB")


def _training(figure: dict[str, Any]) -> list[dict[str, str]]:
    gains = [one for one in figure["gains"] if one["ranks"] == 256]
    said, result = (
        ", ".join(f"{one[who]:.2f}x {one['panel']}" for one in gains) for who in ("paper", "ours")
    )
    ordered = sorted(gains, key=lambda one: -one["ours"]) == sorted(gains, key=lambda one: -one["paper"])
    near = all(abs(one["ours"] / one["paper"] - 1) < 0.15 for one in gains)
    panels = ((one["panel"], one["setting"], one) for one in figure["series"])
    rates = {one["series"]: one for *panel, one in panels if panel == ["Inception", "B"]}
    theirs, least = (
        min(rates[name][who][-1] for name in ("Lumorph-2", "Lumorph-4")) / rates["Zero"][who][-1]
        for who in ("paper", "ours")
    )
    return [
        _line(
            "training throughput over Ring, 256 GPUs",
            said,
            f"{result}, free time as the paper's",
            "yes" if near else "in this order, not in size" if ordered else "no",
        ),
        _line(
            "Inception trains almost as with free communication",
            f"{theirs:.1%} of that throughput",
            f"{least:.1%}",
            "yes" if least > 0.99 else "no",
        ),
    ]


def table(result: dict[str, Any]) -> list:
    """A line a claim."""
    columns = ("claim", "paper", "recomputed", "holds")
    rows = [tuple(one[key] for key in columns) for one in result["claims"]]
    return [report.table("claims", ("<claim", "<paper", "<recomputed", "<holds?"), rows, wrap=True)]


def main(
    results: Annotated[Path, option("Folder of the results of the other scripts.")] = Path(__file__).parent,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Claims of the paper, from the formulas and from the results of the other scripts."""
    names = ("figure3", "figure5", "figure11", "radices", "baselines")
    files = {name: results / f"{name}.json" for name in names}
    figures = {name: json.loads(file.read_text("utf-8")) for name, file in files.items() if file.exists()}
    result = {"benchmark": "claims", "claims": claims(figures)}
    show(__name__, result, as_json, output, False)


if __name__ == "__main__":
    run(main)

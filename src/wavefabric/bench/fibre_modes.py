"""Benchmark ``fibre-modes``: our modes of the 62.5 µm fibre against tables 2 and 3 of Brehler et al."""

from __future__ import annotations

import math
import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.optics.fibre.csv_files import read_columns
from wavefabric.optics.fibre.dispersion import dispersion
from wavefabric.optics.fibre.modes import STEP, convergence, solve_modes
from wavefabric.optics.fibre.profile import profile_62_5

WAVELENGTH = 1550e-9
GROUPS = range(1, 16)


def run(
    step: float = STEP, steps: tuple[float, ...] = (0.08e-6, 0.04e-6, 0.02e-6, 0.01e-6)
) -> dict[str, Any]:
    """Solve the modes at 1550 nm and lay them beside the paper's tables.

    Parameters
    ----------
    step : float
        Radial step of the comparison, m.
    steps : tuple of float
        Radial steps of the convergence study of n_eff, m.

    Returns
    -------
    dict
        JSON-serialisable: ``modes`` (per LP mode: A_eff in µm², deviation in %), ``groups`` (β2 in ps²/km,
        DMGD in ps/km), ``a_eff`` (rms, max and min deviation in %), ``counts``, ``convergence``
        (per step in µm: largest error of n_eff), ``seconds``.

    Raises
    ------
    InputError
        If a step is out of range.
    """
    modes_table, groups_table = _table("fibre62_modes.csv"), _table("fibre62_groups.csv")
    paper = {
        (int(l), int(m)): area
        for l, m, area in zip(*(modes_table[k] for k in ("l", "m", "a_eff_um2")), strict=True)  # noqa: E741
    }
    profile = profile_62_5()
    start = time.perf_counter()
    every = solve_modes(profile, WAVELENGTH, step)
    solve_seconds = time.perf_counter() - start
    ours = every.select(GROUPS)
    modes = [
        {
            "label": label,
            "group": int(group),
            "l": int(l),
            "m": int(m),
            "n_eff": float(n_eff),
            "a_eff_um2": float(area * 1e12),
            "a_eff_paper_um2": paper[int(l), int(m)],
            "deviation_percent": float((area * 1e12 / paper[int(l), int(m)] - 1) * 100),
        }
        for label, group, l, m, n_eff, area in zip(  # noqa: E741
            ours.labels, ours.group, ours.l, ours.m, ours.n_eff, ours.a_eff, strict=True
        )
    ]
    deviation = np.array([mode["deviation_percent"] for mode in modes])

    start = time.perf_counter()
    taylor = dispersion(profile, WAVELENGTH, groups=GROUPS, step=step)
    dispersion_seconds = time.perf_counter() - start
    groups = []
    for i, g in enumerate(GROUPS):
        inside = taylor.modes.group == g
        weight = taylor.modes.degeneracy[inside]
        beta, worst = (
            np.average(taylor.beta[inside], axis=0, weights=weight),
            taylor.error[inside].max(axis=0),
        )
        beta2 = groups_table["beta2_ps2_per_km"][i]
        groups.append(
            {
                "group": g,
                "spatial_modes": int(weight.sum()),
                "group_index": float(np.average(taylor.group_index[inside], weights=weight)),
                "dmgd_ps_per_km": float((beta[1] - taylor.beta[0, 1]) * 1e15),
                "dmgd_paper_ps_per_km": groups_table["dmgd_ps_per_km"][i],
                "dmgd_rule_ps_per_km": 0.0 if g == 1 else beta2 * 2 * math.pi * 0.05,
                "beta2_ps2_per_km": float(beta[2] * 1e27),
                "beta2_error_ps2_per_km": float(worst[2] * 1e27),
                "beta2_paper_ps2_per_km": beta2,
                "beta3_ps3_per_km": float(beta[3] * 1e39),
                "beta4_ps4_per_km": float(beta[4] * 1e51),
            }
        )
    return {
        "benchmark": "fibre-modes",
        "wavelength_nm": WAVELENGTH * 1e9,
        "step_um": step * 1e6,
        "modes": modes,
        "groups": groups,
        "a_eff": {
            "rms_percent": float(np.sqrt(np.mean(deviation**2))),
            "max_percent": float(deviation.max()),
            "min_percent": float(deviation.min()),
            "largest_percent": float(np.abs(deviation).max()),
        },
        "counts": {
            "lp_modes": len(every.l),
            "spatial_modes": every.spatial_modes,
            "spatial_modes_groups_1_to_15": ours.spatial_modes,
        },
        "convergence": [
            {"step_um": s * 1e6, "largest_n_eff_error": float(np.abs(error).max())}
            for s, error in convergence(profile, WAVELENGTH, steps).items()
        ],
        "seconds": {"solve": solve_seconds, "dispersion": dispersion_seconds},
    }


def table(result: dict[str, Any]) -> list:
    """The result of `run` as three `rich.table.Table`: effective areas, groups, convergence."""
    from rich.table import Table

    sums, counts = result["a_eff"], result["counts"]
    areas = Table(
        title=f"Effective areas in µm², {counts['spatial_modes_groups_1_to_15']} spatial modes",
        caption=f"deviation: {sums['rms_percent']:.2f} % rms, {sums['min_percent']:+.2f} % to "
        f"{sums['max_percent']:+.2f} %",
    )
    for heading in ("group", "mode", "n_eff", "ours", "paper", "deviation"):
        areas.add_column(heading, justify="left" if heading == "mode" else "right")
    for before, mode in zip([None, *result["modes"]], result["modes"], strict=False):
        first = before is None or before["group"] != mode["group"]
        areas.add_row(
            str(mode["group"]) if first else "",
            mode["label"],
            f"{mode['n_eff']:.7f}",
            f"{mode['a_eff_um2']:.1f}",
            f"{mode['a_eff_paper_um2']:.0f}",
            f"{mode['deviation_percent']:+.2f} %",
        )

    groups = Table(
        title="Dispersion by mode group",
        caption="the paper sets DMGD = β2 · 2π · 50 GHz (worst case); ours is that of the index profile",
    )
    for heading in ("group", "modes", "β2 ps²/km", "paper", "DMGD ps/km", "paper", "β2·2π·50 GHz"):
        groups.add_column(heading, justify="right")
    for g in result["groups"]:
        groups.add_row(
            str(g["group"]),
            str(g["spatial_modes"]),
            f"{g['beta2_ps2_per_km']:.2f}",
            f"{g['beta2_paper_ps2_per_km']:.1f}",
            f"{g['dmgd_ps_per_km']:.1f}",
            f"{g['dmgd_paper_ps_per_km']:.2f}",
            f"{g['dmgd_rule_ps_per_km']:.2f}",
        )

    steps = Table(
        title="Convergence of n_eff, all guided modes", caption="against Richardson's extrapolation"
    )
    steps.add_column("step µm", justify="right")
    steps.add_column("largest error", justify="right")
    for line in result["convergence"]:
        steps.add_row(f"{line['step_um']:.3g}", f"{line['largest_n_eff_error']:.1e}")
    return [areas, groups, steps]


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw the result of `run`: deviation of A_eff (left), β2 and DMGD beside the paper's (right).

    Parameters
    ----------
    result : dict
        From `run`.
    path : str or Path
        Image file; its ending picks the format.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ours, paper, grey = "#1f5fa8", "#d1662a", "#888888"
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)

    order = [mode["l"] for mode in result["modes"]]
    dots = left.scatter(
        [mode["group"] for mode in result["modes"]],
        [mode["deviation_percent"] for mode in result["modes"]],
        c=order,
        cmap="viridis",
        s=28,
        zorder=3,
    )
    left.axhline(0, color=grey, lw=0.8)
    for limit in (-3, 3):
        left.axhline(limit, color=grey, lw=0.8, ls="--")
    left.set(
        xlabel="mode group",
        ylabel="deviation of $A_\\mathrm{eff}$ from table 2 / %",
        title=f"Effective area: {result['a_eff']['rms_percent']:.2f} % rms",
        ylim=(-3.5, 3.5),
        xticks=list(GROUPS),
    )
    figure.colorbar(dots, ax=left, label="azimuthal order l")

    numbers = [g["group"] for g in result["groups"]]
    delays = right.twinx()
    lines = [
        *right.plot(
            numbers, [g["beta2_ps2_per_km"] for g in result["groups"]], "o-", c=ours, label="β2, ours"
        ),
        *right.plot(
            numbers,
            [g["beta2_paper_ps2_per_km"] for g in result["groups"]],
            "o-",
            c=paper,
            label="β2, table 3",
        ),
        *delays.plot(
            numbers,
            [g["dmgd_ps_per_km"] * 1e-3 for g in result["groups"]],
            "s:",
            c=ours,
            mfc="white",
            label="DMGD, ours",
        ),
        *delays.plot(
            numbers,
            [g["dmgd_paper_ps_per_km"] * 1e-3 for g in result["groups"]],
            "s:",
            c=paper,
            mfc="white",
            label="DMGD, table 3",
        ),
    ]
    right.set(xlabel="mode group", ylabel="β2 / ps²/km", title="Dispersion by group", xticks=numbers)
    delays.set_ylabel("DMGD / ns/km")
    right.legend(handles=lines, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, fontsize="small")
    for axes in (left, right):
        axes.grid(alpha=0.25)
    figure.savefig(path, dpi=150)


def _table(name: str) -> dict[str, list[float]]:
    needed = {
        "fibre62_modes.csv": ("mode_group", "l", "m", "a_eff_um2", "spatial_modes"),
        "fibre62_groups.csv": ("mode_group", "dmgd_ps_per_km", "beta2_ps2_per_km"),
    }
    with as_file(files("wavefabric.optics.fibre") / "data" / name) as path:
        return read_columns(path, needed[name])

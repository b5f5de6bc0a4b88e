"""Tables 2 and 3 of Brehler et al.: effective areas and dispersion of the modes of the 62.5 µm fibre."""

from __future__ import annotations

import math
import sys
import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import DeviceName, Json, Output, Plot, run, show
from wavefabric.base.results.figure_style import BLUE, GREY, RED
from wavefabric.base.units import SPEED_OF_LIGHT, quantity
from wavefabric.cli.common.options import option
from wavefabric.fabric.execution import report, timing
from wavefabric.optics.fibre.csv_files import read_columns
from wavefabric.optics.fibre.modes import STEP, dispersion, extrapolate, solve_modes
from wavefabric.optics.fibre.profile import profile_62_5
from wavefabric.runtime.device import get_device

WAVELENGTH = 1550e-9
GROUPS = range(1, 16)


def compare(
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
                "group_index": float(SPEED_OF_LIGHT * beta[1]),
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
    converged = extrapolate(profile, WAVELENGTH, min(steps))
    errors = {s: np.abs(solve_modes(profile, WAVELENGTH, s).n_eff - converged).max() for s in steps}
    return {
        "benchmark": "modes",
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
            {"step_um": s * 1e6, "largest_n_eff_error": float(error)} for s, error in errors.items()
        ],
        "seconds": {"solve": solve_seconds, "dispersion": dispersion_seconds},
    }


def table(result: dict[str, Any]) -> list:
    """Effective areas, mode groups, and convergence of n_eff."""
    sums, counts = result["a_eff"], result["counts"]
    areas = []
    for before, mode in zip([None, *result["modes"]], result["modes"], strict=False):
        first = before is None or before["group"] != mode["group"]
        areas.append((
            str(mode["group"]) if first else "",
            mode["label"],
            f"{mode['n_eff']:.7f}",
            f"{mode['a_eff_um2']:.1f}",
            f"{mode['a_eff_paper_um2']:.0f}",
            f"{mode['deviation_percent']:+.2f} %",
        ))  # fmt: skip
    groups = [
        (
            str(g["group"]),
            str(g["spatial_modes"]),
            f"{g['beta2_ps2_per_km']:.2f}",
            f"{g['beta2_paper_ps2_per_km']:.1f}",
            f"{g['dmgd_ps_per_km']:.1f}",
            f"{g['dmgd_paper_ps_per_km']:.2f}",
            f"{g['dmgd_rule_ps_per_km']:.2f}",
        )
        for g in result["groups"]
    ]
    steps = [(f"{s['step_um']:.3g}", f"{s['largest_n_eff_error']:.1e}") for s in result["convergence"]]
    return [
        report.table(
            f"Effective areas in µm², {counts['spatial_modes_groups_1_to_15']} spatial modes",
            ("group", "<mode", "n_eff", "ours", "paper", "deviation"),
            areas,
            f"deviation: {sums['rms_percent']:.2f} % rms, {sums['min_percent']:+.2f} % to "
            f"{sums['max_percent']:+.2f} %",
        ),
        report.table(
            "Dispersion by mode group",
            ("group", "modes", "β2 ps²/km", "paper", "DMGD ps/km", "paper", "β2·2π·50 GHz"),
            groups,
            "the paper sets DMGD = β2 · 2π · 50 GHz (worst case); ours is that of the index profile",
        ),
        report.table(
            "Convergence of n_eff, all guided modes",
            ("step µm", "largest error"),
            steps,
            "against Richardson's extrapolation",
        ),
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """Deviation of A_eff (left), β2 and DMGD with the paper's (right)."""
    modes, groups = result["modes"], result["groups"]
    numbers = [g["group"] for g in groups]
    with report.figure(path, (11, 4.4)) as drawn:
        left, right = drawn.subplots(1, 2)
        dots = left.scatter(
            [mode["group"] for mode in modes],
            [mode["deviation_percent"] for mode in modes],
            c=[mode["l"] for mode in modes],
            cmap="viridis",
            s=28,
            zorder=3,
        )
        for limit, line in ((0, "-"), (-3, "--"), (3, "--")):
            left.axhline(limit, color=GREY, lw=0.8, ls=line)
        left.set(
            xlabel="mode group",
            ylabel="deviation of $A_\\mathrm{eff}$ from table 2 / %",
            title=f"Effective area: {result['a_eff']['rms_percent']:.2f} % rms",
            ylim=(-3.5, 3.5),
            xticks=numbers,
        )
        drawn.colorbar(dots, ax=left, label="azimuthal order l")
        delays = right.twinx()
        lines = []
        for axes, key, scale, name, style, fill in (
            (right, "beta2{}_ps2_per_km", 1.0, "β2", "o-", None),
            (delays, "dmgd{}_ps_per_km", 1e-3, "DMGD", "s:", "white"),
        ):
            for who, label, colour in (("", "ours", BLUE), ("_paper", "table 3", RED)):
                values = [g[key.format(who)] * scale for g in groups]
                lines += axes.plot(
                    numbers, values, style, color=colour, mfc=fill or colour, label=f"{name}, {label}"
                )
        right.set(xlabel="mode group", ylabel="β2 / ps²/km", title="Dispersion by group", xticks=numbers)
        delays.set_ylabel("DMGD / ns/km")
        right.legend(
            handles=lines, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, fontsize="small"
        )


def _table(name: str) -> dict[str, np.ndarray]:
    needed = {
        "fibre62_modes.csv": ("mode_group", "l", "m", "a_eff_um2", "spatial_modes"),
        "fibre62_groups.csv": ("mode_group", "dmgd_ps_per_km", "beta2_ps2_per_km"),
    }
    with as_file(files("wavefabric.optics.fibre") / "data" / name) as path:
        return read_columns(path, needed[name])


def main(
    radial_step: Annotated[str, option("Radial step of the solver.")] = "0.02 um",
    device: DeviceName = "cpu",
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Modes of the 62.5 µm fibre against tables 2 and 3 of the paper (always solved on the CPU)."""
    result = compare(quantity(radial_step, "m", "--radial-step"))
    result["machine"] = timing.machine(get_device(device))
    show(__name__, result, as_json, output, plot)


if __name__ == "__main__":
    run(main)

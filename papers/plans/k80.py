"""Table 1 and figure 3 of Brehler et al. on p2.8xlarge: T_K/T_1 with MPI and NCCL, predicted."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.fibre.scaling import PAPER, PAPER_CASE, PAPER_SPLIT
from papers.lumorph.panels import draw_panels
from papers.plans import machines
from wavefabric.base.results.figure_style import BLUE, RED, SKY
from wavefabric.cli.bench.solver_rates import first_modes
from wavefabric.fabric import load
from wavefabric.fabric.planner.exchange_times import ExchangeTimes
from wavefabric.fabric.planner.fibre_step import FibreStep, kerr_coupling
from wavefabric.fabric.planner.rates import load_rates
from wavefabric.optics.propagation.rank_modes import RankModes

(MODES, SAMPLES), GPUS = PAPER_CASE, (1, 2, 4, 6, 8)
#: Carrier, and B/s of a transfer where it is not that of the fabric file.
CURVES = {"MPI": ("mpi-cuda", 0.0), "NCCL": ("nccl", 0.0), "NCCL, nominal links": ("nccl", 15.75e9)}
#: Why ours differ.
NOTES = [
    "nothing is fitted; MPI sends directly to all, NCCL goes round a ring",
    "NCCL, 8 GPUs: a ring at 12 GB/s alone takes longer than the paper's step, at nominal 15.75 GB/s it fits",
    "NCCL, 2 GPUs: we couple powers by chunks of time as they come, the paper after the whole all-gather",
]


def ratios(curve: str, chunks: int | None = None) -> list[dict[str, float]]:
    """T_K/T_1 and its parts for all `GPUS`; ``chunks`` of time, by default as a run chooses."""
    carrier, link = CURVES[curve]
    fabric: Any = load("p2.8xlarge")
    fabric = replace(fabric, flow_bandwidth=link) if link else fabric
    one, split = _one()
    points = [{"gpus": 1, "ratio": split, "compute": split, "exchange": 0.0}]
    for gpus in GPUS[1:]:
        taken = _step(gpus, ExchangeTimes(fabric, carrier), chunks).times()
        parts = {"ratio": taken.step, "compute": taken.compute, "exchange": taken.exchange}
        points.append({"gpus": gpus} | {key: seconds / one for key, seconds in parts.items()})
    return points


def _step(gpus: int, exchange: ExchangeTimes | None = None, chunks: int | None = None) -> FibreStep:
    modes = RankModes(tuple(range(0, MODES * gpus + 1, MODES)))
    coupling = kerr_coupling(first_modes(MODES * gpus), modes, "dense")
    how = {"precision": "double", "rates": load_rates("k80"), "exchange": exchange}
    return FibreStep(coupling, SAMPLES, "rk4ip", modes, chunks, **how)


def _one() -> tuple[float, float]:
    """T_1 in s, and the split code's over it: its Kerr operators by several kernels."""
    one, rates, rows = _step(1).times().step, load_rates("k80"), 2 * MODES
    longer = 0.0
    for name in ("rk4ip_middle", "rk4ip_last"):
        split, whole = (rates.kerr(name, "double", "dense", how, rows) for how in ("split", "one"))
        longer += (split - whole) * rows * SAMPLES
    return one, 1 + longer / one


def tables(say=lambda line: None) -> dict[str, Any]:
    """15 modes a GPU x 2^21 samples, RK4IP, double, K80s: ``curves`` of T_K/T_1; ``paper``; ``one_ms``."""
    say("1 to 8 GPUs")
    known = {("mpi", 1): PAPER_SPLIT, ("nccl", 1): PAPER_SPLIT} | PAPER
    paper = [{"transport": name.upper(), "gpus": k, "ratio": ratio} for (name, k), ratio in known.items()]
    curves = {name: ratios(name) for name in CURVES}
    return {"benchmark": "k80", "one_ms": 1e3 * _one()[0], "curves": curves, "paper": paper, "notes": NOTES}


def table(result: dict[str, Any]) -> list:
    """T_K/T_1, ours and the paper's."""
    rows: list[dict[str, Any]] = []
    for name, curve in result["curves"].items():
        cells = {f"K{p['gpus']}": "{ratio:.2f} ({exchange:.2f})".format_map(p) for p in curve}
        rows.append({"name": f"{name}, ours"} | cells)
        mine = {f"K{p['gpus']}": f"{p['ratio']}" for p in result["paper"] if p["transport"] == name}
        rows += [{"name": f"{name}, paper"} | {f"K{k}": "" for k in GPUS} | mine] if mine else []
    columns = {"<T_K/T_1 (exchange)": "{name}"} | {f"K = {k}": f"{{K{k}}}" for k in GPUS}
    title = f"{MODES} modes a GPU x {SAMPLES} samples, p2.8xlarge"
    return [machines.table(title, columns, rows), machines.notes(result)]


def plot(result: dict[str, Any], path: Path) -> None:
    """T_K/T_1 over K, and the paper's points."""
    draw_panels(path, [lambda axes: _panel(axes, result)], width=6.2)


def _panel(axes, result: dict[str, Any]) -> None:
    for name, marker, colour in (("MPI", "x", BLUE), ("NCCL", "P", RED)):
        points = [(p["gpus"], p["ratio"]) for p in result["paper"] if p["transport"] == name]
        axes.plot(*zip(*points, strict=True), marker, color=colour, markersize=9, label=f"{name}, paper")
    looks = zip(result["curves"].items(), ("o-", "s-", ":"), (BLUE, RED, SKY), strict=True)
    lines = [(f"{name}, ours", [p["ratio"] for p in curve], *look) for (name, curve), *look in looks]
    machines.curves(axes, GPUS, lines, "p2.8xlarge, 15 modes a GPU", "$T_K/T_1$")
    axes.set(xlabel="GPUs K", ylim=(0, None))


main = command(__name__, tables)

if __name__ == "__main__":
    run(main)

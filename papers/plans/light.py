"""Both simulations on the LUMORPH paper's machine: what circuits of light do to their exchanges."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.panels import draw_panels
from papers.plans import machines
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.base.results.figure_style import BLUE, GREEN, ORANGE, PURPLE, RED, SKY
from wavefabric.cli.bench.solver_rates import first_modes
from wavefabric.collectives import Schedule, point_to_point
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric import load
from wavefabric.fabric.planner.exchange_times import ExchangeTimes
from wavefabric.fabric.planner.fibre_step import FibreStep, kerr_coupling
from wavefabric.fabric.planner.rates import load_rates
from wavefabric.fabric.planner.ultrasound_step import UltrasoundStep
from wavefabric.optics.propagation.rank_modes import RankModes, split_modes

TILES: tuple[int, ...] = (4, 8, 16, 32, 64)
FABRICS = {"light": "lightpath-256", "switch": "switch:64", "hgx": "hgx-h200"}
#: Blocks along x, y, z, in the order of tiles.
BLOCKS = ((1, 2, 2), (2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4))
PENCILS = ((1, 2, 2), (1, 2, 4), (1, 4, 4), (1, 4, 8), (1, 8, 8))
COLOURS = {"local slabs": BLUE, "local blocks": SKY, "global slabs": RED, "global pencils": ORANGE}
COLOURS |= {"dense powers": GREEN, "factored powers": PURPLE}
#: What explains the ratios.
NOTES = [
    "one exchange: overlaps of a field, transposes of a spectrum, an all-gather of powers",
    "even: its bytes in messages of one size; else blocks and pencils wait for large ones on as many lasers",
    "more than 16 neighbours are more than a tile has lasers: two parts. The paper has no such simulations",
]


def tables(say=lambda line: None) -> dict[str, Any]:
    """1024³ points, and 120 modes x 2^18 samples, on H200s: ``rows`` by tiles and decomposition.

    ms of a step by fabric; ``exchange`` and ``even``: light over switch, of one exchange.
    """
    fabrics = {name: load(preset) for name, preset in FABRICS.items()}
    rows = []
    for tiles, what in [(tiles, what) for tiles in TILES for what in COLOURS]:
        say(f"{tiles} tiles, {what}")
        exchanges = {name: ExchangeTimes(f, "p2p") for name, f in fabrics.items() if f.ranks >= tiles}
        on = {name: _step(what, tiles, exchange) for name, exchange in exchanges.items()}
        case: dict[str, Any] = {"tiles": tiles, "what": what, "hgx": None}
        case |= {name: 1e3 * one.times().step for name, one in on.items()}
        schedule, item = on["light"].schedule, on["light"].item * (2 if what.startswith("global") else 1)
        switch, light = exchanges["switch"].seconds(schedule, item), exchanges["light"]
        ratios = {"exchange": light.seconds(schedule, item), "even": light.seconds(_even(schedule), item)}
        rows.append(case | {name: seconds / switch for name, seconds in ratios.items()})
    return {"benchmark": "light", "rows": rows, "notes": NOTES}


def _step(what: str, tiles: int, exchange: ExchangeTimes) -> UltrasoundStep | FibreStep:
    kind, form = what.split()
    rates, n = load_rates("h200"), TILES.index(tiles)
    if form == "powers":
        modes = RankModes(split_modes(120, tiles))
        coupling, how = kerr_coupling(first_modes(120), modes, kind), ("rk4ip", modes)
        return FibreStep(coupling, 1 << 18, *how, precision="double", rates=rates, exchange=exchange)
    cut = {"slabs": (1, 1, tiles), "blocks": BLOCKS[n], "pencils": PENCILS[n]}[form]
    part = decompose((1024, 1024, 1024), tiles, Decomposition(kind, cut, 16))  # type: ignore[arg-type]
    how = {"precision": "single", "rates": rates, "exchange": exchange}
    return UltrasoundStep(part, machines.MEDIUM, "fused", **how)


def _even(schedule: Schedule) -> Schedule:
    """As many elements between the same pairs, as many in each."""
    away = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    pairs = sorted(set(zip(away["src"].tolist(), away["dst"].tolist(), strict=True)))
    total = int(transfer_elements(schedule)[schedule.transfers["src"] != schedule.transfers["dst"]].sum())
    return point_to_point("even", schedule.ranks, [(*pair, total // len(pairs)) for pair in pairs])


def table(result: dict[str, Any]) -> list:
    """ms of a step on each fabric, and of one exchange."""
    rows = [r | {"HGX": f"{r['hgx']:.2f}" if r["hgx"] else ""} for r in result["rows"]]
    columns = {"tiles": "{tiles}", "<decomposition": "{what}", "light, ms": "{light:.2f}"}
    columns |= {"switch, ms": "{switch:.2f}", "HGX, ms": "{HGX}", "exchange, light/switch": "{exchange:.2f}"}
    columns |= {"even": "{even:.2f}"}
    return [machines.table("steps on H200s behind light", columns, rows), machines.notes(result)]


def plot(result: dict[str, Any], path: Path) -> None:
    """Steps on light, dashed on the switch; and how much longer one exchange takes on light."""
    names = [*COLOURS]
    panels = [
        lambda a: _panel(a, result, names[:4], ("light", "switch"), "1024³ points (dashed: ideal switch)"),
        lambda a: _panel(a, result, names[4:], ("light", "switch"), "120 modes (dashed: ideal switch)"),
        lambda a: _panel(a, result, names, ("exchange", "even"), "one exchange, light/switch (dashed: even)"),
    ]
    draw_panels(path, panels, width=4.2)


def _panel(axes, result: dict[str, Any], shown: list[str], keys: tuple[str, str], title: str) -> None:
    lines = []
    for what in shown:
        solid, dashed = ([r[key] for r in result["rows"] if r["what"] == what] for key in keys)
        lines += [(what, solid, "o-", COLOURS[what]), ("", dashed, "--", COLOURS[what])]
    machines.curves(axes, TILES, lines, title, "ratio" if "even" in keys else "time of one step (ms)")
    axes.set_xlabel("tiles")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(top=20 if "even" in keys else None)  # above the lines: the legend


main = command(__name__, tables)

if __name__ == "__main__":
    run(main)

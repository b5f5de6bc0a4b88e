"""Tables of ``lumorph``."""

from __future__ import annotations

from typing import Any

#: Why a schedule's cost is not that of the printed formula, by series of figure 7.
WHY = {
    "Ring": "",
    "Tree": "printed: one transfer time for all levels together; the schedule pays it at each",
    "Lumorph-2": "",
    "Lumorph-4": "128 is no power of 4: the farthest round has one peer, and all lasers for it",
    "D&C": "first round: whole arrays to three peers, not one",
}


def table(result: dict[str, Any]) -> list:
    """The result of `wavefabric.bench.lumorph.run` as `rich.table.Table` objects."""
    makers = {
        "3": _figure3,
        "5": _figure5,
        "6": _figure6,
        "7": _figure7,
        "radix": _radix,
        "baselines": _baselines,
    }
    figures = result["figures"]
    found = []
    if any("series" in figure for figure in figures.values()):
        found.append(_deviations(figures))
    for name, make in makers.items():
        if name in figures:
            found += make(figures[name])
    return [*found, _claims(result["claims"])]


def _new(title: str, words: tuple[str, ...], numbers: tuple[str, ...], caption: str = ""):
    from rich.table import Table

    lines = Table(title=title, caption=caption or None)
    for word in words:
        lines.add_column(word)
    for number in numbers:
        lines.add_column(number, justify="right", no_wrap=True)
    return lines


def _deviations(figures: dict[str, Any]):
    lines = _new(
        "ours beside the paper's figures",
        ("figure", "panel", "series"),
        ("points", "largest deviation", "relative"),
        "times from the formulas as printed; overlaps from least-overlap routes",
    )
    for figure in figures.values():
        for one in figure.get("series", ()):
            unit = "µs" if one["unit"] == "us" else ""
            lines.add_row(
                one["figure"],
                one["panel"],
                one["series"],
                str(len(one["x"])),
                f"{one['largest']:.3f} {unit}" if unit else f"{one['largest']:.0f}",
                f"{one['relative']:.2%}" if unit else "",
            )
    return lines


def _figure7(figure: dict[str, Any]) -> list:
    lines = _new(
        "figure 7 from schedules: built, proved, costed round by round",
        ("GPUs", "series"),
        ("rounds", "µs", "printed", "µs/MiB", "printed", "64 MiB, µs", "printed"),
    )
    for one in figure["schedules"]:
        mib = 1e6 * 2**20
        times = (one["latency"], one["per_byte"]), (one["printed_latency"], one["printed_per_byte"])
        (a, b), (c, d) = times
        lines.add_row(
            one["panel"].split()[0],
            one["series"],
            str(one["rounds"]),
            *(f"{value:.2f}" for value in (1e6 * a, 1e6 * c, mib * b, mib * d)),
            *(f"{1e6 * (x + 64 * 2**20 * y):.1f}" for x, y in times),
        )
    lines.caption = "\n".join(f"{name}: {why}" for name, why in WHY.items() if why)
    return [lines]


def _figure3(figure: dict[str, Any]) -> list:
    sizes = sorted({one["ranks"] for one in figure["ours"]})
    lines = _new(
        "figure 3: seconds to find routes with the least overlap, all rounds of an all-reduce",
        ("routes",),
        tuple(str(n) for n in sizes),
        "ours: time of the processor; overlap in one direction of an edge; certified: proved least",
    )
    for radix in (2, 4):
        mine = {one["ranks"]: one for one in figure["ours"] if one["radix"] == radix}
        lines.add_row(f"radix {radix}, s", *(f"{mine[n]['seconds']:.3f}" for n in sizes))
        lines.add_row(
            f"radix {radix}, overlap",
            *(
                f"{max(mine[n]['overlaps'])}"
                + ("" if mine[n]["certified"] else f" (≥ {max(mine[n]['bounds'])})")
                for n in sizes
            ),
        )
    curves = sorted((dict(map(tuple, drawn)) for drawn in figure["paper"].values()), key=lambda at: at[256])
    for name, at in zip(("faster", "slower"), curves, strict=True):
        lines.add_row(f"paper, {name} curve, s", *(f"{at[n]:g}" for n in sizes))
    return [lines]


def _spreads(title: str, first: str, rows: list[dict[str, Any]], label) -> Any:
    lines = _new(
        title,
        (first,),
        ("GPUs", "paper's draw", "least", "5 %", "median", "95 %", "most", "below it", "up to it"),
        "below, up to: share of our draws",
    )
    for one in rows:
        lines.add_row(
            label(one),
            str(one["ranks"]),
            *(f"{one[key]:g}" for key in ("paper", "least", "low", "median", "high", "most")),
            *(f"{one[key]:.0%}" for key in ("below", "up_to")),
        )
    return lines


def _figure5(figure: dict[str, Any]) -> list:
    lines = _spreads(
        "figure 5: most circuits on an edge, routes drawn at random",
        "series",
        figure["random"],
        lambda one: one["series"],
    )
    lines.caption += f"\nLumorph-4 at 8 GPUs: tiles as 4 x 2; as 2 x 4 the least overlap is {figure['lying']}"
    return [lines]


def _figure6(figure: dict[str, Any]) -> list:
    return [
        _spreads(
            "figure 6: reconfigurations, routes drawn at random",
            "series, waveguides",
            figure["random"],
            lambda one: f"{one['series']}, {one['waveguides']}",
        )
    ]


def _radix(figure: dict[str, Any]) -> list:
    lines = _new(
        "all-reduce of 256 GPUs by radix, 16 lasers",
        ("radix",),
        (
            "rounds",
            "lasers a peer",
            "overlap",
            "waveguides",
            *(f"{size:g} MiB, µs" for size in figure["table_mib"]),
        ),
        "overlap: circuits on an edge, one direction; waveguides: enough for them, each direction\n"
        "(different wavelengths share one); µs in brackets: schedules",
    )
    for one in figure["rows"]:
        overlap = f"{one['overlap']}" + ("" if one["certified"] else f" (≥ {one['bound']})")
        guides = one["waveguides"]
        pairs = zip(one["us"], one["schedule_us"], strict=True)
        lines.add_row(
            str(one["radix"]),
            str(one["rounds"]),
            str(one["lasers"]),
            overlap,
            f"{guides}" + ("" if guides == one["waveguides_bound"] else f" (≥ {one['waveguides_bound']})"),
            *(f"{a:.1f} ({b:.1f})" for a, b in pairs),
        )
    return [lines]


def _baselines(figure: dict[str, Any]) -> list:
    lines = _new(
        "all-reduce of 256 GPUs: times in µs",
        ("algorithm", "over"),
        tuple(f"{size:g} MiB" for size in figure["table_mib"]),
    )
    for one in figure["lines"]:
        over = "ideal switch" if one["where"] == "switch" else "LIGHTPATH"
        lines.add_row(one["name"], over, *(f"{value:.1f}" for value in one["table_us"]))
    trees = _new(
        "pipelined trees as schedules, ideal switch",
        ("tree",),
        ("MiB", "pieces", "rounds", "schedule, µs", "formula, µs"),
    )
    for one in figure["trees"]:
        trees.add_row(
            one["algorithm"],
            f"{one['mib']:g}",
            str(one["pieces"]),
            str(one["rounds"]),
            f"{one['us']:.1f}",
            f"{one['formula_us']:.1f}",
        )
    waveguides = sorted({one["waveguides"] for one in figure["split"]})
    split = _new(
        "8 MiB, 256 GPUs, few waveguides: rounds after splitting, and µs",
        ("radix", "routes"),
        tuple(f"{number} waveguides" for number in waveguides),
        "circuits of different wavelengths share a waveguide; each direction has its own",
    )
    for radix, way in sorted({(one["radix"], one["way"]) for one in figure["split"]}):
        mine = {s["waveguides"]: s for s in figure["split"] if (s["radix"], s["way"]) == (radix, way)}
        cells = (mine[number] for number in waveguides)
        split.add_row(str(radix), way, *(f"{cell['parts']}, {cell['us']:.1f}" for cell in cells))
    return [lines, trees, split]


def _claims(claims: list[dict[str, str]]):
    lines = _new("claims", ("claim", "paper", "recomputed", "holds?"), ())
    for one in claims:
        lines.add_row(one["claim"], one["paper"], one["recomputed"], one["holds"])
    return lines

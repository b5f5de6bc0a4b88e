"""Why schedules are slower than published ones, or than the bound: read off the numbers of a row."""

from __future__ import annotations

from typing import Any

from papers.synthesis.topology_rows import ALL_REDUCE

#: Ratio to a published time and to the bound up to which nothing needs a reason.
CLOSE = 1.02


def reason(row: dict[str, Any]) -> str:
    """The reasons of a computed row; empty if it is within 2 % of the bound and of the published time."""
    if row["refusal"]:
        return f"no schedule: {row['refusal']}"
    if 1 + row["gap"] <= CLOSE and (row["ratio"] or 0) <= CLOSE:
        return ""
    parts = []
    if row["by"] == "ForestColl":
        parts.append("published without latency")
    if row["collective"] == ALL_REDUCE and 1 + row["gap"] > CLOSE:
        parts.append("sums, then copies; the bound is that of both at once")
    if row["seconds"] > CLOSE * row["flow"]:
        saved = f"{row['flow'] * 1e6:.4g} µs where transfers wait for their data alone"
        parts.append(f"rounds wait for their slowest transfer: {saved}")
    if "deep" in row["method"] and row["rounds"] > 1:
        depth = row["method"].partition(" deep")[0].rpartition(" ")[2]
        what = f"routes of {depth} hops" if row["method"].startswith("relays") else f"trees {depth} deep"
        parts.append(f"{what} fill and drain, in {row['rounds']} rounds with latency each")
    return "; ".join(parts) or "no method found a faster one"

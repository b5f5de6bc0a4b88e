"""The page of a folder that the benchmark suite wrote: what became of each part, and its pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wavefabric.errors import InputError
from wavefabric.files.input import parse_json, read_bytes, read_text
from wavefabric.report.content import BAD, WARNED, Content, Tile, pairs
from wavefabric.report.figures import bars, image, pairs_table, table, text
from wavefabric.units import counted, time_words

#: Bytes of all pictures.
_MOST_PICTURES = 3 << 20
FILE = "suite.json"


def suite_content(folder: Path) -> Content:
    """What a suite's folder says; InputError for one whose records cannot be read."""
    settings = _read(folder / FILE)
    machine = settings.get("machine", {})
    records = [_read(path) for path in sorted((folder / "parts").glob("*.json"))]
    records = [each for each in records if {"name", "state"} <= each.keys()]
    states = [str(each["state"]) for each in records]
    done, failed = states.count("done"), states.count("failed")
    content = Content("benchmark suite", folder.resolve().name, f"{done} of {counted(len(records), 'part')} done")
    content.tiles = [Tile("Parts done", f"{done} of {len(records)}", "small sizes" if settings.get("small") else "full sizes")]
    if done < len(records):
        content.verdict += f", {failed} failed" if failed else ""
        content.state = BAD if failed else WARNED
    seconds = {str(each["name"]): float(each.get("seconds") or 0.0) for each in records}
    order = sorted(seconds, key=lambda name: -seconds[name])
    total = sum(seconds.values())
    gpus = machine.get("gpus") or []
    where = f"up to {settings.get('ranks', 1)} ranks" + (f", {counted(len(gpus), 'GPU')}" if gpus else ", CPU")
    content.tiles.append(Tile("Time", time_words(total) if total else "none", where))
    content.parts = {name: seconds[name] for name in order[:7]} | {"the rest": sum(seconds[name] for name in order[7:])}
    content.warnings = [f"{each['name']}: {each.get('why') or each['state']}" for each in records if each["state"] != "done"]
    chart = content.thumbnail = bars("Time of each part", [(name, {"": seconds[name]}, False) for name in order])
    pictures, left = [], _MOST_PICTURES
    for path in [*sorted(folder.glob("*.png")), *sorted((folder / "parts").glob("*/*.png"))]:
        if (size := path.stat().st_size) <= left:
            left -= size
            pictures.append(image(read_bytes(path), path.stem.replace("-", " ")))
    from wavefabric.report.figures import macro

    content.add("Figures", chart, *(macro("framed", content=each) for each in pictures))
    heads = "part", "state", "time", "command"
    rows = [(e["name"], e["state"], f"{seconds[str(e['name'])]:.1f} s", e.get("command", "")) for e in records]
    content.add("Parts", table(heads, rows))
    about = pairs({key: value for key, value in machine.items() if isinstance(value, str)})
    rest = {key: value for key, value in machine.items() if not isinstance(value, str)}
    content.add("Provenance", pairs_table(about, "Machine"), text("Everything about the machine", json.dumps(rest, indent=2)))
    return content


def _read(path: Path) -> dict[str, Any]:
    facts = parse_json(read_text(path, "suite"), f"{path}")
    if not isinstance(facts, dict):
        raise InputError(f"{path}: no JSON object; allowed: a record of the benchmark suite")
    return facts

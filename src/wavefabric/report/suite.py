"""The page of a folder that the benchmark suite wrote: what became of each part, and its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wavefabric.errors import InputError
from wavefabric.files.input import parse_json, read_bytes, read_text
from wavefabric.report.content import BAD, GOOD, WARNED, Content, Tile, pairs
from wavefabric.report.figures import bars, image, macro, table
from wavefabric.units import counted, time_words

FILE = "suite.json"
#: Bytes of all pictures, and parts that are told apart in the bar.
_MOST_PICTURES, _MOST_PARTS = 3 << 20, 7


def suite_content(folder: Path) -> Content:
    """What a suite's folder says; InputError for one whose records cannot be read."""
    settings, records = _read(folder / FILE), list(map(_read, sorted((folder / "parts").glob("*.json"))))
    seconds = {each["name"]: float(each.get("seconds") or 0.0) for each in records}
    wrong = [each for each in records if each["state"] != "done"]
    failed = sum(each["state"] == "failed" for each in wrong)
    done = f"{len(records) - len(wrong)} of {len(records)}"
    content = Content("benchmark suite", folder.resolve().name)
    content.verdict = f"{done} parts done" + (f", {failed} failed" if failed else "")
    content.state = BAD if failed else WARNED if wrong else GOOD
    content.warnings = [f"{each['name']}: {each.get('why') or each['state']}" for each in wrong]
    order, total = sorted(seconds, key=lambda name: -seconds[name]), sum(seconds.values())
    content.parts = {name: seconds[name] for name in order[:_MOST_PARTS]}
    content.parts |= {"the rest": total - sum(content.parts.values())}
    machine = settings.get("machine", {})
    gpus = counted(len(machine["gpus"]), "GPU") if machine.get("gpus") else "CPU"
    where = f"up to {settings.get('ranks', 1)} ranks, {gpus}"
    content.tiles = [
        Tile("Time", time_words(total) if total else "none", where),
        Tile("Parts done", done, "small sizes" if settings.get("small") else "full sizes"),
    ]
    rows = [(name, {"": seconds[name]}, False) for name in order]
    content.thumbnail = bars("Time of each part", rows)
    content.add("Figures", content.thumbnail)
    left = _MOST_PICTURES
    for path in [*sorted(folder.glob("*.png")), *sorted((folder / "parts").glob("*/*.png"))]:
        if (left := left - path.stat().st_size) < 0:
            break
        content.add("Figures", macro("framed", content=image(read_bytes(path), path.stem.replace("-", " "))))
    cells = [(e["name"], e["state"], f"{seconds[e['name']]:.1f} s", e.get("command", "")) for e in records]
    content.add("Parts", table(("part", "state", "time", "command"), cells))
    content.add("Provenance", table([], pairs(machine, ("transports", "versions")), "Machine"))
    return content


def _read(path: Path) -> dict[str, Any]:
    facts = parse_json(read_text(path, "suite"), f"{path}")
    needed = {"machine"} if path.name == FILE else {"name", "state"}
    if not isinstance(facts, dict) or not needed <= facts.keys():
        raise InputError(f"{path}: no record of the benchmark suite; allowed: what benchmarks/suite.py wrote")
    return facts

"""Writes the rounds of a schedule as one self-contained HTML page: animated, with controls."""

from __future__ import annotations

import html
import json
from importlib.resources import files

import numpy as np

from wavefabric.fabric.draw import style
from wavefabric.fabric.draw.circuit_geometry import HALF, RoundsScene, Scene, rounded
from wavefabric.fabric.draw.wafers import streets

#: Units of the drawing per tile pitch.
_UNIT = 100


def page(scene: RoundsScene) -> str:
    """Return the HTML text of a page that animates the rounds of a scene."""
    paths: dict[str, int] = {}
    ends: list[list[float]] = []
    colours: dict[str, int] = {}

    def strand(each) -> list[float]:
        verbs = rounded(each.points)
        text = "".join(verb + " ".join(f"{v:g}" for v in _numbers(data)) for verb, data in verbs)
        if text not in paths:
            tip, before = each.points[-1], each.points[-2]
            angle = float(np.degrees(np.arctan2(*(tip - before)[::-1])))
            ends.append([*_numbers(tip), round(angle, 1)])
        tint = style.wavelength_colour(each.wavelength)
        width = round(max(each.width * _UNIT * 0.85, 0.5), 2)
        return [paths.setdefault(text, len(paths)), colours.setdefault(tint, len(colours)), width]

    sets = list(dict.fromkeys(now.circuits for now in scene.frames))
    frames = []
    for now in scene.frames:
        before, after = ([_or_none(v, 4) for v in level] for level in (now.before, now.after))
        # Omit levels at the begin that equal the levels at the end of the previous frame.
        before = None if frames and frames[-1]["after"] == before else before
        made = {"title": now.title, "note": now.note, "begin": _or_none(now.begin), "end": _or_none(now.end)}
        made |= {"before": before, "after": after, "circuits": sets.index(now.circuits)}
        frames.append(made)
    drawn = [[[c.src, c.dst, c.words, list(map(strand, c.strands))] for c in each] for each in sets]
    waveguides, fibres = streets(scene) if isinstance(scene, Scene) else ([], [])
    content = {
        "title": scene.title,
        "subtitle": scene.subtitle,
        "half": HALF * _UNIT,
        "box": _numbers(scene.box),
        "wafers": [_numbers(w) for w in scene.wafers],
        "streets": [_numbers(s) for s in waveguides],
        "fibres": [_numbers(s) for s in fibres],
        "tiles": [_numbers(t) for t in scene.tiles],
        "spectrum": style.spectrum(scene.fabric.lasers) if isinstance(scene, Scene) else [],
        "levels": [style.level_colour(k / 32) for k in range(32)],
        "full": style.level_colour(1.0),
        "paths": list(paths),
        "ends": ends,
        "colours": list(colours),
        "sets": drawn,
        "frames": frames,
    }
    # "</script>" in a name must not end the data.
    data = json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    text = files("wavefabric.fabric.draw").joinpath("page.html").read_text("utf-8")
    return text.replace("@TITLE@", html.escape(scene.title)).replace("@DATA@", data)


def _numbers(values) -> list[float]:
    return [round(float(v) * _UNIT, 1) for v in np.ravel(values)]


def _or_none(value: float, digits: int | None = None) -> float | None:
    """Return the number, rounded to ``digits``, or None for NaN, which JSON lacks."""
    if np.isnan(value):
        return None
    return float(value) if digits is None else round(float(value), digits)

"""The page of an ultrasound result: of `simulate`, or in k-Wave's layout; nothing is read as a whole."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from wavefabric.acoustics.pictures.plot_recorded import CURVES, colours_of, scale_of
from wavefabric.acoustics.pictures.recorded import RecordedArray, RecordedFile
from wavefabric.acoustics.recording.quantities import describe
from wavefabric.errors import InputError
from wavefabric.files import hdf5
from wavefabric.report.content import BAD, Content, memory_tile, pairs, plan_parts, step_tile
from wavefabric.report.figures import Axis, bars, colour_map, eight_bits, gradient, macro, pairs_table, picture, plot
from wavefabric.report.plan import plan_of

#: Points of all fields of a page together, quantities that it shows, frames of a movie, points of one frame.
MOST_POINTS, MOST_ITEMS, MOST_FRAMES, MOST_IN_FRAME = 900_000, 8, 60, 10_000
_PHASES = {
    "data_loading_phase_execution_time": "loading",
    "pre-processing_phase_execution_time": "preprocessing",
    "simulation_phase_execution_time": "simulation",
    "post-processing_phase_execution_time": "postprocessing",
}


def ultrasound_content(file: RecordedFile) -> Content:
    """What an open file says; quantities that are damaged or not finite are named in the verdict."""
    attrs = file.attributes()
    grid = " × ".join(map(str, file.shape))
    title = str(attrs.get("file_description") or file.path.stem)
    content = Content("ultrasound", title, "")
    seconds, steps, nbytes, where = _cost(file, attrs)
    plan, total, stepping = plan_of(attrs), sum(seconds.values()), seconds.get("simulation", 0.0)
    content.tiles = [
        step_tile(stepping / max(steps, 1), total, plan, steps),
        memory_tile(nbytes, where, plan),
    ]
    content.parts = seconds
    chosen = _chosen(list(file.items.values()))
    volumes = sum(item.kind in ("field", "box") for item in chosen)
    blocks, peaks = [], []
    for item in chosen:
        try:
            blocks += _figure(content, item, MOST_POINTS // max(volumes, 1), peaks)
        except InputError as error:
            content.warnings.append(str(error).partition(": ")[2] or str(error))
    if left := [item.name for item in file.items.values() if item not in chosen]:
        content.warnings.append(f"not shown here, but in the file: {', '.join(left[:20])}")
    best = next((peak for peak in peaks if peak.startswith("peak")), peaks[0] if peaks else "")
    content.verdict = f"Worked: {best + ', ' if best else ''}{grid} points, {steps} steps"
    if any("not finite" in line or "cannot be read" in line for line in content.warnings):
        content.state, content.verdict = BAD, f"Not sound: {content.warnings[0]}"
    content.add("Figures", *blocks, bars("Predicted step", [("a step", plan_parts(plan), False)]))
    about = {"grid": f"{grid} points", "spacing": " × ".join(f"{d * 1e3:g}" for d in file.spacing) + " mm"}
    about |= {"time step": f"{file.dt * 1e9:.5g} ns", "steps": steps}
    own = pairs_table(pairs(attrs, ("plan", "format_version")), "Where it comes from")
    content.add("Provenance", pairs_table(pairs(about), "Grid"), own)
    return content


def _cost(file: RecordedFile, attrs: dict[str, Any]) -> tuple[dict[str, float], int, float, str]:
    """Seconds by phase, steps, bytes of the rank that used most, and where that was, in words."""
    if "cost" not in file:
        seconds = {name: _number(attrs.get(key)) for key, name in _PHASES.items()}
        return seconds, file.steps, _number(attrs.get("total_memory_in_use")) * 2**20, "resident"
    with hdf5.reading(file.path, "cost"):
        group: Any = file.file["cost"]
        seconds = {str(name): float(group["seconds"][name][()]) for name in group["seconds"]}
        ranks, device = int(group["ranks"][()]), str(attrs.get("device") or "cpu")
        where = f"on {attrs.get('cpu', device) if device == 'cpu' else device}"
        if ranks > 1:
            where = f"the most of {ranks} ranks, {group['decomposition'].asstr()[()]}"
        order = dict.fromkeys([*(name for name in _PHASES.values() if name in seconds), *seconds])
        return {n: seconds[n] for n in order}, int(group["steps"][()]), float(group["peak_memory"][()]), where


def _number(text: Any) -> float:
    """The number that a text of k-Wave's begins with; 0 for none."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    match = re.match(r"\s*(\d+(?:\.\d*)?)", text)
    return float(match[1]) if match else 0.0


def _chosen(items: list[RecordedArray]) -> list[RecordedArray]:
    """Pressure first, what was largest before what was last, fields before series."""
    kinds = "field", "box", "series", "points"
    order = sorted(items, key=lambda each: (each.name[0] != "p", kinds.index(each.kind), "max" not in each.name))
    return order[:MOST_ITEMS]


def _figure(content: Content, item: RecordedArray, most: int, peaks: list[str]) -> list[Any]:
    title = describe(item.name)[1].capitalize() + f" ({item.name})"
    if item.kind == "series":
        shape, first = item.box_of_series()
        if sum(n > 1 for n in shape) == 2:
            return _movie(content, item, shape, title)
        return [_series(item, title)]
    extended = [axis for axis, n in enumerate(item.size) if n > 1]
    if item.kind == "points" or len(extended) < 2:
        values = item.values()
        scale, label, _ = scale_of(item, float(np.abs(values).max(initial=0)))
        if not np.isfinite(values).all():
            raise item.fault("has values that are not finite")
        x = Axis("point of the sensor (from 0)")
        at = np.arange(values.size)
        if item.kind != "points":
            x, at = Axis(f"{'xyz'[(extended or [0])[0]]} (mm)"), item.coordinates((extended or [0])[0]) * 1e3
        return [plot(title, {"": (at, values * scale)}, x, Axis(label), dots="dots" if values.size < 40 else "")]
    return _field(content, item, extended, most, title, peaks)


def _field(content, item: RecordedArray, extended: list[int], most: int, title: str, peaks: list[str]) -> list[Any]:
    """Slices of a field; of three dimensions one across each axis, at the largest magnitude."""
    low, high, at = item.extremes()
    scale, label, unit = scale_of(item, max(-low, high))
    block = max(1, math.ceil((math.prod(item.size) / most) ** (1 / len(extended))))
    values = _blocks(item, block)
    colours = colours_of(low * scale, high * scale)
    names, steps = "xyz"[: len(item.size)], [d * 1e3 * block for d in item.file.spacing]
    firsts = [float(item.coordinates(axis)[0]) * 1e3 + (block - 1) * item.file.spacing[axis] * 500 for axis in range(len(names))]
    where = ", ".join(f"{n} = {item.coordinates(a)[at[a]] * 1e3:.3g}" for a, n in enumerate(names))
    word = "peak" if item.name[0] == "p" else f"largest {item.name}"
    peaks.append(f"{word} {label.partition(' (')[0]} {max(high, -low) * scale:.3g} {unit} at {where} mm")
    about = {"first": firsts, "step": steps, "names": list(names), "units": ["mm"] * len(names)}
    across = extended if len(extended) == 3 else [a for a in range(3) if a not in extended][:1]
    views = [
        _view(values.shape, [a for a in extended if a != normal], normal, at[normal] // block if normal < len(at) else 0, about)
        for normal in across
    ]
    note = f"largest magnitude of {block}{f' × {block}' * (len(extended) - 1)} points each" if block > 1 else ""
    made = slices(content, (title, note), values * scale, views, {**colours, "unit": unit})
    if not content.thumbnail:
        flat = np.take(values, views[-1]["at"], views[-1]["across"]) if values.ndim == 3 else values
        flat = flat if views[-1]["right"] > views[-1]["up"] else flat.T
        content.thumbnail = picture(flat * scale, colours["cmap"], colours["vmin"], colours["vmax"], title)
    return [made]


def _blocks(item: RecordedArray, block: int) -> np.ndarray:
    """A field or box, of each block the value of the largest magnitude, [x, y(, z)], read plane by plane."""
    if len(item.size) == 2:
        return _pooled(item.plane(0, 0), block)
    axis = 2 if item.file.steps else 0  # along which the file is in planes
    out: list[np.ndarray] = []
    for first in range(0, item.size[axis], block):
        planes = [_pooled(item.plane(axis, i), block) for i in range(first, min(first + block, item.size[axis]))]
        out.append(_largest(np.stack(planes), 0))
    return np.stack(out, axis)


def _pooled(plane: np.ndarray, block: int) -> np.ndarray:
    for axis in (0, 1):
        at = np.arange(0, plane.shape[axis], block)
        top, bottom = np.maximum.reduceat(plane, at, axis), np.minimum.reduceat(plane, at, axis)
        plane = np.where(top >= -bottom, top, bottom)
    return plane


def _largest(values: np.ndarray, axis: int) -> np.ndarray:
    top, bottom = values.max(axis), values.min(axis)
    return np.where(top >= -bottom, top, bottom)


def _view(shape: tuple[int, ...], plane: list[int], normal: int, at: int, about: dict[str, Any]) -> dict[str, Any]:
    """How a canvas shows a plane: the longer axis to the right."""
    length = {a: shape[a] * about["step"][a] for a in plane}
    right = max(plane, key=lambda a: length[a])
    up = next(a for a in plane if a != right)
    several = normal < len(shape)
    words = f"slice across {about['names'][normal]}" if several else "plane"
    return about | {
        "right": right, "up": up, "across": normal, "at": int(at), "words": words,
        "count": shape[normal] if several else 1,
        "aspect": round(min(6.0, max(0.35, length[right] / length[up])), 3),
        "right_words": f"{about['names'][right]} →, {about['names'][up]} ↑",
    }  # fmt: skip


def slices(content: Content, titles: tuple[str, str], values: np.ndarray, views: list[Any], colours: dict[str, Any]) -> Any:
    """Canvases of an array, which becomes one of the page's; ``colours``: cmap, vmin, vmax and unit."""
    name, (low, high) = f"array{len(content.arrays)}", (float(colours["vmin"]), float(colours["vmax"]))
    import base64

    content.arrays[name] = {
        "shape": list(values.shape),
        "low": low,
        "high": high,
        "unit": colours["unit"],
        "map": base64.b64encode(colour_map(colours["cmap"]).tobytes()).decode("ascii"),
        "data": eight_bits(values, low, high),
    }
    ends = {"low": f"{low:.3g}".replace("-", "−"), "high": f"{high:.3g}", "unit": colours["unit"]}
    scale = ends | {"gradient": gradient(colours["cmap"])}
    return macro("slices", title=titles[0], note=titles[1], array=name, views=views, scale=scale)


def _movie(content: Content, item: RecordedArray, shape: tuple[int, ...], title: str) -> list[Any]:
    """A time series of a plane, frame by frame."""
    samples, plane = item.size[1], [n for n in shape if n > 1]
    rows = np.arange(0, samples, max(1, math.ceil(samples / MOST_FRAMES)))
    block = max(1, math.ceil((math.prod(plane) / MOST_IN_FRAME) ** 0.5))
    frames = np.stack([_pooled(frame, block) for frame in item.samples_of_box(shape, rows)])
    if not np.isfinite(frames).all():
        raise item.fault("has values that are not finite")
    scale, _, unit = scale_of(item, float(np.abs(frames).max()))
    axes = [axis for axis, n in enumerate(shape) if n > 1]
    step = [(rows[1] - rows[0] if rows.size > 1 else 1) * item.file.dt * 1e6, *(item.file.spacing[a] * 1e3 * block for a in axes)]
    about = {"first": [item.first_time() * 1e6, 0.0, 0.0], "step": step, "names": ["t", *("xyz"[a] for a in axes)]}
    view = _view(frames.shape, [1, 2], 0, 0, about | {"units": ["µs", "mm", "mm"]})
    view["words"] = "time"
    colours = colours_of(float(frames.min()) * scale, float(frames.max()) * scale)
    return [slices(content, (title, f"{rows.size} of {samples} samples"), frames * scale, [view], {**colours, "unit": unit})]


def _series(item: RecordedArray, title: str) -> Any:
    """Time series of points as lines: of many, some of them."""
    count = item.size[0]
    values, points, time = item.series(CURVES, 1000)
    if not np.isfinite(values).all():
        raise item.fault("has values that are not finite")
    scale, label, _ = scale_of(item, float(np.abs(values).max(initial=0)))
    keep = range(0, len(points), max(1, math.ceil(len(points) / 4)))
    lines = {f"point {points[k]}" if count > 1 else "": (time * 1e6, values[k] * scale) for k in keep}
    note = f"{len(lines)} of {count} points" if len(lines) < count else ""
    return plot(title, lines, Axis("time (µs)"), Axis(label), note)

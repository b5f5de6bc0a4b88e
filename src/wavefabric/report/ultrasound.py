"""Build the page of an ultrasound result, of `simulate` or in k-Wave's layout, without reading it whole."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from wavefabric.acoustics.kwave.output_layout import PHASES
from wavefabric.acoustics.pictures.plot_recorded import colours_of, scale_of
from wavefabric.acoustics.pictures.recorded import RecordedArray, RecordedFile
from wavefabric.acoustics.recording.quantities import describe
from wavefabric.acoustics.recording.sinks import PHASE_WORDS
from wavefabric.base.errors import InputError
from wavefabric.base.files import hdf5
from wavefabric.report.content import BAD, GOOD, WARNED, Content, pairs, plan_of, run_tiles, where_words
from wavefabric.report.fibre import plan_bar
from wavefabric.report.figures import plot, slices, table

#: Largest numbers: points of all fields on a page, quantities shown, frames of a movie, points per frame.
MOST_POINTS, MOST_ITEMS, MOST_FRAMES, MOST_IN_FRAME = 900_000, 8, 60, 10_000
_NUMBERS = "steps", "step", "ranks", "gpu_memory", "peak_memory"


def ultrasound_content(file: RecordedFile) -> Content:
    """Return the content of the page of an open result; the verdict names damaged or non-finite data."""
    attrs, grid = file.attributes(), " × ".join(map(str, file.shape))
    content = Content("ultrasound", str(attrs.get("file_description") or file.path.stem))
    plan = plan_of(attrs)
    seconds, steps, steady, nbytes, device = _cost(file, attrs)
    content.parts = {PHASE_WORDS[name]: taken for name, taken in seconds.items()}
    alike = {"step": plan.get("step", 0.0) if steady else 0.0, "bytes": 0.0}
    if "gpu" in device.lower() or "cuda" in device:
        alike["bytes"] = plan.get("bytes", 0.0)
    step = steady or seconds.get("simulation", 0.0) / max(steps, 1)
    content.tiles = run_tiles(alike, (step, sum(content.parts.values())), steps, nbytes, device)
    # Pressure first, fields before series, maxima before final values.
    kinds = "field", "box", "series", "points"
    order = {i: (i.name[0] != "p", kinds.index(i.kind), "max" not in i.name) for i in file.items.values()}
    items = sorted(order, key=order.__getitem__)
    peaks: list[str] = []
    for item in items[:MOST_ITEMS]:
        try:
            content.add("Figures", _figure(content, item, peaks))
        except InputError as error:
            content.warnings.append(str(error).removeprefix(f"{file.path}: "))
    worked = "Worked" if content.state == GOOD else "No pressure anywhere"
    content.verdict = ", ".join(
        [*(f"{worked}: {peak}" for peak in peaks[:1]), f"{grid} points, {steps} steps"]
    )
    if file.path.suffix == ".partial":
        content.state, content.verdict = BAD, f"Not finished: {grid} points, {steps} steps"
    elif content.warnings:
        content.state, content.verdict = BAD, f"Not sound: {content.warnings[0]}"
    content.add("Figures", plan_bar(plan))
    spacing = " × ".join(f"{d * 1e3:.4g}" for d in file.spacing)
    about = {"grid": f"{grid} points", "spacing": f"{spacing} mm", "time step": f"{file.dt * 1e9:.5g} ns"}
    about["not shown here"] = ", ".join(item.name for item in items[MOST_ITEMS:])
    content.add("Provenance", table([], pairs(about), "Grid"), table([], pairs(attrs), "Where it comes from"))
    return content


def _cost(file: RecordedFile, attrs: dict[str, Any]) -> tuple[dict[str, float], int, float, float, str]:
    """Return a run's seconds by phase, steps, s per steady step, largest memory in bytes, note on memory."""
    if "cost" not in file:
        seconds = {name: _number(attrs.get(key)) for key, name in PHASES.items()}
        steady, gpu = (_number(attrs.get(k)) for k in ("time_step_execution_time", "gpu_memory_in_use"))
        used = gpu or _number(attrs.get("total_memory_in_use"))
        return seconds, file.steps, steady, used * 2**20, "of the GPU" if gpu else "resident"
    with hdf5.reading(file.path, "cost"):
        phases = {name: f"cost/seconds/{name}" for name in PHASES.values()}
        seconds = {name: float(file.read(phase)) for name, phase in phases.items() if phase in file}
        costs = {name: float(file.read(f"cost/{name}")) for name in _NUMBERS if f"cost/{name}" in file}
        used, ranks = costs.get("gpu_memory") or costs["peak_memory"], int(costs["ranks"])
        where = where_words(attrs, ranks, file.read("cost/decomposition") if ranks > 1 else "")
        return seconds, int(costs["steps"]), costs.get("step", 0.0), used, where


def _number(value: Any) -> float:
    """Return the number at the start of a k-Wave attribute such as ``12.3s``; 0 if there is none."""
    words = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    match = re.match(r"\s*(\d+(?:\.\d*)?)", words)
    return float(match[1]) if match else 0.0


def _figure(content: Content, item: RecordedArray, peaks: list[str]) -> Any:
    """Return the figure of a recorded quantity; for a field, append text on the peak to ``peaks``."""
    title = f"{describe(item.name)[1].capitalize()} ({item.name})"
    if item.kind == "series":
        shape, _ = item.box_of_series()
        return (_movie if sum(n > 1 for n in shape) == 2 else _series)(content, item, shape, title)
    extended, line = [axis for axis, n in enumerate(item.size) if n > 1], item.kind != "points"
    if line and len(extended) > 1:
        return _field(content, item, title, peaks)
    values, axis = item.values(), (extended or [0])[0]
    scale, label, _ = _scale(item, values)
    x = f"{'xyz'[axis]} (mm)" if line else "point of the sensor (from 0)"
    at = item.coordinates(axis) * 1e3 if line else np.arange(values.size)
    dots = "dots" if values.size < 40 else ""
    return plot(title, {"": (at, values * scale)}, x, label, dots=dots)


def _scale(item: RecordedArray, values: np.ndarray) -> tuple[float, str, str]:
    """Return factor, label and unit with which to show ``values``; `InputError` if one is not finite."""
    if not np.isfinite(values).all():
        raise item.fault("has values that are not finite")
    return scale_of(item, float(np.abs(values).max(initial=0)))


def _field(content: Content, item: RecordedArray, title: str, peaks: list[str]) -> Any:
    """Return slices of a field through the point of largest magnitude; in 3-D one across each axis."""
    low, high, peak_index = item.extremes()
    if low == high == 0 and item.name.startswith("p"):
        content.state = WARNED
    scale, label, unit = scale_of(item, max(-low, high))
    size, spacing = item.size, [step * 1e3 for step in item.file.spacing]
    volumes = sum(each.kind in ("field", "box") for each in item.file.items.values())
    block = math.ceil((math.prod(size) * min(volumes, MOST_ITEMS) / MOST_POINTS) ** (1 / len(size)))
    x = [item.coordinates(axis) * 1e3 for axis in range(len(size))]
    # Blocks are drawn at their midpoints.
    middle = (block - 1) / 2
    axes = [("xyz"[a], x[a][0] + middle * d, d * block, "mm") for a, d in enumerate(spacing)]
    peak_text = ", ".join(f"{'xyz'[a]} = {x[a][n]:.3g}" for a, n in enumerate(peak_index)).replace("-", "−")
    what, top = label.partition(" (")[0], f"{max(high, -low) * scale:.3g} {unit}"
    words = f"peak {what} {top}" if "max" in item.name else f"{item.name}, {what} up to {top}"
    peaks.append(f"{words} at {peak_text} mm")
    cuts = {axis: peak_index[axis] // block for axis in range(3)} if len(size) == 3 else {}
    cuts = {size.index(1): 0} if cuts and 1 in size else cuts  # a plane
    note = f"of blocks of {block} points along each axis the largest magnitude" if block > 1 else ""
    colours = colours_of(low * scale, high * scale) | {"unit": unit, "note": note}
    return slices(content, title, _blocks(item, block) * scale, axes, cuts, colours)


def _blocks(item: RecordedArray, block: int) -> np.ndarray:
    """Return the largest-magnitude value in each block of ``block`` points along each axis: [x, y(, z)]."""
    if len(item.size) == 2:
        return _largest(item.plane(0, 0), block)
    axis = 2 if item.file.steps else 0  # the axis along which the file stores planes
    count = item.size[axis]
    parts = (range(first, min(first + block, count)) for first in range(0, count, block))
    planes = (np.stack([item.plane(axis, i) for i in part], axis) for part in parts)
    return np.concatenate([_largest(each, block) for each in planes], axis)


def _largest(values: np.ndarray, block: int) -> np.ndarray:
    for axis in range(values.ndim):
        at = np.arange(0, values.shape[axis], block)
        top, bottom = np.maximum.reduceat(values, at, axis), np.minimum.reduceat(values, at, axis)
        values = np.where(top >= -bottom, top, bottom)
    return values


def _movie(content: Content, item: RecordedArray, shape: tuple[int, ...], title: str) -> Any:
    """Return a movie of the time series that were recorded on a plane."""
    samples, plane = item.size[1], [axis for axis, n in enumerate(shape) if n > 1]
    rows = np.arange(0, samples, math.ceil(samples / MOST_FRAMES))
    block = math.ceil((math.prod(shape) / MOST_IN_FRAME) ** 0.5)
    frames = np.stack([_largest(frame, block) for frame in item.samples_of_box(shape, rows)])
    scale, _, unit = _scale(item, frames)
    step = float(rows[1] if rows.size > 1 else 1) * item.file.dt * 1e6
    axes = [("t", item.first_time() * 1e6, step, "µs")]
    axes += [("xyz"[a], 0.0, item.file.spacing[a] * 1e3 * block, "mm") for a in plane]
    colours = colours_of(float(frames.min()) * scale, float(frames.max()) * scale) | {"unit": unit}
    colours["note"] = f"{rows.size} of {samples} samples"
    return slices(content, title, frames * scale, axes, {0: 0}, colours)


def _series(content: Content, item: RecordedArray, shape: tuple[int, ...], title: str) -> Any:
    """Return a plot of the time series of points; of a selection if there are many."""
    values, points, time = item.series(4, 1000)
    scale, label, _ = _scale(item, values)
    names = [f"point {point}" if len(points) > 1 else "" for point in points]
    lines = {name: (time * 1e6, line * scale) for name, line in zip(names, values, strict=True)}
    note = f"{len(lines)} of {item.size[0]} points" if len(lines) < item.size[0] else ""
    return plot(title, lines, "time (µs)", label, note)

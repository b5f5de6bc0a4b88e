"""The points of a sweep: for each one a whole run file, checked before the first of them runs."""

import contextlib
import difflib
import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from wavefabric.errors import InputError, cut, show, visible
from wavefabric.files.faults import submodel
from wavefabric.optics.link.shared import fibre_key, propagator_key
from wavefabric.optics.run_file.load import RunFile, checked_run, read_toml
from wavefabric.optics.sweeps.axes import MOST_POINTS, NUMBER, Axis, axes_of_table, axis
from wavefabric.results import fingerprint
from wavefabric.units import quantity

#: Keys that are no axes: they change no answer, or only where it is written.
_NO_AXES = re.compile(r"title|output\..*|solver\.(device|threads|exchange)")


@dataclass(frozen=True)
class Point:
    """One run of a sweep: ``index`` along the axes, the swept keys there, and the whole run file."""

    index: tuple[int, ...]
    values: dict[str, Any]
    run: RunFile
    #: Of settings, inputs and versions: equal points have the same.
    fingerprint: str

    @property
    def steps(self) -> float:
        """What it takes, for the time left: steps if they are fixed, else metres."""
        link, step = self.run.link, self.run.solver.step
        return link.spans * (link.length if step is None else math.ceil(link.length / step - 1e-9))

    def __str__(self) -> str:
        return in_words(self.values)


@dataclass(frozen=True)
class SweepGrid:
    """Axes, and all points of their grid, the last axis fastest."""

    axes: tuple[Axis, ...]
    points: tuple[Point, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Values of each axis."""
        return tuple(len(each.rows) for each in self.axes)

    @property
    def base(self) -> RunFile:
        """The run file of the first point; what is not swept is that of every point."""
        return self.points[0].run

    def unique_points(self) -> list[Point]:
        """Points that differ, in an order in which neighbours have most in common."""

        def order(point: Point) -> tuple:
            return str(fibre_key(point.run)), str(propagator_key(point.run)), -point.steps

        return sorted({point.fingerprint: point for point in self.points}.values(), key=order)

    def coordinates(self) -> dict[str, tuple[list[Any], str]]:
        """Values and unit of each swept key: numbers in the unit that they were given in, or text.

        InputError where an axis has several units.
        """
        columns = ((key, each, k) for each in self.axes for k, key in enumerate(each.keys))
        return {key: self._coordinate(key, [row[k] for row in each.rows]) for key, each, k in columns}

    def _coordinate(self, key: str, values: list[Any]) -> tuple[list[Any], str]:
        number = reduce(getattr, key.split("."), self.base)
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            return [value if isinstance(value, str) else show(value) for value in values], ""
        if not any(isinstance(value, str) for value in values):
            return values, ""
        parts = [re.fullmatch(rf"\s*({NUMBER})(.*)", str(value)) for value in values]
        units = [part[2].strip() if part else "" for part in parts]
        if len(set(units)) == 1:
            return [float(part[1]) for part in parts if part], units[0]
        with contextlib.suppress(InputError):
            if not units[0].startswith("dB"):  # a level is no multiple of its unit
                return [quantity(value, units[0]) for value in values], units[0]
        actual = ", ".join(dict.fromkeys(map(show, units)))
        raise InputError(f"{key}: values in {actual} given; allowed: one unit for an axis")


def in_words(values: Mapping[str, Any]) -> str:
    """Keys and values as text: ``signal.launch_power = 2 dBm, solver.step = 50 m``."""
    shown = (f"{key} = {visible(v) if isinstance(v, str) else show(v)}" for key, v in values.items())
    return cut(", ".join(shown))


def make_grid(
    run: RunFile | str | Path, axes: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), **solver: Any
) -> SweepGrid:
    """The points of the axes of a run file and of ``axes`` (see `sweep`), which win where both have a key.

    ``solver`` are keys of [solver] for all points. InputError of one line for an unknown key, a value that no
    run file may hold (with its point), two axes of one key, and too many points.
    """
    if isinstance(run, RunFile):
        data, origin = run.model_dump(exclude_unset=True), (run.path, run.text, False)
    else:
        data, text = read_toml(run)
        origin = Path(run), text, True
    more = [axis(*each) for each in (axes.items() if isinstance(axes, Mapping) else axes)]
    replaced = {key for each in more for key in each.keys}
    own = axes_of_table(data.pop("sweep", {}))
    chosen = (*(each for each in own if not replaced.issuperset(each.keys)), *more)
    _check_keys([key for each in chosen for key in each.keys])
    sizes = [len(each.rows) for each in chosen]
    if not chosen or math.prod(sizes) > MOST_POINTS:
        fault = (
            f"{' x '.join(map(str, sizes))} makes {math.prod(sizes)} points" if chosen else "no axis given"
        )
        raise InputError(f"sweep: {fault}; allowed: a table [sweep] or --set, up to {MOST_POINTS} points")
    data = _with(data, {f"solver.{key}": value for key, value in solver.items()})
    versions, points = fingerprint("point of a sweep"), []
    for index in np.ndindex(*sizes):
        rows = (zip(each.keys, each.rows[i], strict=True) for each, i in zip(chosen, index, strict=True))
        values = dict(itertools.chain(*rows))
        try:
            point = checked_run(_with(data, values), *origin)
            output = point.output.model_dump_json(exclude={"file", "figures", "checkpoint_interval"})
            identity = f"{versions} {output} {point.identity()}"
        except InputError as error:
            count = f"point {len(points) + 1} of {math.prod(sizes)}"
            raise InputError(f"{error}; {count}: {in_words(values)}") from None
        points.append(Point(index, values, point, hashlib.sha256(identity.encode()).hexdigest()[:20]))
    if points[0].run.output.save_field:
        raise InputError("output.save_field: true given for a sweep; allowed: false, or `wavefabric run`")
    grid = SweepGrid(chosen, tuple(points))
    grid.coordinates()
    return grid


def _with(data: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the content of a run file with other values; tables that are missing are made."""
    result = dict(data)
    for key, value in values.items():
        *tables, last = key.split(".")
        table = result
        for name in tables:
            inner = table.get(name)
            table[name] = table = dict(inner) if isinstance(inner, dict) else {}
        table[last] = value
    return result


def _keys(model: type[BaseModel] = RunFile, prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = submodel(field.annotation)
        yield from _keys(inner, f"{prefix}{name}.") if inner else [prefix + name]


def _check_keys(keys: list[str]) -> None:
    """Refuse keys that no axis can have, with the nearest ones, and keys with two axes."""
    known = [key for key in _keys() if not _NO_AXES.fullmatch(key)]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"{key}: two axes given; allowed: one for each key, zipped keys all together")
        if key not in known:
            near = [each for each in known if each.rpartition(".")[2] == key.rpartition(".")[2]]
            near = list(dict.fromkeys([*near, *difflib.get_close_matches(key, known, n=3)]))[:3]
            fault = "no axis of a sweep" if _NO_AXES.fullmatch(key) else "unknown key"
            hint = f" (near: {', '.join(near)})" if near else ""
            allowed = "keys of fibre, link, signal, receiver and solver, and seed"
            raise InputError(f"{visible(cut(key))}: {fault}{hint}; allowed: {allowed}")

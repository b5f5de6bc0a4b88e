"""Define a sweep by axes (keys of a run file with values) and points (run files, validated before a run)."""

import contextlib
import difflib
import hashlib
import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from pathlib import Path
from typing import Any, get_origin

import numpy as np
from pydantic import BaseModel

from wavefabric.base.errors import InputError, cut, show, visible
from wavefabric.base.files.validation_errors import submodels
from wavefabric.base.results import fingerprint
from wavefabric.base.units import quantity
from wavefabric.optics.link.build import fibre_key, propagator_key
from wavefabric.optics.run_file.load import RunFile, checked_run, read_toml

#: Most points of a sweep, and so most values of an axis.
MOST_POINTS = 10_000
NUMBER = r"[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,3})?"
_RANGE = re.compile(rf"\s*({NUMBER})\s*:\s*({NUMBER})\s*:\s*({NUMBER})\s*([^:]*)")
#: Keys that cannot be axes: they do not change results, or only where these are written.
_NO_AXES = re.compile(r"title|link\.element\.kind|output\..*|solver\.(device|threads|exchange)")


@dataclass(frozen=True)
class Axis:
    """Describes one dimension of a sweep: ``rows[i][k]`` is the i-th value of ``keys[k]``."""

    keys: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        """Return the first key, which names the axis."""
        return self.keys[0]


def axis(keys: str | Sequence[str], values: Any) -> Axis:
    """Return an axis of one key and its values, or of keys that vary together, with a list of values each.

    InputError for invalid values, and for lists of different lengths.
    """
    names, lists = ((keys,), [values]) if isinstance(keys, str) else (tuple(keys), values)
    if not isinstance(lists, (list, tuple)) or not 0 < len(names) == len(lists):
        raise InputError(f"{', '.join(names) or 'zip'}: zipped keys; allowed: values for each")
    columns = {key: values_of(key, each) for key, each in zip(names, lists, strict=True)}
    if len({len(column) for column in columns.values()}) > 1:
        counts = ", ".join(f"{key} has {len(column)}" for key, column in columns.items())
        fault = f"{names[0]}: varies with others, but {counts} values"
        raise InputError(f"{fault}; allowed: as many for each key")
    return Axis(names, tuple(zip(*columns.values(), strict=True)))


def values_of(key: str, values: Any) -> list[Any]:
    """Return the list of values that an axis gives a key; InputError unless there are 1 to `MOST_POINTS`.

    Text is a range ``"first:last:step unit"``, both ends included, a TOML list ``"[...]"``, or entries
    separated by commas. Entries without a unit are numbers. Sequences are used directly.
    """
    if isinstance(values, str):
        match = _RANGE.fullmatch(values)
        values = _range(key, values, *match.groups()) if match else _entries(key, values)
    result = list(values) if isinstance(values, (list, tuple, range, np.ndarray)) else [values]
    if not 1 <= len(result) <= MOST_POINTS:
        raise InputError(f"{key}: {len(result)} values given; allowed: 1 to {MOST_POINTS}")
    return [value.item() if isinstance(value, np.generic) else value for value in result]


def _range(key: str, text: str, *parts: str) -> list[Any]:
    (first, last, step), unit = map(Decimal, parts[:3]), parts[3].strip()
    with localcontext(Context(prec=2200)):  # exact, for all numbers that `NUMBER` allows
        count = round((last - first) / step) if step else -1
        if count < 0 or abs(first + count * step - last) > abs(step) * Decimal("1e-9"):
            allowed = "a step that leads from the first value to the last"
            raise InputError(f"{key}: {show(text)} given; allowed: {allowed}")
        if count >= MOST_POINTS:
            many = f"{Decimal(count + 1):.6g} values"
            raise InputError(f"{key}: {show(text)} has {many}; allowed: up to {MOST_POINTS}")
        values = [(first + step * i).normalize() for i in range(count + 1)]
    if unit:
        return [f"{value:f} {unit}" for value in values]
    return [int(value) if re.fullmatch(r"[\s\d:+-]*", text) else float(value) for value in values]


def _entries(key: str, text: str) -> list[Any]:
    entries = [word.strip() for word in text.split(",")]
    if entries[0].startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            return tomllib.loads(f"values = {text}")["values"]
    elif all(entries):
        return [_scalar(word) for word in entries]
    allowed = 'a range "first:last:step unit", or a list such as "50 m, 100 m"'
    raise InputError(f"{key}: {show(text)} given; allowed: {allowed}")


def _scalar(word: str) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if re.fullmatch(r"[+-]?\d{1,40}", word):
        return int(word)
    return float(word) if re.fullmatch(NUMBER, word) else word


def axes_of_table(table: Any) -> list[Axis]:
    """Return the axes of a run file's table [sweep]; a table in its ``zip`` is an axis of several keys."""
    if not isinstance(table, dict):
        raise InputError(f"sweep: {show(table)} given; allowed: a table of keys with their values")
    single = dict(table)
    zipped = single.pop("zip", [])
    zipped = [zipped] if isinstance(zipped, dict) else zipped
    if not isinstance(zipped, list) or not all(isinstance(each, dict) for each in zipped):
        raise InputError(f"sweep.zip: {show(zipped)} given; allowed: tables of keys that vary together")
    pairs = [dict(_flat(each)) for each in zipped]
    return [axis(*each) for each in _flat(single)] + [axis(list(each), list(each.values())) for each in pairs]


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each dotted key, such as ``link.length``, with its value, from a table and its subtables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@dataclass(frozen=True)
class Point:
    """Describes one run of a sweep: ``index`` along the axes, the swept ``values``, the whole run file."""

    index: tuple[int, ...]
    values: dict[str, Any]
    run: RunFile
    #: Hash of settings, inputs and versions; equal points have equal hashes.
    fingerprint: str

    @property
    def steps(self) -> float:
        """Return the cost of this point, for progress: number of steps if fixed, else length in metres."""
        lengths, step = [piece.length for piece in self.run.link.pieces], self.run.solver.step
        return sum(length if step is None else math.ceil(length / step - 1e-9) for length in lengths)

    def __str__(self) -> str:
        return in_words(self.values)


@dataclass(frozen=True)
class SweepGrid:
    """Holds the axes of a sweep, and all points of their grid, in order with the last axis fastest."""

    axes: tuple[Axis, ...]
    points: tuple[Point, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of values of each axis."""
        return tuple(len(each.rows) for each in self.axes)

    @property
    def base(self) -> RunFile:
        """Return the run file of the first point; keys that are not swept are equal in all points."""
        return self.points[0].run

    def unique_points(self) -> list[Point]:
        """Return the distinct points, ordered so that neighbours can share fibre and propagator."""

        def order(point: Point) -> tuple:
            return str(fibre_key(point.run)), str(propagator_key(point.run)), -point.steps

        return sorted({point.fingerprint: point for point in self.points}.values(), key=order)

    def coordinates(self) -> dict[str, tuple[list[Any], str]]:
        """Return a dictionary from swept key to its values, numbers or text, and their unit in the input.

        InputError if the values of an axis have different units.
        """
        columns = ((key, each, k) for each in self.axes for k, key in enumerate(each.keys))
        return {key: self._coordinate(key, [row[k] for row in each.rows]) for key, each, k in columns}

    def _coordinate(self, key: str, values: list[Any]) -> tuple[list[Any], str]:
        number: Any = self.base
        for name in re.findall(r"[^.\[\]]+", key):
            if isinstance(number, (list, dict)):
                number = number[int(name) if isinstance(number, list) else name]
            else:
                number = getattr(number, name)
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            return [value if isinstance(value, str) else show(value) for value in values], ""
        if not any(isinstance(value, str) for value in values):
            return values, ""
        parts = [re.fullmatch(rf"\s*({NUMBER})(.*)", str(value)) for value in values]
        units = [part[2].strip() if part else "" for part in parts]
        if len(set(units)) == 1:
            return [float(part[1]) for part in parts if part], units[0]
        with contextlib.suppress(InputError):
            if not units[0].startswith("dB"):  # levels in dB cannot be converted by a factor
                return [quantity(value, units[0]) for value in values], units[0]
        actual = ", ".join(dict.fromkeys(map(show, units)))
        raise InputError(f"{key}: values in {actual} given; allowed: one unit for an axis")


def in_words(values: Mapping[str, Any]) -> str:
    """Return keys and values as text: ``signal.launch_power = 2 dBm, solver.step = 50 m``."""
    shown = (f"{key} = {visible(v) if isinstance(v, str) else show(v)}" for key, v in values.items())
    return cut(", ".join(shown))


def make_grid(
    run: RunFile | str | Path, axes: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), **solver: Any
) -> SweepGrid:
    """Return the grid of the axes in a run file and of ``axes`` (see `sweep`), which replace equal keys.

    ``solver`` sets keys of the table [solver] for all points. InputError of one line for an unknown key, a
    value that is not allowed in a run file (with its point), two axes of one key, and too many points.
    """
    if isinstance(run, RunFile):
        tables, origin = run.model_dump(exclude_unset=True), (run.path, run.text, False)
    else:
        tables, text = read_toml(run)
        origin = Path(run), text, True
    more = [axis(*each) for each in (axes.items() if isinstance(axes, Mapping) else axes)]
    replaced = {key for each in more for key in each.keys}
    own = axes_of_table(tables.pop("sweep", {}))
    chosen = (*(each for each in own if not replaced.issuperset(each.keys)), *more)
    _check_keys([key for each in chosen for key in each.keys])
    sizes = [len(each.rows) for each in chosen]
    if not chosen or math.prod(sizes) > MOST_POINTS:
        made = f"{' x '.join(map(str, sizes))} makes {math.prod(sizes)} points"
        fault = f"{made if chosen else 'no axis given'}; allowed: a table [sweep] or --set"
        raise InputError(f"sweep: {fault}, up to {MOST_POINTS} points")
    tables = _with_values(tables, {f"solver.{key}": value for key, value in solver.items()})
    versions, points = fingerprint("point of a sweep"), []
    for index in np.ndindex(*sizes):
        rows = (zip(each.keys, each.rows[i], strict=True) for each, i in zip(chosen, index, strict=True))
        values = dict(itertools.chain(*rows))
        try:
            point = checked_run(_with_values(tables, values), *origin)
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


def _with_values(content: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a run file's content with other ``values`` of dotted keys; create missing tables."""
    result = dict(content)
    for key, value in values.items():
        *tables, last = key.split(".")
        table = result
        for name, _, number in (part.partition("[") for part in tables):
            inner = table.get(name)
            if number:
                table[name] = inner = list(inner) if isinstance(inner, list) else []
                position = int(number.removesuffix("]"))
                if position >= len(inner):
                    limit = f"numbers from 0 below {len(inner)}, the elements of the run file"
                    raise InputError(f"{key}: element {position} given; allowed: {limit}")
                inner[position] = table = dict(inner[position])
            else:
                table[name] = table = dict(inner) if isinstance(inner, dict) else {}
        table[last] = value
    return result


def _keys(model: type[BaseModel] = RunFile, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of run files, those of elements of a link without the number of the element."""
    for name, field in model.model_fields.items():
        inner = submodels(field.annotation)
        if get_origin(field.annotation) is dict:
            continue  # [fibres.NAME] has the keys of [fibre]
        for each in inner:
            yield from _keys(each, f"{prefix}{name}.")
        if not inner:
            yield prefix + name


def _check_keys(keys: list[str]) -> None:
    """Raise InputError for keys that cannot be axes, naming similar keys, and for keys with two axes."""
    axis_keys = [key for key in _keys() if not _NO_AXES.fullmatch(key)]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"{key}: two axes given; allowed: one for each key, zipped keys all together")
        if re.sub(r"\[\d+\]", "", re.sub(r"^fibres\.[^.]+\.", "fibre.", key)) not in axis_keys:
            near = [each for each in axis_keys if each.rpartition(".")[2] == key.rpartition(".")[2]]
            near = list(dict.fromkeys([*near, *difflib.get_close_matches(key, axis_keys, n=3)]))[:3]
            fault = "no axis of a sweep" if _NO_AXES.fullmatch(key) else "unknown key"
            hint = f" (near: {', '.join(near)})" if near else ""
            allowed = "keys of fibre, link, signal, receiver and solver, and seed"
            raise InputError(f"{visible(cut(key))}: {fault}{hint}; allowed: {allowed}")

"""Writes a fabric as TOML text; units are those of `wavefabric.fabric.io.tables`."""

import json
from dataclasses import fields, replace
from functools import lru_cache
from itertools import groupby
from typing import Any

from wavefabric.base.units import PLAIN, quantity
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.io import tables
from wavefabric.fabric.photonic.fabric import PhotonicFabric

#: Units for writing a quantity, preferred first, and the smallest value in SI units to write in each.
_WRITTEN_UNITS = {
    "B/s": {"GB/s": 1e8, "GiB/s": 2.0**26, "MB/s": 1e5, "kB/s": 1e2, "B/s": 0.0},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-7, "ns": 0.0},
    "m": {"mm": 1e-5, "um": 0.0},
    "B": {"GB": 1e8, "GiB": 2.0**26, "MB": 1e5, "B": 0.0},
    "FLOP/s": {"TFLOP/s": 1e11, "GFLOP/s": 1e8, "FLOP/s": 0.0},
}
#: Keys of an electrical fabric in file order; keys of measured fabrics are left out if 0.
_MEASURED = ("reduce_bandwidth", "reduce_alpha", "round_overhead", "peer_overhead", "reduce_overhead")
_FIRST = ("description", "source", "alpha", "copy_bandwidth", "flow_bandwidth")
_ELECTRICAL = (*_FIRST, *_MEASURED, "forwards", "multipath", "gpus", "switches", "multicast_switches")


def to_toml(fabric: Fabric | PhotonicFabric) -> str:
    """Return a fabric as TOML text, from which `from_toml` makes an equal fabric."""
    lines = _photonic(fabric) if isinstance(fabric, PhotonicFabric) else _electrical(fabric)
    return "\n".join(lines) + "\n"


def _electrical(fabric: Fabric) -> list[str]:
    spare = (*_MEASURED, "multicast_switches")
    keys = (key for key in _ELECTRICAL if getattr(fabric, key) or key not in spare)
    values = {key: getattr(fabric, key) for key in keys}
    lines = entries(tables.ElectricalTable, {"name": fabric.name, "kind": "electrical", **values})
    for link, count, both in _grouped(fabric.links):
        values = {"from": link.source, "to": link.target, "bandwidth": link.bandwidth}
        values |= {"latency": link.latency or None, "kind": link.kind, "count": count if count > 1 else None}
        lines += ["", "[[links]]", *entries(tables.FabricLinkTable, {**values, "both": both})]
    if fabric.kernels is not None:
        lines += ["", "[kernels]", *entries(tables.KernelsTable, vars(fabric.kernels))]
    for each in fabric.transports:
        lines += ["", "[[transports]]", *entries(tables.TransportTable, vars(each))]
    return lines


def _photonic(fabric: PhotonicFabric) -> list[str]:
    keys = [f.name for f in fields(fabric) if f.name not in ("name", "description", "source", "budget")]
    values = {key: getattr(fabric, key) for key in ("description", "source", *keys)}
    lines = entries(tables.PhotonicTable, {"name": fabric.name, "kind": "photonic", **values})
    if fabric.budget is not None:
        lines += ["", "[budget]", *entries(tables.BudgetTable, vars(fabric.budget))]
    return lines


def entries(table: type[tables.FabricFileTable], values: dict[str, Any]) -> list[str]:
    """Return one line of TOML per key, numbers with their unit; keys with None or empty text are left out."""
    lines = []
    for key, value in values.items():
        if value is None or value == "":
            continue
        unit = tables.unit_of(table, key)
        if unit in _WRITTEN_UNITS:
            text = _quantity(value, unit)
        elif unit is not None:
            text = f'"{float(value)!r} {unit}"' if unit else repr(float(value))
        elif isinstance(value, tuple):
            text = f"[{', '.join(map(_text, value))}]"
        else:
            text = _text(value) if isinstance(value, str) else str(value).lower()
        lines.append(f"{key} = {text}")
    return lines


@lru_cache(maxsize=4096)
def _quantity(value: float, unit: str) -> str:
    """Return a number as quoted text, in a unit of its magnitude, that reads back as exactly this number."""
    if not value:
        return f'"0 {unit}"'
    fitting = [name for name, least in _WRITTEN_UNITS[unit].items() if value >= least]
    for name in fitting:
        text = f"{value / PLAIN[unit][name]:.12g} {name}"
        if quantity(text, unit) == value:
            return f'"{text}"'
    # The SI unit itself always fits, as its factor is one.
    texts = [f"{float(value) / PLAIN[unit][name]!r} {name}" for name in (*fitting, unit)]
    return f'"{min((t for t in texts if quantity(t, unit) == value), key=len)}"'


def _text(value: str) -> str:
    # JSON's escapes are valid TOML, but TOML also requires DEL to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _grouped(links: tuple[Link, ...]) -> list[tuple[Link, int, bool]]:
    """Group equal consecutive links: (link, count, whether as many links back follow and belong to it)."""
    runs = [(link, len(list(same))) for link, same in groupby(links)]
    groups, i = [], 0
    while i < len(runs):
        link, count = runs[i]
        back = replace(link, source=link.target, target=link.source)
        both = runs[i + 1 : i + 2] == [(back, count)]
        groups.append((link, count, both))
        i += 1 + both
    return groups

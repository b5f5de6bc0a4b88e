"""A fabric as TOML text."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache

from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.photonic.wafer import PhotonicFabric
from wavefabric.units import PLAIN, quantity

#: By what is looked for first, with the least that each is for.
_UNITS = {
    "B/s": {"GB/s": 1e8, "GiB/s": 2.0**26, "MB/s": 1e5, "kB/s": 1e2, "B/s": 0.0},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-7, "ns": 0.0},
    "m": {"mm": 1e-5, "um": 0.0},
}
#: Units of a link budget, but for losses.
_LEVELS = {
    "launch_power": "dBm",
    "extinction_ratio": "dB",
    "propagation_loss": "dB/m",
    "responsivity": "A/W",
    "noise_current": "A/sqrt(Hz)",
}
_QUANTITIES = {
    "alpha": "s",
    "copy_bandwidth": "B/s",
    "flow_bandwidth": "B/s",
    "reduce_bandwidth": "B/s",
    "reduce_alpha": "s",
    "round_overhead": "s",
    "peer_overhead": "s",
    "reduce_overhead": "s",
    "laser_bandwidth": "B/s",
    "reconfiguration": "s",
    "synchronisation": "s",
    "tile_pitch": "m",
}


def electrical_text(fabric: Fabric) -> str:
    """An electrical fabric as TOML text."""
    lines = [f"name = {_text(fabric.name)}", 'kind = "electrical"']
    lines += _pairs(fabric, ("description", "source", "alpha", "copy_bandwidth", "flow_bandwidth"))
    measured = ("reduce_bandwidth", "reduce_alpha", "round_overhead", "peer_overhead", "reduce_overhead")
    lines += _pairs(fabric, tuple(name for name in measured if getattr(fabric, name)))
    lines += [f"forwards = {str(fabric.forwards).lower()}"]
    lines += [f"gpus = {_list(fabric.gpus)}", f"switches = {_list(fabric.switches)}"]
    for link, count, both in _runs(fabric.links):
        lines += ["", "[[links]]", f"from = {_text(link.source)}", f"to = {_text(link.target)}"]
        lines += [f"bandwidth = {_quantity(link.bandwidth, 'B/s')}"]
        if link.latency:
            lines += [f"latency = {_quantity(link.latency, 's')}"]
        lines += [f"kind = {_text(link.kind)}"]
        if count > 1:
            lines += [f"count = {count}"]
        lines += [f"both = {str(both).lower()}"]
    return "\n".join(lines) + "\n"


def photonic_text(fabric: PhotonicFabric) -> str:
    """A photonic fabric as TOML text."""
    lines = [f"name = {_text(fabric.name)}", 'kind = "photonic"']
    names = [f.name for f in fields(fabric) if f.name not in ("name", "description", "source", "budget")]
    lines += _pairs(fabric, ("description", "source", *names))
    if fabric.budget is not None:
        lines += ["", "[budget]"]
        for key, value in vars(fabric.budget).items():
            unit = _LEVELS.get(key, "dB" if key.endswith("_loss") else "")
            lines.append(f'{key} = "{float(value)!r} {unit}"' if unit else f"{key} = {float(value)!r}")
    return "\n".join(lines) + "\n"


def _pairs(fabric: Fabric | PhotonicFabric, names: tuple[str, ...]) -> list[str]:
    lines = []
    for name in names:
        value = getattr(fabric, name)
        if value is None or value == "":
            continue
        if name in _QUANTITIES:
            shown = _quantity(value, _QUANTITIES[name])
        else:
            shown = _text(value) if isinstance(value, str) else str(value)
        lines.append(f"{name} = {shown}")
    return lines


@lru_cache(maxsize=4096)
def _quantity(value: float, unit: str) -> str:
    """Text that reads back as exactly this number: in a unit of its size, with few digits."""
    if not value:
        return f'"0 {unit}"'
    fit = [name for name, least in _UNITS[unit].items() if value >= least]
    for name in fit:
        text = f"{value / PLAIN[unit][name]:.12g} {name}"
        if quantity(text, unit) == value:
            return f'"{text}"'
    # The SI unit itself always fits, as its factor is one.
    texts = [f"{float(value) / PLAIN[unit][name]!r} {name}" for name in (*fit, unit)]
    return f'"{min((t for t in texts if quantity(t, unit) == value), key=len)}"'


def _text(value: str) -> str:
    # JSON's escapes are TOML's too, but TOML also wants DEL escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _list(values: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _runs(links: tuple[Link, ...]) -> list[tuple[Link, int, bool]]:
    """Links, equal ones that follow each other counted; whether as many lead back right after them."""
    runs: list[tuple[Link, int]] = []
    for link in links:
        if runs and runs[-1][0] == link:
            runs[-1] = link, runs[-1][1] + 1
        else:
            runs.append((link, 1))
    found = []
    i = 0
    while i < len(runs):
        link, count = runs[i]
        back = Link(link.target, link.source, link.bandwidth, link.latency, link.kind)
        both = i + 1 < len(runs) and runs[i + 1] == (back, count)
        found.append((link, count, both))
        i += 1 + both
    return found

"""Circuit plans as JSON files, beside the schedules that they carry."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavefabric.cli.common.files import read_json
from wavefabric.cli.common.show import rate_text
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.fabric.photonic.plan import CircuitPlan

_FORMAT = "wavefabric circuits"
_MOST = 4096
#: What is said about a round beside its circuits.
_NUMBERS = ("overlap", "overlap_bound", "parts_bound")


def circuits_text(plan: CircuitPlan) -> str:
    """A circuit plan as JSON text, one bundle a line; key of a bundle: round, src, dst."""
    fabric = json.dumps(asdict(plan.fabric), ensure_ascii=False)
    lines = []
    for now in plan.rounds:
        for bundle in now.bundles:
            lines.append(
                json.dumps(
                    {
                        "round": now.round,
                        "part": now.part,
                        "src": bundle.src,
                        "dst": bundle.dst,
                        "wavelengths": [
                            w for w in range(bundle.wavelengths.bit_length()) if bundle.wavelengths >> w & 1
                        ],
                        "route": list(bundle.route),
                        "waveguides": list(bundle.waveguides),
                    }
                )
            )
    rounds = ",\n    ".join(
        json.dumps({"round": r.round, "part": r.part, **{name: getattr(r, name) for name in _NUMBERS}})
        for r in plan.rounds
    )
    body = ",\n    ".join(lines)
    return (
        f'{{\n  "format": "{_FORMAT}",\n  "version": 1,\n  "schedule": {json.dumps(plan.schedule)},\n'
        f'  "fabric": {fabric},\n  "rounds": [\n    {rounds}\n  ],\n  "circuits": [\n    {body}\n  ]\n}}\n'
    )


def load_circuits(path: Path) -> CircuitPlan:
    """Read a circuit plan. Whether it is sound is not proved: `check_plan` does that.

    Raises
    ------
    InputError
        In one line, the path in front.
    """
    from wavefabric.fabric.photonic.plan import Bundle, CircuitPlan, CircuitRound

    content = read_json(path, "circuits")
    if not isinstance(content, dict) or content.get("format") != _FORMAT or content.get("version") != 1:
        raise InputError(f'{path}: format: allowed: an object with "format": "{_FORMAT}" and "version": 1')
    fabric = _fabric(path, content.get("fabric"))
    bundles: dict[tuple[int, int], list[Bundle]] = {}
    for number, each in enumerate(_list(path, content, "circuits")):
        key = f"{path}: circuits[{number}]"
        each = each if isinstance(each, dict) else {}
        at = _whole(each, "round", key), _whole(each, "part", key)
        waves = _wholes(each, "wavelengths", key, fabric.lasers - 1)
        if not waves or len(set(waves)) < len(waves):
            raise InputError(f"{key}: wavelengths: {waves} given; allowed: at least one, each once")
        route = _wholes(each, "route", key, fabric.ranks - 1)
        guides = _wholes(each, "waveguides", key, _MOST * _MOST)
        if len(route) < 2 or len(guides) != len(route) - 1:
            raise InputError(
                f"{key}: waveguides: {len(guides)} given; allowed: one for each step of the route"
            )
        src, dst = _whole(each, "src", key), _whole(each, "dst", key)
        mask = sum(1 << w for w in waves)
        bundles.setdefault(at, []).append(Bundle(src, dst, mask, tuple(route), tuple(guides)))
    rounds = {}
    for number, each in enumerate(_list(path, content, "rounds")):
        key = f"{path}: rounds[{number}]"
        each = each if isinstance(each, dict) else {}
        at = _whole(each, "round", key), _whole(each, "part", key)
        numbers = [_whole(each, name, key) for name in _NUMBERS]
        rounds[at] = CircuitRound(*at, tuple(bundles.pop(at, ())), *numbers)
    if bundles:
        raise InputError(f"{path}: circuits: of round {min(bundles)[0]}; allowed: rounds that are listed")
    name = str(content.get("schedule", ""))
    return CircuitPlan(name, fabric, tuple(rounds[at] for at in sorted(rounds)))


def facts(plan: CircuitPlan) -> dict[str, Any]:
    """What a plan asks of its fabric that costs take for granted.

    Returns
    -------
    dict
        ``slowest_circuit``: of the wavelengths that carry least by the link budget, ``src``, ``dst``,
        ``edges`` and ``bandwidth`` in B/s, or None if all carry the fabric's `laser_bandwidth`;
        ``wavelength_switches``: whether wavelengths of a waveguide part.
    """
    from wavefabric.fabric.photonic.budget import slowest_circuit
    from wavefabric.fabric.photonic.check import needs_wavelength_switches

    rate, bundle = slowest_circuit(plan)
    least = None
    if bundle is not None and rate < plan.fabric.laser_bandwidth:
        least = {"src": bundle.src, "dst": bundle.dst, "edges": len(bundle.route) - 1, "bandwidth": rate}
    return {"slowest_circuit": least, "wavelength_switches": needs_wavelength_switches(plan)}


def notes(told: dict[str, Any], bandwidth: float) -> list[str]:
    """`facts` in words, if there is something to say; lasers are counted with ``bandwidth`` (B/s)."""
    found = []
    if told.get("slowest_circuit"):
        c = told["slowest_circuit"]
        way = f"circuit {c['src']} -> {c['dst']} over {c['edges']} edge{'s' if c['edges'] > 1 else ''}"
        rate = rate_text(c["bandwidth"]) if c["bandwidth"] else "nothing"
        found.append(f"link budget: a wavelength of {way} carries {rate}, not {rate_text(bandwidth)}")
    if told.get("wavelength_switches"):
        found.append(
            "switches: wavelengths of a waveguide part, so they need switches for single wavelengths"
        )
    return found


def _fabric(path: Path, given: Any):
    from dataclasses import fields

    from wavefabric.fabric.photonic.fabric import PhotonicFabric

    known = {f.name for f in fields(PhotonicFabric)}
    if not isinstance(given, dict) or {*given, "budget"} != known:
        raise InputError(f"{path}: fabric: allowed: an object with {', '.join(sorted(known))}")
    texts = ("name", "description", "source")
    given = dict(given)
    budget = given.pop("budget", None)
    for key, value in given.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18
        counted = key in ("alpha", "reconfiguration", "synchronisation", "tile_pitch", "laser_bandwidth")
        fits = isinstance(value, str) if key in texts else number and (counted or isinstance(value, int))
        if key in ("rows", "columns", "wafer_rows", "wafer_columns", "lasers"):
            fits = fits and 1 <= value <= _MOST
        if key == "name":  # printed, so on one line and without control characters
            fits = isinstance(value, str) and value.isprintable()
        if not fits and not (key == "serdes_ports" and value is None):
            raise InputError(f"{path}: fabric.{key}: {json.dumps(value)[:60]} given; allowed: a sound value")
    return PhotonicFabric(**given, budget=None if budget is None else _budget(path, budget))


def _budget(path: Path, given: Any):
    from dataclasses import fields

    from wavefabric.fabric.photonic.budget import LinkBudget

    known = {f.name for f in fields(LinkBudget)}
    if not isinstance(given, dict) or set(given) != known:
        raise InputError(f"{path}: fabric.budget: allowed: an object with {', '.join(sorted(known))}")
    for key, value in given.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            shown = json.dumps(value)[:60]
            raise InputError(f"{path}: fabric.budget.{key}: {shown} given; allowed: a number")
    try:
        return LinkBudget(**given)
    except InputError as error:
        raise InputError(f"{path}: fabric.budget.{error}") from None


def _list(path: Path, content: dict, key: str) -> list:
    if not isinstance(content.get(key), list):
        raise InputError(f"{path}: {key}: allowed: a list")
    return content[key]


def _whole(each: dict, name: str, key: str, most: int = (1 << 31) - 1) -> int:
    value = each.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise InputError(
            f"{key}: {name}: {json.dumps(value)[:60]} given; allowed: a whole number from 0 to {most}"
        )
    return value


def _wholes(each: dict, name: str, key: str, most: int) -> list[int]:
    value = each.get(name)
    if not isinstance(value, list) or len(value) > _MOST * 4:
        raise InputError(f"{key}: {name}: {json.dumps(value)[:60]} given; allowed: a list of whole numbers")
    return [_whole({name: v}, name, key, most) for v in value]

"""Read and write circuit plans as JSON files, which accompany the schedules that the circuits carry."""

import json
from collections import defaultdict
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from wavefabric.base.errors import InputError
from wavefabric.base.files.input import naming
from wavefabric.base.files.output import json_rows
from wavefabric.base.files.validation_errors import checked
from wavefabric.cli.common.files import read_json
from wavefabric.fabric.photonic.circuit_plan import Bundle, CircuitPlan, CircuitRound
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.link_budget import LinkBudget

_FORMAT = "wavefabric circuits"
#: Fields of a round that are written besides its circuits.
_NUMBERS = ("round", "part", "overlap", "overlap_bound", "parts_bound")

Whole = Annotated[int, Field(strict=True, ge=0, lt=1 << 31)]
Side = Annotated[int, Field(strict=True, ge=1, le=4096)]


def _budget(values: dict[str, int | float] | None) -> LinkBudget | None:
    known = {field.name for field in fields(LinkBudget)}
    if values is not None and set(values) != known:
        raise ValueError(f"allowed: an object with {', '.join(sorted(known))}")
    return None if values is None else LinkBudget(**values)


#: Strict types by the annotations of `PhotonicFabric`.
_TYPES: dict[Any, Any] = {
    str: str,
    int: Whole,
    int | None: Annotated[int | None, Field(strict=True, ge=0, lt=1 << 31)],
    float: Annotated[float, Field(strict=True, ge=0, lt=1e18)],
    LinkBudget | None: Annotated[dict[str, int | float] | None, AfterValidator(_budget)],
}
_SIDES = ("rows", "columns", "wafer_rows", "wafer_columns", "lasers")


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


_FIELDS: Any = {
    name: (Side if name in _SIDES else _TYPES[kind], ...)
    for name, kind in get_type_hints(PhotonicFabric).items()
}
_FIELDS["budget"] = _TYPES[LinkBudget | None], None
_Fabric = create_model("_Fabric", __base__=_Strict, **_FIELDS)


_WHOLE: Any = dict.fromkeys(_NUMBERS, (Whole, ...))
_Round: Any = create_model("_Round", __base__=_Strict, **_WHOLE)


class _Circuit(_Strict):
    round: Whole
    part: Whole
    src: Whole
    dst: Whole
    wavelengths: Annotated[list[Whole], Field(min_length=1)]
    route: list[Whole]
    waveguides: list[Whole]


class _File(_Strict):
    format: Literal["wavefabric circuits"]
    version: Literal[1]
    schedule: str = ""
    fabric: _Fabric  # type: ignore[valid-type]
    rounds: list[_Round]  # type: ignore[valid-type]
    circuits: list[_Circuit]


def circuits_text(plan: CircuitPlan) -> str:
    """Return a circuit plan as JSON text, with one line per bundle of circuits."""
    rounds, circuits = [], []
    for now in plan.rounds:
        rounds.append({name: getattr(now, name) for name in _NUMBERS})
        for bundle in now.bundles:
            waves = [w for w in range(bundle.wavelengths.bit_length()) if bundle.wavelengths >> w & 1]
            at = {"round": now.round, "part": now.part}
            circuits.append(at | vars(bundle) | {"wavelengths": waves})
    content = {"format": _FORMAT, "version": 1, "schedule": plan.schedule, "fabric": asdict(plan.fabric)}
    return json_rows(content | {"rounds": rounds, "circuits": circuits}, ("rounds", "circuits"))


def load_circuits(path: Path) -> CircuitPlan:
    """Read a circuit plan from a file; only the format is checked, `check_plan` proves the plan."""
    content = read_json(path, "circuits")
    with naming(path):
        if not isinstance(content, dict):
            raise InputError(f'format: allowed: an object with "format": "{_FORMAT}" and "version": 1')
        return _plan(checked(_File, content))


def _plan(file: _File) -> CircuitPlan:
    fabric = PhotonicFabric(**dict(file.fabric))
    if not fabric.name.isprintable():  # commands print the name: one line, no control characters
        raise InputError(f"fabric.name: {json.dumps(fabric.name)[:60]} given; allowed: text on one line")
    bundles: dict[tuple[int, int], list[Bundle]] = defaultdict(list)
    for number, each in enumerate(file.circuits):
        key, waves = f"circuits[{number}]", each.wavelengths
        if len(set(waves)) < len(waves):
            raise InputError(f"{key}.wavelengths: {waves} given; allowed: each once")
        for name, values, most in (
            ("wavelengths", waves, fabric.lasers),
            ("route", each.route, fabric.ranks),
        ):
            if max(values, default=0) >= most:
                raise InputError(f"{key}.{name}: {max(values)} given; allowed: 0 to {most - 1}")
        if len(each.route) < 2 or len(each.waveguides) != len(each.route) - 1:
            actual = f"{len(each.waveguides)} given"
            raise InputError(f"{key}.waveguides: {actual}; allowed: one for each step of the route")
        mask = sum(1 << w for w in waves)
        bundle = Bundle(each.src, each.dst, mask, tuple(each.route), tuple(each.waveguides))
        bundles[each.round, each.part].append(bundle)
    rounds = {}
    for each in map(dict, file.rounds):
        at = each["round"], each["part"]
        rounds[at] = CircuitRound(**each, bundles=tuple(bundles.pop(at, ())))
    if bundles:
        raise InputError(f"circuits: of round {min(bundles)[0]}; allowed: rounds that are listed")
    return CircuitPlan(file.schedule, fabric, tuple(rounds[at] for at in sorted(rounds)))

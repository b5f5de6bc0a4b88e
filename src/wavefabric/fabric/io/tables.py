"""Defines the keys of a fabric's TOML file, and the unit of each key."""

import re
from dataclasses import MISSING, fields
from functools import partial
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    create_model,
)

from wavefabric.base.errors import InputError
from wavefabric.base.units import quantity, show
from wavefabric.fabric.electrical.fabric import MULTIPATH, Fabric, KernelTimes, TransportTimes
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.link_budget import LinkBudget

#: Largest number of links in a file, against absurd input.
MOST_LINKS = 10**6


def converted(value: Any, *, unit: str, most: float, least: float = 0.0, above: float | None = None) -> float:
    """Convert text with a unit, such as ``"3 GB/s"``, to SI units; `ValueError` for values out of range."""
    try:
        number = quantity(value, unit, "")
    except InputError as error:
        raise ValueError(str(error).removeprefix(": ").replace(" is ", " given, is ", 1)) from None
    allowed = ""
    if not isinstance(value, str):
        allowed = f'text with a unit, such as "1 {unit}"'
    elif above is not None and number <= above:
        allowed = f"above {above:g} {unit}"
    elif number < least:
        allowed = f"from {least:g} {unit}"
    elif number > most:
        allowed = f"up to {most:g} {unit}"
    if allowed:
        raise ValueError(f"{show(value)} given; allowed: {allowed}")
    return number


def _as_written(value: Any, *, example: str) -> float:
    """Return the number of a text that must have exactly the unit of ``example``, such as dB."""
    number = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)"
    form = rf"\s*{number}\s*{re.escape(example.split()[1])}\s*"
    match = re.fullmatch(form, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'{show(value)} given; allowed: text with its unit, such as "{example}"')
    return float(match[1])


def _plain(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
        raise ValueError(f"{show(value)} given; allowed: a number from 0 to 1e6")
    return float(value)


def _name(value: Any) -> str:
    # Allow one line only, as names occur in error messages.
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(f"{show(value)} given; allowed: text of one line, not empty")
    return value


def _nodes(value: Any) -> int | list[str]:
    if isinstance(value, list):
        return [_name(v) for v in value]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 4096:
        raise ValueError(f"{show(value)} given; allowed: a number up to 4096, or a list of names")
    return value


def _ends(value: Any) -> list[str]:
    names = value if isinstance(value, list) else [value]
    if not names:
        raise ValueError("[] given; allowed: a name, or a list of names")
    return [_name(v) for v in names]


#: Functions that read a number, by unit; "" stands for plain numbers.
_READ = {
    "B/s": partial(converted, unit="B/s", most=1e18, least=1.0),
    "s": partial(converted, unit="s", most=1e6),
    "B": partial(converted, unit="B", most=1e18, least=1.0),
    "m": partial(converted, unit="m", most=1e6, above=0),
    "": _plain,
}
_WRITTEN = ("0.3 dB", "10 dBm", "40 dB/m", "0.9 A/W", "18e-12 A/sqrt(Hz)")
_READ |= {example.split()[1]: partial(_as_written, example=example) for example in _WRITTEN}
# `unit_of` finds the units.
Bandwidth = Annotated[float, "B/s", BeforeValidator(_READ["B/s"])]
Seconds = Annotated[float, "s", BeforeValidator(_READ["s"])]
Bytes = Annotated[float, "B", BeforeValidator(_READ["B"])]
Ratio = Annotated[float, "", BeforeValidator(_READ[""])]
Name = Annotated[str, BeforeValidator(_name)]
Nodes = Annotated[int | list[str], BeforeValidator(_nodes)]
Ends = Annotated[list[str], BeforeValidator(_ends)]
Count = Annotated[StrictInt, Field(ge=1, le=10**6)]
Side = Annotated[StrictInt, Field(ge=1, le=4096)]
Lasers = Annotated[StrictInt, Field(ge=1, le=1024)]


class FabricFileTable(BaseModel):
    """Base class of all tables: refuses unknown keys and infinite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FabricLinkTable(FabricFileTable):
    """Describes ``count`` parallel links from each of ``from`` to each of ``to``, and with ``both`` back."""

    from_: Ends = Field(alias="from")
    to: Ends
    bandwidth: Bandwidth
    latency: Seconds = 0.0
    kind: Name = "wire"
    count: Count = 1
    both: StrictBool = True


class NetworkTable(FabricFileTable):
    """Describes the network between nodes; see `wavefabric.fabric.electrical.families.Network`."""

    bandwidth: Bandwidth
    latency: Seconds = 0.0
    leaves: Literal["rails", "nodes"] = "rails"
    oversubscription: Annotated[Ratio, Field(ge=0.01)] = 1.0
    adapters: Side | None = None
    spines: Annotated[StrictInt, Field(ge=1, le=256)] = 1


class FamilyTable(FabricFileTable):
    """Describes links generated from a few numbers; see `wavefabric.fabric.electrical.families`."""

    kind: Literal["switch", "ring", "mesh", "torus", "hypercube", "nodes"]
    ranks: Side | None = None
    grid: Annotated[list[Side], Field(min_length=1, max_length=8)] | None = None
    dimensions: Annotated[StrictInt, Field(ge=0, le=12)] | None = None
    bandwidth: Bandwidth
    latency: Seconds = 0.0
    link: Name = "wire"
    network: NetworkTable | None = None


def make_table(name: str, base: Any = FabricFileTable, /, **keys: Any) -> Any:
    """Return the class of a table in a file; ``keys``: (type, default) per key, ``...`` if required."""
    return create_model(name, __base__=base, **keys)


def fields_of(kind: type, *left_out: str) -> dict[str, Any]:
    """Return the fields of a dataclass as keys of `make_table`, except ``left_out``."""
    types = get_type_hints(kind, include_extras=True)
    own = (each for each in fields(kind) if each.init and each.name not in left_out)
    return {each.name: (types[each.name], ... if each.default is MISSING else each.default) for each in own}


def _table_of(described: type, /, **others: Any) -> Any:
    """Return the table class for a dataclass, whose fields become keys.

    ``others`` are additional keys, and keys whose form in the file differs from the field. Keys whose default
    is None may be left out.
    """
    own = fields_of(described, *others, "numbering")
    keys = {
        key: (kind | None if default is None else kind, default) for key, (kind, default) in others.items()
    }
    keys |= {key: (_as_read(kind), default) for key, (kind, default) in own.items()}
    return make_table(f"{described.__name__}Table", **keys)


def _as_read(hint: Any) -> Any:
    """Return the type of a table's key for the annotation of a field; numbers are read with a unit."""
    if get_origin(hint) is Annotated:
        unit = hint.__metadata__[0]
        return Annotated[float, unit, BeforeValidator(_READ[unit])]
    if type(None) in get_args(hint):
        return _as_read(get_args(hint)[0]) | None
    return {str: StrictStr, bool: StrictBool}[hint]


KernelsTable, BudgetTable = _table_of(KernelTimes), _table_of(LinkBudget)
TransportTable = _table_of(TransportTimes, name=(Literal["p2p", "nccl", "mpi-cuda", "mpi"], ...))
ElectricalTable = _table_of(
    Fabric,
    name=(Name, ...),
    kind=(Literal["electrical"], "electrical"),
    gpus=(Nodes, None),
    switches=(Nodes, []),
    links=(list[FabricLinkTable], None),
    family=(FamilyTable, None),
    kernels=(KernelsTable, None),
    transports=(list[TransportTable], []),
    multicast_switches=(list[Name], []),
    multipath=(Literal[MULTIPATH], MULTIPATH[0]),
)
PhotonicTable = _table_of(
    PhotonicFabric,
    name=(Name, ...),
    kind=(Literal["photonic"], ...),
    **dict.fromkeys(("rows", "columns"), (Side, ...)),
    **dict.fromkeys(("wafer_rows", "wafer_columns"), (Side, None)),
    lasers=(Lasers, ...),
    serdes_ports=(Lasers, None),
    **dict.fromkeys(("waveguides", "fibres"), (Count, ...)),
    budget=(BudgetTable, None),
)


def unit_of(table: type[FabricFileTable], key: str) -> str | None:
    """Return the unit of a key of a table, "" for a number without unit; None for counts, text and others."""
    field = table.model_fields.get(key)
    if field is None:
        return None
    metadata = [*field.metadata, *(m for option in get_args(field.annotation) for m in get_args(option)[1:])]
    return next((m for m in metadata if isinstance(m, str)), None)

"""What a fabric's TOML file may hold."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from wavefabric.errors import InputError
from wavefabric.units import quantity, show

#: Absurd numbers are kept out of the arithmetic.
LEAST_BANDWIDTH, MOST_BANDWIDTH = 1.0, 1e18
MOST_SECONDS = 1e6


def _read(value: Any, unit: str, above: float | None, most: float, least: float) -> float:
    try:
        number = quantity(value, unit, "")
    except InputError as error:
        raise ValueError(str(error).removeprefix(": ").replace(" is ", " given, is ", 1)) from None
    if not isinstance(value, str) and unit:
        raise ValueError(f'{show(value)} given; allowed: text with a unit, such as "1 {unit}"')
    if above is not None and number <= above:
        raise ValueError(f"{show(value)} given; allowed: above {above:g} {unit}")
    if number < least:
        raise ValueError(f"{show(value)} given; allowed: from {least:g} {unit}")
    if number > most:
        raise ValueError(f"{show(value)} given; allowed: up to {most:g} {unit}")
    return number


def _in_unit(unit: str, most: float, above: float | None = None, least: float = 0.0) -> BeforeValidator:
    return BeforeValidator(partial(_read, unit=unit, above=above, most=most, least=least))


_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)"


def _as_written(value: Any, unit: str, example: str) -> float:
    # Levels and roots of units, which stay as they are: no conversion.
    found = re.fullmatch(rf"\s*{_NUMBER}\s*{re.escape(unit)}\s*", value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f'{show(value)} given; allowed: text with its unit, such as "{example} {unit}"')
    return float(found[1])


def _written(unit: str, example: str) -> BeforeValidator:
    return BeforeValidator(partial(_as_written, unit=unit, example=example))


def _plain(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
        raise ValueError(f"{show(value)} given; allowed: a number from 0 to 1e6")
    return float(value)


def _name(value: Any) -> str:
    # One line that can stand in an error.
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


Bandwidth = Annotated[float, _in_unit("B/s", MOST_BANDWIDTH, least=LEAST_BANDWIDTH)]
Seconds = Annotated[float, _in_unit("s", MOST_SECONDS)]
Metres = Annotated[float, _in_unit("m", 1e6, above=0)]
Level = Annotated[float, _written("dBm", "10")]
Decibels = Annotated[float, _written("dB", "0.3")]
Ratio = Annotated[float, BeforeValidator(_plain)]
Name = Annotated[str, BeforeValidator(_name)]
Nodes = Annotated[int | list[str], BeforeValidator(_nodes)]
Ends = Annotated[list[str], BeforeValidator(_ends)]
Count = Annotated[StrictInt, Field(ge=1, le=10**6)]
Side = Annotated[StrictInt, Field(ge=1, le=4096)]


class Table(BaseModel):
    """No unknown keys, no infinities."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LinkTable(Table):
    """One way, or `count` parallel ones, between every two of `from` and `to`; `both`: and back."""

    from_: Ends = Field(alias="from")
    to: Ends
    bandwidth: Bandwidth
    latency: Seconds = 0.0
    kind: Name = "wire"
    count: Count = 1
    both: StrictBool = True


class FamilyTable(Table):
    """Links made from a few numbers; see `wavefabric.fabric.electrical.families`."""

    kind: Literal["switch", "ring", "mesh", "torus", "hypercube"]
    ranks: Side | None = None
    grid: Annotated[list[Side], Field(min_length=1, max_length=8)] | None = None
    dimensions: Annotated[StrictInt, Field(ge=0, le=12)] | None = None
    bandwidth: Bandwidth
    latency: Seconds = 0.0
    link: Name = "wire"


class ElectricalTable(Table):
    """An electrical fabric."""

    name: Name
    kind: Literal["electrical"] = "electrical"
    description: StrictStr = ""
    source: StrictStr = ""
    alpha: Seconds
    gpus: Nodes | None = None
    switches: Nodes = Field(default_factory=list, validate_default=False)
    links: list[LinkTable] | None = None
    family: FamilyTable | None = None
    copy_bandwidth: Bandwidth | None = None
    flow_bandwidth: Bandwidth | None = None
    forwards: StrictBool = False
    reduce_bandwidth: Bandwidth | None = None
    reduce_alpha: Seconds = 0.0
    round_overhead: Seconds = 0.0
    peer_overhead: Seconds = 0.0
    reduce_overhead: Seconds = 0.0


class BudgetTable(Table):
    """A link budget; defaults are those of `wavefabric.fabric.photonic.budget.LinkBudget`."""

    launch_power: Level | None = None
    modulator_loss: Decibels | None = None
    extinction_ratio: Decibels | None = None
    switch_loss: Decibels | None = None
    crossing_loss: Decibels | None = None
    crossings: Ratio | None = None
    reticle_loss: Decibels | None = None
    propagation_loss: Annotated[float, _written("dB/m", "40")] | None = None
    coupling_loss: Decibels | None = None
    receiver_loss: Decibels | None = None
    responsivity: Annotated[float, _written("A/W", "0.9")] | None = None
    noise_current: Annotated[float, _written("A/sqrt(Hz)", "18e-12")] | None = None
    bandwidth_ratio: Ratio | None = None
    nrz_limit: Ratio | None = None
    pam4_limit: Ratio | None = None


class PhotonicTable(Table):
    """A photonic fabric; see `wavefabric.fabric.photonic.wafer.PhotonicFabric`."""

    name: Name
    kind: Literal["photonic"]
    description: StrictStr = ""
    source: StrictStr = ""
    rows: Side
    columns: Side
    wafer_rows: Side | None = None
    wafer_columns: Side | None = None
    lasers: Annotated[StrictInt, Field(ge=1, le=1024)]
    serdes_ports: Annotated[StrictInt, Field(ge=1, le=1024)] | None = None
    laser_bandwidth: Bandwidth
    waveguides: Count
    fibres: Count
    alpha: Seconds
    reconfiguration: Seconds
    synchronisation: Seconds = 0.0
    tile_pitch: Metres = 0.025
    budget: BudgetTable | None = None

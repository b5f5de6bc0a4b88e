"""Validate the JSON of a tuning file; `wavefabric.collectives.tuning` explains the content."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from wavefabric.base.errors import InputError, show
from wavefabric.base.files.input import parse_json
from wavefabric.base.files.validation_errors import checked
from wavefabric.collectives.sizes import MOST_RANKS

FORMAT: Literal["wavefabric tuning"] = "wavefabric tuning"
VERSION: Literal[1] = 1

_Microseconds = Annotated[float, Field(ge=0, lt=1e15, strict=True)]
_Count = Annotated[StrictInt, Field(ge=1, lt=2**63)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ChoiceTable(_Table):
    algorithm: StrictStr
    radix: _Count | None = None
    pieces: _Count = 1
    protocol: StrictStr = "auto"
    grid: tuple[_Count, _Count] | None = None


class _Times(_Table):
    predicted_us: _Microseconds | None = None
    measured_us: _Microseconds | None = None


class TimedChoiceTable(ChoiceTable, _Times):
    pass


class TunedSizeTable(_Times):
    bytes: _Count
    choice: ChoiceTable
    candidates: list[TimedChoiceTable] = []


class TunedCollectiveTable(_Table):
    collective: StrictStr
    transport: StrictStr | None = None
    sizes: list[TunedSizeTable]


class TuningTable(_Table):
    format: Literal["wavefabric tuning"]
    version: Literal[1]
    ranks: Annotated[StrictInt, Field(ge=1, le=MOST_RANKS)]
    dtype: StrictStr | None = None
    device: StrictStr | None = None
    fabric: StrictStr | None = None
    model: StrictStr | None = None
    wavefabric: StrictStr | None = None
    left_out: dict[StrictStr, StrictStr] = {}
    tables: list[TunedCollectiveTable]


def from_text(text: str) -> dict[str, Any]:
    """Return the content of JSON text without format and version, with defaults filled in.

    `InputError`, in one line: the key, the value given, the allowed values.
    """
    content = parse_json(text, "tuning", allowed="one with format, version, ranks, tables")
    # Another format or version may have other keys.
    for key, value in (("format", FORMAT), ("version", VERSION)):
        if content.get(key) != value or type(content[key]) is not type(value):
            actual = f"{show(content[key])} given" if key in content else "missing"
            raise InputError(f"{key}: {actual}; allowed: {show(value)}")
    return checked(TuningTable, content).model_dump(exclude={"format", "version"})

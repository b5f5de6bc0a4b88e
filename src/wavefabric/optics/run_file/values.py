"""Define the types of run-file values (quantities with units, counts, powers, files) and run-file tables."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import pydantic
from pydantic import BeforeValidator, Field, PlainValidator, StrictInt

from wavefabric.base.errors import InputError, one_value
from wavefabric.base.units import EXAMPLES, quantity, show
from wavefabric.optics.fibre.beta import BETA_UNITS
from wavefabric.optics.signal.constellation import Constellation
from wavefabric.optics.signal.transmitter import MOST_POWER


def _read(
    value: Any, info: pydantic.ValidationInfo, unit: str, above=None, least=-np.inf, most=np.inf
) -> float:
    context = info.context or {}
    if isinstance(value, (list, tuple)):
        raise ValueError(one_value(value))
    if context.get("text") and unit not in ("", "rad") and type(value) in (int, float):
        example = EXAMPLES.get(unit, unit)
        raise ValueError(f"{show(value)} has no unit; give text with a unit such as {example}")
    try:
        number = quantity(value, unit, "")
    except InputError as error:
        raise ValueError(str(error).removeprefix(": ")) from None
    if above is not None and number <= above:
        raise ValueError(f"{show(value)} given; allowed: above {above:g} {unit}")
    if not (least <= number <= most):
        limit = f"from {least:g}" if number < least else f"up to {most:g}"
        raise ValueError(f"{show(value)} given; allowed: {limit} {unit}")
    return number


def in_unit(unit: str, **limits: float) -> BeforeValidator:
    """Return a validator that converts text with a unit to an SI float within limits, else ValueError."""
    return BeforeValidator(partial(_read, unit=unit, **limits))


def _file(value: Any, info: pydantic.ValidationInfo) -> Path:
    """Return the path of an input file, relative to the run file; it must exist."""
    path = Path((info.context or {}).get("folder", "."), output_file(value))
    if not path.is_file():
        fault = "is a folder" if path.is_dir() else "does not exist (paths are relative to the run file)"
        raise ValueError(f"{show(str(value))} {fault}")
    return path


def output_file(value: Any) -> Path:
    """Return ``value`` as a path; ValueError unless it is a path or text."""
    if not isinstance(value, (str, Path)) or not str(value):
        raise ValueError(f"{show(value)} given; allowed: the path of a file as text")
    return Path(value)


def _counts(value: Any, keywords: tuple[str, ...]) -> Any:
    """Read whole numbers from 1, a list or, without ``keywords``, one alone; or read one of ``keywords``."""
    if isinstance(value, str) and value in keywords:
        return value
    single = not keywords and isinstance(value, int)
    items = [value] if single else list(value) if isinstance(value, (list, tuple)) else []
    if not items or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in items):
        allowed = [f'"{word}"' for word in keywords] or ["a whole number >= 1"]
        raise ValueError(f"{show(value)} given; allowed: {', '.join(allowed)}, or a list such as [1, 3]")
    return value if single else items


def _betas(value: Any, info: pydantic.ValidationInfo) -> tuple[float, ...]:
    """Read a list of β2, β3, … in s^n/m."""
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) < len(BETA_UNITS):
        allowed = 'a list of β2 … β15, such as ["-21.7 ps^2/km", "0.13 ps^3/km"]'
        raise ValueError(f"{show(value)} given; allowed: {allowed}")
    pairs = zip(value, BETA_UNITS[1:], strict=False)
    return tuple(_read(item, info, unit, least=-1e-15, most=1e-15) for item, unit in pairs)


def _lengths(value: Any, info: pydantic.ValidationInfo) -> float | list[float]:
    """Read a length, or a list of lengths."""
    if not isinstance(value, (list, tuple)):
        return _read(value, info, "m", above=0, most=1e9)
    if not 1 <= len(value) <= MOST_SPANS:
        raise ValueError(f"a list of {len(value)} lengths given; allowed: from 1 to {MOST_SPANS}")
    return [_read(each, info, "m", above=0, most=1e9) for each in value]


def _fraction(value: Any, info: pydantic.ValidationInfo) -> float:
    """Return a plain number from 0 to 1; ValueError for anything else."""
    right = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not right or not 0 <= value <= 1:
        finite = "from 0" if right and value < 0 else "up to 1" if right and value > 1 else "a finite number"
        raise ValueError(f"{show(value)} given; allowed: {finite if right else 'a number'}")
    return float(value)


def _format(value: Any, info: pydantic.ValidationInfo) -> str:
    """Return the name of a modulation format; ValueError for anything else."""
    try:
        return Constellation(value).name
    except InputError as error:
        raise ValueError(str(error).partition(": ")[2]) from None


def _each(value: Any, info: pydantic.ValidationInfo, read: Callable) -> Any:
    """Read one value, or a list as a tuple with one for each channel."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)) and value:
        return tuple(read(item, info) for item in value)
    return read(value, info)


def _powers(value: Any, info: pydantic.ValidationInfo) -> float | tuple:
    """Read a power, a list with one per channel, or a list per mode with one power or one per channel."""

    def read(item: Any, depth: int) -> float | tuple:
        if isinstance(item, (list, tuple)) and depth:
            return tuple(read(part, depth - 1) for part in item)
        if isinstance(item, (list, tuple)):
            raise ValueError(f"{show(value)} given; {POWER_FORMS}")
        return _read(item, info, "W", above=0.0, most=MOST_POWER)

    powers = read(value.tolist() if hasattr(value, "tolist") else value, 2)
    if isinstance(powers, tuple) and (len({type(item) for item in powers}) != 1 or () in powers):
        raise ValueError(f"{show(value)} given; {POWER_FORMS}")
    return powers


POWER_FORMS = (
    'allowed: one power such as "-1 dBm", a list with one for each channel, or a list for each mode such as '
    '[["-1 dBm"], ["0 dBm"]], which holds one power or one for each channel'
)

#: Bounds are far beyond any practical value: they keep absurd input out of the arithmetic.
Length = Annotated[float, in_unit("m", above=0, most=1e9)]
Lengths = Annotated[float | list[float], PlainValidator(_lengths)]
Offset = Annotated[float, in_unit("m", least=0, most=1)]
Frequency = Annotated[float, in_unit("Hz", above=0, most=1e16)]
Count = Annotated[StrictInt, Field(ge=1, lt=2**63)]
#: Most elements of a link, most spans, most channels, most symbols and samples per symbol, most CPU threads.
MOST_ELEMENTS = 30_000
MOST_SPANS, MOST_CHANNELS, MOST_SYMBOLS, MOST_THREADS = 10_000, 10_000, 2**40, 4096
#: Default penalty of step = "auto".
STEP_PENALTY = "0.01 dB"
#: Longest filter of an equaliser, symbols.
MOST_TAPS = 2**20
Seed = Annotated[StrictInt, Field(ge=0, lt=2**63)]
InputFile = Annotated[Path, BeforeValidator(_file)]
Powers = Annotated[Any, PlainValidator(_powers)]
Betas = Annotated[tuple[float, ...], PlainValidator(_betas)]
#: One value, or a tuple with one for each channel.
Rates = Annotated[Any, PlainValidator(partial(_each, read=partial(_read, unit="Hz", least=1, most=1e16)))]
Detunings = Annotated[
    Any, PlainValidator(partial(_each, read=partial(_read, unit="Hz", least=-1e15, most=1e15)))
]
Rolloffs = Annotated[Any, PlainValidator(partial(_each, read=_fraction))]
Modulations = Annotated[Any, PlainValidator(partial(_each, read=_format))]
Groups = Annotated[int | list[int], PlainValidator(partial(_counts, keywords=()))]
Spans = Annotated[str | list[int], PlainValidator(partial(_counts, keywords=("each", "end")))]


class RunFileTable(pydantic.BaseModel):
    """Base class of run-file tables, which reject unknown keys and infinities and are immutable."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @pydantic.model_validator(mode="after")
    def _checked(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Raise InputError for keys that conflict; tables override this method."""

    def present(self, *keys: str) -> list[str]:
        """Return those of the ``keys`` that have a value in this table, not None."""
        return [key for key in keys if getattr(self, key) is not None]

"""The run file: a TOML text that describes fibre, link, signal, receiver and solver.

Every quantity is text with a unit and is an SI float once parsed. `load` turns whatever is wrong
into one line that names the key, what was given and what is allowed.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
import tomllib
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from wavefabric.errors import InputError
from wavefabric.units import EXAMPLES, SPEED_OF_LIGHT, quantity, show


class KeyedError(ValueError):
    """A fault that concerns several keys; `key` is the one to mend."""

    def __init__(self, key: str, message: str):
        super().__init__(message)
        self.key = key


# --- Types of the values -----------------------------------------------------------------------------


def _read(value: Any, info: ValidationInfo, unit: str, above: float | None, least: float | None) -> float:
    context = info.context or {}
    if context.get("text") and unit not in ("", "rad") and not isinstance(value, str):
        raise ValueError(f"{show(value)} has no unit; give text with a unit such as {EXAMPLES[unit]}")
    try:
        number = quantity(value, unit, "")
    except InputError as error:
        raise ValueError(str(error).removeprefix(": ")) from None
    if above is not None and number <= above:
        raise ValueError(f"{show(value)} given, must be above {above:g} {unit}".rstrip())
    if least is not None and number < least:
        raise ValueError(f"{show(value)} given, must be at least {least:g} {unit}".rstrip())
    return number


def _in(unit: str, above: float | None = None, least: float | None = None) -> BeforeValidator:
    """A quantity: text with a unit in a run file, an SI float once parsed."""
    return BeforeValidator(partial(_read, unit=unit, above=above, least=least))


def _file(value: Any, info: ValidationInfo) -> Path:
    """Path of an input file, relative to the run file; it must exist."""
    if not isinstance(value, (str, Path)):
        raise ValueError(f"{show(value)} given, must be the path of a file as text")
    path = Path((info.context or {}).get("folder", "."), value)
    if not path.is_file():
        fault = "is a folder" if path.is_dir() else "does not exist (paths are relative to the run file)"
        raise ValueError(f"{show(str(value))} {fault}")
    return path


def _output(value: Any) -> Path:
    if not isinstance(value, (str, Path)) or not str(value):
        raise ValueError(f"{show(value)} given, must be the path of a file as text")
    return Path(value)


def _numbers(value: Any, words: tuple[str, ...]) -> Any:
    """A count, a list of counts from 1, or one of some words; keeps Pydantic's unions out of the errors."""
    if isinstance(value, str) and value in words:
        return value
    single = not words and isinstance(value, int)
    items = [value] if single else list(value) if isinstance(value, (list, tuple)) else []
    if not items or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in items):
        allowed = [f'"{word}"' for word in words] or ["a whole number >= 1"]
        raise ValueError(f"{show(value)} given, allowed: {', '.join(allowed)}, or a list such as [1, 3]")
    return value if single else items


Length = Annotated[float, _in("m", above=0)]
Offset = Annotated[float, _in("m", least=0)]
Frequency = Annotated[float, _in("Hz", above=0)]
Count = Annotated[StrictInt, Field(ge=1)]
Seed = Annotated[StrictInt, Field(ge=0, lt=2**63)]
InputFile = Annotated[Path, BeforeValidator(_file)]
Groups = Annotated[int | list[int], PlainValidator(partial(_numbers, words=()))]
Places = Annotated[str | list[int], PlainValidator(partial(_numbers, words=("each", "end")))]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


# --- Tables ------------------------------------------------------------------------------------------


class Profile(_Table):
    """[fibre.profile]: a power-law index profile with a trench, or one from a table. Lengths in m."""

    core_diameter: Length | None = None
    numerical_aperture: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = None
    exponent: Annotated[float, Field(gt=0, strict=True, allow_inf_nan=True)] = 2.0
    trench_gap: Offset = 0.0
    trench_width: Offset = 0.0
    trench_depth: Annotated[float, Field(ge=0, lt=0.1, strict=True)] = 0.0
    table_csv: InputFile | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = self.model_fields_set - {"table_csv"}
        if self.table_csv is not None:
            if given:
                raise KeyedError(sorted(given)[0], "given together with table_csv; allowed: one of the two")
            return self
        for key in ("core_diameter", "numerical_aperture"):
            if getattr(self, key) is None:
                raise KeyedError(
                    key, "missing; a profile needs core_diameter and numerical_aperture, or table_csv"
                )
        if (self.trench_width > 0) != (self.trench_depth > 0):
            key = "trench_depth" if self.trench_width > 0 else "trench_width"
            raise KeyedError(key, "missing; a trench needs both trench_width and trench_depth")
        return self


class Fibre(_Table):
    """[fibre]: what the light travels through. attenuation in 1/m (power), n2 in m²/W, beta2 in s²/m."""

    preset: Literal["graded-index-62.5", "single-mode"] | None = None
    profile: Profile | None = None
    modes_csv: InputFile | None = None
    groups_csv: InputFile | None = None
    kappa_csv: InputFile | None = None
    groups: Groups | None = None
    coupling: Literal["groups", "modes"] = "groups"
    dispersion: Literal["paper", "solver"] = "paper"
    attenuation: Annotated[float, _in("1/m", least=0)] | None = None
    n2: Annotated[float, _in("m^2/W", least=0)] | None = None
    wavelength: Length | None = None
    beta2: Annotated[float, _in("s^2/m")] | None = None
    beta3: Annotated[float, _in("s^3/m")] | None = None
    gamma: Annotated[float, _in("1/W/m", least=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _profile_is_solved(cls, data: Any) -> Any:
        if isinstance(data, dict) and "profile" in data and not {"preset", "groups_csv"} & set(data):
            return {"dispersion": "solver", **data}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = {key for key in type(self).model_fields if getattr(self, key) is not None}
        tables = given & {"modes_csv", "groups_csv", "kappa_csv"}
        if self.preset is not None and (other := sorted(tables | (given & {"profile"}))):
            raise KeyedError(
                other[0], f'given together with preset = "{self.preset}"; allowed: one of the two'
            )
        if self.preset is None and self.profile is None and not tables:
            sources = (
                'preset = "graded-index-62.5" or "single-mode", [fibre.profile], or modes_csv and groups_csv'
            )
            raise KeyedError("preset", f"missing; allowed: {sources}")
        if tables:
            for key in ("modes_csv", "groups_csv"):
                if key not in tables:
                    raise KeyedError(key, "missing; tables need both modes_csv and groups_csv")
            if (self.kappa_csv is None) == (self.profile is None):
                fault = "missing" if self.profile is None else "given together with [fibre.profile]"
                raise KeyedError("kappa_csv", f"{fault}; modes_csv needs either kappa_csv or [fibre.profile]")
        elif self.profile is not None and self.dispersion == "paper":
            raise KeyedError("dispersion", '"paper" given for a profile; allowed: "solver"')
        self._check_effect(given, tables)
        self._check_groups()
        return self

    def _check_effect(self, given: set[str], tables: set[str]) -> None:
        """Refuse keys that this source of the fibre would not read."""
        idle: tuple[str, ...] = ("beta2", "beta3")
        if self.preset == "single-mode":
            idle = ("coupling", "dispersion", "n2")
        elif tables:
            idle += ("dispersion",)
        else:
            idle += ("gamma",)
        if unread := [key for key in idle if key in given & self.model_fields_set]:
            source = (
                f'preset = "{self.preset}"' if self.preset else "modes_csv" if tables else "[fibre.profile]"
            )
            raise KeyedError(unread[0], f"has no effect with {source}; remove it")

    def _check_groups(self) -> None:
        if self.groups is None:
            return
        numbers = [self.groups] if isinstance(self.groups, int) else self.groups
        if any(b <= a for a, b in itertools.pairwise(numbers)):
            raise KeyedError("groups", f"{numbers} given, must be increasing group numbers")
        most = {"graded-index-62.5": 15, "single-mode": 1}.get(self.preset or "")
        if most is not None and max(numbers) > most:
            raise KeyedError("groups", f"{max(numbers)} given, {self.preset} has groups 1 to {most}")


class Link(_Table):
    """[link]: spans of fibre, each followed by an amplifier. length in m, noise_figure and gain in dB."""

    length: Length
    spans: Count = 1
    noise_figure: Annotated[float, _in("dB", least=0)] | None = None
    gain: Annotated[float, _in("dB", least=0)] | None = None
    mix_groups: StrictBool = False


class Signal(_Table):
    """[signal]: what each spatial mode carries. Frequencies and symbol_rate in Hz, launch_power in W."""

    modulation: Literal["qpsk", "16qam", "64qam", "gaussian"] = "qpsk"
    symbol_rate: Frequency
    symbols: Annotated[StrictInt, Field(ge=16)]
    samples_per_symbol: Annotated[StrictInt, Field(ge=2)]
    rolloff: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.1
    launch_power: Annotated[float, _in("W", above=0)]
    channels: Count | None = None
    spacing: Frequency | None = None
    centre_frequency: Frequency | None = None
    first_frequency: Frequency | None = None
    last_frequency: Frequency | None = None
    frequencies: Annotated[list[Frequency], Field(min_length=1)] | None = None

    @property
    def grid(self) -> tuple[float, ...]:
        """Optical frequencies of the channels, Hz, ascending."""
        if self.frequencies is not None:
            return tuple(sorted(self.frequencies))
        spacing = self.spacing or 0.0
        if self.first_frequency is not None and self.last_frequency is not None:
            count = round((self.last_frequency - self.first_frequency) / spacing) + 1
            return tuple(self.first_frequency + spacing * k for k in range(count))
        count, centre = self.channels or 1, self.centre_frequency or 0.0
        return tuple(centre + spacing * (k - (count - 1) / 2) for k in range(count))

    @property
    def centre(self) -> float:
        """Optical frequency in the middle of the channels, Hz: the carrier that the simulation refers to."""
        return 0.5 * (self.grid[0] + self.grid[-1])

    @property
    def samples(self) -> int:
        """Time samples of the field, N = symbols × samples_per_symbol."""
        return self.symbols * self.samples_per_symbol

    @property
    def bandwidth(self) -> float:
        """Simulated bandwidth, Hz."""
        return self.symbol_rate * self.samples_per_symbol

    @model_validator(mode="after")
    def _grid_is_whole(self) -> Self:
        forms = {
            "channels": ("channels", "centre_frequency", "spacing"),
            "first_frequency": ("first_frequency", "last_frequency", "spacing"),
            "frequencies": ("frequencies",),
        }
        keys = {key for form in forms.values() for key in form}
        given = {key for key in keys if getattr(self, key) is not None}
        rule = (
            "channels with centre_frequency and spacing, first_frequency with last_frequency and spacing, "
            "or frequencies"
        )
        chosen = [name for name, form in forms.items() if given & (set(form) - {"spacing"})]
        if len(chosen) != 1:
            fault = "given for two grids at once" if chosen else "missing"
            raise KeyedError(chosen[-1] if chosen else "channels", f"{fault}; allowed: {rule}")
        form = set(forms[chosen[0]])
        optional = {"spacing"} if self.channels == 1 else set()
        if extra := given - form:
            raise KeyedError(sorted(extra)[0], f"not allowed beside {chosen[0]}; allowed: {rule}")
        if missing := form - given - optional:
            raise KeyedError(sorted(missing)[0], f"missing; allowed: {rule}")
        if self.first_frequency is not None and self.last_frequency is not None:
            steps = (self.last_frequency - self.first_frequency) / (self.spacing or 1.0)
            if steps < 0:
                raise KeyedError(
                    "last_frequency",
                    f"{self.last_frequency / 1e12:g} THz given, must not be "
                    f"below first_frequency ({self.first_frequency / 1e12:g} THz)",
                )
            if abs(steps - round(steps)) > 1e-6:
                raise KeyedError(
                    "spacing",
                    f"does not divide the {steps * (self.spacing or 1) / 1e9:g} GHz "
                    "between first_frequency and last_frequency",
                )
        self._check_band()
        return self

    def _check_band(self) -> None:
        width = self.symbol_rate * (1 + self.rolloff)
        # Compare with a margin below any real spacing, yet above the round-off of 193.4 THz.
        margin = 1e-9 * width + 1.0
        if (
            self.channels
            and self.centre_frequency
            and self.channels * (self.spacing or 0) / 2 >= self.centre_frequency
        ):
            raise KeyedError("channels", f"{self.channels} given, the lowest would lie below 0 Hz")
        grid = self.grid
        gaps = [b - a for a, b in itertools.pairwise(grid)]
        if gaps and min(gaps) < width - margin:
            key = "frequencies" if self.frequencies is not None else "spacing"
            raise KeyedError(
                key,
                f"channels {min(gaps) / 1e9:g} GHz apart overlap; at this symbol_rate "
                f"and rolloff each is {width / 1e9:g} GHz wide",
            )
        band = grid[-1] - grid[0] + width
        if band > self.bandwidth + margin:
            raise KeyedError(
                "samples_per_symbol",
                f"{self.samples_per_symbol} given simulates "
                f"{self.bandwidth / 1e9:g} GHz, but the channels occupy {band / 1e9:g} GHz; "
                f"must be at least {math.ceil((band - margin) / self.symbol_rate)}",
            )


class Receiver(_Table):
    """[receiver]: noise loading and where to receive. osnr in dB (0.1 nm, both polarisations).

    phase_window: symbols in the sliding window of the carrier-phase estimate, 0 for the whole sequence.
    """

    osnr: Annotated[float, _in("dB")] | None = None
    noise_seed: Seed = 1
    phase_window: Annotated[StrictInt, Field(ge=0)] = 64
    back_to_back: StrictBool = True
    at: Places = "each"

    def spans(self, total: int) -> tuple[int, ...]:
        """Span numbers (from 1) after which the signal is received, ascending."""
        if isinstance(self.at, list):
            return tuple(sorted(set(self.at)))
        return (total,) if self.at == "end" else tuple(range(1, total + 1))


class Solver(_Table):
    """[solver]: integrator, step control and arithmetic. step in m, max_phase in rad."""

    integrator: Literal["ssfm_agrawal", "ssfm_rk4", "rk4ip", "strang", "blanes_moan", "erk43ip"] = "rk4ip"
    step: Length | None = None
    max_phase: Annotated[float, _in("rad", above=0)] | None = None
    tolerance: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = None
    precision: Literal["double", "single"] = "double"
    kerr: Literal["auto", "dense", "factored", "svd"] = "auto"
    svd_tolerance: Annotated[float, Field(ge=0, lt=1, strict=True)] = 1e-12
    device: Annotated[StrictStr, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    threads: Count | None = None

    @model_validator(mode="after")
    def _one_step_control(self) -> Self:
        given = [key for key in ("step", "max_phase", "tolerance") if getattr(self, key) is not None]
        if len(given) != 1:
            fault = "given together with " + given[0] if given else "missing"
            raise KeyedError(
                given[1] if given else "step", f"{fault}; allowed: exactly one of step, max_phase, tolerance"
            )
        if self.tolerance is not None and self.integrator != "erk43ip":
            raise KeyedError(
                "tolerance",
                f'{self.tolerance:g} given with integrator = "{self.integrator}"; '
                'only allowed with "erk43ip"',
            )
        return self


class Output(_Table):
    """[output]: the result file and checkpoints. checkpoint_every in steps, checkpoint_interval in s."""

    file: Annotated[Path, BeforeValidator(_output)] | None = None
    save_field: StrictBool = False
    checkpoint_every: Count = 100
    checkpoint_interval: Annotated[float, _in("s", least=0)] = 60.0
    figures: StrictBool = True


class RunFile(_Table):
    """A whole run file. From Python, `RunFile(link=Link(length=80e3), ...)` takes SI floats."""

    title: StrictStr = ""
    seed: Seed = 1
    fibre: Fibre
    link: Link
    signal: Signal
    receiver: Receiver = Receiver()
    solver: Solver
    output: Output = Output()
    _text: str = PrivateAttr("")
    _path: Path | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _tables_agree(self) -> Self:
        if self.solver.step is not None and self.solver.step > self.link.length * (1 + 1e-12):
            raise KeyedError(
                "solver.step",
                f"{self.solver.step:g} m given, must not exceed the span "
                f"(link.length = {self.link.length:g} m)",
            )
        if isinstance(self.receiver.at, list) and max(self.receiver.at) > self.link.spans:
            raise KeyedError(
                "receiver.at",
                f"span {max(self.receiver.at)} given, the link has spans 1 to {self.link.spans} (link.spans)",
            )
        if self.fibre.wavelength is not None:
            carrier = SPEED_OF_LIGHT / self.fibre.wavelength
            if not 0.5 < carrier / self.signal.centre < 2:
                raise KeyedError(
                    "fibre.wavelength",
                    f"{self.fibre.wavelength:g} m is {carrier / 1e12:.1f} THz, "
                    f"far from the channels at {self.signal.centre / 1e12:.1f} THz",
                )
        return self

    @property
    def text(self) -> str:
        """The run file as it was written, "" if it was made in Python."""
        return self._text

    @property
    def path(self) -> Path | None:
        """Where it was read from."""
        return self._path

    def output_path(self) -> Path:
        """Result file: output.file, else the run file's stem + ".h5" in the current directory."""
        stem = self._path.stem if self._path is not None else "wavefabric"
        return self.output.file or Path(stem + ".h5")

    def with_solver(self, **changes: Any) -> RunFile:
        """Copy with keys of [solver] replaced, e.g. ``with_solver(device="cpu", threads=2)``.

        Raises
        ------
        InputError
            If a value is not allowed.
        """
        values = {key: getattr(self.solver, key) for key in self.solver.model_fields_set} | changes
        try:
            solver = Solver.model_validate(values)
        except ValidationError as error:
            raise InputError(_one_line(error, Solver, "solver")) from None
        return self.model_copy(update={"solver": solver})

    def identity(self) -> str:
        """Canonical JSON of all that changes the answer, input files by their hash. For fingerprints."""
        values = self.model_dump(mode="json", exclude={"title", "output"})
        for key in ("modes_csv", "groups_csv", "kappa_csv"):
            if path := getattr(self.fibre, key):
                values["fibre"][key] = hashlib.sha256(path.read_bytes()).hexdigest()
        if self.fibre.profile is not None and (path := self.fibre.profile.table_csv):
            values["fibre"]["profile"]["table_csv"] = hashlib.sha256(path.read_bytes()).hexdigest()
        return json.dumps(values, sort_keys=True)


# --- Reading -----------------------------------------------------------------------------------------


def load(path: str | Path) -> RunFile:
    """Read and check a run file.

    Parameters
    ----------
    path : str or Path
        TOML file.

    Returns
    -------
    RunFile
        All quantities in SI; `text` and `path` tell where it came from.

    Raises
    ------
    InputError
        One line: the key with its table, what was given, what is allowed.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder, a run file (TOML) is wanted")
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file, a run file (TOML) is wanted") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not text, a run file (TOML, UTF-8) is wanted") from None
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: is not TOML: {' '.join(str(error).split())}") from None
    try:
        run = RunFile.model_validate(data, context={"text": True, "folder": path.parent})
    except ValidationError as error:
        raise InputError(_one_line(error, RunFile)) from None
    run._text, run._path = text, path
    return run


# --- From Pydantic's errors to one line --------------------------------------------------------------


def _one_line(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    # An unknown key explains a missing one, so it goes first.
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    key, holder, entry = _locate(fault_path := faults[0]["loc"], model)
    cause = faults[0].get("ctx", {}).get("error")
    if isinstance(cause, KeyedError):
        key.append(cause.key)
    name = ".".join([prefix, *key] if prefix else key) + entry
    unknown = faults[0]["type"] == "extra_forbidden"
    what = _unknown(str(fault_path[-1]), holder, faults[0]["input"]) if unknown else _message(faults[0], name)
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{name}: {what}{more}"


def _locate(path: tuple, model: type[BaseModel]) -> tuple[list[str], type[BaseModel], str]:
    """Names from the top to the faulty key, the model that holds it, and which entry of a list it is."""
    names: list[str] = []
    holder, inner = model, model
    for part in path:
        if isinstance(part, int):
            return names, holder, f" (entry {part + 1})"
        names.append(part)
        if inner is None:
            continue
        holder = inner
        field = holder.model_fields.get(part)
        inner = _submodel(field.annotation) if field is not None else None
    return names, holder, ""


def _submodel(annotation: Any) -> type[BaseModel] | None:
    options = [annotation, *getattr(annotation, "__args__", ())]
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def _unknown(key: str, model: type[BaseModel], value: Any) -> str:
    shown = {n: f"[{n}]" if _submodel(f.annotation) else n for n, f in model.model_fields.items()}
    close = difflib.get_close_matches(key, shown, n=1, cutoff=0.6)
    hint = f"did you mean {shown[close[0]]}? " if close else ""
    what = "table" if isinstance(value, dict) else "key"
    return f"unknown {what}; {hint}allowed: {', '.join(shown.values())}"


def _message(fault: Any, name: str) -> str:
    kind, given, ctx = fault["type"], show(fault["input"]), fault.get("ctx", {})
    if kind == "value_error":
        return str(ctx["error"])
    if kind == "missing":
        return "missing"
    if kind == "literal_error":
        return f"{given} given, allowed: {ctx['expected'].replace(chr(39), chr(34))}"
    limits = {"greater_than": "above", "greater_than_equal": "at least", "less_than": "below"}
    for limit, word in (limits | {"less_than_equal": "at most"}).items():
        if kind == limit:
            return f"{given} given, must be {word} {next(iter(ctx.values()))}"
    wanted = {
        "int_type": "a whole number",
        "float_type": "a number",
        "finite_number": "a finite number",
        "bool_type": "true or false",
        "string_type": "text",
        "list_type": "a list",
        "too_short": "a list with at least one entry",
        "model_type": f"a table [{name}]",
        "string_pattern_mismatch": '"auto", "cpu", "cuda" or "cuda:1"',
    }
    return f"{given} given, must be {wanted.get(kind, fault['msg'])}"

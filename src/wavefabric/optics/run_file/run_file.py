"""The run file: a TOML text that describes fibre, link, signal, receiver and solver.

Every quantity is text with a unit and is an SI float once parsed. `load` turns whatever is wrong
into one line that names the key, what was given and what is allowed.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import BaseModel, PrivateAttr, StrictStr, ValidationError, model_validator

from wavefabric.errors import InputError
from wavefabric.files.input import read_bytes
from wavefabric.files.text import parse_toml, read_text
from wavefabric.optics.run_file import tables
from wavefabric.units import SPEED_OF_LIGHT, show

#: Wavelength of a fibre that gives none, m.
DESIGN_WAVELENGTH = 1550e-9


class RunFile(tables.RunFileTable):
    """A whole run file. From Python, `RunFile(link=LinkTable(length=80e3), ...)` takes SI floats."""

    title: StrictStr = ""
    seed: tables.Seed = 1
    fibre: tables.FibreTable
    link: tables.LinkTable
    signal: tables.SignalTable
    receiver: tables.ReceiverTable = tables.ReceiverTable()
    solver: tables.SolverTable
    output: tables.OutputTable = tables.OutputTable()
    _text: str = PrivateAttr("")
    _path: Path | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _tables_agree(self) -> Self:
        if self.solver.step is not None and self.solver.step > self.link.length * (1 + 1e-12):
            limit = f"must not exceed the span (link.length = {self.link.length:g} m)"
            raise InputError(f"solver.step: {self.solver.step:g} m given, {limit}")
        if isinstance(self.receiver.at, list) and max(self.receiver.at) > self.link.spans:
            limit = f"the link has spans 1 to {self.link.spans} (link.spans)"
            raise InputError(f"receiver.at: span {max(self.receiver.at)} given, {limit}")
        carrier = SPEED_OF_LIGHT / (self.fibre.wavelength or DESIGN_WAVELENGTH)
        # β and γ are expanded at the channels from what holds at the fibre's wavelength: not too far.
        if abs(carrier / self.signal.centre - 1) > 0.05:
            given = f"{SPEED_OF_LIGHT / carrier:g} m is {carrier / 1e12:.1f} THz"
            limit = f"within 5 % of the channels at {self.signal.centre / 1e12:.1f} THz"
            raise InputError(f"fibre.wavelength: {given}, allowed: {limit}")
        return self

    @property
    def text(self) -> str:
        """The run file as it was written, "" if it was made in Python."""
        return self._text

    @property
    def path(self) -> Path | None:
        """Where it was read from."""
        return self._path

    def input_paths(self) -> list[Path]:
        """The run file and all files that it names."""
        fibre = self.fibre
        table = fibre.profile.table_csv if fibre.profile is not None else None
        return [p for p in (self._path, fibre.modes_csv, fibre.groups_csv, fibre.kappa_csv, table) if p]

    def output_path(self) -> Path:
        """Result file: output.file, else the run file's stem + ".h5" in the current directory."""
        stem = self._path.stem if self._path is not None else "wavefabric"
        return self.output.file or Path(stem + ".h5")

    def with_solver(self, **changes: Any) -> RunFile:
        """Copy with keys of [solver] replaced, e.g. ``with_solver(device="cpu", threads=2)``."""
        values = {key: getattr(self.solver, key) for key in self.solver.model_fields_set} | changes
        try:
            solver = tables.SolverTable.model_validate(values)
        except ValidationError as error:
            raise InputError(one_line(error, tables.SolverTable, "solver")) from None
        return self.model_copy(update={"solver": solver})

    def identity(self) -> str:
        """Canonical JSON of all that changes the answer, input files by their hash. For fingerprints."""
        values = self.model_dump(mode="json", exclude={"title", "output"})
        for table in (values["fibre"], values["fibre"]["profile"] or {}):
            for key, path in table.items():
                if key.endswith("_csv") and path:
                    table[key] = hashlib.sha256(read_bytes(path)).hexdigest()
        return json.dumps(values, sort_keys=True)

    def sections(self) -> dict[str, str]:
        """What `identity` holds, by section, long ones as a hash: for comparison between ranks."""
        shown = {}
        for name, value in json.loads(self.identity()).items():
            text = json.dumps(value, sort_keys=True)
            short = text if len(text) < 60 else hashlib.sha256(text.encode()).hexdigest()[:12]
            shown[f"run file, {name}"] = short
        return shown


def load(path: str | Path) -> RunFile:
    """Read and check a run file (TOML): all quantities in SI; `text` and `path` tell where it came from.

    Raises InputError of one line: the key with its table, what was given, what is allowed.
    """
    path = Path(path)
    text = read_text(path, "run file")
    data = parse_toml(text, str(path))
    try:
        run = RunFile.model_validate(data, context={"text": True, "folder": path.parent})
    except ValidationError as error:
        raise InputError(one_line(error, RunFile)) from None
    run._text, run._path = text, path
    return run


#: What is said of each kind of fault; "must be" and Pydantic's words for the rest.
_TEXTS = {
    "missing": "missing",
    "literal_error": "{given} given, allowed: {expected}",
    "greater_than": "{given} given, must be above {gt}",
    "greater_than_equal": "{given} given, must be at least {ge}",
    "less_than": "{given} given, must be below {lt}",
    "less_than_equal": "{given} given, must be at most {le}",
    "int_type": "{given} given, must be a whole number",
    "float_type": "{given} given, must be a number",
    "finite_number": "{given} given, must be a finite number",
    "bool_type": "{given} given, must be true or false",
    "string_type": "{given} given, must be text",
    "string_pattern_mismatch": '{given} given, must be "auto", "cpu", "cuda" or "cuda:1"',
    "list_type": "{given} given, must be a list",
    "too_short": "{given} given, must be a list with at least one entry",
    "too_long": "{given} given, must be a list of at most {max_length} entries",
    "model_type": "{given} given, must be a table [{name}]",
}


def one_line(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    """The first fault: its key from the top (after `prefix`), what was given, what is allowed."""
    # An unknown key explains a missing one, so it goes first.
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    first = faults[0]
    kind, ctx = first["type"], first.get("ctx", {})
    keys, table, entry = _locate(first["loc"], model)
    if isinstance(ctx.get("error"), InputError):  # it names the key of the table itself
        key, _, message = str(ctx["error"]).partition(": ")
        keys.append(key)
    elif kind == "value_error":
        message = str(ctx["error"])
    elif kind == "extra_forbidden":
        message = _unknown(keys[-1], table, first["input"])
    else:
        ctx = {key: str(value).replace("'", '"') for key, value in ctx.items()}
        text = _TEXTS.get(kind, f"{{given}} given, must be {first['msg']}")
        message = text.format(given=show(first["input"]), name=".".join(keys), **ctx)
    name = ".".join([prefix, *keys] if prefix else keys) + entry
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{name}: {message}{more}"


def _locate(path: tuple, model: type[BaseModel]) -> tuple[list[str], type[BaseModel], str]:
    """Names from the top to the faulty key, the model that holds it, and which entry of a list it is."""
    names: list[str] = []
    table, inner = model, model
    for part in path:
        if isinstance(part, int):
            return names, table, f" (entry {part + 1})"
        names.append(part)
        if inner is not None:
            table = inner
            field = table.model_fields.get(part)
            inner = _submodel(field.annotation) if field is not None else None
    return names, table, ""


def _submodel(annotation: Any) -> type[BaseModel] | None:
    options = [annotation, *get_args(annotation)]
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def _unknown(key: str, model: type[BaseModel], value: Any) -> str:
    shown = {n: f"[{n}]" if _submodel(f.annotation) else n for n, f in model.model_fields.items()}
    close = difflib.get_close_matches(key, shown, n=1, cutoff=0.6)
    hint = f"did you mean {shown[close[0]]}? " if close else ""
    what = "table" if isinstance(value, dict) else "key"
    return f"unknown {what}; {hint}allowed: {', '.join(shown.values())}"

"""Load the run file: a TOML text that describes fibre, link, signal, receiver and solver.

Every quantity is text with a unit, parsed into an SI float. `load` reports any fault as one line that names
the key, the given value and the allowed values.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr, StrictStr, ValidationError

from wavefabric.base.arguments import instance
from wavefabric.base.errors import InputError
from wavefabric.base.files.input import parse_toml, read_bytes, read_text
from wavefabric.base.files.validation_errors import one_line
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.run_file import tables, values
from wavefabric.optics.run_file.elements import AmplifierElement, FibreElement, LinkTable, MixingElement
from wavefabric.optics.signal.constellation import DIRECT
from wavefabric.optics.signal.recovery import check_phase


class RunFile(values.RunFileTable):
    """Holds a whole run file. From Python, `RunFile(link=LinkTable(length=80e3), ...)` takes SI floats."""

    title: StrictStr = ""
    seed: values.Seed = 1
    fibre: tables.FibreTable
    fibres: dict[StrictStr, tables.FibreTable] = Field(default_factory=dict)
    link: LinkTable
    signal: tables.SignalTable
    receiver: tables.ReceiverTable = tables.ReceiverTable()
    solver: tables.SolverTable
    output: tables.OutputTable = tables.OutputTable()
    _text: str = PrivateAttr("")
    _path: Path | None = PrivateAttr(None)

    def check(self) -> None:
        back = self.receiver.back_propagation
        for key, step in (("solver", self.solver.step), ("receiver.back_propagation", back and back.step)):
            longest = max(piece.length for piece in self.link.pieces)
            if step is not None and step > longest * (1 + 1e-12):
                limit = f"must not exceed the span (link.length = {longest:g} m)"
                raise InputError(f"{key}.step: {step:g} m given, {limit}")
        for number, each in enumerate(self.link.element or ()):
            name = each.fibre if isinstance(each, FibreElement) else None
            if name is not None and name not in self.fibres:
                names = ", ".join(f'"{key}"' for key in self.fibres) or "none without tables [fibres.NAME]"
                raise InputError(f'link.element[{number}].fibre: "{name}" given; allowed: {names}')
        whole = self.link.total_length
        if beyond := [at for at in self.output.snapshots if at > whole * (1 + 1e-12)]:
            raise InputError(f"output.snapshots: {beyond[0]:g} m given, the link ends at {whole:g} m")
        if isinstance(self.receiver.at, list) and max(self.receiver.at) > self.link.span_count:
            limit = f"the link has spans 1 to {self.link.span_count} (link.spans)"
            raise InputError(f"receiver.at: span {max(self.receiver.at)} given, {limit}")
        self._check_detection()
        # β, γ and loss at the channels are extrapolated from the fibre's wavelength: it must not be too far.
        for table, fibre in self.fibre_tables().items():
            reference, solved = fibre.reference, fibre.preset in tables.MULTIMODES
            carrier = SPEED_OF_LIGHT / reference
            far = abs(carrier / self.signal.centre - 1) > 0.05
            if far and not (solved and fibre.attenuation is not None):
                actual = f"{reference:g} m is {carrier / 1e12:.1f} THz"
                limit = f"within 5 % of the channels at {self.signal.centre / 1e12:.1f} THz"
                limit += f", or with {table}.attenuation" * solved
                key = "preset" if solved or fibre.preset in tables.STANDARDS else "wavelength"
                raise InputError(f"{table}.{key}: {actual}, allowed: {limit}")

    def fibre_tables(self) -> dict[str, tables.FibreTable]:
        """Return a dictionary from key to table of all fibres: "fibre", and "fibres.NAME" for each name."""
        return {"fibre": self.fibre} | {f"fibres.{name}": table for name, table in self.fibres.items()}

    def _check_detection(self) -> None:
        """Raise InputError for a carrier recovery or an element of the link that a format does not allow."""
        elements = self.link.elements
        coupled = [key for key, table in self.fibre_tables().items() if table.random_coupling]
        # A photodiode loses what the inverse of a coupling or of the Kerr effect needs.
        undone = {
            f"{coupled[0] if coupled else 'fibre'}.random_coupling": coupled,
            "link.mix_groups": any(isinstance(each, MixingElement) for each in elements),
            "link.mode_dependent_gain": any(
                isinstance(each, AmplifierElement) and each.mode_dependent_gain for each in elements
            ),
            "receiver.back_propagation": self.receiver.back_propagation,
            'receiver.equaliser = "mimo"': self.receiver.equaliser == "mimo",
        }
        for modulation in np.atleast_1d(self.signal.modulation):
            check_phase(self.receiver.phase, str(modulation), "receiver.phase")
            if modulation in DIRECT and (keys := [key for key, value in undone.items() if value]):
                fault = f'"{modulation}" given, whose direct detection cannot undo {keys[0]}'
                raise InputError(f"signal.modulation: {fault}; allowed: without it, or a coherent format")

    @property
    def text(self) -> str:
        """Return the text of the run file, "" if it was made in Python."""
        return self._text

    @property
    def path(self) -> Path | None:
        """Return the path from which the run file was read; None if it was made in Python."""
        return self._path

    def input_paths(self) -> list[Path]:
        """Return the paths of the run file and of all files that it names."""
        files = [self._path, self.signal.waveform]
        for fibre in self.fibre_tables().values():
            files += [fibre.modes_csv, fibre.groups_csv, fibre.kappa_csv, fibre.attenuation_csv]
            files += [fibre.dispersion_csv, fibre.profile and fibre.profile.table_csv]
            files.append(fibre.raman and fibre.raman.gain_csv)
        return [path for path in files if path]

    def output_path(self) -> Path:
        """Return the result path: output.file, or the run file's stem + ".h5" in the current directory."""
        stem = self._path.stem if self._path is not None else "wavefabric"
        return self.output.file or Path(stem + ".h5")

    def with_solver(self, **changes: Any) -> "RunFile":
        """Return a copy with keys of [solver] replaced, e.g. ``with_solver(device="cpu", threads=2)``."""
        values = {key: getattr(self.solver, key) for key in self.solver.model_fields_set} | changes
        try:
            solver = tables.SolverTable.model_validate(values)
        except ValidationError as error:
            raise InputError(one_line(error, tables.SolverTable, "solver")) from None
        return self.model_copy(update={"solver": solver})

    def with_theory(self) -> "RunFile":
        """Return a copy with ``output.theory`` true unless it is set to false, as the command line does."""
        chosen = self.output.theory is not False
        return self.model_copy(update={"output": self.output.model_copy(update={"theory": chosen})})

    def identity(self) -> str:
        """Return canonical JSON of all settings that affect results, for fingerprints; files as hashes."""
        values = self.model_dump(mode="json", exclude={"title", "output"})
        for fibre in (values["fibre"], *values["fibres"].values()):
            for table in (fibre, *(fibre[name] or {} for name in ("profile", "raman"))):
                for key, path in table.items():
                    if key.endswith("_csv") and path:
                        table[key] = hashlib.sha256(read_bytes(path)).hexdigest()
        if self.signal.waveform is not None:
            with open(self.signal.waveform, "rb") as file:  # may be as large as the field
                values["signal"]["waveform"] = hashlib.file_digest(file, "sha256").hexdigest()
        return json.dumps(values, sort_keys=True)

    def sections(self) -> dict[str, str]:
        """Return a dictionary from table to the text of its settings, hashed if long, to compare ranks."""
        result = {}
        for name, value in json.loads(self.identity()).items():
            text = json.dumps(value, sort_keys=True)
            short = text if len(text) < 60 else hashlib.sha256(text.encode()).hexdigest()[:12]
            result[f"run file, {name}"] = short
        return result


def load(path: str | Path) -> RunFile:
    """Read and check a run file (TOML); all quantities are in SI, `text` and `path` give its source.

    Raises InputError of one line: the key with its table, the given value, the allowed values.
    """
    data, text = read_toml(path)
    if "sweep" in data:
        raise InputError(f"sweep: {path} has axes; allowed: with `wavefabric sweep`, or none")
    return checked_run(data, Path(path), text)


def run_file(run: RunFile | str | Path) -> RunFile:
    """Return ``run`` if it is a `RunFile`, else load the run file of this path."""
    instance("run", run, RunFile, str, Path)
    return run if isinstance(run, RunFile) else load(run)


def read_toml(path: str | Path) -> tuple[dict[str, Any], str]:
    """Read a run file; return its tables as a dictionary, not validated, and its text."""
    text = read_text(Path(path), "run file")
    return parse_toml(text, str(path)), text


def checked_run(tables: dict[str, Any], path: Path | None, text: str, written: bool = True) -> RunFile:
    """Check ``tables``, the tables of a run file, and return the `RunFile`; InputError as from `load`.

    If ``written``, values are texts with units from the file ``path``, else SI numbers from Python.
    """
    context = {"text": True, "folder": path.parent} if path is not None and written else {}
    try:
        run = RunFile.model_validate(tables, context=context)
    except ValidationError as error:
        raise InputError(one_line(error, RunFile)) from None
    run._text, run._path = text, path
    return run

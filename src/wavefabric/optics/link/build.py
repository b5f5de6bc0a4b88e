"""Build the simulation objects from a parsed run file, and share parts among the runs of one process."""

import dataclasses
import hashlib
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.results import ResultWriter
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.fibre.chromatic import KEYS, table_coefficients
from wavefabric.optics.fibre.fibre import Fibre, at_frequency
from wavefabric.optics.fibre.presets import MULTIMODES, SINGLE_MODES, graded_index_62_5, standard_fibre
from wavefabric.optics.fibre.profile import IndexProfile, TableProfile, Trench
from wavefabric.optics.fibre.sources import fibre_from_csv, fibre_from_profile
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.propagation.phase_groups import exchange_form
from wavefabric.optics.propagation.propagate import PropagationOptions
from wavefabric.optics.propagation.rank_modes import RankModes, split_modes
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.run_file.tables import DESIGN_WAVELENGTH, FibreTable
from wavefabric.optics.run_file.values import POWER_FORMS
from wavefabric.optics.signal.equaliser import Equaliser
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter


class SharedParts:
    """Caches objects (fibre, propagator, …) for later runs; a key holds the inputs that fix an object."""

    def __init__(self):
        self._parts: dict[str, dict[Hashable, Any]] = {}

    def get(self, kind: str, key: Hashable, make: Callable[[], Any], most: int = 1) -> Any:
        """Return the object cached for ``kind`` and ``key``; if there is none, ``make`` it and cache it.

        At most ``most`` objects of a kind stay cached.
        """
        parts = self._parts.setdefault(kind, {})
        if key not in parts:
            while len(parts) >= most:  # free memory before the next part is made
                del parts[next(iter(parts))]
            parts[key] = make()
        return parts[key]

    def release_others(self, kind: str, key: Hashable) -> bool:
        """Release the cached objects of ``kind`` except that of ``key``; return whether that one exists."""
        kept = self._parts.pop(kind, {})
        self._parts[kind] = {key: kept[key]} if key in kept else {}
        return key in kept


def fibre_key(run: RunFile) -> Hashable:
    """Return a key for `SharedParts`: the settings of a run that determine its fibres."""
    sections = run.sections()
    return sections["run file, fibre"], sections["run file, fibres"], run.signal.centre


def propagator_key(run: RunFile) -> Hashable:
    """Return a key for `SharedParts`: what, besides fibre and ranks, determines a propagator's buffers."""
    solver = run.solver.model_dump_json(exclude={"step", "max_phase", "tolerance"})
    grid, fixed = run.signal.wdm_grid, run.solver.step is not None  # variable steps need more tables
    return grid.samples, grid.sample_rate, solver, fixed


def back_to_back_key(run: RunFile) -> Hashable:
    """Return a key for `SharedParts`: what, besides the modes, determines the back-to-back result."""
    sections = run.sections()
    return run.solver.precision, *(sections[f"run file, {name}"] for name in ("seed", "signal", "receiver"))


def build_fibres(run: RunFile, warn: Callable[[str], None] | None = None) -> dict[str, Fibre]:
    """Build the fibres of a run file by their tables' keys: "fibre" and "fibres.NAME"; see `build_fibre`."""
    fibres = {}
    for key, table in run.fibre_tables().items():
        try:
            fibres[key] = build_fibre(run, warn, table)
        except InputError as error:
            raise error if key == "fibre" else InputError(f"{key}: {error}") from None
    return fibres


def build_fibre(
    run: RunFile, warn: Callable[[str], None] | None = None, table: FibreTable | None = None
) -> Fibre:
    """Build the fibre of a run file's [fibre], or of ``table``, with β expanded at the channels' middle.

    This frequency is zero in the field. Numbers in the run file (tables, presets, β2, β3 and γ) hold at
    `fibre.wavelength`; `at_frequency` converts them. The indices of an index profile hold at
    `fibre.wavelength` too, and its modes are solved for at the middle frequency.
    """
    table = table or run.fibre
    dispersion = [key for key in KEYS if key in type(table).model_fields and key != "dispersion_csv"]
    keys = table.present("attenuation", "n2", "gamma", "wavelength", "a_eff", *dispersion)
    options: dict[str, Any] = {key: getattr(table, key) for key in keys}
    centre = run.signal.centre
    if table.preset in SINGLE_MODES:
        return _single_mode_fibre(run, options, warn)
    if table.preset in MULTIMODES:
        options |= {"groups": table.groups, "coupling": table.coupling, "warn": warn}
        return standard_fibre(table.preset, wavelength=SPEED_OF_LIGHT / centre, **options)
    if table.preset == "graded-index-62.5":
        if table.dispersion == "solver":
            options["wavelength"] = SPEED_OF_LIGHT / centre
        fibre = graded_index_62_5(table.groups or 15, table.coupling, table.dispersion, warn=warn, **options)
        return at_frequency(fibre, centre)
    wavelength = options.setdefault("wavelength", DESIGN_WAVELENGTH)
    profile, index = None, table.profile
    if index is not None and index.table_csv is not None:
        profile = TableProfile.from_csv(index.table_csv, design_wavelength=wavelength)
    elif index is not None:
        power_law: Any = index.core_diameter, index.numerical_aperture, index.exponent
        trench = index.trench_gap, index.trench_width, index.trench_depth
        trench = Trench(*trench) if index.trench_width else None
        profile = IndexProfile(*power_law, trench=trench, design_wavelength=wavelength)
    if table.modes_csv is not None:
        files = (table.modes_csv, table.groups_csv, table.kappa_csv)
        fibre = fibre_from_csv(*files, profile=profile, coupling=table.coupling, warn=warn, **options)
        fibre = at_frequency(fibre, centre)
        return fibre if table.groups is None else fibre.select_groups(table.groups)
    assert profile is not None
    options["wavelength"] = SPEED_OF_LIGHT / centre
    return fibre_from_profile(profile, groups=table.groups, coupling=table.coupling, warn=warn, **options)


def _single_mode_fibre(run: RunFile, options: dict[str, Any], warn: Callable[[str], None] | None) -> Fibre:
    """Build the fibre of a preset of one mode; a table of dispersion is expanded at the channels' centre."""
    table, centre = run.fibre, run.signal.centre
    if "attenuation" in options:
        options["alpha"] = options.pop("attenuation")
    fibre = at_frequency(standard_fibre(table.preset or "", **options), centre)
    if table.dispersion_csv is None:
        return fibre
    band = SPEED_OF_LIGHT / run.signal.grid[-1], SPEED_OF_LIGHT / run.signal.grid[0]
    taylor = table_coefficients(table.dispersion_csv, SPEED_OF_LIGHT / centre, band, warn)
    return dataclasses.replace(fibre, beta=np.append(0.0, taylor)[None])


def build_path(run: RunFile, fibres: dict[str, Fibre] | Fibre | None = None) -> LinkPath:
    """Build the whole link of a run file on one rank; ``fibres`` are those of `build_fibres`, if built."""
    fibres = fibres or build_fibres(run, lambda _: None)
    modes = (fibres if isinstance(fibres, Fibre) else fibres["fibre"]).modes
    return LinkPath(run, fibres, build_transmitter(run, modes), RankModes((0, modes)))


def fibre_digest(fibre: Fibre) -> str:
    """Return a hash of all numbers of ``fibre`` that propagation uses, each rounded to nine digits.

    Without rounding it would depend on the last bits of a mode solver's result, which may vary.
    """
    digest = hashlib.sha256(f"{fibre.kappa_of} {fibre.groups.tolist()}".encode())
    delays = np.zeros(0) if fibre.row_delays is None else fibre.row_delays
    numbers = (np.array(fibre.gamma), fibre.kappa, np.array(fibre.wavelength), delays)
    for values in (fibre.alpha, fibre.beta, *numbers):
        digest.update(",".join(f"{value:.9g}" for value in values.ravel()).encode())
    return digest.hexdigest()


def result_writer(run: RunFile, output: str | Path | None = None, force: bool = False) -> ResultWriter:
    """Return the writer for ``output`` or the run file's result path; InputError if it cannot be written."""
    return ResultWriter(output or run.output_path(), force, run.input_paths())


def check_start(run: RunFile, ranks: int, output: str | Path | None = None, force: bool = False) -> None:
    """Raise InputError, before ``ranks`` ranks start, for inputs that `run_link` would reject there.

    Checks that need the fibre are omitted for a fibre defined by an index profile alone.
    """
    result_writer(run, output, force)
    exchange_form(run.solver.exchange, run.solver.kerr)
    if all(table.profile is None or table.modes_csv is not None for table in run.fibre_tables().values()):
        fibre = build_fibres(run, lambda _: None)["fibre"]  # the run itself warns
        build_receiver(run, build_transmitter(run, fibre.modes), fibre)
        split_modes(fibre.modes, ranks, LinkPath.boundaries(run, fibre))


def propagation_options(run: RunFile, path: LinkPath | None = None, **options: Any) -> PropagationOptions:
    """Return the options of the table [solver], changed by ``options``; ranks split modes as in ``path``."""
    options = run.solver.model_dump(exclude={"device", "threads", "step_penalty"}) | options
    split = None if path is None else tuple(np.diff(path.local_modes.ends).tolist())
    return PropagationOptions(**options, split=split)


def build_receiver(run: RunFile, transmitter: Transmitter, fibre: Fibre) -> Receiver:
    """Build the receiver of [receiver]; `InputError` if its equaliser does not fit the fibre or window."""
    table, equaliser = run.receiver, None
    if table.equaliser == "mimo":
        equaliser = Equaliser(table.taps, table.training, table.decision_directed, table.memory or None)
        try:
            fewest = int(transmitter.grid.channel_symbols.min())
            equaliser.check(2 * max(table.sets(fibre.group_sizes)), fewest)
        except InputError as error:
            raise InputError(f"receiver.{error}") from None
    phases = {"phase": table.phase, "phase_window": table.phase_window or None, "linewidth": table.linewidth}
    try:
        phases["frequency_offset"] = run.signal.sorted("frequency_offset", table.frequency_offset)
        return Receiver(transmitter, table.osnr, table.noise_seed, equaliser=equaliser, **phases)
    except InputError as error:
        raise InputError(f"receiver.{error}") from None


def build_transmitter(run: RunFile, modes: int) -> Transmitter:
    """Build the transmitter of [signal] for ``modes`` modes; InputError if launch powers do not fit them."""
    signal = run.signal
    if (powers := signal.powers).ndim == 2 and len(powers) != modes:
        actual = f"lists for {len(powers)} modes given, the fibre has {modes}"
        raise InputError(f"signal.launch_power: {actual}; {POWER_FORMS}")
    shape = signal.ascending("modulation"), signal.ascending("rolloff")
    return Transmitter(signal.wdm_grid, *shape, powers, run.seed, signal.linewidth)

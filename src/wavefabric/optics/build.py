"""From a parsed run file to the objects that simulate: fibre, transmitter, receiver."""

from __future__ import annotations

from typing import Any

from wavefabric.optics.fibre import ATTENUATION, Fibre, fibre_from_profile, single_mode
from wavefabric.optics.fibre_tables import fibre_from_csv
from wavefabric.optics.presets import graded_index_62_5
from wavefabric.optics.profile import IndexProfile, Profile, TableProfile, Trench
from wavefabric.optics.receiver import Receiver
from wavefabric.optics.runfile import DESIGN_WAVELENGTH, RunFile
from wavefabric.optics.runfile_tables import Profile as ProfileTable
from wavefabric.optics.transmitter import Transmitter
from wavefabric.optics.wdm import Grid


def build_profile(table: ProfileTable, wavelength: float) -> Profile:
    """Index profile of [fibre.profile]."""
    if table.table_csv is not None:
        return TableProfile.from_csv(table.table_csv, design_wavelength=wavelength)
    assert table.core_diameter is not None
    assert table.numerical_aperture is not None
    trench = None
    if table.trench_width > 0:
        trench = Trench(table.trench_gap, table.trench_width, table.trench_depth)
    return IndexProfile(
        table.core_diameter,
        table.numerical_aperture,
        table.exponent,
        trench=trench,
        design_wavelength=wavelength,
    )


def build_fibre(run: RunFile) -> Fibre:
    """Fibre of [fibre].

    Raises
    ------
    InputError
        If a file cannot be used or a group is not guided.
    """
    table = run.fibre
    given: dict[str, Any] = {
        key: value
        for key in ("attenuation", "n2", "gamma", "wavelength", "beta2", "beta3")
        if (value := getattr(table, key)) is not None
    }
    if table.preset == "single-mode":
        given["alpha"] = given.pop("attenuation", ATTENUATION)
        return single_mode(**given)
    if table.preset == "graded-index-62.5":
        return graded_index_62_5(table.groups or 15, table.coupling, table.dispersion, **given)
    wavelength = given.setdefault("wavelength", DESIGN_WAVELENGTH)
    profile = None if table.profile is None else build_profile(table.profile, wavelength)
    if table.modes_csv is not None and table.groups_csv is not None:
        fibre = fibre_from_csv(
            table.modes_csv,
            table.groups_csv,
            table.kappa_csv,
            profile=profile,
            coupling=table.coupling,
            **given,
        )
        return fibre if table.groups is None else fibre.select_groups(table.groups)
    assert profile is not None
    return fibre_from_profile(profile, groups=table.groups, coupling=table.coupling, **given)


def build_transmitter(run: RunFile) -> Transmitter:
    """Transmitter of [signal]: its grid is centred on the middle of the channels."""
    signal = run.signal
    grid = Grid(signal.grid, signal.symbol_rate, signal.samples_per_symbol, signal.symbols, signal.centre)
    return Transmitter(grid, signal.modulation, signal.rolloff, signal.launch_power, run.seed)


def build_receiver(run: RunFile, transmitter: Transmitter) -> Receiver:
    """Receiver of [receiver]."""
    table = run.receiver
    return Receiver(transmitter, table.osnr, table.noise_seed, phase_window=table.phase_window or None)

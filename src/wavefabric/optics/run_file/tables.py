"""Define the schema of a run file: tables, keys, values with units, and rules between the keys of a table.

A broken rule raises InputError, whose text begins with the key to correct.
"""

import itertools
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
from pydantic import BeforeValidator, Field, StrictBool, StrictInt, model_validator

from wavefabric.base.errors import InputError
from wavefabric.base.units import show
from wavefabric.optics.fibre.chromatic import KEYS, dispersion_form, replaced
from wavefabric.optics.fibre.presets import MULTIMODES, OM_WAVELENGTH, SINGLE_MODES, STANDARDS
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.phase_groups import EXCHANGE_FORMS, KERR_FORMS
from wavefabric.optics.run_file import values
from wavefabric.optics.signal.recovery import PHASES
from wavefabric.optics.signal.wdm import WdmGrid, channels_about, channels_between, one_or_each

#: Default wavelength of a fibre, m.
DESIGN_WAVELENGTH = 1550e-9


class ProfileTable(values.RunFileTable):
    """Describes [fibre.profile]: a power-law index profile with a trench, or a table. Lengths in m."""

    core_diameter: values.Length | None = None
    numerical_aperture: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = None
    exponent: Annotated[float, Field(gt=0, strict=True, allow_inf_nan=True)] = 2.0
    trench_gap: values.Offset = 0.0
    trench_width: values.Offset = 0.0
    trench_depth: Annotated[float, Field(ge=0, lt=0.1, strict=True)] = 0.0
    table_csv: values.InputFile | None = None

    def check(self) -> None:
        needed = ["core_diameter", "numerical_aperture"]
        if self.table_csv is not None:
            if other := sorted(self.model_fields_set - {"table_csv"}):
                raise InputError(f"{other[0]}: given together with table_csv; allowed: one of the two")
        elif missing := [key for key in needed if not self.present(key)]:
            raise InputError(f"{missing[0]}: missing; a profile needs {' and '.join(needed)}, or table_csv")
        if (self.trench_width > 0) != (self.trench_depth > 0):
            key = "trench_depth" if self.trench_width > 0 else "trench_width"
            raise InputError(f"{key}: missing; a trench needs both trench_width and trench_depth")


class RandomCouplingTable(values.RunFileTable):
    """Describes [fibre.random_coupling]: random coupling along the fibre. pmd and delay_spread in s/√m."""

    correlation_length: values.Length
    within: Literal["groups", "polarisations"] = "groups"
    pmd: Annotated[float, values.in_unit("s/sqrt(m)", least=0, most=1e-9)] = 0.0
    delay_spread: Annotated[float, values.in_unit("s/sqrt(m)", least=0, most=1e-9)] = 0.0
    between_groups: Annotated[float, values.in_unit("1/m", least=0, most=1e3)] = 0.0


class RamanTable(values.RunFileTable):
    """Describes [fibre.raman]: stimulated Raman scattering. slope in 1/(W m Hz), area in m²."""

    gain: Literal["silica", "triangular"] = "silica"
    slope: Annotated[float, values.in_unit("1/W/m/Hz", above=0, most=1)] | None = None
    area: Annotated[float, values.in_unit("m^2", least=1e-18, most=1)] = 80e-12
    gain_csv: values.InputFile | None = None

    def check(self) -> None:
        if self.gain_csv is not None and "gain" in self.model_fields_set:
            raise InputError("gain: given together with gain_csv; allowed: one of the two")
        if (self.slope is None) == (self.gain == "triangular"):
            fault = "missing" if self.slope is None else f'given with gain = "{self.gain}"'
            raise InputError(f'slope: {fault}; gain = "triangular" needs it, others have none')
        if self.gain == "silica" and self.gain_csv is None and "area" in self.model_fields_set:
            raise InputError('area: given with gain = "silica"; allowed with "triangular" and gain_csv')


class FibreTable(values.RunFileTable):
    """Describes [fibre]: the fibre of the link, in SI units; attenuation is that of the power."""

    preset: Literal["graded-index-62.5", *SINGLE_MODES, *MULTIMODES] | None = None  # type: ignore[valid-type]
    profile: ProfileTable | None = None
    modes_csv: values.InputFile | None = None
    groups_csv: values.InputFile | None = None
    kappa_csv: values.InputFile | None = None
    groups: values.Groups | None = None
    coupling: Literal["groups", "modes"] = "groups"
    dispersion: Literal["paper", "solver"] = "paper"
    attenuation: Annotated[float, values.in_unit("1/m", least=0, most=1e3)] | None = None
    n2: Annotated[float, values.in_unit("m^2/W", least=0, most=1e-6)] | None = None
    wavelength: values.Length | None = None
    beta2: Annotated[float, values.in_unit("s^2/m", least=-1e-15, most=1e-15)] | None = None
    beta3: Annotated[float, values.in_unit("s^3/m", least=-1e-27, most=1e-27)] | None = None
    betas: values.Betas | None = None
    dispersion_parameter: Annotated[float, values.in_unit("s/m^2", least=-1, most=1)] | None = None
    dispersion_slope: Annotated[float, values.in_unit("s/m^3", least=-1e9, most=1e9)] | None = None
    dispersion_csv: values.InputFile | None = None
    a_eff: Annotated[float, values.in_unit("m^2", least=1e-18, most=1e-6)] | None = None
    gamma: Annotated[float, values.in_unit("1/W/m", least=0, most=1e6)] | None = None
    random_coupling: RandomCouplingTable | None = None
    raman: RamanTable | None = None
    attenuation_csv: values.InputFile | None = None
    attenuation_slope: Annotated[float, values.in_unit("1/m/Hz", least=-1e-9, most=1e-9)] | None = None

    @property
    def reference(self) -> float:
        """Return the wavelength at which the values of the table, or else of its preset, hold, m."""
        default = OM_WAVELENGTH if self.preset in MULTIMODES else DESIGN_WAVELENGTH
        return self.wavelength or STANDARDS.get(self.preset or "", {"wavelength": default})["wavelength"]

    @model_validator(mode="before")
    @classmethod
    def _profile_is_solved(cls, data: Any) -> Any:
        if isinstance(data, dict) and "profile" in data and not {"preset", "modes_csv"} & set(data):
            return {"dispersion": "solver", **data}
        return data

    def check(self) -> None:
        files = self.present("groups_csv", "kappa_csv", "modes_csv")
        source = "modes_csv" if files else "[fibre.profile]"
        if self.preset is not None:
            source = f'preset = "{self.preset}"'
            if other := files + self.present("profile"):
                raise InputError(f"{other[0]}: given together with {source}; allowed: one of the two")
        elif files:
            if self.modes_csv is None:
                raise InputError(f"modes_csv: missing; {files[0]} needs it")
            if (self.kappa_csv is None) == (self.profile is None):
                fault = "missing" if self.profile is None else "given together with [fibre.profile]"
                raise InputError(f"kappa_csv: {fault}; modes_csv needs either kappa_csv or [fibre.profile]")
        elif self.profile is None:
            sources = 'a preset such as "G.652" or "single-mode", [fibre.profile], or modes_csv'
            raise InputError(f"preset: missing; allowed: {sources}")
        elif self.dispersion == "paper":
            raise InputError('dispersion: "paper" given for a profile; allowed: "solver"')
        one_mode = ["a_eff", *(key for key in KEYS if key in type(self).model_fields)]
        if self.preset in SINGLE_MODES:
            changes = {key: getattr(self, key) for key in self.present(*one_mode)}
            fibre = replaced(SINGLE_MODES[self.preset or ""], changes)
            dispersion_form(fibre)
            n2 = self.gamma is not None or "a_eff" not in fibre
            unread = ["coupling", "dispersion", *["n2"] * n2, *["wavelength"] * (self.preset in STANDARDS)]
        elif self.modes_csv is None:
            solved = self.preset in MULTIMODES or (self.preset is not None and self.dispersion == "solver")
            paper = ["dispersion"] * (self.preset in MULTIMODES)
            unread = [*one_mode, "gamma", *paper, *["wavelength"] * solved]
        else:
            coupling, n2 = ["coupling"] * bool(self.kappa_csv), ["n2"] * (self.gamma is not None)
            unread = [*one_mode, "dispersion", *coupling, *n2]
        if idle := [key for key in self.present(*unread) if key in self.model_fields_set]:
            raise InputError(f"{idle[0]}: has no effect with {source}; remove it")
        if self.attenuation_csv is not None and self.attenuation_slope is not None:
            raise InputError("attenuation_slope: given together with attenuation_csv; allowed: either")
        numbers = self.groups if isinstance(self.groups, list) else [self.groups or 1]
        if any(b <= a for a, b in itertools.pairwise(numbers)):
            raise InputError(f"groups: {numbers} given, must be increasing group numbers")
        most = 1 if self.preset in SINGLE_MODES else 15 if self.preset == "graded-index-62.5" else None
        if most is not None and max(numbers) > most:
            raise InputError(f"groups: {max(numbers)} given, {self.preset} has groups 1 to {most}")


#: Keys of each form of the channels' frequencies; the first key names the form.
_FREQUENCY_FORMS = (
    ("channels", "centre_frequency", "spacing"),
    ("first_frequency", "last_frequency", "spacing"),
    ("frequencies",),
)
_FREQUENCY_RULE = (
    "allowed: channels with centre_frequency and spacing, first_frequency with last_frequency and spacing, "
    "or frequencies"
)


class SignalTable(values.RunFileTable):
    """Describes [signal]: channels, symbols, powers. Frequencies and symbol_rate in Hz, launch_power in W.

    modulation, symbol_rate and rolloff are one value, or a tuple with one for each channel.
    """

    modulation: values.Modulations = "qpsk"
    symbol_rate: values.Rates
    symbols: Annotated[StrictInt, Field(ge=16, le=values.MOST_SYMBOLS)]
    samples_per_symbol: Annotated[StrictInt, Field(ge=2, le=values.MOST_SYMBOLS)]
    rolloff: values.Rolloffs = 0.1
    launch_power: values.Powers  # a number, a tuple with one per channel, or a tuple of such tuples per mode
    waveform: values.InputFile | None = None
    channels: Annotated[values.Count, Field(le=values.MOST_CHANNELS)] | None = None
    spacing: values.Frequency | None = None
    linewidth: Annotated[float, values.in_unit("Hz", least=0, most=1e16)] = 0.0
    centre_frequency: values.Frequency | None = None
    first_frequency: values.Frequency | None = None
    last_frequency: values.Frequency | None = None
    frequencies: (
        Annotated[list[values.Frequency], Field(min_length=1, max_length=values.MOST_CHANNELS)] | None
    ) = None

    @property
    def grid(self) -> tuple[float, ...]:
        """Return the optical frequencies of the channels, Hz, ascending."""
        if self.frequencies is not None:
            return tuple(sorted(self.frequencies))
        if self.first_frequency is not None:
            return tuple(channels_between(self.first_frequency, self.last_frequency, self.spacing))
        return tuple(channels_about(self.centre_frequency, self.spacing or 1.0, self.channels or 1))

    @property
    def centre(self) -> float:
        """Return the optical frequency midway between the outer channels, Hz, the simulation's carrier."""
        return 0.5 * (self.grid[0] + self.grid[-1])

    @property
    def wdm_grid(self) -> WdmGrid:
        """Return the channels and the sampling of the field as a `WdmGrid`."""
        rates = self.ascending("symbol_rate")
        return WdmGrid(self.grid, rates, self.samples_per_symbol, self.symbols, self.centre)

    def ascending(self, key: str) -> Any:
        """Return the value of ``key``: one, or a tuple with one for each channel by ascending frequency."""
        return self.sorted(key, getattr(self, key))

    def sorted(self, key: str, value: Any) -> Any:
        """Return ``value`` of ``key``, one or a tuple for the channels, in the order of their frequencies."""
        value = one_or_each(key, value, len(self.grid), lambda item: item)
        if not isinstance(value, tuple) or self.frequencies is None:
            return value
        return tuple(value[k] for k in np.argsort(self.frequencies, kind="stable"))

    @property
    def powers(self) -> np.ndarray:
        """Return launch_power in W, channels by ascending frequency; it broadcasts to (modes, channels)."""
        if not self._power_rows:
            return np.array(self.launch_power)
        powers = np.array([np.broadcast_to(row, len(self.grid)) for row in self._power_rows])
        if self.frequencies is not None:
            powers = powers[:, np.argsort(self.frequencies, kind="stable")]
        return powers if self._power_rows is self.launch_power else powers[0]

    @property
    def _power_rows(self) -> tuple[tuple[float, ...], ...]:
        """Return launch_power as rows over channels: one row per mode, a single row, or none for a number."""
        power = self.launch_power
        if not isinstance(power, tuple):
            return ()
        return power if isinstance(power[0], tuple) else (power,)

    def check(self) -> None:
        inputs = {key for form in _FREQUENCY_FORMS for key in self.present(*form)}
        forms = [form for form in _FREQUENCY_FORMS if inputs & (set(form) - {"spacing"})]
        if len(forms) != 1:
            fault = f"{forms[-1][0]}: given for two grids at once" if forms else "channels: missing"
            raise InputError(f"{fault}; {_FREQUENCY_RULE}")
        if extra := sorted(inputs - set(forms[0])):
            raise InputError(f"{extra[0]}: not allowed beside {forms[0][0]}; {_FREQUENCY_RULE}")
        needless = {"spacing"} if self.channels == 1 else set()
        if missing := sorted(set(forms[0]) - inputs - needless):
            raise InputError(f"{missing[0]}: missing; {_FREQUENCY_RULE}")
        if self.first_frequency and self.last_frequency and self.spacing:
            steps = (self.last_frequency - self.first_frequency) / self.spacing
            if steps >= values.MOST_CHANNELS:
                makes = f"{self.spacing:g} Hz given makes {steps:.3g} channels"
                raise InputError(f"spacing: {makes}; allowed: up to {values.MOST_CHANNELS}")
        try:
            self.wdm_grid.check(self.ascending("rolloff"))
            self.ascending("modulation")
        except InputError as error:
            key, _, text = str(error).partition(": ")
            own = {"last": "last_frequency", "frequencies": "frequencies" if self.frequencies else "spacing"}
            raise InputError(f"{own.get(key, key)}: {text}") from None
        rows, channels = self._power_rows, len(self.grid)
        per_mode = rows is self.launch_power
        for number, row in enumerate(rows, start=1):
            if len(row) != channels and (len(row) > 1 or not per_mode):
                actual = f"{len(row)} powers{f' for mode {number}' if per_mode else ''} given"
                fault = f"{actual}, there are {channels} channels"
                raise InputError(f"launch_power: {fault}; {values.POWER_FORMS}")


class BackPropagationTable(values.RunFileTable):
    """Describes [receiver.back_propagation]: back-propagation of the band or of each channel; step in m."""

    step: values.Length
    of: Literal["band", "channel"] = "band"
    integrator: Literal[tuple(INTEGRATORS)] = "rk4ip"  # type: ignore[valid-type]  # names of a registry
    samples_per_symbol: Annotated[StrictInt, Field(ge=2, le=1024)] | None = None

    def check(self) -> None:
        if self.of == "band" and self.samples_per_symbol is not None:
            raise InputError('samples_per_symbol: given with of = "band"; allowed with of = "channel"')


class ReceiverTable(values.RunFileTable):
    """Describes [receiver]: noise loading, compensation and equalisation, positions of the receiver.

    osnr in dB (0.1 nm, both polarisations), linewidth in Hz; frequency_offset, how far local oscillators are
    above the carriers, in Hz, one for all channels or a tuple with one for each.
    """

    osnr: Annotated[float, values.in_unit("dB", least=-100, most=200)] | None = None
    noise_seed: values.Seed = 1
    linewidth: Annotated[float, values.in_unit("Hz", least=0, most=1e16)] = 0.0
    frequency_offset: values.Detunings = 0.0
    phase: Literal[PHASES] = "auto"  # type: ignore[valid-type]  # names of a registry
    phase_window: Annotated[StrictInt, Field(ge=0, le=values.MOST_SYMBOLS)] = 64
    equaliser: Literal["ideal", "mimo"] = "ideal"
    joint: Literal["groups", "all"] = "groups"
    taps: Annotated[values.Count, Field(le=values.MOST_TAPS)] = 16
    training: Annotated[values.Count, Field(le=values.MOST_SYMBOLS)] = 4096
    decision_directed: StrictBool = True
    memory: Annotated[StrictInt, Field(ge=0, le=values.MOST_SYMBOLS)] = 0
    back_to_back: StrictBool = True
    at: values.Spans = "each"
    back_propagation: BackPropagationTable | None = None
    constellations: Literal["middle", "all"] = "middle"

    def check(self) -> None:
        if self.phase_window == 1:
            raise InputError("phase_window: 1 given, must be 0 (one phase for all) or at least 2")
        of_mimo = {"joint", "taps", "training", "decision_directed", "memory"} & self.model_fields_set
        if self.equaliser == "ideal" and of_mimo:
            raise InputError(f'{min(of_mimo)}: has no effect with equaliser = "ideal"; remove it')

    def sets(self, group_sizes: np.ndarray) -> list[int]:
        """Return the number of modes in each set of modes that the equaliser treats together."""
        return [int(group_sizes.sum())] if self.joint == "all" else group_sizes.tolist()

    def spans(self, total: int) -> tuple[int, ...]:
        """Return the span numbers (from 1) after which the signal is received, ascending."""
        if isinstance(self.at, list):
            return tuple(sorted(set(self.at)))
        return (total,) if self.at == "end" else tuple(range(1, total + 1))


class SolverTable(values.RunFileTable):
    """Describes [solver]: integrator, step control and arithmetic. step in m, max_phase in rad.

    ``step = "auto:0.01 dB"`` becomes a ``step_penalty`` in dB, which then determines the step.
    """

    integrator: Literal[tuple(INTEGRATORS)] = "rk4ip"  # type: ignore[valid-type]  # names of a registry
    step: values.Length | None = None
    step_penalty: Annotated[float, values.in_unit("dB", above=0, most=10)] | None = None
    max_phase: Annotated[float, values.in_unit("rad", above=0, most=1e6)] | None = None
    tolerance: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = None
    precision: Literal["double", "single"] = "double"
    kerr: Literal[KERR_FORMS] = "auto"  # type: ignore[valid-type]  # names of a registry
    svd_tolerance: Annotated[float, Field(ge=0, lt=1, strict=True)] = 1e-12
    exchange: Literal[EXCHANGE_FORMS] = "auto"  # type: ignore[valid-type]  # names of a registry
    device: Annotated[pydantic.StrictStr, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    threads: Annotated[values.Count, Field(le=values.MOST_THREADS)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _automatic_step(cls, data: Any) -> Any:
        step = data.get("step") if isinstance(data, dict) else None
        if not (isinstance(step, str) and step.strip().startswith("auto")):
            return data
        if "step_penalty" in data:
            raise InputError("step_penalty: given together with step; allowed: either")
        match = re.fullmatch(r"\s*auto\s*(?::\s*(.+?)\s*)?", step)
        if match is None:
            raise InputError(f'step: {show(step)} given; allowed: a length, or "auto:0.01 dB"')
        rest = {key: value for key, value in data.items() if key != "step"}
        return rest | {"step_penalty": match[1] or values.STEP_PENALTY}

    def check(self) -> None:
        controls = self.present("step", "step_penalty", "max_phase", "tolerance")
        if len(controls) != 1:
            fault = f"{controls[1]}: given together with {controls[0]}" if controls else "step: missing"
            raise InputError(f"{fault}; allowed: exactly one of step, max_phase, tolerance")
        if self.tolerance is not None and not INTEGRATORS[self.integrator].adaptive:
            adaptive = ", ".join(f'"{name}"' for name, kind in INTEGRATORS.items() if kind.adaptive)
            actual = f'{self.tolerance:g} given with integrator = "{self.integrator}"'
            raise InputError(f"tolerance: {actual}; only allowed with {adaptive}")
        if "auto" not in (self.exchange, self.kerr) and self.kerr not in (self.exchange, "svd"):
            actual = f'"{self.exchange}" given with kerr = "{self.kerr}"'
            raise InputError(f'exchange: {actual}; allowed: the same, or "auto"')


class OutputTable(values.RunFileTable):
    """Describes [output]: result file and checkpoints. checkpoint_every in steps, checkpoint_interval in s.

    power_every and snapshots in m.
    """

    file: Annotated[Path, BeforeValidator(values.output_file)] | None = None
    save_field: StrictBool = False
    power_every: values.Length | None = None
    snapshots: list[values.Length] = Field(default_factory=list)
    checkpoint_every: values.Count = 100
    checkpoint_interval: Annotated[float, values.in_unit("s", least=0)] = 60.0
    figures: StrictBool = True
    theory: StrictBool | None = None

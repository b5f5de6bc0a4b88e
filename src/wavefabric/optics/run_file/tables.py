"""The tables of a run file: their keys, and the rules between the keys of one table."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from wavefabric.optics.run_file.errors import KeyedError
from wavefabric.optics.run_file.types import (
    MOST_CHANNELS,
    MOST_SPANS,
    MOST_SYMBOLS,
    MOST_THREADS,
    POWER_FORMS,
    Count,
    Frequency,
    Groups,
    InputFile,
    Length,
    Offset,
    Places,
    Powers,
    Seed,
    Table,
    in_unit,
    output_file,
)


class Profile(Table):
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


class Fibre(Table):
    """[fibre]: what the light travels through. attenuation in 1/m (power), n2 in m²/W, beta2 in s²/m."""

    preset: Literal["graded-index-62.5", "single-mode"] | None = None
    profile: Profile | None = None
    modes_csv: InputFile | None = None
    groups_csv: InputFile | None = None
    kappa_csv: InputFile | None = None
    groups: Groups | None = None
    coupling: Literal["groups", "modes"] = "groups"
    dispersion: Literal["paper", "solver"] = "paper"
    attenuation: Annotated[float, in_unit("1/m", least=0)] | None = None
    n2: Annotated[float, in_unit("m^2/W", least=0)] | None = None
    wavelength: Length | None = None
    beta2: Annotated[float, in_unit("s^2/m")] | None = None
    beta3: Annotated[float, in_unit("s^3/m")] | None = None
    gamma: Annotated[float, in_unit("1/W/m", least=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _profile_is_solved(cls, data: Any) -> Any:
        if isinstance(data, dict) and "profile" in data and not {"preset", "modes_csv"} & set(data):
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
            sources = 'preset = "graded-index-62.5" or "single-mode", [fibre.profile], or modes_csv'
            raise KeyedError("preset", f"missing; allowed: {sources}")
        if tables:
            if "modes_csv" not in tables:
                raise KeyedError("modes_csv", f"missing; {min(tables)} needs it")
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
            if self.kappa_csv is not None:
                idle += ("coupling",)
            if self.gamma is not None:
                idle += ("n2",)
        else:
            idle += ("gamma",)
            if self.preset is not None and self.dispersion == "solver":
                idle += ("wavelength",)
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


class Link(Table):
    """[link]: spans of fibre, each followed by an amplifier. length in m, noise_figure and gain in dB."""

    length: Length
    spans: Annotated[Count, Field(le=MOST_SPANS)] = 1
    noise_figure: Annotated[float, in_unit("dB", least=0, most=100)] | None = None
    gain: Annotated[float, in_unit("dB", least=0, most=200)] | None = None
    mix_groups: StrictBool = False


class Signal(Table):
    """[signal]: what each spatial mode carries. Frequencies and symbol_rate in Hz, launch_power in W.

    launch_power is one number, a tuple of one for each channel, or a tuple of such tuples, one for each mode.
    """

    modulation: Literal["qpsk", "16qam", "64qam", "gaussian"] = "qpsk"
    symbol_rate: Annotated[float, in_unit("Hz", least=1, most=1e16)]
    symbols: Annotated[StrictInt, Field(ge=16, le=MOST_SYMBOLS)]
    samples_per_symbol: Annotated[StrictInt, Field(ge=2, le=MOST_SYMBOLS)]
    rolloff: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.1
    launch_power: Powers
    channels: Annotated[Count, Field(le=MOST_CHANNELS)] | None = None
    spacing: Frequency | None = None
    centre_frequency: Frequency | None = None
    first_frequency: Frequency | None = None
    last_frequency: Frequency | None = None
    frequencies: Annotated[list[Frequency], Field(min_length=1, max_length=MOST_CHANNELS)] | None = None

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
    def powers(self) -> np.ndarray:
        """launch_power in the order of `grid`: W, of a shape that broadcasts to (modes, channels)."""
        if not isinstance(self.launch_power, tuple):
            return np.array(self.launch_power)
        rows = self.launch_power if isinstance(self.launch_power[0], tuple) else (self.launch_power,)
        powers = np.array([np.broadcast_to(row, len(self.grid)) for row in rows])
        if self.frequencies is not None:
            powers = powers[:, np.argsort(self.frequencies, kind="stable")]
        return powers if rows is self.launch_power else powers[0]

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
            if steps >= MOST_CHANNELS:
                given = f"{self.spacing or 0:g} Hz given makes {steps:.3g} channels"
                raise KeyedError("spacing", f"{given}; allowed: up to {MOST_CHANNELS}")
            if abs(steps - round(steps)) > 1e-6:
                raise KeyedError(
                    "spacing",
                    f"does not divide the {steps * (self.spacing or 1) / 1e9:g} GHz "
                    "between first_frequency and last_frequency",
                )
        self._check_band()
        self._check_powers()
        return self

    def _check_powers(self) -> None:
        if not isinstance(self.launch_power, tuple):
            return
        channels = len(self.grid)
        per_mode = isinstance(self.launch_power[0], tuple)
        lists = self.launch_power if per_mode else (self.launch_power,)
        for number, powers in enumerate(lists, start=1):
            if len(powers) != channels and (len(powers) > 1 or not per_mode):
                where = f" for mode {number}" if per_mode else ""
                raise KeyedError(
                    "launch_power",
                    f"{len(powers)} powers{where} given, there are {channels} channels; {POWER_FORMS}",
                )

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


class Receiver(Table):
    """[receiver]: noise loading and where to receive. osnr in dB (0.1 nm, both polarisations).

    phase_window: symbols in the sliding window of the carrier-phase estimate, 0 for the whole sequence.
    """

    osnr: Annotated[float, in_unit("dB", least=-100, most=200)] | None = None
    noise_seed: Seed = 1
    phase_window: Annotated[StrictInt, Field(ge=0, le=MOST_SYMBOLS)] = 64
    back_to_back: StrictBool = True
    at: Places = "each"

    @model_validator(mode="after")
    def _window_holds_neighbours(self) -> Self:
        if self.phase_window == 1:
            raise KeyedError("phase_window", "1 given, must be 0 (one phase for all) or at least 2")
        return self

    def spans(self, total: int) -> tuple[int, ...]:
        """Span numbers (from 1) after which the signal is received, ascending."""
        if isinstance(self.at, list):
            return tuple(sorted(set(self.at)))
        return (total,) if self.at == "end" else tuple(range(1, total + 1))


class Solver(Table):
    """[solver]: integrator, step control and arithmetic. step in m, max_phase in rad.

    exchange: what several ranks exchange, powers of rows (dense) or of groups of rows (factored).
    """

    integrator: Literal["ssfm_agrawal", "ssfm_rk4", "rk4ip", "strang", "blanes_moan", "erk43ip"] = "rk4ip"
    step: Length | None = None
    max_phase: Annotated[float, in_unit("rad", above=0)] | None = None
    tolerance: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = None
    precision: Literal["double", "single"] = "double"
    kerr: Literal["auto", "dense", "factored", "svd"] = "auto"
    svd_tolerance: Annotated[float, Field(ge=0, lt=1, strict=True)] = 1e-12
    exchange: Literal["auto", "dense", "factored"] = "auto"
    device: Annotated[StrictStr, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    threads: Annotated[Count, Field(le=MOST_THREADS)] | None = None

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
        if "auto" not in (self.exchange, self.kerr) and self.kerr not in (self.exchange, "svd"):
            raise KeyedError(
                "exchange", f'"{self.exchange}" given with kerr = "{self.kerr}"; allowed: the same, or "auto"'
            )
        return self


class Output(Table):
    """[output]: the result file and checkpoints. checkpoint_every in steps, checkpoint_interval in s."""

    file: Annotated[Path, BeforeValidator(output_file)] | None = None
    save_field: StrictBool = False
    checkpoint_every: Count = 100
    checkpoint_interval: Annotated[float, in_unit("s", least=0)] = 60.0
    figures: StrictBool = True

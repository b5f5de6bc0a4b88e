"""Small simulations whose gradients are known: every medium, source and sensor, and fields that are noise."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from wavefabric.acoustics import ContinuousWave, Grid, Medium, Results, Sensor, Source, Transducer, to_problem
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.simulation import ResultSettings, solve
from wavefabric.acoustics.transducers.arrays import linear_array
from wavefabric.acoustics.transducers.mask import TransducerMask

DX, C, RHO, DT, STEPS, START = 1e-4, 1500.0, 1000.0, 0.25e-4 / 1500, 22, 4
#: One period of the tones fits the recorded steps.
TONE = 1 / ((STEPS - START) * DT)
PRESSURE, VELOCITY = 2e6, 1.0
_MEDIUM = ("sound_speed", "density", "density_staggered", "alpha_coeff", "nonlinearity")


def noise(shape: Any, seed: int) -> np.ndarray:
    """Numbers from −1 to 1, the same in every version of NumPy, which keeps this generator as it is."""
    return np.random.RandomState(seed).uniform(-1, 1, shape)


@dataclass(frozen=True)
class Case:
    """A simulation and the values that its objective is differentiated with respect to.

    ``values`` have the names of ``simulate_and_gradient``, and ``density_staggered`` (dimensions, *grid*);
    ``medium`` and ``source`` are the other keywords of `Medium` and `Source`, ``form`` of `Problem`.
    """

    grid: Grid
    sensor: Sensor
    values: dict[str, Any]
    medium: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    transducer: dict[str, Any] = field(default_factory=dict)  # but its signal
    elements: TransducerMask | None = None
    form: dict[str, Any] = field(default_factory=dict)

    def objects(self, values: dict[str, Any]) -> tuple[Medium, Source]:
        """What `simulate` takes; c_ref is that of the case's own values."""
        medium = {name: value for name, value in values.items() if name in _MEDIUM}
        source = {name: value for name, value in values.items() if name in ("p0", "p", "ux", "uy", "uz")}
        source |= self.source
        if self.transducer:
            source["transducer"] = Transducer(signal=values["transducer"], **self.transducer)
        if self.elements is not None:
            driven = self.elements.source(values["elements"], precision="double")
            source |= dict(p_mask=driven.p_mask, p=driven.p)
        reference = float(np.max(self.values["sound_speed"]))
        return Medium(**medium, reference_speed=reference, **self.medium), Source(**source)

    def problem(self, values: dict[str, Any]) -> tuple[Problem, Recording]:
        """The numbers that the solver takes."""
        problem, recording = to_problem(self.grid, *self.objects(values), self.sensor, DT, STEPS)
        return replace(problem, **self.form), recording

    def results(self, values: dict[str, Any]) -> Results:
        """What the solver records, in double precision."""
        how = ResultSettings(device="cpu", threads=1, precision="double", check_stability=False)
        return solve(*self.problem(values), how, self.grid)


def leaves(value: Any) -> Iterator[Any]:
    """Arrays of results, of boxes one by one; of a mapping with their names, in order."""
    if isinstance(value, Mapping):
        for name in sorted(value):
            yield from ((name, array) for array in leaves(value[name]))
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def mapped(change: Any, results: Mapping[str, Any], seed: int = 0) -> dict[str, Any]:
    """Results of the same form; ``change(name, array, noise)`` makes each array."""

    def inner(value: Any, name: str, seed: int) -> Any:
        if isinstance(value, list):
            return [inner(each, name, seed + 1 + i) for i, each in enumerate(value)]
        return change(name, value, noise(value.shape, seed))

    return {name: inner(results[name], name, seed + 100 * i) for i, name in enumerate(sorted(results))}


def objective(results: Mapping[str, Any], xp: Any = np) -> Any:
    """Σ w (r/scale)² over all that is recorded, and Σ w cos r of phases, with weights w that are noise."""

    def term(name: str, value: Any, weights: np.ndarray) -> Any:
        if "phase" in name:
            return (weights * xp.cos(value)).sum()
        return (weights * (value / _scale(name)) ** 2).sum()

    return sum(value for _, value in leaves(mapped(term, results)))


def derivatives(results: Mapping[str, Any]) -> dict[str, Any]:
    """Of the objective with respect to the results, of the same form."""

    def term(name: str, value: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return -weights * np.sin(value) if "phase" in name else 2 * weights * value / _scale(name) ** 2

    return mapped(term, results)


def _scale(name: str) -> float:
    return PRESSURE if name[0] == "p" else VELOCITY


def _varied(shape: tuple[int, ...], names: str, seed: int) -> dict[str, np.ndarray]:
    """Media that are noise around a mean: c, r (density), a (absorption), b (B/A)."""
    means = {"c": ("sound_speed", C), "r": ("density", RHO), "a": ("alpha_coeff", 4.0)}
    means["b"] = ("nonlinearity", 6.0)
    return {
        means[name][0]: means[name][1] * (1 + 0.1 * noise(shape, seed + i)) for i, name in enumerate(names)
    }


def _mask(shape: tuple[int, ...], points: int, seed: int) -> np.ndarray:
    order = np.argsort(noise(math.prod(shape), seed))
    mask = np.zeros(shape, bool)
    mask.reshape(-1)[order[:points]] = True
    return mask


@cache
def cases() -> dict[str, Case]:
    """By name."""
    flat, small, solid, line = (24, 20), (18, 15), (12, 10, 8), (60,)
    flat_grid = Grid(flat, (DX, 1.2 * DX), pml_size=(4, 3))
    small_grid = Grid(small, (DX, 0.9 * DX), pml_size=(3, 4), pml_alpha=1.5, pml_inside=False)
    solid_grid = Grid(solid, (DX, 1.1 * DX, 0.9 * DX), pml_size=(2, 3, 2))
    line_grid, radial = Grid(line, DX, pml_size=6), Grid(small, DX, pml_size=(3, 4), axisymmetric=True)
    series = ("p", "u")
    tones = dict(record=("p_amp", "p_amp_all"), start=START, frequencies=(TONE, 2 * TONE))
    array = linear_array(flat_grid, (-5e-4, 0.0), 3, 3e-4, None, 4e-4, (1e-3, 0.0))
    ear = linear_array(flat_grid, (4e-4, 0.0), 2, 3e-4, None, 4e-4, (-1e-3, 0.0))
    power_law = dict(alpha_power=1.4)
    out: dict[str, Case] = {}

    out["smoothed initial pressure 2-D"] = Case(
        flat_grid,
        Sensor(_mask(flat, 9, 1), series),
        {"p0": PRESSURE * noise(flat, 2), **_varied(flat, "cr", 3)},
    )
    out["nonlinear power law, PML outside 2-D"] = Case(
        small_grid,
        Sensor.points(6e-4 * noise((2, 7), 10), (*series, "p_final", "u_final")),
        {
            "p0": PRESSURE * noise(small, 17),
            "p": PRESSURE * noise((5, STEPS), 11),
            **_varied(small, "crab", 12),
        },
        power_law,
        dict(p_mask=_mask(small, 5, 16)),
    )
    out["Dirichlet, Stokes, boxes 2-D"] = Case(
        small_grid,
        Sensor.boxes(((2, 3), (5, 4)), ((9, 9), (9, 14)), record=(*series, "p_amp"), frequencies=TONE),
        {
            "p": PRESSURE * noise((4, 15), 20),
            "ux": VELOCITY * noise((6, STEPS), 21),
            "uy": VELOCITY * noise((STEPS + 5,), 22),
            **_varied(small, "crab", 23),
        },
        dict(absorption="stokes"),
        dict(p_mask=_mask(small, 4, 27), u_mask=_mask(small, 6, 28), p_mode="dirichlet", u_mode="dirichlet"),
    )
    out["sources without correction, no dispersion, tones 3-D"] = Case(
        solid_grid,
        Sensor(_mask(solid, 6, 30), **tones),
        {
            "p0": PRESSURE * noise(solid, 31),
            "p": PRESSURE * noise((STEPS,), 32),
            "uy": VELOCITY * noise((5, STEPS), 33),
            **_varied(solid, "ca", 34),
            "density": RHO,
        },
        dict(alpha_power=1.0, dispersion=False),
        dict(
            smooth=False,
            p_mask=_mask(solid, 3, 36),
            u_mask=_mask(solid, 5, 37),
            p_mode="additive_no_correction",
            u_mode="additive_no_correction",
        ),
    )
    out["corrected sources of velocity, power below 1 3-D"] = Case(
        solid_grid,
        Sensor(_mask(solid, 6, 40), (*series, "p_final", "u_final"), start=START),
        {
            "ux": VELOCITY * noise((4, STEPS), 41),
            "uy": VELOCITY * noise((STEPS,), 42),
            "uz": VELOCITY * noise((4, 12), 43),
            **_varied(solid, "ra", 44),
            "sound_speed": C,
            "nonlinearity": 6.0,
        },
        dict(alpha_power=0.7),
        dict(u_mask=_mask(solid, 4, 46)),
    )
    out["transducer 3-D"] = Case(
        solid_grid,
        Sensor(_mask(solid, 6, 50), (*series, "u_final")),
        {"transducer": 20 * VELOCITY * noise((17,), 51), **_varied(solid, "crb", 52)},
        transducer=dict(mask=_mask(solid, 8, 55), delay=np.array([0, 1, 2, 3, 4, 2, 0, 1])),
    )
    out["elements, uniform 2-D"] = Case(
        flat_grid,
        Sensor.elements(ear, (*series, "p_final")),
        {
            "elements": PRESSURE * noise((3, STEPS - 3), 60),
            **dict(sound_speed=C, density=RHO, alpha_coeff=4.0, nonlinearity=6.0),
        },
        power_law,
        elements=array,
    )
    out["continuous wave, staggered density 2-D"] = Case(
        flat_grid,
        Sensor(_mask(flat, 6, 70), **tones),
        {
            "p0": PRESSURE * noise(flat, 71),
            **_varied(flat, "crb", 72),
            "density_staggered": RHO * (1 + 0.1 * noise((2, *flat), 75)),
        },
        source=dict(
            p=ContinuousWave(2 * TONE, PRESSURE * noise(5, 76), 3 * noise(5, 77), 0.5),
            p_mask=_mask(flat, 5, 78),
        ),
    )
    out["everything 1-D"] = Case(
        line_grid,
        Sensor(_mask(line, 5, 80), (*series, "p_final", "u_final", "p_amp", "p_amp_all"), frequencies=TONE),
        {
            "p0": PRESSURE * noise(line, 81),
            "p": PRESSURE * noise((3, STEPS), 82),
            "ux": VELOCITY * noise((2, STEPS), 83),
            **_varied(line, "crab", 84),
        },
        power_law,
        dict(p_mask=_mask(line, 3, 88), u_mask=_mask(line, 2, 89)),
    )
    base = out["nonlinear power law, PML outside 2-D"]
    out["without κ 2-D"] = replace(base, form=dict(k_space=False))
    out["not staggered 2-D"] = replace(base, form=dict(staggered=False))
    out["axisymmetric"] = Case(
        radial,
        Sensor(_mask(small, 6, 90), (*series, "p_final")),
        {
            "p0": PRESSURE * noise(small, 91),
            "p": PRESSURE * noise((3, STEPS), 92),
            **_varied(small, "crab", 93),
        },
        dict(absorption="stokes"),
        dict(smooth=False, p_mask=_mask(small, 3, 97)),
    )
    return out

"""Arguments of another type, and counts without bound: one line each, from every public function."""

import numpy as np
import pytest

from wavefabric import acoustics
from wavefabric.acoustics import (
    CT,
    BeamFrame,
    Grid,
    Material,
    Medium,
    Sensor,
    Sonication,
    Source,
    ThermalMedium,
)
from wavefabric.base.arguments import typed
from wavefabric.base.errors import InputError

GRID, SOLID = Grid((12, 10), 1e-3, pml_size=2), Grid((12, 10, 8), 1e-3, pml_size=2)
MEDIUM = Medium(1500.0, 1000.0, alpha_coeff=0.5, absorption="stokes")
FIELD = np.ones(GRID.shape)
MASK = np.indices(GRID.shape).sum(axis=0) == 9
SOURCE, SENSOR, TISSUE = Source(p0=FIELD), Sensor(MASK), ThermalMedium(1046, 3630, 0.51)
WATER = Material(1500, 1000)
DISC = acoustics.disc(GRID, (0, 0), 3e-3, (1, 0))
CTS, FRAME = CT.of(np.full((4, 4, 4), 40.0), 1e-3), BeamFrame(np.zeros(3), np.eye(3))
AT = {"position": (0, 0, 0), "focus": (1, 0, 0)}
SONICATION = Sonication(position=(-0.03, 0, 0), target=(0, 0, 0), frequency=2e5, diameter=0.02)
RUN = {"grid": GRID, "medium": MEDIUM, "source": SOURCE, "sensor": SENSOR, "dt": 1e-7, "steps": 2}
CALLS = {
    "simulate": RUN,
    "to_problem": RUN,
    "linearize": {**RUN, "wrt": "p0"},
    "simulate_and_gradient": {**RUN, "wrt": "p0", "objective": lambda r: (0.0, {"p": r["p"]})},
    "time_reversal": {"grid": GRID, "medium": MEDIUM, "mask": MASK, "signals": np.ones((9, 9)), "dt": 1e-7},
    "heat": {"grid": GRID, "medium": TISSUE, "power": 1.0, "schedule": [(1, 1.0)], "sensor": SENSOR},
    "absorbed_power": {"medium": MEDIUM, "amplitude": FIELD, "frequencies": 1e6},
    "max_frequency": {"grid": GRID, "medium": MEDIUM},
    "bowl": {"grid": SOLID, **AT, "radius": 5e-3, "diameter": 3e-3},
    "disc": {"grid": SOLID, **AT, "diameter": 3e-3},
    "annulus": {"grid": SOLID, **AT, "inner": 1e-3, "outer": 3e-3},
    "rectangle": {"grid": SOLID, **AT, "width": 1e-3, "height": 1e-3},
    "line": {"grid": GRID, "start": (0, 0), "end": (1e-3, 0)},
    "surfaces": {"grid": GRID, "points": [np.zeros((4, 2))], "areas": [1e-3]},
    "linear_array": {
        "grid": SOLID, **AT, "elements": 2, "element_width": 1e-3, "element_length": 1e-3, "pitch": 1e-3
    },
    "spherical_array": {
        "grid": SOLID, **AT, "radius": 5e-3, "diameter": 3e-3, "elements": 2, "element_diameter": 1e-3
    },
    "annular_array": {"grid": SOLID, **AT, "diameters": [(0.0, 2e-3)]},
    "layered_medium": {"grid": GRID, "layers": [(WATER, None)]},
    "averaged_medium": {"grid": GRID, "fine": MEDIUM, "factor": 2},
    "resample": {"ct": CTS, "grid": SOLID, "frame": FRAME},
    "focus_of": {"amplitude": FIELD, "grid": GRID, "medium": MEDIUM},
    "write_ct": {"ct": CTS, "path": "ct.nii"},
    "plan_sonication": {"ct": CTS, "sonication": SONICATION},
}  # fmt: skip
TYPES = ("grid", "medium", "source", "sensor", "fine", "ct", "frame", "sonication")
PAIRS = [(name, key) for name, words in CALLS.items() for key in TYPES if key in words]


@pytest.mark.parametrize(("name", "key"), PAIRS)
def test_objects_of_another_type_are_one_line(name, key):
    optional = (name, key) in {("heat", "sensor"), ("focus_of", "medium"), ("simulate", "sensor")}
    optional = optional or (name, key) == ("to_problem", "sensor")
    wrong = [MASK, "mask", 3.0, {}, [GRID], object(), *([] if optional else [None])]
    wrong += [MEDIUM] if key != "medium" and key != "fine" else [GRID]
    for value in wrong:
        if key == "sensor" and name in ("linearize", "simulate_and_gradient") and value is None:
            continue  # said of what is recorded then
        with pytest.raises(InputError, match=rf"^{key}: ") as caught:
            getattr(acoustics, name)(**CALLS[name] | {key: value})
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 300


def test_functions_with_checked_types_take_what_they_took():
    @typed
    def function(grid: Grid, *, medium: Medium | None = None, other: float = 1.0):
        """Doc."""
        return grid, medium, other

    assert function(GRID) == (GRID, None, 1.0)
    assert function(grid=GRID, medium=MEDIUM, other="x") == (GRID, MEDIUM, "x")
    assert (function.__name__, function.__doc__) == ("function", "Doc.")
    with pytest.raises(TypeError, match="missing a required argument"):
        function()
    with pytest.raises(InputError, match=r"^medium: 'x' given; allowed: a Medium or None"):
        function(GRID, medium="x")


def call(name, **change):
    return lambda: getattr(acoustics, name)(**CALLS[name] | change)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (call("time_reversal", iterations=10**30), "iterations: .*; allowed: a whole number from 1 to 1000"),
        (call("linear_array", elements=10**30), "elements: .*; allowed: a whole number from 1 to 100000"),
        (call("spherical_array", elements=10**9), "elements: 1000000000; allowed"),
        (call("simulate", steps=10**30), "steps: .*; allowed: a whole number from 1, up to 100000000"),
        (call("linearize", steps=10**12), "steps: 1000000000000; allowed"),
        (call("heat", schedule=[(1e30, 1.0)]), "schedule: .* time steps.*; allowed: up to 100000000"),
        (call("heat", schedule=[(1.0, 1.0)] * 3, dt=1e-12), "schedule: .*; allowed: up to 100000000"),
        (call("averaged_medium", factor=10**9), "factor: .*; allowed: a whole number from 1 to 1000"),
        (call("disc", diameter=1e12), "size: .*points sample a surface.*within the grid"),
        (call("rectangle", width=1e12), "size: "),
        (call("surfaces", points=None), "points: null; allowed"),
        (call("surfaces", areas=3.0), "areas: 3.0; allowed"),
        (call("annular_array", diameters="ab"), "diameters: .*; allowed: one pair or more"),
        (call("annular_array", diameters=[(1e-3,)]), "diameters: .*; allowed: one pair or more"),
        (call("layered_medium", layers=None), "layers: null; allowed: one or more pairs"),
        (call("layered_medium", layers=[(1500.0, None)]), "material: 1500.0 given; allowed: a Material"),
        (lambda: acoustics.shaped_medium(GRID, WATER, (MASK, WATER)), "shapes: .*; allowed: a function"),
        (lambda: acoustics.shaped_medium(GRID, None), "background: None given; allowed: a Material"),
        (lambda: acoustics.join(DISC, MASK), "parts: .*; allowed: a TransducerMask"),
        (lambda: acoustics.simulate(GRID, MEDIUM, Source(transducer=MASK), steps=1), r"source\.transducer: "),
        (lambda: acoustics.synthetic_head("1 um"), "spacing: .*; allowed: .*points"),
        (lambda: acoustics.cem43(43.0, 1.0), "temperature: 43.0; allowed: a series"),
        (lambda: acoustics.smooth(None), "field: is of type object"),
        (lambda: acoustics.log_compress("x"), "envelope: "),
        (lambda: acoustics.time_gain(1.0, 1e-7, 1500, 1.0), "signals: 1.0; allowed"),
        (lambda: GRID.time_step(None), "medium: None given; allowed: a Medium"),
        (lambda: GRID.time_step(MEDIUM, [0.3]), "cfl: "),
        (lambda: GRID.steps("water", 1e-7), "medium: .*; allowed: a Medium"),
        (lambda: Grid((9, 9), 1e-3, pml_inside="no"), r"grid\.pml_inside: .*; allowed: True or False"),
        (lambda: Medium(1500.0, 1000.0, density_staggered=1000.0).on(GRID), r"medium\.density_staggered: "),
        (lambda: GRID.points(np.ones((10, 12)), "mask"), r"mask: .*axes are in the other order"),
        (lambda: Sonication(**vars(SONICATION) | {"elements": 10**9}), "elements: 1000000000; allowed"),
        (lambda: Sonication(**vars(SONICATION) | {"on": 1e30}), r"on: 1e\+30; allowed: s, from 0 to"),
    ],
)  # fmt: skip
def test_counts_have_bounds_and_sequences_are_sequences(function, message):
    with pytest.raises(InputError, match=rf"^{message}"):
        function()

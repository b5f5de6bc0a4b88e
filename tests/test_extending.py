"""docs/extending.md holds: one of each kind is added in one or two places, and everything else finds it."""

import sys
from dataclasses import replace
from types import ModuleType
from typing import Annotated

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate, to_problem
from wavefabric.acoustics.kwave.input import read_input, write_input
from wavefabric.acoustics.pictures.plot_recorded import recorded_figure
from wavefabric.acoustics.pictures.recorded import open_recorded
from wavefabric.acoustics.problem import VelocitySource
from wavefabric.acoustics.recording.quantities import QUANTITIES, RecordedQuantity, Statistic
from wavefabric.cli import app
from wavefabric.cli.common.options import argument, register
from wavefabric.collectives import verify
from wavefabric.collectives.builders.direct import direct
from wavefabric.collectives.registry import ALGORITHMS, Algorithm, build
from wavefabric.fabric import cost, load, presets
from wavefabric.fabric.cost_models import cost as costs
from wavefabric.fabric.execution import run_schedule
from wavefabric.fabric.execution.timing import Ranks
from wavefabric.fabric.io import files
from wavefabric.fabric.io import presets as folder
from wavefabric.optics import propagate, single_mode
from wavefabric.optics.propagation.integrators import INTEGRATORS, Integrator
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import TRANSPORTS, Exchange, world
from wavefabric.runtime.exchange.machine_description import transports
from wavefabric.runtime.exchange.transports import TransportDescription
from wavefabric.runtime.exchange.transports.base import Transport


class Symmetric(Integrator):
    """Dispersion over half a step, the Kerr phase, dispersion over the other half."""

    name, order = "symmetric", 2
    cost_per_step = (4, 1)

    def step(self, A, h):
        self.operators.linear(A, h / 2)
        self.operators.kerr_rotate(A, h)
        self.operators.linear(A, h / 2)


def test_an_integrator(monkeypatch):
    monkeypatch.setitem(INTEGRATORS, "symmetric", Symmetric)
    t = np.linspace(-8, 8, 256, endpoint=False)
    field = np.vstack([0.1 / np.cosh(t), np.zeros(256)]).astype(complex)
    fibre = single_mode(beta2="-20 ps^2/km", gamma="2 1/W/km", alpha="0 dB/km")

    def after(integrator, step):
        inputs = {"sample_rate": "1 THz", "step": step, "integrator": integrator, "device": "cpu"}
        return propagate(field, fibre, "20 km", measure_error=False, **inputs)

    exact = after("rk4ip", "50 m")[0]
    coarse, report = after("symmetric", "1 km")
    errors = [np.abs(each - exact).max() for each in (coarse, after("symmetric", "500 m")[0])]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    assert (report.ffts, report.exchanges) == tuple(20 * cost for cost in Symmetric.cost_per_step)


def test_a_fabric_preset(monkeypatch, tmp_path):
    text = (folder.PRESETS / "dgx-a100.toml").read_text("utf-8").replace("dgx-a100", "my-box")
    (tmp_path / "my-box.toml").write_text(text, "utf-8")
    for module in (folder, files):
        monkeypatch.setattr(module, "PRESETS", tmp_path)
    assert "my-box" in presets()
    assert load("my-box").ranks == 8


def test_a_cost_model(monkeypatch):
    def rounds_alone(schedule, fabric, element_bytes):
        return replace(costs.cost(schedule, fabric, element_bytes), seconds=1e-6 * schedule.rounds)

    module = ModuleType("rounds_alone")
    module.rounds_alone = rounds_alone
    monkeypatch.setitem(sys.modules, "rounds_alone", module)
    monkeypatch.setitem(costs.COST_MODELS, "rounds", costs.CostModel("rounds_alone", "rounds_alone"))
    schedule = build("ring", "all-gather", 4, 4)
    assert cost(schedule, load("switch:4"), 1.0, "rounds").seconds == pytest.approx(3e-6)


def test_a_collective_algorithm(monkeypatch, capsys):
    star = Algorithm("all-pairs", ("all-gather",), "all at once", (), lambda *inputs, **_: direct(*inputs))
    monkeypatch.setitem(ALGORITHMS, "all-pairs", star)
    verify(build("all-pairs", "all-gather", 5, 10))
    words = [
        "collective",
        "cost",
        "all-pairs",
        "all-gather",
        "--ranks",
        "4",
        "--fabric",
        "switch:4",
        "--json",
    ]
    app(words, standalone_mode=False)
    assert '"seconds"' in capsys.readouterr().out


def test_a_command(monkeypatch, capsys):
    def hello(name: Annotated[str, argument("Whom to greet.")]) -> None:
        print(f"hello {name}")

    monkeypatch.setattr(app, "commands", dict(app.commands))
    register(app, "hello", hello)
    app(["hello", "fibre"], standalone_mode=False)
    assert capsys.readouterr().out == "hello fibre\n"


def test_a_recorded_quantity(monkeypatch, tmp_path):
    def add(kernels, kept, values):
        kept += values

    mean = Statistic(add, double=True, finish=lambda kept, rows: kept / rows)
    monkeypatch.setitem(QUANTITIES, "u_mean", RecordedQuantity("points", "mean over time", mean))
    monkeypatch.setitem(QUANTITIES, "p_mean_all", RecordedQuantity("field", "mean, whole domain", mean))
    grid, path = Grid((20, 16), "0.1 mm", pml_size=4), tmp_path / "result.h5"
    mask = np.zeros(grid.shape, bool)
    mask[5:9, 7] = True
    source = Source(p0=np.exp(-sum(x**2 for x in np.meshgrid(*grid.coordinates, indexing="ij")) / 8e-8))
    sensor = Sensor(mask, ("p", "u", "u_mean", "p_mean_all"))
    result = simulate(grid, Medium(1500.0, 1000.0), source, sensor, steps=30, device="cpu", output=path)
    np.testing.assert_allclose(result["uy_mean"], result["uy"].mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(result["p_mean_all"][mask], result["p"].mean(axis=1), rtol=1e-5)
    with open_recorded(path) as file:
        assert file.items["ux_mean"].kind == "points"
        figure = recorded_figure(file, "p_mean_all")
    assert "p_mean_all: pressure mean, whole domain" in figure.get_suptitle()


class Dipole:
    """A point that is pushed along x, m/s a time step."""

    def __init__(self, x, y, push):
        self.x, self.y, self.push = x, y, push

    def on(self, grid, sound_speed, dt):
        index = grid.total_shape[0] * self.y + self.x
        signals = (self.push[:, None], None)
        return {"velocity_source": VelocitySource(np.array([index]), signals, "additive_no_correction")}


def test_an_acoustic_source(tmp_path):
    """A push along x raises the pressure before it, and lowers it as much behind."""
    grid, medium = Grid((32, 32), "0.1 mm", pml_size=6), Medium(1500.0, 1000.0)
    source, dt = Dipole(16, 16, np.sin(np.linspace(0, np.pi, 20))), 2e-8
    p = simulate(grid, medium, source, record="p_final", dt=dt, steps=25, device="cpu")["p_final"]
    assert p[21, 16] > 0
    np.testing.assert_allclose(p[17:22, 16], -p[16:11:-1, 16], rtol=1e-3)
    problem, _ = to_problem(grid, medium, source, None, dt, 25)
    write_input(tmp_path / "in.h5", problem, None)
    assert read_input(tmp_path / "in.h5").problem.velocity_source.index == [16 * 32 + 16]


class PostExchange(Exchange):
    """Every message through the control plane, the lower rank of a pair first."""

    def _complete(self, number):
        control = self._transport.control
        calls = [(span, control.recv_array, part) for span, part in self._received[number]]
        calls += [(span, control.send_array, part) for span, part in self._sent[number]]
        for span, call, part in sorted(calls, key=lambda each: each[0].number):
            call(span.peer, part, span.number)


class Post(Transport):
    name = "post"
    exchange = PostExchange

    def __init__(self, control, device):
        super().__init__(device)
        self.control = control

    @classmethod
    def available(cls):
        return True, "by mail"

    @classmethod
    def open(cls, group):
        return cls(group.control, group.device)

    automatic = open


@pytest.mark.parallel([2, 3])
def test_a_transport(monkeypatch):
    monkeypatch.setitem(TRANSPORTS, "post", TransportDescription("by post", f"{__name__}:Post"))
    cpu = get_device("cpu", 1)
    # Of those that serve all ranks `auto` takes the one that stands last.
    assert [world(name, cpu).transport for name in ("post", "auto")] == ["post", "post"]
    assert transports()["post"] == {"available": True, "detail": "by mail"}
    ranks = Ranks(("all",), "cpu", 1)
    ranks.sample = 1e-3
    result = run_schedule.run(ranks, build("ring", "all-reduce", ranks.size, 100), repeats=1)
    assert [case["transport"] for case in result["cases"]] == ["post", "mpi"]
    assert [row["wrong"] for case in result["cases"] for row in case["rows"]] == [0, 0]
    assert "by post" in run_schedule.table(result)[0].title

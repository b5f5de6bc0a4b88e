"""What kernels take, found on a made-up machine whose times are known: those of the cost model."""

from types import SimpleNamespace

import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives.plans.plan import PROTOCOLS
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes, Link
from wavefabric.fabric.execution.fitted_fabric import fabric_of, reliable_kernels
from wavefabric.fabric.execution.measure_fabric import SIZES, kernel_times
from wavefabric.fabric.io.files import from_toml

TIMES = KernelTimes(
    launch=2.5e-6,
    signal=1.7e-6,
    packet=1.25e-6,
    bandwidth=370e9,
    memory=4e12,
    issue=8e-6,
    gap=1e-6,
    move=1.3e-6,
)


class Machine(SimpleNamespace):
    """A communicator whose exchanges take what the cost model says; ``clock`` is its time in s."""

    protocols = ("auto", "copies", *PROTOCOLS)
    transport = "p2p"

    def bind(self, schedule, buffers, protocol):
        assert set(buffers) == {"data"}

        def run():
            graph = {"graph": self.captured}
            self.clock += cost(schedule, self.fabric, 4, "kernel", protocol=protocol, **graph).seconds

        return SimpleNamespace(run=run)

    def graph(self, work, kernels_alone=False):
        def replay():
            self.captured = True
            work()
            self.captured = False

        return replay

    def seconds(self, work):
        begun = self.clock
        work()
        return self.clock - begun


def machine(ranks=2):
    gpus = tuple(f"GPU{r}" for r in range(ranks))
    links = tuple(Link(a, b, 450e9) for a in gpus for b in gpus if a != b)
    made = Machine(
        size=ranks, clock=0.0, captured=False, fabric=Fabric("made up", gpus, (), links, 0.0, kernels=TIMES)
    )
    made.device = SimpleNamespace(graph=made.graph)
    return made


def measure(comm):
    said = []
    measurement = SimpleNamespace(
        comm=comm,
        sizes=SIZES["cuda"][:8],
        buffers=lambda schedule: {"data": None},
        seconds=comm.seconds,
        say=said.append,
    )
    return kernel_times(measurement), said


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_times_are_found(ranks):
    result, said = measure(machine(ranks))
    times = result["times"]
    assert times == pytest.approx(vars(TIMES), rel=0.12)
    assert times["signal"] + times["move"] == pytest.approx(TIMES.signal + TIMES.move, rel=1e-3)
    assert times["issue"] == pytest.approx(TIMES.issue)
    assert times["gap"] == pytest.approx(TIMES.gap)
    assert [result["lines"][name]["line"]["worst"] < 0.01 for name in ("signals", "additions")] == [True] * 2
    assert "p2p, packets: relay" in said


def test_transports_without_kernels_and_ranks_that_share_a_gpu():
    comm = machine()
    comm.protocols = ("auto",)
    assert measure(comm) == (None, [])
    comm = machine()

    def refuse(*_):
        raise InputError("protocol: ranks 0, 1 share a GPU; allowed: copies, or a GPU for each rank")

    comm.bind = refuse
    assert measure(comm)[0] == {
        "why_not": "protocol: ranks 0, 1 share a GPU; allowed: copies, or a GPU for each rank"
    }


@pytest.mark.slow
def test_kernels_whose_lines_do_not_fit_are_left_out():
    result = measure(machine())[0]
    assert reliable_kernels(result) is result
    line = result["lines"]["signals"]
    level = line | {"line": line["line"] | {"alpha": 1e-3, "bandwidth": 1e18}}
    apart = line | {"line": line["line"] | {"residuals": [0.0, -0.8]}}
    for fitted, words in ((level, "times do not grow with bytes"), (apart, "residual of 80.0 %")):
        left = reliable_kernels({"times": result["times"], "lines": result["lines"] | {"signals": fitted}})
        assert left["why_not"] == f"signals: {words}"
        assert "times" not in left
    for inputs in (None, {"why_not": "ranks share a GPU"}):
        assert reliable_kernels(inputs) is inputs


@pytest.mark.slow
def test_they_are_part_of_the_fabric():
    line = {"alpha": 2e-5, "bandwidth": 3.9e11, "floor": 0.0, "residuals": [0.0], "worst": 0.0}
    patterns = {name: {"line": line, "rows": []} for name in ("ring", "round", "add")} | {"peer": {"us": 0.0}}
    pairs = [{"src": a, "dst": 1 - a, "line": line, "rows": []} for a in (0, 1)]
    case = {"transport": "p2p", "patterns": patterns, "pairs": pairs, "kernels": measure(machine())[0]}
    fabric = from_toml(fabric_of(case, 2, True, "mine", {"gpu": "made up"}, "a command"))
    assert vars(fabric.kernels) == pytest.approx(vars(TIMES), rel=0.12)
    for kernels in (None, {"why_not": "ranks share a GPU"}):
        assert from_toml(fabric_of(case | {"kernels": kernels}, 2, True, "mine", {}, "")).kernels is None

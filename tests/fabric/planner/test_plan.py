"""Which candidate a plan chooses and why, classes of errors, and orders of GPUs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from papers.plans.machines import crossings
from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.base.errors import InputError
from wavefabric.cli.bench.ultrasound_cases import light_problem, outline
from wavefabric.cli.common.show import conclude
from wavefabric.cli.plan import run_command, show
from wavefabric.collectives import point_to_point
from wavefabric.fabric import load
from wavefabric.fabric.planner.exchange_times import SIGNALS, ExchangeTimes
from wavefabric.fabric.planner.overlap_error import overlap_error
from wavefabric.fabric.planner.plan import Candidate, Job, RunPlan, candidates_of, carriers, read_plan
from wavefabric.fabric.planner.rates import load_rates
from wavefabric.fabric.planner.timeline import StepTimes
from wavefabric.report.plan import plan_content

H200 = load_rates("h200")


def candidate(step, gib=1, error=0.0, **options):
    return Candidate(options, "p2p", StepTimes(step, step, 0, 0, 0), gib << 30, 1e6, error)


def plan_of(*candidates, **options):
    return RunPlan("a problem", "h200", "ring:2", 2, 10, 4 << 30, candidates, **options)


LOCAL = candidate(1.0, error=1e-3, decomposition="local", grid="1x1x2", overlap=8)
GLOBAL = candidate(2.0, decomposition="global", grid="1x1x2")
LATER = candidate(3.0, decomposition="global", grid="1x2x1")


def test_the_fastest_that_is_exact_enough_and_fits():
    assert plan_of(LOCAL, GLOBAL, LATER).choice is GLOBAL
    for most in (1e-3, 1e-2):
        assert plan_of(LOCAL, GLOBAL, LATER, max_error=most).choice is LOCAL
    assert plan_of(LOCAL, GLOBAL, LATER, max_error=9e-4).choice is GLOBAL
    plan = plan_of(LOCAL, replace(GLOBAL, bytes=5 << 30), LATER)
    assert plan.choice is LATER
    assert plan.reason.startswith("the fastest of those that give one rank's answers and fit in memory. ")
    assert plan.facts()["choice"] == LATER.words
    assert read_plan(json.loads(json.dumps(plan.facts()))) == plan
    assert replace(plan, chosen=0).choice is LOCAL


def test_no_choice():
    with pytest.raises(InputError) as error:
        _ = plan_of(replace(GLOBAL, bytes=6 << 30), replace(LOCAL, bytes=5 << 30)).choice
    needed = "5.0 GiB needed at least, 4.0 GiB on h200"
    assert str(error.value) == f"gpus: 2 given; {needed}; allowed: more GPUs"
    with pytest.raises(InputError, match=r"max-error: 0 given; allowed: 0.001 or more"):
        _ = plan_of(replace(GLOBAL, bytes=6 << 30), LOCAL).choice


ALONE = Candidate({}, "", StepTimes(1.5, 1.5, 0, 0, 0), 1 << 30, 0)


def test_one_gpu_is_chosen_where_it_is_fastest():
    plan = plan_of(LOCAL, ALONE, GLOBAL, LATER)
    assert (plan.choice, plan.alone, plan.facts()["choice"]) == (ALONE, ALONE, "one GPU")
    assert plan.reason == (
        "the fastest of those that give one rank's answers; the next, global 1x1x2, p2p, takes 1.33 times as "
        "long. local 1x1x2, overlap 8, p2p would take 0.67 of the time, with an error of about 1e-3 "
        "(--max-error 1e-3)"
    )
    assert run_command(Path("a.h5"), plan) == "wavefabric run a.h5"
    assert read_plan(json.loads(json.dumps(plan.facts()))) == plan
    # Two ranks that were asked for take the fastest of two, and are told.
    record = json.loads(plan.record())
    assert (record["configuration"], record["carrier"]) == (GLOBAL.words, "p2p")
    assert record["reason"].startswith(
        "the fastest of those that give one rank's answers; the next, global 1x2x1, p2p, takes 1.50 times as "
        "long. One GPU alone is faster: it takes 0.75 of the time. "
    )
    with pytest.raises(InputError, match="chosen: 1 given, one GPU; allowed: one of 2 ranks"):
        replace(plan, chosen=1).record()
    # Where the whole does not fit on one GPU it is a row that is not chosen.
    large = plan_of(LOCAL, replace(ALONE, bytes=5 << 30), GLOBAL)
    assert large.choice is GLOBAL
    assert "One GPU" not in large.reason
    # An approximation that is allowed and faster.
    assert plan_of(LOCAL, ALONE, GLOBAL, max_error=1e-3).choice is LOCAL


@pytest.mark.parametrize("length", [0.1, 1.0, 10.0])
def test_the_star_is_on_what_is_advised(length, capsys):
    """In the table, the page, the picture's names and the command."""
    plan = plan_of(*sorted([ALONE, GLOBAL, candidate(length)], key=lambda c: c.seconds.step))
    conclude(False, {}, shown=show(plan, Path("a.h5"), False))
    out = capsys.readouterr().out
    (starred,) = [line for line in out.splitlines() if line.strip().startswith("*")]
    assert plan.choice.words in starred
    command = out.split("run it: ")[1]
    assert ("--ranks 2" in command) == (length < 1.5) == (plan.choice is not ALONE)
    assert ("as one GPU" in out) == (length < 1.5)
    said = plan_content(plan.facts(), "a")
    assert f"Chosen of 3 configurations: {plan.choice.words};" in said.verdict


def test_the_reason():
    assert plan_of(LOCAL, GLOBAL, max_error=1e-3).reason == (
        "the fastest of those with errors up to 0.001; the next, global 1x1x2, p2p, takes 2.00 times as long"
    )
    assert plan_of(GLOBAL).reason == "the fastest of those that give one rank's answers"


SMOOTH, POINTS = (make("homogeneous", (64, 64, 64)) for make in (outline, light_problem))
LOSSY = outline("tissues", (64, 64, 64))


def test_classes_of_errors():
    """By overlap and window: of smooth fields, of point sources, with power-law absorption."""
    # Equal to the bit: a class as a user writes it allows itself.
    smooth, points = {8: 1e-3, 10: 1e-4, 16: 1e-5, 32: 1e-8, 64: 1e-8}, {8: 1e-2, 16: 1e-2}
    for problem, classes in ((SMOOTH, smooth), (POINTS, points), (LOSSY, {4: 1e-2, 16: 1e-3})):
        for overlap, wanted in classes.items():
            assert overlap_error(Decomposition("local", None, overlap), problem) == wanted
    for overlap, bell, wanted in ((1, "none", 1e-1), (16, "cosine", 1e-2), (16, "erf", 1e-4)):
        assert overlap_error(Decomposition("local", None, overlap, bell), SMOOTH) == wanted
    assert overlap_error(Decomposition("global"), LOSSY) == 0


def test_what_may_carry_data():
    assert carriers(load("hgx-h200"), H200, None) == ["p2p", SIGNALS, "nccl", "mpi-cuda", "mpi"]
    assert carriers(load("nodes:2x4"), H200, None) == ["nccl", "mpi-cuda", "mpi"]
    assert carriers(load("lightpath"), H200, None) == ["p2p"]
    assert carriers(load("dgx-1"), replace(H200, name="cpu"), None) == ["mpi"]


def test_what_carriers_reach():
    hgx = load("hgx-h200")
    peer, nccl = (ExchangeTimes(hgx, name).carried for name in ("p2p", "nccl"))
    assert peer == hgx  # whose numbers are those of peer copies by Python
    assert (nccl.alpha, nccl.flow_bandwidth, nccl.copy_bandwidth) == (35e-6, 310e9, None)
    assert nccl.round_overhead == nccl.peer_overhead == 0
    # Through host memory, all ranks together.
    schedule = point_to_point("all", 4, [(r, (r + 1) % 4, 1 << 20) for r in range(4)])
    assert ExchangeTimes(hgx, "mpi").seconds(schedule, 12) == pytest.approx(31e-6 + 4 * (12 << 20) / 12e9)


def test_gpus_in_another_order():
    """Two ranks that exchange are put next to each other; whichever transport was listed first."""
    fabric = load("p2.8xlarge")
    schedule = point_to_point("pairs", 4, [(r, (r + 2) % 4, 1 << 20) for r in range(4)])

    class Pairs:
        """A step that is this exchange alone."""

        item, bytes_sent = 4, 1e6

        def __init__(self, exchange=None):
            self.schedule, self.exchange = schedule, exchange

        def by(self, exchange):
            return Pairs(exchange)

        def times(self):
            return StepTimes(self.exchange.seconds(schedule, 4), 0, 0, 0, 0)

    for names in (["p2p", "nccl", "mpi"], ["mpi", "nccl", "p2p"]):
        made = candidates_of([Job("pairs", Pairs(), {}, int)], fabric, names, lambda line: None)
        plain, placed = ({c.carrier: c for c in made if bool(c.order) == order} for order in (False, True))
        assert (placed.keys(), plain.keys()) == ({"p2p", "nccl"}, set(names))
        assert placed["p2p"].seconds.step < plain["p2p"].seconds.step
    assert crossings(schedule, fabric, (0, 2, 4, 6), "pcie") == 4
    assert crossings(schedule, fabric, (0, 2, 4, 6), "network") == 0
    assert ExchangeTimes(load("switch:4"), "p2p").placed(schedule, 4).order == ()

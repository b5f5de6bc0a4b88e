"""What ultrasound steps send, as docs/ranks.md says and as runs record; their memory; faster links."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.acoustics.choose_stages import needed_bytes
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.acoustics.problem import Recording
from wavefabric.cli.bench.ultrasound_cases import light_problem
from wavefabric.fabric import load
from wavefabric.fabric.planner.exchange_times import CARRIERS, SIGNALS, ExchangeTimes
from wavefabric.fabric.planner.plan_runs import _RUNTIME, RunPlanOptions, plan_ultrasound
from wavefabric.fabric.planner.rates import load_rates
from wavefabric.fabric.planner.ultrasound_step import StepMedium, UltrasoundStep

DOCS = Path(__file__).parents[3] / "docs"
H200, HGX = load_rates("h200"), load("hgx-h200")
SLABS = (512, 512, 1024)


def step_of(cut, laplacians=0, stages="fused", fabric=HGX, carrier="p2p", precision="single"):
    medium = StepMedium("tissues" if laplacians else "homogeneous", laplacians)
    how = {"precision": precision, "rates": H200, "exchange": ExchangeTimes(fabric, carrier)}
    return UltrasoundStep(cut, medium, stages, **how)


def slabs(kind, overlap=16, ranks=4):
    return decompose(SLABS, ranks, Decomposition(kind, (1, 1, ranks), overlap))


@pytest.mark.parametrize(
    ("cut", "stages", "megabytes", "line"),
    [
        (slabs("global"), "fused", 1819, "global, GPUs (fused stages) | 9 transposes of 202 MB | 1.8 GB"),
        (slabs("global"), "plain", 2021, "global, otherwise | 10 transposes of 202 MB | 2.0 GB"),
        (slabs("local"), "fused", 134, "local, overlap 16 | 4 fields (p, u) of 33.6 MB | 134 MB"),
        (slabs("local", 8), "plain", 67, "local, overlap 8 | 4 fields of 16.8 MB | 67 MB"),
    ],
)
def test_bytes_of_the_page(cut, stages, megabytes, line):
    assert f"| {line} |" in (DOCS / "ranks.md").read_text()
    lossless, *lossy = (step_of(cut, n, stages).bytes_sent for n in range(3))
    assert lossless / 1e6 == pytest.approx(megabytes, abs=0.6)
    # "Four transposes (two without dispersion), or two fields (one)".
    local = cut.options.kind == "local"
    each = lossless / 4 if local else 2 * lossless / {"fused": 9, "plain": 10}[stages]
    assert lossy == pytest.approx([lossless + each, lossless + 2 * each])


def test_bytes_in_two_dimensions():
    # Three fields, or seven transposes of half the 33 x 48 numbers of a rank.
    local, slabs = (
        decompose((64, 96, 1), 2, Decomposition(kind, (1, 2, 1), 8)) for kind in ("local", "global")
    )
    assert step_of(local, stages="plain").bytes_sent == 3 * 2 * 8 * 64 * 4
    assert step_of(slabs, stages="plain").bytes_sent == 7 * 17 * 48 * 8


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.tuples(*[st.floats(1e8, 1e12)] * 2).map(sorted),
    st.sampled_from(CARRIERS),
    st.sampled_from([("global", "fused"), ("global", "plain"), ("local", "fused"), ("local", "plain")]),
    st.sampled_from([0, 2]),
    st.sampled_from(["hgx-h200", "switch:4"]),
)
def test_faster_links_never_cost_time(bandwidths, carrier, how, laplacians, name):
    kind, stages = how
    fabric = load("hgx-h200" if carrier == SIGNALS else name)
    slower, faster = (
        replace(fabric, links=tuple(replace(link, bandwidth=rate) for link in fabric.links))
        for rate in bandwidths
    )
    cut = decompose((64, 48, 96), 4, Decomposition(kind, (1, 1, 4), 4))
    slow, fast = (step_of(cut, laplacians, stages, each, carrier).times() for each in (slower, faster))
    assert fast.step <= slow.step * (1 + 1e-9)
    assert fast.compute == slow.compute
    assert fast.step == pytest.approx(fast.compute + fast.pack + fast.exposed)


@pytest.mark.parametrize(("n", "column"), [(256, 2), (512, 4), (1024, 6)])
def test_memory_that_was_measured(n, column):
    """The row of docs/lab-book.md, of media as its columns name them."""
    lines = (DOCS / "lab-book.md").read_text().splitlines()
    cells = next(line for line in lines if line.startswith("| floats a point |")).split("|")
    for medium, cell in zip(("homogeneous", "heterogeneous"), cells[column : column + 2], strict=True):
        if cell.strip():
            plan = plan_ultrasound(light_problem(medium, (n,) * 3), 1, HGX, H200)
            assert plan.choice.bytes / 4 / n**3 == pytest.approx(float(cell), rel=0.1)


def test_hosts_launch_small_steps():
    cut = decompose((32, 32, 32), 2, Decomposition("local", (1, 1, 2), 4))
    by_copies, by_kernels = (step_of(cut, carrier=carrier).times() for carrier in ("nccl", SIGNALS))
    assert by_copies.step == pytest.approx(16 * 10e-6)  # kernels of 10 us each
    assert by_kernels.step < by_copies.step / 2


def test_candidates_say_the_memory_that_runs_check():
    problem, recording = light_problem("tissues", (96, 64, 128)), Recording(())
    plan = plan_ultrasound(problem, 4, HGX, H200, RunPlanOptions(overlaps=(4, 64)), recording)
    assert [c.seconds.step for c in plan.candidates] == sorted(c.seconds.step for c in plan.candidates)
    assert {c.carrier for c in plan.candidates} == {"", *CARRIERS}
    for candidate in (c for c in plan.candidates if c is not plan.alone):
        options = dict(candidate.options)
        grid = tuple(map(int, options.pop("grid").split("x")))
        cut = decompose(problem.shape, 4, Decomposition(options.pop("decomposition"), grid, **options))
        one_sided = candidate.carrier == SIGNALS
        needed = needed_bytes(problem, recording, np.float32, H200, cut, one_sided)
        assert candidate.bytes == needed + _RUNTIME
    assert plan.alone.bytes == needed_bytes(problem, recording, np.float32, H200) + _RUNTIME
    assert plan.left_out[0].startswith("overlap: 64 points, but 4 blocks along z have 32 of its 128")

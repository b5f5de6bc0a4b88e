"""What ``exchange`` checks and computes, without ranks; its options."""

import numpy as np
import pytest

from benchmarks.permuted_communicator import permuted
from wavefabric.cli.bench import exchange
from wavefabric.cli.bench.exchange import peak
from wavefabric.cli.common.rank_session import show_measurement
from wavefabric.collectives import verify
from wavefabric.fabric.execution.timed_schedule import count_wrong, fill
from wavefabric.runtime.exchange import solo


@pytest.mark.parametrize("pattern", exchange.PATTERNS)
def test_patterns_are_sound_whoever_sits_where(pattern):
    schedule = exchange.schedule_of(pattern, 4, 8)
    moved = permuted(schedule, [2, 0, 3, 1])
    verify(schedule)
    verify(moved)
    # The first transfer of rank 0 is now one of rank 2.
    assert sorted(schedule.transfers["src"]) == sorted(np.argsort([2, 0, 3, 1])[moved.transfers["src"]])


def test_bandwidths_are_those_of_nccl_tests():
    assert exchange.bandwidths("ping", 4, 10**9, 0.5) == pytest.approx((2, 2))
    assert exchange.bandwidths("all-gather", 4, 10**9, 0.5) == pytest.approx((8, 6))
    assert exchange.bandwidths("all-to-all", 2, 10**9, 0.5) == pytest.approx((4, 2))
    assert exchange.bandwidths("halo", 4, 10**9, 0.5) == pytest.approx((4, 4))


def test_what_does_not_arrive_is_counted(cpu):
    comm = solo(cpu)
    schedule = exchange.schedule_of("all-to-all", 1, 100)
    buffers = {name: comm.allocate((120,), np.int32) for name in ("send", "recv")}
    fill(comm, schedule, buffers, "int32")
    assert count_wrong(comm, schedule, buffers, "int32") == 100
    comm.run(schedule, buffers)
    assert count_wrong(comm, schedule, buffers, "int32") == 0
    buffers["recv"][[3, 7]] += 1
    assert count_wrong(comm, schedule, buffers, "int32") == 2


def test_reference_figures():
    assert peak("ping", "p2p", 2) == 373
    assert peak("ping", "mpi-cuda", 4) == 340
    assert peak("all-gather", "mpi", 4) == 2.6
    assert peak("all-gather", "mpi", 3) is None


@pytest.mark.parametrize("words", [["1T:x"], ["x:2"], ["2K:1K"], [","], ["1K:2K", "--factor", 1]])
def test_sizes_that_cannot_be(command, words):
    code, out, err = command("exchange", "--sizes", *words, "--device", "cpu")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "allowed" in err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["exchange"], "2 or more"),
        (["exchange", "--transports", "pigeon"], "pigeon"),
        (["exchange", "--patterns", "spiral"], "2 or more"),
        (["fibre-scaling", "--step", "9 kg"], "--step"),
        (["ultrasound-breakdown", "--overlaps", "2,x"], "--overlaps"),
        (["ultrasound-breakdown", "--grid", "2x2"], "--grid"),
        (["ultrasound-scaling", "--block", 4], "--block"),
        (["ultrasound-scaling", "--kinds", "sideways"], "sideways"),
        (["ultrasound-scaling", "--from", "nowhere.json"], "nowhere.json"),
        (["local-vs-global", "--size", "8x8"], "--size"),
        (["ultrasound-cuts"], "2 or more"),
    ],
)
def test_one_clear_line(command, words, part):
    code, out, err = command(*words, "--device", "cpu")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert part in err


@pytest.mark.slow
def test_the_start_of_a_scaling_curve(numbers):
    result = numbers("ultrasound-scaling", "--block", 8, "--total", 10, "--repeats", 1, "--threads", 1)
    assert [(c["kind"], c["form"], c["efficiency"]) for c in result["cases"]] == [
        (kind, form, 1.0) for kind in ("weak", "strong") for form in ("local", "global")
    ]


def test_no_picture_where_no_transport_could_be_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    machine = {"device": "cpu", "wavefabric": "0"}
    result = {"benchmark": "exchange", "cases": [], "peaks": False, "machine": machine}
    result["unavailable"] = {"mpi-cuda": "no device pointers"}
    show_measurement(exchange, result, as_json=False, output=None, plot=None)
    assert "MPI, device memory: not measured; no device pointers" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())

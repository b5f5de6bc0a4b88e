"""What ``exchange`` checks and computes, without ranks; its options."""

import numpy as np
import pytest

from wavefabric.bench import exchange
from wavefabric.bench.exchange_reference import peak
from wavefabric.bench.stand_ins import renumbered
from wavefabric.cli.bench.ranks import _sizes
from wavefabric.collectives import verify
from wavefabric.errors import InputError
from wavefabric.exchange import solo


@pytest.mark.parametrize("pattern", exchange.PATTERNS)
def test_patterns_are_sound_whoever_sits_where(pattern):
    schedule = exchange.schedule_of(pattern, 4, 8)
    moved = renumbered(schedule, [2, 0, 3, 1])
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
    buffers = {name: comm.allocate((120,), np.uint32) for name in ("send", "recv")}
    exchange.fill(comm, schedule, buffers)
    assert exchange.count_wrong(comm, schedule, buffers) == 100
    comm.run(schedule, buffers)
    assert exchange.count_wrong(comm, schedule, buffers) == 0
    buffers["recv"][[3, 7]] += 1
    assert exchange.count_wrong(comm, schedule, buffers) == 2


def test_reference_figures():
    assert peak("ping", "p2p", 2) == 373
    assert peak("ping", "mpi-cuda", 4) == 340
    assert peak("all-gather", "mpi", 4) == 2.6
    assert peak("all-gather", "mpi", 3) is None


def test_sizes_in_words():
    assert _sizes("64K:1M", 4) == [1 << 16, 1 << 18, 1 << 20]
    assert _sizes("4, 1KiB,2g", 4) == [4, 1024, 2 << 30]
    assert _sizes(None, 4) == []
    for text, factor in (("1T", 4), ("x:2", 4), ("2K:1K", 4), (",", 4), ("1K:2K", 1)):
        with pytest.raises(InputError, match="allowed"):
            _sizes(text, factor)


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
        (["local-error", "--size", "8x8"], "--size"),
        (["ultrasound-cuts"], "2 or more"),
    ],
)
def test_one_clear_line(command, words, part):
    code, out, err = command(*words, "--device", "cpu")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert part in err


def test_the_start_of_a_scaling_curve(numbers):
    found = numbers("ultrasound-scaling", "--block", 8, "--total", 10, "--repeats", 1, "--threads", 1)
    assert [(c["kind"], c["form"], c["efficiency"]) for c in found["cases"]] == [
        (kind, form, 1.0) for kind in ("weak", "strong") for form in ("local", "global")
    ]

"""States come back from every tier, tiers hold what helps and fits, and nothing stays on the disk."""

import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.runtime import exchange
from wavefabric.runtime.device import get_device
from wavefabric.runtime.lifecycle import reversal as module
from wavefabric.runtime.lifecycle.reversal import Reversal, StateStore, Tiers, choose_tiers, repetitions
from wavefabric.runtime.lifecycle.state_copies import StateCopies

GIB = 1 << 30


def state(number, xp=np):
    return {
        "p": xp.full((3, 4), number, np.float32),
        "none": xp.zeros((0, 2)),
        "u": xp.arange(5) + 1j * number,
    }


def test_every_tier(kernel_device, tmp_path):
    device = kernel_device
    working = state(0, device.xp)
    with StateStore(device, working, Tiers(2, 1, 2, tmp_path)) as store:
        for generation in range(2):
            for position in range(5):
                for name, array in state(10 * generation + position, device.xp).items():
                    working[name][...] = array
                store.write(position)
            for position in reversed(range(5)):
                for array in working.values():
                    array[...] = -1
                store.read(position)
                for name, array in state(10 * generation + position).items():
                    np.testing.assert_array_equal(device.to_host(working[name]), array)
                peeked = store.peek(position)
                assert (peeked is None) == (position < 3)
                if peeked is not None:
                    parts = StateCopies(device, working).parts(peeked)
                    assert parts["p"][0, 0] == 10 * generation + position
        assert str(tmp_path) in Path("/proc/self/maps").read_text()
        assert os.listdir(tmp_path) == []  # so that no end leaves anything
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize(
    "kernel_device", ["emulated", pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True
)
def test_states_stored_by_the_number_of_a_step(kernel_device):
    device = kernel_device
    clock, working = device.zeros(1, np.int64), state(0, device.xp)
    with StateStore(device, working, Tiers(3)) as store:
        store_now = store.by_clock(clock)
        for number in range(5):  # the last two have no position
            clock[...] = number
            for name, array in state(number, device.xp).items():
                working[name][...] = array
            store_now()
        for position in range(3):
            store.read(position)
            for name, array in state(position).items():
                np.testing.assert_array_equal(device.to_host(working[name]), array)


@pytest.mark.parametrize(("steps", "states"), [(30, 4), (100, 6), (300, 5), (500, 12)])
def test_slow_tiers_hold_what_is_read_least(steps, states):
    reads = Counter()
    store = SimpleNamespace(states=states, write=lambda *_: None, read=lambda at: reads.update([at]))
    nothing = SimpleNamespace(arrays=dict, begin=int, restored=int, advance=int)
    reversal = Reversal(nothing, steps, store)
    for step in range(1, steps + 1):
        reversal.after(step)
    for step in reversed(range(steps)):
        reversal.restore(step)
    assert [reads[at] for at in range(states)] == sorted(reads.values())


def chosen(monkeypatch, memory, steps, ranks=1, name="cuda:0", **options):
    """Tiers for so many ranks alike on one device of one host; ``memory`` is (device, host, disk) in GiB."""
    free = [int(GIB * each) for each in memory]
    monkeypatch.setattr(module, "host_memory", lambda: (free[1], 0))
    monkeypatch.setattr(module.shutil, "disk_usage", lambda folder: SimpleNamespace(free=free[2]))
    monkeypatch.setattr(module.os, "posix_fallocate", lambda *_: None)
    comm = SimpleNamespace(size=ranks, rank=0)
    comm.control = SimpleNamespace(all_gather=lambda each: [each] * ranks)
    device = SimpleNamespace(name=name, identity=name, memory=lambda: (free[0], 10 * GIB))
    return choose_tiers(comm, device, GIB, steps, **options)


def test_choice_of_tiers(monkeypatch, tmp_path):
    # A tenth of the device's 10 GiB stays free.
    assert chosen(monkeypatch, (9.5, 0, 0), 1000) == (8, 0, 0, None)
    assert chosen(monkeypatch, (9.5, 0, 0), 5) == (4, 0, 0, None)  # states 1 to 4
    assert chosen(monkeypatch, (9.5, 0, 0), 5, store_start=True) == (5, 0, 0, None)
    assert chosen(monkeypatch, (9.5, 0, 0), 1000, states=3) == (3, 0, 0, None)
    assert chosen(monkeypatch, (9.5, 0, 0), 1000, ranks=3) == (2, 0, 0, None)
    assert chosen(monkeypatch, (9.5, 99, 0), 1000, name="cpu") == (8, 0, 0, None)
    # No more in host memory than lower the repetitions; state 0 counts too.
    _, host, disk, _ = chosen(monkeypatch, (9.5, 30, 500), 1000)
    before, here, least = (repetitions(1000, 9 + number) for number in (host - 1, host, 30))
    assert (before > here, here == least, disk) == (True, True, 0)
    assert chosen(monkeypatch, (9.5, 30, 0), 9) == (8, 0, 0, None)
    assert chosen(monkeypatch, (9.5, 2, 20), 20, scratch=tmp_path) == (8, 2, 9, tmp_path)
    assert chosen(monkeypatch, (0.5, 0, 0), 20) == (0, 0, 0, None)


def test_refused(monkeypatch, tmp_path):
    comm = exchange.solo(get_device("cpu", threads=1))
    with pytest.raises(InputError, match=r"states: 0 given; allowed: 1 or more"):
        choose_tiers(comm, comm.device, 8, 5, states=0)
    with pytest.raises(InputError, match=r"scratch: .*nowhere cannot take 8 B of states \(No such file"):
        choose_tiers(comm, comm.device, 8, 5, scratch=tmp_path / "nowhere")
    with pytest.raises(
        InputError,
        match=r"scratch: .* cannot take 6291456 TiB of states \(No space left.*with that much free",
    ):
        StateStore(comm.device, {"p": SimpleNamespace(nbytes=1 << 61)}, Tiers(0, 0, 3, tmp_path))
    assert os.listdir(tmp_path) == []
    with pytest.raises(InputError, match=r"memory: .* 1 GiB, cuda:0 has 512 MiB free; allowed: "):
        chosen(monkeypatch, (0.5, 0, 0), 5, store_start=True)

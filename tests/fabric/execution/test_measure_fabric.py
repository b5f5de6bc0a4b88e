"""The fabric that is made of times: of two CPUs, and of a made-up machine whose times are known."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives import levels
from wavefabric.collectives.registry import build
from wavefabric.fabric.cost_models.bus_bandwidth import most_elements
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.fabric.execution import measure_fabric
from wavefabric.fabric.execution.fitted_fabric import fabric_of, fit, misfits
from wavefabric.fabric.execution.measure_fabric import PATTERNS, additions, pattern, relay
from wavefabric.fabric.execution.run_schedule import as_run
from wavefabric.fabric.execution.timing import Ranks
from wavefabric.fabric.io.files import from_toml
from wavefabric.runtime.exchange.transports.base import Program

_SIZES = np.array(measure_fabric.SIZES["cuda"], float)


@pytest.mark.parametrize("floor", [0.0, 33e-6])
def test_a_line_is_found_in_spite_of_an_outlier(floor):
    times = np.maximum(floor, 19e-6 + _SIZES / 390e9)
    times *= 1 + 0.01 * np.random.default_rng(1).normal(size=times.size)
    times[9] *= 1.6
    result = fit(_SIZES, times, floor=bool(floor))
    assert result.alpha == pytest.approx(19e-6, rel=0.15)
    assert result.bandwidth == pytest.approx(390e9, rel=0.03)
    assert result.floor == pytest.approx(floor, rel=0.03)
    assert result.worst == pytest.approx(0.6 / 1.6, rel=0.1)
    assert int(np.argmax(np.abs(result.residuals))) == 9
    assert result.seconds(1 << 30) == pytest.approx(19e-6 + 2**30 / 390e9, rel=0.03)


def test_a_line_needs_sizes():
    assert fit([1000, 2000], [1.0, 1.0]).alpha == pytest.approx(1.0)
    with pytest.raises(ValueError, match="two sizes"):
        fit([1000, 1000], [1.0, 1.1])
    with pytest.raises(ValueError, match="above 0"):
        fit([1000, 2000], [0.0, 1.1])


def test_patterns_are_what_they_say():
    assert [most_elements(pattern(name, 4, 10)) for name in PATTERNS] == [10, 20, 30, 30, 30]
    one = relay(3, 10, 4)
    assert levels(one).max() == 3
    assert (len(one.transfers), most_elements(one)) == (12, 40)
    assert levels(additions(3, 10, 4)).max() == 3
    assert [len(level.sends) for level in Program(one, 1).levels] == [1] * 4


# --- a made-up machine ----------------------------------------------------------------------------------


class Machine:
    """GPUs whose copy engines write to each other, in the order in which P2P enqueues: when all is done.

    A host issues one thing after the other; streams wait for what was issued, for what is before, and for
    flags. Times in s, bandwidths in B/s.
    """

    launch, light = 4e-6, 1e-6
    flag, copy, add = 2.5e-6, 3.5e-6, 2e-6
    pair, whole, adding = 392e9, 430e9, 1.4e12

    def __init__(self, ranks):
        self.ranks = ranks
        self._known = {}

    def seconds(self, schedule, itemsize=4, runs=5, warm=2):
        """One run among many in a row."""
        programs = [Program(schedule, r) for r in range(self.ranks)]
        host, stream = np.zeros(self.ranks), np.zeros(self.ranks)
        self._peers = np.zeros((self.ranks, self.ranks))
        ends = []
        for _ in range(runs):
            for number in range(len(programs[0].levels)):
                self._level([p.levels[number] for p in programs], host, stream, itemsize)
            ends.append(max(host.max(), stream.max()))
        return (ends[-1] - ends[warm]) / (runs - 1 - warm)

    def _issue(self, host, rank, cost, begin):
        """When something issued now may begin."""
        host[rank] += cost
        return max(host[rank], begin)

    def _level(self, levels, host, stream, itemsize):
        space, data, sent = {}, {}, np.zeros(self.ranks)
        for r, level in enumerate(levels):
            froms = {span.peer for span in level.receives}
            if froms:
                stream[r] = self._issue(host, r, self.launch, stream[r]) + self.flag
                space.update({(peer, r): stream[r] for peer in froms})
        for r, level in enumerate(levels):
            peers = {}
            for span in level.sends:
                peers.setdefault(span.peer, []).append(span.size * itemsize)
            rate = min(self.pair, self.whole / max(1, len(peers)))
            for peer, sizes in peers.items():
                at = self._issue(host, r, 2 * self.light + self.launch, max(stream[r], self._peers[r, peer]))
                at = max(at, space[r, peer])
                for size in sizes:
                    at = self._issue(host, r, self.light, at) + self.copy + size / rate
                at = self._issue(host, r, self.launch, at) + self.flag
                host[r] += self.light
                self._peers[r, peer] = data[r, peer] = at
                sent[r] = max(sent[r], at)
        for r, level in enumerate(levels):
            for source, _ in level.local:
                stream[r] = self._issue(host, r, self.launch, stream[r]) + self.add
                stream[r] += source.size * itemsize / self.adding
            froms = {span.peer for span in level.receives}
            if froms:
                came = max(data[peer, r] for peer in froms)
                stream[r] = max(self._issue(host, r, self.launch, stream[r]), came)
            stream[r] = max(stream[r], sent[r])
            for span in level.receives:
                if span.reduce:
                    stream[r] = self._issue(host, r, self.launch, stream[r]) + self.add
                    stream[r] += span.size * itemsize / self.adding


class _Comm:
    """Remembers what was bound last: its time is asked for next."""

    transport, protocols = "p2p", ("auto",)

    def __init__(self, device):
        self.device = device

    def allocate(self, shape, dtype):
        return np.zeros(1)

    def bind(self, schedule, buffers, protocol):
        assert protocol == "auto"
        self.last = schedule
        return SimpleNamespace(run=None)

    def describe(self):
        return {}


def _measured(monkeypatch, count, check_memory=lambda *_: None):
    machine = Machine(count)
    comm = _Comm(SimpleNamespace(name="cuda:0", synchronize=lambda: None))
    ranks = SimpleNamespace(
        size=count, rank=0, on_gpu=True, sample=1.0, unavailable={}, control=SimpleNamespace(barrier=int),
        check_memory=check_memory, machine=lambda: {"gpu": "made up"}, each=lambda: [comm],
    )  # fmt: skip
    monkeypatch.setattr(measure_fabric, "timed", lambda *_: {"ms": machine.seconds(comm.last) * 1e3})
    sizes = [1 << power for power in (12, 16, 20, 22, 23, 24, 26, 28)]
    result = measure_fabric.run(ranks, sizes, name="made up")
    assert ranks.sample == 1.0
    return machine, result


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_times_of_a_machine_are_predicted_from_what_was_measured_on_it(monkeypatch, count):
    machine, result = _measured(monkeypatch, count)
    fabric = from_toml(result["fabric"])
    assert fabric.source.startswith(f"measured over p2p between {count} x made up: wavefabric fabric measure")
    for link in fabric.links:
        assert link.bandwidth == pytest.approx(machine.pair, rel=0.01)
    assert fabric.reduce_bandwidth == pytest.approx(machine.adding, rel=0.02)
    assert fabric.flow_bandwidth == pytest.approx(machine.pair, rel=0.01)
    assert fabric.copy_bandwidth == pytest.approx(machine.pair if count == 2 else machine.whole, rel=0.02)
    assert fabric.peer_overhead == pytest.approx(0.0 if count == 2 else 3 * machine.launch, abs=1e-9)
    apart = {}
    for collective in ("all-gather", "reduce-scatter", "all-reduce"):
        for algorithm, radix in (("ring", None), ("recursive", 2), ("recursive", 4), ("direct", None)):
            for size in (1 << 16, 1 << 20, 16 << 20, 1 << 30):
                schedule = build(algorithm, collective, count, size // 4, radix=radix)
                ratio = cost(as_run(schedule), fabric, 4).seconds / machine.seconds(schedule)
                if not 0.97 < ratio < 1.03:
                    apart[schedule.name, size] = ratio
    assert apart == {}


def test_why_kernels_were_not_measured_is_shown(monkeypatch):
    options = []

    def refuse(needed, what):
        options.append((needed, what))
        if what.startswith("packets"):
            raise InputError(f"{what} need {needed} bytes; allowed: what fits")

    monkeypatch.setattr(_Comm, "protocols", ("auto", "packets", "signals"))
    result = _measured(monkeypatch, 2, refuse)[1]
    # Six rounds of 256 MiB, twice as large in packets, in two slots: the next power of two, and all below it.
    needed, what = options[-1]
    assert (needed, what) == (2 * (8 << 30), f"packets of {1 << 28} bytes")
    line = f"kernels: not in the fabric; {what} need {needed} bytes; allowed: what fits"
    assert line in measure_fabric.table(result)
    assert from_toml(result["fabric"]).kernels is None


def test_kernels_that_were_disturbed_are_not_in_the_fabric(monkeypatch):
    line = fit([4096, 8192], [1e-5, 1e-5]).as_dict() | {"alpha": 1e-5, "bandwidth": 1e18}
    lines = {name: {"rows": [{"bytes": 8192, "us": 1e1}], "line": line} for name in ("signals", "additions")}
    times = dict.fromkeys(("launch", "signal", "packet", "issue"), 1e-6) | {"bandwidth": 1e11, "memory": 1e12}
    monkeypatch.setattr(measure_fabric, "kernel_times", lambda *_: {"lines": lines, "times": times})
    result = _measured(monkeypatch, 2)[1]
    assert result["cases"][0]["kernels"]["why_not"] == "signals: times do not grow with bytes"
    assert from_toml(result["fabric"]).kernels is None


def _changed(monkeypatch, change):
    """What is found on the machine when `change` is done to the time of each schedule."""
    plain = Machine.seconds
    monkeypatch.setattr(Machine, "seconds", lambda self, schedule: change(schedule, plain(self, schedule)))
    return _measured(monkeypatch, 4)[1]


@pytest.mark.slow
def test_lines_that_do_not_fit_are_named(monkeypatch):
    assert _measured(monkeypatch, 4)[1]["cases"][0]["misfits"] == []

    def disturbed(schedule, seconds):
        # One relay of all is disturbed, so that one round of a ring seems to take hundreds of times as long.
        long = most_elements(schedule) * 4 == 6 * (1 << 20) and schedule.name == relay(4, 1, 6).name
        return seconds + 4 * 300 * (21e-6 + (1 << 20) / 390e9) if long else seconds

    result = _changed(monkeypatch, disturbed)
    (misfit,) = result["cases"][0]["misfits"]
    assert misfit.startswith("a round of a ring: residual of 99.")
    line = result["cases"][0]["patterns"]["round"]["line"]
    assert misfit == f"a round of a ring: residual of {100 * line['worst']:.1f} %"
    text = "".join(each for each in measure_fabric.table(result) if isinstance(each, str))
    assert f"no fabric to rely on (residuals above 75 % or level times): {misfit}" in text
    assert misfits(result["cases"][0], 0.9999) == []


@pytest.mark.slow
def test_lines_that_fit_badly_are_kept_and_named(monkeypatch):
    """Sums 61 % off their line were written without a word."""
    assert _measured(monkeypatch, 4)[1]["cases"][0]["rough"] == []
    sums = additions(4, 1, 6).name
    result = _changed(monkeypatch, lambda s, t: 2.4 * t if s.name == sums and s.sizes[0].max() == 1024 else t)
    case = result["cases"][0]
    worst = case["patterns"]["add"]["line"]["worst"]
    assert 0.25 < worst < 0.75
    assert case["rough"] == [f"an addition (up to {100 * worst:.0f} %)"]
    assert case["misfits"] == []
    text = "".join(each for each in measure_fabric.table(result) if isinstance(each, str))
    assert f"rough (off by more than 25 % at some size): {case['rough'][0]}" in text
    assert case["rough"][0] in from_toml(result["fabric"]).source


def test_times_that_do_not_grow_are_named(monkeypatch):
    """Their bandwidth is whatever the fit allows at most: sums at 6e8 GB/s were written so."""
    sums = additions(4, 1, 6).name
    result = _changed(monkeypatch, lambda schedule, t: 1e-4 if schedule.name == sums else t)
    assert "an addition: times do not grow with bytes" in result["cases"][0]["misfits"]


def _line(alpha, bandwidth=1e9):
    return {"line": {"alpha": alpha, "bandwidth": bandwidth, "floor": 0.0}}


def test_alpha_of_each_pair_is_in_the_file():
    pairs = {(0, 1): 5e-6, (1, 2): 7e-6, (2, 0): 5e-6, (1, 0): 5e-6, (2, 1): 6e-6, (0, 2): 90e-6}
    case = {
        "transport": "mpi-cuda",
        "patterns": {"round": _line(8e-6), "add": _line(0.0), "peer": {"us": 0.0}, "all-to-all": _line(1e-5)},
        "pairs": [{"src": a, "dst": b, **_line(alpha)} for (a, b), alpha in pairs.items()],
    }
    fabric = from_toml(fabric_of(case, 3, True, "three", {}, "by hand"))
    late = {(link.source, link.target): link.latency for link in fabric.links}
    # A round of the ring stays 8 us, of which 2 us are of its last link; no link has more than it.
    assert fabric.alpha == pytest.approx(6e-6)
    assert late["GPU1", "GPU2"] == pytest.approx(2e-6)
    assert late["GPU2", "GPU1"] == pytest.approx(1e-6)
    assert late["GPU0", "GPU2"] == pytest.approx(8e-6)
    assert late["GPU0", "GPU1"] == 0
    assert {link.kind for link in fabric.links} == {"peer"}


# --- two CPUs -------------------------------------------------------------------------------------------


@pytest.mark.parallel(2)
def test_the_fabric_between_two_processes():
    ranks = Ranks(("all",), "cpu", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure_fabric, "_SAMPLE", 0.001)
        result = measure_fabric.run(ranks, sizes=[1 << 12, 1 << 18], repeats=2, name="two")
        for bad, part in (
            ({"sizes": [6, 8]}, "multiples of 4"),
            ({"sizes": [8, 8]}, "two sizes"),
            ({"repeats": 0}, "repeats: 0"),
            ({"name": ""}, "name: ''"),
            ({"residual": 0.0}, "residual: 0.0"),
        ):
            with pytest.raises(InputError, match=part):
                measure_fabric.run(ranks, **bad)
    fabric = from_toml(result["fabric"])
    assert (fabric.name, fabric.gpus) == ("two", ("CPU0", "CPU1"))
    # Hosts do all the work here: nothing runs ahead of them.
    assert fabric.round_overhead == fabric.peer_overhead == fabric.reduce_overhead == 0.0
    (case,) = result["cases"]
    assert [(p["src"], p["dst"]) for p in case["pairs"]] == [(0, 1), (1, 0)]
    for p in (*case["pairs"], case["patterns"]["ring"], case["patterns"]["round"]):
        assert [row["bytes"] for row in p["rows"]] == [1 << 12, 1 << 18]
        assert all(row["us"] > 0 for row in p["rows"])
        assert p["line"]["bandwidth"] > 0
    times = [cost(build("ring", "all-reduce", 2, n), fabric, 4).seconds for n in (1 << 10, 1 << 20)]
    assert 0 < times[0] < times[1]
    assert len(set(ranks.control.all_gather(result["fabric"]))) == 1
    if ranks.rank == 0:
        json.dumps(result)
        from rich.console import Console

        console = Console(width=140, file=io.StringIO())
        for each in measure_fabric.table(result):
            console.print(each)
        assert "rank 1 to rank 0" in console.file.getvalue()

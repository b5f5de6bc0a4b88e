"""What is recorded equals what can be read off the fields after every step."""

import threading
from functools import lru_cache

import numpy as np
import pytest
from plain_solver import PlainSolver
from random_problems import history, points, problem, velocity_source

from wavefabric.acoustics.problem import Cuboids, Interpolation, Recording
from wavefabric.acoustics.recording import recorder
from wavefabric.acoustics.recording.quantities import QUANTITIES
from wavefabric.acoustics.recording.sampling import WEIGHTS
from wavefabric.acoustics.recording.sinks import MemorySink
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.solver.kernels import TABLE
from wavefabric.runtime.device import get_device

SHAPES = [(14, 12, 9), (15, 13, 1)]
STEPS = 23
AXES = {3: "xyz", 2: "xy"}


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param, threads=1)


@pytest.fixture(params=SHAPES, ids=["3-D", "2-D"])
def shape(request):
    return request.param


def problem_of(shape):
    # A source until the end, so that nothing settles.
    source = velocity_source(shape, "additive", steps=STEPS)
    return problem(shape, steps=STEPS, mixed="c", velocity_source=source)


@lru_cache
def fields(device, shape, dtype=np.float32):
    """Fields after every step, and the velocities brought to the points of the pressure."""
    result = history(device, problem_of(shape), dtype)
    solver = PlainSolver(problem_of(shape))
    for axis in range(problem_of(shape).dimensions):
        name, moved = "u" + "xyz"[axis], []
        for u in result[name]:
            solver.u[axis] = u.astype(float)
            moved.append(solver.shifted(axis))
        result[name + "_non_staggered"] = np.array(moved)
    return result


def record(device, shape, quantities, where=None, start=0, sink=None, precision="single"):
    sink = sink or MemorySink()
    run(
        problem_of(shape),
        Recording(tuple(quantities), where, start),
        sink,
        RunSettings(device=device, precision=precision),
    )
    return sink.arrays


def sensors(shape):
    """A sensor of each kind, and what it reads of fields (steps, Nz, Ny, Nx)."""
    index = points(shape, 11)
    last = (np.array(shape) - 1).astype(np.int64)
    first = np.array([[1, 2, 0], [0, 0, last[2]], last], np.int64)
    boxes = Cuboids(first, np.array([[4, 5, min(3, last[2])], [last[0], 0, last[2]], last], np.int64))
    rng = np.random.default_rng(3)
    corners = rng.integers(0, np.prod(shape), (7, 8 if shape[2] > 1 else 4))
    weights = rng.dirichlet(np.ones(corners.shape[1]), 7)

    def flat(series):
        return series.reshape(len(series), -1)

    def in_boxes(series):
        parts = [
            series[:, z0 : z1 + 1, y0 : y1 + 1, x0 : x1 + 1].reshape(len(series), -1)
            for (x0, y0, z0), (x1, y1, z1) in zip(boxes.first, boxes.last, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    return {
        "index": (index, lambda series: flat(series)[:, index]),
        "cuboids": (boxes, in_boxes),
        "interpolation": (
            Interpolation(corners, weights),
            lambda series: (flat(series).astype(float)[:, corners] * weights).sum(axis=2),
        ),
    }


@pytest.mark.parametrize("kind", ["index", "cuboids", "interpolation"])
@pytest.mark.parametrize("start", [0, 1, 7, STEPS - 1])
def test_series_and_statistics(device, shape, kind, start):
    where, read = sensors(shape)[kind]
    quantities = [q for q in QUANTITIES if not q.startswith("I")]
    got, result = record(device, shape, quantities, where, start), fields(device, shape)
    axes = AXES[problem_of(shape).dimensions]
    names = ["p", *("u" + a for a in axes)]
    statistics = [f"{n}_{s}" for n in names for s in ("rms", "max", "min", "max_all", "min_all", "final")]
    assert set(got) == {*names, *statistics, *(f"u{a}_non_staggered" for a in axes)}
    for name in names:
        series = got[name]
        assert series.dtype == np.float32
        wanted = read(result[name][start:])
        if kind == "interpolation":
            np.testing.assert_allclose(series, wanted, rtol=1e-6, atol=1e-7 * abs(wanted).max())
        else:
            assert (series == wanted).all()
        # Statistics are those of the series itself.
        assert (got[name + "_max"] == series.max(axis=0)).all()
        assert (got[name + "_min"] == series.min(axis=0)).all()
        rms = np.sqrt((series.astype(float) ** 2).mean(axis=0))
        assert got[name + "_rms"].dtype == np.float32
        np.testing.assert_allclose(got[name + "_rms"], rms, rtol=1e-7)
        assert (got[name + "_max_all"] == result[name][start:].max(axis=0)).all()
        assert (got[name + "_min_all"] == result[name][start:].min(axis=0)).all()
        assert (got[name + "_final"] == result[name][-1]).all()
    for a in axes:
        name = f"u{a}_non_staggered"
        wanted = read(result[name][start:])
        assert got[name].shape == wanted.shape
        assert abs(got[name] - wanted).max() < 1e-6 * abs(wanted).max()


@pytest.mark.parametrize("start", [0, 1, 2, 5, STEPS - 2])
@pytest.mark.parametrize("kind", ["index", "interpolation"])
def test_intensity(device, shape, kind, start):
    where, read = sensors(shape)[kind]
    got = record(device, shape, ["I_raw", "I_avg"], where, start, precision="double")
    result = fields(device, shape, np.float64)
    assert set(got) == {f"I{a}{end}" for a in AXES[problem_of(shape).dimensions] for end in ("", "_avg")}
    for a in AXES[problem_of(shape).dimensions]:
        # Rest before the run; after its end the velocity goes on as it was.
        u = read(result[f"u{a}_non_staggered"])
        u = np.concatenate([np.zeros((2, u.shape[1])), u, np.repeat(u[-1:], 3, axis=0)])
        between = sum(w * u[i : i + STEPS] for i, w in enumerate(WEIGHTS))
        wanted = (read(result["p"]) * between)[start:]
        assert got["I" + a].shape == wanted.shape
        assert abs(got["I" + a] - wanted).max() < 1e-12 * abs(wanted).max()
        np.testing.assert_allclose(
            got[f"I{a}_avg"], wanted.mean(axis=0), rtol=1e-10, atol=1e-12 * abs(wanted).max()
        )


class Calls(MemorySink):
    """Keeps the order and sizes of blocks as well."""

    def __init__(self):
        super().__init__()
        self.blocks, self.threads = [], set()

    def write_rows(self, name, first, block):
        super().write_rows(name, first, block)
        self.blocks.append((name, first, len(block)))
        self.threads.add(threading.current_thread())


@pytest.mark.parametrize("rows", [1, 2, 5, 8, STEPS - 1])
@pytest.mark.parametrize("start", [0, 4])
def test_blocks_of_rows(device, monkeypatch, rows, start):
    """However few rows fit, the series are the same; blocks come in order, on one other thread."""
    shape, quantities = SHAPES[0], ("p_raw", "p_max", "u_non_staggered_raw", "I_raw", "I_avg")
    where = sensors(shape)["index"][0]
    whole = record(device, shape, quantities, where, start)
    series, samples = 7, len(where)
    monkeypatch.setattr(recorder, "BLOCK_BYTES", rows * 2 * series * samples * 4)
    sink = Calls()
    got = record(device, shape, quantities, where, start, sink)
    for name in whole:
        assert (got[name] == whole[name]).all()
    for name in ("p", "uy_non_staggered", "Ix"):
        counts = [count for n, _, count in sink.blocks if n == name]
        firsts = [first for n, first, _ in sink.blocks if n == name]
        assert counts[:-1] == [rows] * (len(counts) - 1)
        assert 1 <= counts[-1] <= rows
        assert firsts == list(range(0, STEPS - start, rows))
        assert sum(counts) == STEPS - start
    (thread,) = sink.threads
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_a_row_larger_than_all_blocks(device, monkeypatch):
    monkeypatch.setattr(recorder, "BLOCK_BYTES", 1)
    where, read = sensors(SHAPES[0])["index"]
    sink = Calls()
    got = record(device, SHAPES[0], ("p_raw",), where, sink=sink)
    assert (got["p"] == read(fields(device, SHAPES[0])["p"])).all()
    assert [count for *_, count in sink.blocks] == [1] * STEPS


class Failing(MemorySink):
    """Breaks at a row."""

    def __init__(self, at):
        super().__init__()
        self.at, self.abandoned, self.finished = at, [], False

    def write_rows(self, name, first, block):
        if first + len(block) > self.at:
            raise OSError(28, "No space left on device")

    def finish(self, arrays, report):
        self.finished = True

    def abandon(self, keep):
        self.abandoned.append(keep)


@pytest.mark.parametrize("at", [0, 9, STEPS - 1])
@pytest.mark.parametrize("rows", [1, 4, STEPS])
def test_an_error_of_the_sink_ends_the_run(device, monkeypatch, at, rows):
    """Also one in the very last block, which is written after the last step."""
    where = sensors(SHAPES[0])["index"][0]
    monkeypatch.setattr(recorder, "BLOCK_BYTES", rows * 2 * len(where) * 4)
    sink = Failing(at)
    with pytest.raises(OSError, match="No space left"):
        record(device, SHAPES[0], ("p_raw",), where, sink=sink)
    assert not sink.finished
    assert sink.abandoned == [False]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("wavefabric-writer")]


def test_no_sensor(device):
    got = record(device, SHAPES[0], ("p_final", "p_max_all"))
    assert set(got) == {"p_final", "p_max_all"}


def test_an_empty_sensor(device):
    got = record(device, SHAPES[0], ("p_raw", "p_max", "I_avg"), np.zeros(0, np.int64))
    assert got["p"].shape == (STEPS, 0)
    assert got["p_max"].shape == got["Ix_avg"].shape == (0,)


def test_layout():
    shape = SHAPES[0]
    where = sensors(shape)["cuboids"][0]
    result = recorder.layout_of(
        problem_of(shape), Recording(("p_raw", "u_max", "I_avg", "u_final"), where, 5), np.float64
    )
    samples = 4 * 4 * 4 + 14 + 1
    assert result.series == {"p": (STEPS - 5, samples)}
    assert result.points == {n: samples for n in ("ux_max", "uy_max", "uz_max", "Ix_avg", "Iy_avg", "Iz_avg")}
    assert result.fields == ("ux_final", "uy_final", "uz_final")
    assert result.dtype == np.float64


def test_rms_of_a_long_run_keeps_its_digits():
    """A sum of squares in single precision would lose digits from the first thousand steps on."""
    kernels = get_device("cpu", threads=1).kernels(TABLE)
    target, values = np.zeros(1), np.full(1, 0.1, np.float32)
    for _ in range(5000):
        kernels.add_squares(target, values)
    assert np.sqrt(target[0] / 5000) == pytest.approx(float(np.float32(0.1)), rel=1e-13)

"""Which stages serve which problem, and the memory they take."""

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from emulated_device import EmulatedDevice
from random_problems import points, pressure_source, problem, transducer, velocity_source

from wavefabric.acoustics.choose_stages import CUDA, advice, make_stages, needed_bytes
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.acoustics.problem import Recording
from wavefabric.acoustics.recording import recorder
from wavefabric.acoustics.recording.recorder import Recorder
from wavefabric.acoustics.recording.sinks import MemorySink
from wavefabric.acoustics.solver.stages import PlainStages
from wavefabric.runtime.device import get_device
from wavefabric.runtime.device.cpu import CpuDevice

SHAPE = (40, 36, 30)


def test_stages_on_a_cpu(cpu):
    from wavefabric.acoustics.fused.fused_cpu import FusedCpuStages

    for shape in [(24, 20, 18), (13, 17, 11), (8, 8, 2), (24, 37, 1), (51, 1, 1)]:
        assert type(make_stages(cpu, problem(shape, pml=False), np.float32)) is FusedCpuStages
    assert type(make_stages(cpu, problem((24, 20, 18)), np.float32, plain=True)) is PlainStages


@pytest.mark.gpu
def test_stages_on_a_gpu():
    from wavefabric.acoustics.fused.fused_cuda import FusedCudaStages

    gpu = get_device("cuda")
    for dtype in (np.float32, np.float64):
        for shape in [(24, 20, 18), (13, 20, 18), (25, 20, 1)]:
            assert type(make_stages(gpu, problem(shape), dtype)) is FusedCudaStages
        assert type(make_stages(gpu, problem((24, 1, 1)), dtype)) is PlainStages
    assert type(make_stages(gpu, problem((24, 20, 18)), np.float32, plain=True)) is PlainStages


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_grids_of_the_fused_stages_for_a_gpu(dtype):
    """Of every length whose transforms fit in a block."""
    slabs, blocks = Decomposition("global"), Decomposition("local", (2, 1, 1), overlap=5)
    for shape, fused in [
        ((24, 20, 18), True),
        ((70, 35, 27), True),
        ((35, 20, 18), True),
        ((25, 21, 27), True),
        ((22, 20, 18), True),
        ((24, 22, 18), True),
        ((24, 20, 17), True),
        ((24, 1511, 18), False),  # a convolution of too many points
    ]:
        assert CUDA["one"].supports(decompose(shape, 1), dtype) == fused
        if shape[1] < 100:
            assert CUDA["global"].supports(decompose(shape, 2, slabs), dtype) == fused
    # Of a block it is the points with its overlaps that count: 20 + 10, 25 + 10, 21 + 10.
    for nx, fused in [(40, True), (50, True), (41, True)]:
        assert CUDA["local"].supports(decompose((nx, 40, 40), 2, blocks), dtype) == fused


def test_advice():
    """Said where the grid keeps a GPU from the fused stages."""
    gpu = SimpleNamespace(name="cuda:0")
    for shape in [(24, 20, 18), (24, 27, 21), (22, 26, 1), (25, 20, 18), (23, 20, 1)]:
        assert advice(gpu, problem(shape), np.float32) == []
    for shape, across in [((24, 3079, 18), "y and z"), ((4547, 20, 1), "y")]:
        (note,) = advice(gpu, problem(shape), np.float32)
        points = " x ".join(str(n) for n in shape if n > 1)
        assert note.startswith(f"transforms of whole arrays of {points} points; ")
        most = f"of at most 13630 points along x (half as many if odd) and 3072 along {across}"
        assert note.endswith(f"{most} (half as many with prime factors above 13)")
    shape = (24, 24, 24)
    (note,) = advice(gpu, problem(shape), np.float32, decompose(shape, 4, Decomposition("global", (1, 2, 2))))
    assert "take grids in slabs along z of at most" in note
    assert advice(gpu, problem(shape), np.float32, decompose(shape, 4, Decomposition("global"))) == []
    cpu = get_device("cpu", threads=1)
    assert advice(cpu, problem((24, 37, 18)), np.float32) == []
    assert (
        advice(cpu, problem((24, 37, 18)), np.float32, decompose((24, 37, 18), 2, Decomposition("global")))
        == []
    )


def test_a_medium_by_index():
    """Said and counted where it is held so: on a GPU, by the fused stages."""
    gpu, recording = EmulatedDevice(), Recording(())
    more = dict(nonlinearity=True, absorption="power_law", mixed="crba")
    few, many = (problem(SHAPE, materials=materials, **more) for materials in (3, 0))
    (note,) = advice(gpu, few, np.float32)
    assert note.endswith(" of 3 materials: held as an index of 8 bits")
    assert advice(gpu, many, np.float32) == []
    assert advice(get_device("cpu", threads=1), few, np.float32) == []
    plain = problem((25, 1511, 2), materials=3, mixed="c")
    assert advice(gpu, plain, np.float32)[0].startswith("transforms of")
    saved = needed_bytes(many, recording, np.float32, gpu) - needed_bytes(few, recording, np.float32, gpu)
    # Seven grids of floats or one of bytes; 81 rows of four columns and three.
    assert saved == (7 * 4 - 1) * few.points - 81 * 7 * 4
    # Each part of a grid as if it had all materials.
    cut = decompose(SHAPE, 2, Decomposition("global"))
    saved = needed_bytes(many, recording, np.float32, gpu, cut) - needed_bytes(
        few, recording, np.float32, gpu, cut
    )
    assert saved == (7 * 4 - 1) * few.points // 2 - 81 * 7 * 4


class Counting(CpuDevice):
    """Knows which of the arrays that it gave are still alive."""

    def __init__(self):
        super().__init__(1)
        self.inputs = []

    def _note(self, array):
        self.inputs.append((weakref.ref(array), array.nbytes))
        return array

    def empty(self, shape, dtype):
        return self._note(super().empty(shape, dtype))

    def zeros(self, shape, dtype):
        return self._note(super().zeros(shape, dtype))

    def asarray(self, array, dtype=None):
        out = super().asarray(array, dtype)
        return out if out is array else self._note(out)

    def alive(self):
        gc.collect()
        return sum(size for array, size in self.inputs if array() is not None)


POWER = dict(absorption="power_law")
MEMORY = {
    "lossless": (SHAPE, {}, ()),
    "2-D": ((180, 160, 1), dict(mixed="cr"), ("p_max",)),
    "2-D, all": ((180, 160, 1), dict(mixed="crba", nonlinearity=True, **POWER), ("u_max_all",)),
    "mixed": (SHAPE, dict(mixed="crb", nonlinearity=True), ("p_final",)),
    "power law": (SHAPE, POWER, ()),
    "all": (SHAPE, dict(mixed="crba", nonlinearity=True, **POWER), ("p_max_all", "u_min_all")),
    "no dispersion": (SHAPE, dict(mixed="a", absorption="power_law", dispersion=False), ()),
    "Stokes": (SHAPE, dict(mixed="ca", absorption="stokes"), ()),
    "series": (SHAPE, {}, ("p_raw", "u_raw")),
    "intensity": (SHAPE, {}, ("I_avg",)),
    "non-staggered": (SHAPE, {}, ("u_non_staggered_raw",)),
    "sources": (
        SHAPE,
        dict(
            initial=0,
            pressure_source=pressure_source(SHAPE, "additive"),
            velocity_source=velocity_source(SHAPE, "additive"),
            transducer=transducer(SHAPE),
        ),
        (),
    ),
    "patterns": (SHAPE, dict(initial=0, pressure_source=pressure_source(SHAPE, "additive", 1)), ("p_rms",)),
    "points": (SHAPE, dict(initial=0, velocity_source=velocity_source(SHAPE, "dirichlet")), ("p_rms",)),
}  # fmt: skip


@pytest.mark.parametrize("name", MEMORY)
@pytest.mark.parametrize(
    "dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)], ids=["single", "double"]
)
def test_needed_bytes(monkeypatch, name, dtype):
    """Within 15 % of all arrays that a run holds."""
    shape, more, quantities = MEMORY[name]
    inputs, device = problem(shape, steps=20, **more), Counting()
    recording = Recording(quantities, points(shape, 500))
    monkeypatch.setattr(recorder, "BLOCK_BYTES", 2 * 4 * 500 * 4 * 10)
    stages = make_stages(device, inputs, dtype)
    kept = Recorder(stages, recording, MemorySink())
    held = device.alive()
    assert kept.samples == 500
    assert needed_bytes(inputs, recording, dtype, device) == pytest.approx(held, rel=0.15)

"""Disks that become full while a file is written: one line that names the file, and nothing left behind.

A limit on the size of files fails like a full disk, for everybody and at any byte.
"""

import contextlib
import resource
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from random_graphs import Wire

from plugins.nccl_tuner.tuner import NCCLTuning, write_plugin
from wavefabric import collectives
from wavefabric.acoustics import Grid, Medium, Sensor, Source, run_kwave_file, simulate
from wavefabric.acoustics.kwave.input import write_input
from wavefabric.acoustics.pictures.movie import Movie, draw_movie
from wavefabric.acoustics.pictures.recorded import open_recorded
from wavefabric.acoustics.simulation import to_problem
from wavefabric.acoustics.transcranial.ct import CT, write_ct
from wavefabric.acoustics.transcranial.plan import _store
from wavefabric.base.errors import InputError
from wavefabric.base.files.output import save_figure, write_text
from wavefabric.base.results import Data, ResultWriter, Rows
from wavefabric.base.results.lock import FileLock
from wavefabric.cli.common.files import write_all
from wavefabric.cli.common.rank_session import show_measurement
from wavefabric.collectives.formats.msccl.write import save_msccl
from wavefabric.collectives.formats.mscclpp.write import save_mscclpp
from wavefabric.fabric import load
from wavefabric.fabric.draw.pictures import draw_circuits, draw_fabric
from wavefabric.fabric.io.files import save as save_fabric
from wavefabric.fabric.photonic.planning import plan_circuits
from wavefabric.report import write_report
from wavefabric.runtime.lifecycle.checkpoint import file as checkpoint_file
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints
from wavefabric.training.gpu.device_file import save_device
from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.iteration.simulate import simulate_tasks
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.traces.chakra import write_chakra
from wavefabric.training.traces.perfetto import write_perfetto


@contextlib.contextmanager
def most_bytes(size):
    """No file becomes larger than this inside; writing more fails, as Python ignores SIGXFSZ."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


SETTING = Grid((16, 12), 1e-4, pml_size=3), Medium(1500.0, 1000.0), Source(p0=np.ones((16, 12)))
BOX = Sensor.boxes(((1, 2), (9, 7)), record=("p", "p_max", "p_final"))
STEPS = {"dt": 2e-8, "steps": 12}
CPU = {"device": "cpu", "threads": 1}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """What some writers read."""
    folder = tmp_path_factory.mktemp("inputs")
    problem, recording = to_problem(*SETTING, BOX, *STEPS.values())
    write_input(folder / "in.h5", problem, recording.where)
    simulate(*SETTING, BOX, **STEPS, **CPU, output=folder / "wave.h5")
    return folder


def result(folder, inputs):
    row = np.arange(1000.0)
    groups = {f"g{k}": {"x": Data(np.arange(200.0 + k), "m", "numbers")} for k in range(30)}
    rows = Data(Rows((20, 1000), row.dtype, lambda i: row + i), "W", "rows")
    payload = {"rows": rows, "text": Data(["a", "b"], "", "words"), **groups}
    return ResultWriter(folder / "a.h5").write(payload, "x")


def kwave_output(compression):
    def write(folder, inputs):
        how = {"record": ("p", "p_max_all"), "compression": compression, **CPU}
        run_kwave_file(inputs / "in.h5", folder / "a.h5", **how)

    return write


def kwave_input(folder, inputs):
    write_input(folder / "a.h5", to_problem(*SETTING, BOX, *STEPS.values())[0], None)


def measurement(folder, inputs):
    show_measurement(
        SimpleNamespace(table=lambda result: []), {"benchmark": "x"}, True, folder / "new", False
    )


def ct(folder, inputs):
    pytest.importorskip("nibabel")
    write_ct(CT(np.arange(216.0).reshape(6, 6, 6), np.eye(4)), folder / "a.nii.gz")


def series_beside_a_checkpoint(folder, inputs):
    simulate(*SETTING, BOX, **STEPS, **CPU, checkpoint=Checkpoints(folder / "a.checkpoint"))


def tasks():
    graph = TaskGraph(2, program=[[0, 2], [1]])
    for name, worker in (("a", 0), ("b", 1), ("c", 0)):
        graph.compute("forward", name, worker, 1.0, [], -1)
    return graph


def iteration():
    return simulate_tasks(tasks(), Wire())


RING = collectives.ring_all_reduce(4, 8)


def picture():
    figure = Figure()
    figure.add_subplot().plot(np.arange(9) ** 2)
    return figure


def movie(folder, inputs):
    with open_recorded(inputs / "wave.h5") as recorded:
        draw_movie(Movie(recorded, "p/0", 6), folder / "a.gif")


def circuits(ending):
    def write(folder, inputs):
        draw_circuits(RING, plan_circuits(RING, load("lightpath:2x2")), folder / f"a{ending}", most=1)

    return write


WRITERS = {
    "result": result,
    "simulate": lambda folder, inputs: simulate(*SETTING, BOX, **STEPS, **CPU, output=folder / "a.h5"),
    "kwave output": kwave_output(0),
    "kwave output, compressed": kwave_output(3),
    "kwave input": kwave_input,
    "lock": lambda folder, inputs: FileLock(folder / "a").release() or (folder / "a").write_bytes(b""),
    "text": lambda folder, inputs: write_text(folder / "a.json", "{}\n" * 5000, "output"),
    "several texts": lambda folder, inputs: write_all({folder / "a": "x" * 100, folder / "b": "y" * 9000}),
    "measurement": measurement,
    "png": lambda folder, inputs: save_figure(picture(), folder / "a.png"),
    "svg": lambda folder, inputs: save_figure(picture(), folder / "a.svg"),
    "pdf": lambda folder, inputs: save_figure(picture(), folder / "a.pdf"),
    "movie": movie,
    "circuits, gif": circuits(".gif"),
    "circuits, html": circuits(".html"),
    "fabric, png": lambda folder, inputs: draw_fabric(load("lightpath:2x2"), folder / "a.png"),
    "page": lambda folder, inputs: write_report(inputs / "wave.h5", folder / "a.html"),
    "ct": ct,
    "kept run": lambda folder, inputs: _store(folder / "a.npz", {"a": np.arange(5000.0)}),
    "chakra": lambda folder, inputs: write_chakra(folder / "a", tasks()),
    "perfetto": lambda folder, inputs: write_perfetto(folder / "a.json", iteration()),
    "schedule": lambda folder, inputs: collectives.save(folder / "a.json", RING),
    "msccl": lambda folder, inputs: save_msccl(folder / "a.xml", RING),
    "mscclpp": lambda folder, inputs: save_mscclpp(folder / "a.json", RING),
    "fabric": lambda folder, inputs: save_fabric(folder / "a.toml", load("hgx-h200")),
    "device": lambda folder, inputs: save_device(folder / "a.toml", DEVICES["h100"]),
    "nccl plugin": lambda folder, inputs: write_plugin(folder / "new", NCCLTuning(2, 1, "x", [])),
    "series beside a checkpoint": series_beside_a_checkpoint,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, inputs, name):
    write = WRITERS[name]
    folder = tmp_path / "whole"
    folder.mkdir()
    write(folder, inputs)
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    for limit in sorted({0, max(sizes) // 2, max(sizes) - 1}) if any(sizes) else (0, 50):
        folder = tmp_path / f"most {limit}"
        folder.mkdir()
        with most_bytes(limit), pytest.raises(InputError) as caught:
            write(folder, inputs)
        said = str(caught.value)
        assert "\n" not in said
        assert str(folder) in said or "failed (" in said  # a compiler, in a folder of its own
        assert "File too large" in said or "space" in said or "limit exceeded" in said
        assert list(folder.iterdir()) == []
    write(folder, inputs)  # the process is as before


def test_what_was_there_stays(tmp_path, inputs):
    ResultWriter(tmp_path / "a.h5").write({"x": Data(1.0, "", "one")})
    before = (tmp_path / "a.h5").read_bytes()
    payload = {"x": Data(np.arange(1e5), "", "many")}
    with most_bytes(9000), pytest.raises(InputError, match=r"output\.file: .*a\.h5 cannot be written"):
        ResultWriter(tmp_path / "a.h5", force=True).write(payload)
    assert (tmp_path / "a.h5").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.h5"]


def test_rows_are_not_made_for_a_disk_that_is_full(tmp_path):
    made = []
    rows = Rows((1000, 1000), np.dtype(float), lambda i: made.append(i) or np.zeros(1000))
    with most_bytes(100_000), pytest.raises(InputError):
        ResultWriter(tmp_path / "a.h5").write({"rows": Data(rows, "", "rows")})
    assert len(made) < 30


@pytest.mark.parametrize("limit", [0, 100, 5000])
def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path, limit):
    path = tmp_path / "a.checkpoint"
    checkpoint_file.save(path, {"a": np.arange(9.0)}, {"step": 1}, "f")
    with most_bytes(limit), pytest.raises(OSError, match=r"File too large: .*a\.checkpoint"):
        checkpoint_file.save(path, {"a": np.arange(9000.0)}, {"step": 2}, "f")
    arrays, state = checkpoint_file.load(path, "f")
    assert state == {"step": 1}
    assert arrays["a"].tolist() == list(range(9))
    assert [file.name for file in tmp_path.iterdir()] == ["a.checkpoint"]

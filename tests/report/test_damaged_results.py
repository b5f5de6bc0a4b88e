"""Result files with flipped bits, or cut short: a page and figures, or one line that names the file."""

import contextlib
import random
import re

import h5py
import numpy as np
import pytest
from report_cases import LINK, wave

from wavefabric.acoustics.pictures.plot_recorded import plot_recorded
from wavefabric.acoustics.pictures.recorded import open_recorded
from wavefabric.base.errors import InputError
from wavefabric.cli import main
from wavefabric.optics import run_link, sweep
from wavefabric.optics.link.figures import plot_result
from wavefabric.optics.sweeps.figures import plot_sweep
from wavefabric.optics.sweeps.result import read_sweep
from wavefabric.report import write_report
from wavefabric.report.page import read_content

KWAVE = "dirichlet_2d_out.h5"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A small result of each kind."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "link.toml").write_text(LINK)
    run_link(folder / "link.toml", folder / "link.h5")
    sweep(folder / "link.toml", {"signal.launch_power": ["-2 dBm", "0 dBm"]}, folder / "sweep.h5")
    wave(folder / "wave.h5", record=("p_max_all", "p_final"))
    return folder


def draw(path, folder):
    """What `plot` draws."""
    if (recorded := open_recorded(path)) is not None:
        with recorded:
            plot_recorded(
                recorded, {name: folder / f"{name.replace('/', '-')}.png" for name in recorded.items}
            )
    elif path.name.startswith("sweep"):
        plot_sweep(read_sweep(path), folder)
    else:
        plot_result(path, folder)


def damaged(whole, seed):
    """Bytes of a file with a few bits flipped, most of them in its structure; every fifth is cut short."""
    numbers, data = random.Random(seed), bytearray(whole)
    for _ in range(numbers.choice((1, 3, 20))):
        at = numbers.randrange(len(data) if numbers.random() < 0.5 else min(len(data), 4096))
        data[at] ^= 1 << numbers.randrange(8)
    return bytes(data[: numbers.randrange(len(data))] if seed % 5 == 0 else data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["link", "sweep", "wave"])
def test_flipped_bits_are_one_line_or_nothing(files, tmp_path, kind):
    whole, path, said = (files / f"{kind}.h5").read_bytes(), tmp_path / f"{kind}.h5", []
    for seed in range(40):
        path.write_bytes(damaged(whole, seed))
        try:
            read_content(path)
        except InputError as error:
            said.append(str(error))
    assert all(str(path) in text and "\n" not in text for text in said)
    assert 5 < len(said) < 40


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["link", "sweep", "wave"])
def test_figures_of_flipped_bits(files, tmp_path, kind):
    whole, path = (files / f"{kind}.h5").read_bytes(), tmp_path / f"{kind}.h5"
    for seed in range(100, 140):
        path.write_bytes(damaged(whole, seed))
        with contextlib.suppress(InputError):
            draw(path, tmp_path)


def put(name, **dataset):
    def change(file):
        if name in file:
            del file[name]
        file.create_dataset(name, **dataset)

    return change


def attribute(name, value):
    return lambda file: file.attrs.__setitem__(name, value)


def groups(file):
    """Ten thousand groups inside each other."""
    group = file
    for _ in range(10_000):
        group = group.create_group("g")


def circle(file):
    for k in range(3):
        file[f"loop{k}"] = file["/"]


BOMB = {"shape": (80_000_000,), "dtype": "f8", "chunks": (1_000_000,), "compression": "gzip", "data": None}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("link", attribute("device", ["cpu", "cuda"]), None),
        ("link", attribute("format", ["wavefabric result"] * 2), "HDF5, but no result"),
        ("link", attribute("format", h5py.Empty("S1")), "HDF5, but no result"),
        ("link", attribute("note", b"\xff\xfe"), None),
        ("link", put("received/span_1/q_squared_db", data=h5py.Empty("f8")), "is no dataset with values"),
        ("link", put("received/span_1/q_squared_db", data=["a", "b"]), "damaged"),
        ("link", put("solver/warnings", data=np.zeros((2, 3))), None),
        ("link", put("run_file", data=[b"a", b"b"]), None),
        ("link", put("fibre/labels", shape=(3,), dtype=h5py.vlen_dtype("f8")), None),
        ("link", groups, "allowed: up to"),
        ("link", circle, None),
        ("wave", put("grid/spacing", data=np.zeros(3_000_000)), "takes 22.9 MiB of memory"),
        ("wave", put("grid/spacing", shape=(80_000_000,), dtype="f8", chunks=(1_000_000,)), "were written"),
        ("wave", put("grid/shape", data=np.zeros((3, 3), int)), "damaged|takes"),
        ("wave", put("grid/dt", data="soon"), "damaged|takes"),
        ("wave", put("cost/steps", data=h5py.Empty("i8")), "is no dataset with values"),
        ("wave", put("recorded/p_final", data=np.zeros((20, 16, 12), complex)), None),
        ("sweep", put("position", data=1.0), None),
        ("sweep", attribute("axes", "a b"), "holds no axes"),
    ],
)
def test_what_a_result_cannot_hold(files, tmp_path, kind, change, words):
    path = tmp_path / f"{kind}.h5"
    path.write_bytes((files / path.name).read_bytes())
    with h5py.File(path, "r+") as file:
        change(file)
    said = ""
    try:
        write_report(path)
    except InputError as error:
        said = str(error)
    assert (not said) if words is None else re.search(words, said), said
    assert "\n" not in said
    assert len(said) < 500
    with contextlib.suppress(InputError):
        draw(path, tmp_path)


def test_a_folder_with_bad_files_has_all_the_others(files, tmp_path, capsys):
    good = (files / "link.h5").read_bytes()
    (tmp_path / "good.h5").write_bytes(good)
    (tmp_path / "cut.h5").write_bytes(good[:20_000])
    (tmp_path / "odd.json").write_text('{"kind": "wavefabric plan", "plan": 3}')
    (tmp_path / "bits.h5").write_bytes(good[:900] + b"\xff" * 500 + good[1400:])
    with pytest.raises(SystemExit) as left:
        main(["report", str(tmp_path)])
    assert not left.value.code
    page = (tmp_path / "index.html").read_text()
    assert page.count("damaged") >= 2
    assert {file.name for file in tmp_path.glob("*.html")} == {
        "index.html", "good.html", "cut.html", "odd.html", "bits.html"
    }  # fmt: skip


def test_names_that_are_no_utf8(files, tmp_path, capfd):
    bad = tmp_path / "a\udcff.h5"
    bad.write_bytes((files / "link.h5").read_bytes())
    (tmp_path / "good.h5").write_bytes(bad.read_bytes())
    with pytest.raises(SystemExit) as left:
        main(["report", str(tmp_path)])
    assert not left.value.code
    assert len(list(tmp_path.glob("*.html"))) == 3
    with pytest.raises(SystemExit) as left:
        main(["plot", str(bad), "-o", str(tmp_path / "figures")])
    assert left.value.code in (0, 2)
    assert "Traceback" not in capfd.readouterr().err

"""Every kind of result file names its dimensions by netCDF's scales: xarray makes up no names."""

from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, ThermalMedium, heat, simulate_and_gradient
from wavefabric.base.results import read_result
from wavefabric.optics import sweep
from wavefabric.optics.link.run import run_link

GOLDENS = Path(__file__).parents[1] / "goldens"
GRID = Grid((12, 10), "0.2 mm", pml_size=2)


def link(path):
    run_link(GOLDENS / "link.toml", output=path)
    return {"mode", "channel", "spectrum_frequency", "distance", "polarisation", "symbol", "sample", "order"}


def swept(path):
    sweep(GOLDENS / "link.toml", {"solver.step": ["800 m", "400 m"]}, output=path)
    return {"solver.step", "position", "mode", "channel"}


def gradient(path):
    mask = np.zeros(GRID.shape, bool)
    mask[3] = True
    p, medium = np.ones((10, 8)), Medium(1500.0, 1000.0)
    options = {"dt": 2e-8, "steps": 8, "device": "cpu", "threads": 1}

    def objective(results):
        return float((results["p"] ** 2).sum()), {"p": 2 * results["p"]}

    source, sensor = Source(p_mask=mask, p=p), Sensor(mask)
    parameters = ("p", "sound_speed", "density")
    simulate_and_gradient(GRID, medium, source, sensor, objective, parameters, **options).save(path)
    return {"p_0", "p_1"}


def heating(path):
    tissue = ThermalMedium(density=1000.0, specific_heat=4000.0, conductivity=0.5, perfusion_rate=0.0)
    mask = np.zeros(GRID.shape, bool)
    mask[3] = True
    heat(GRID, tissue, 1e5, [(1, 1)], sensor=Sensor(mask), device="cpu", threads=1).save(path)
    return {"x", "y", "point", "time", "axis"}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("make", [link, swept, gradient, heating])
def test_kinds_of_results(make, tmp_path):
    path = tmp_path / "r.h5"
    expected, dims = make(path), set()

    def visit(name, item):
        groups = name.split("/")[:-1]
        around = {"/" + "/".join(groups[:depth]) for depth in range(len(groups) + 1)}
        if isinstance(item, h5py.Dataset) and not item.is_scale:
            for dim in item.dims:
                (scale,) = dim.values()
                assert scale.parent.name in around
                assert scale.shape == (item.shape[len(dims_of.setdefault(name, []))],)
                dims_of[name].append(scale.name.rpartition("/")[2])

    dims_of: dict[str, list[str]] = {}
    with h5py.File(path) as file:
        file.visititems(visit)
    result = read_result(path)
    for name, dims_stored in dims_of.items():
        assert result.dims(name) == tuple(dims_stored)
        dims |= {*dims_stored}
    assert expected <= dims | {key for key in result if result.dims(key) == (key.rpartition("/")[2],)}
    if find_spec("xarray") is None or find_spec("h5netcdf") is None:
        return
    import xarray

    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        names = {name for node in tree.subtree for name in node.dataset.dims}
    assert not [name for name in names if "phony" in name]
    assert expected <= names

"""Fields along the link: where they were taken, what they hold, what is kept and refused."""

import numpy as np
import pytest
from pydantic import ValidationError

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.base.system.progress import Progress
from wavefabric.optics.link.run import run_link
from wavefabric.optics.run_file.load import RunFile
from wavefabric.runtime.exchange import solo


def settings(snapshots, **output):
    """Two spans of 10 km in steps of 1 km; a look every 2 km."""
    return RunFile.model_validate(
        {
            "fibre": {"preset": "single-mode", "attenuation": "0.2 dB/km"},
            "link": {"length": 10e3, "spans": 2},
            "signal": {
                "symbol_rate": 32e9,
                "symbols": 64,
                "samples_per_symbol": 4,
                "launch_power": 1e-3,
                "channels": 1,
                "centre_frequency": 193.4e12,
            },
            "solver": {"step": 1e3},
            "output": {"power_every": 2e3, "figures": False, "snapshots": snapshots} | output,
        }
    )


def run(cpu, path, *inputs, comm=None, progress=None, force=False, **output):
    how = {"comm": comm or solo(cpu), "progress": progress, "force": force, "warn": lambda _: None}
    run_link(settings(*inputs, **output), path, **how)


def test_fields_are_written_where_they_are_due(cpu, tmp_path):
    """At 4 km; at the look behind 4.5 km; in the second span; at the end before the amplifier."""
    run(cpu, tmp_path / "out.h5", [4e3, 4.5e3, 14e3, 20e3])
    taken = {name: read_result(tmp_path / f"out-{name}km.h5") for name in ("4", "4.5", "14", "20")}
    assert [each.attrs()["distance_m"] for each in taken.values()] == [4e3, 6e3, 14e3, 20e3]
    along = read_result(tmp_path / "out.h5")
    for each in taken.values():
        power = (abs(each["field"]) ** 2).sum(axis=0).mean()
        (at,) = np.flatnonzero(along["along_z/distance"] == each.attrs()["distance_m"])[:1]
        assert power == pytest.approx(along["along_z/power"][at, 0], rel=1e-12)


def test_an_interrupted_run_keeps_its_own(cpu, tmp_path):
    class Stopping(Progress):
        def update(self, done, note=""):
            if "z = 13" in note:
                raise KeyboardInterrupt

    checkpoints = {"checkpoint_interval": 0.0}
    with pytest.raises(KeyboardInterrupt):
        run(cpu, tmp_path / "out.h5", [4e3, 16e3], progress=Stopping(), **checkpoints)
    before = (tmp_path / "out-4km.h5").stat().st_mtime_ns
    assert not (tmp_path / "out-16km.h5").exists()
    run(cpu, tmp_path / "out.h5", [4e3, 16e3], **checkpoints)
    assert (tmp_path / "out-4km.h5").stat().st_mtime_ns == before
    assert read_result(tmp_path / "out-16km.h5").attrs()["distance_m"] == 16e3


def test_files_of_others_are_refused(cpu, tmp_path):
    run(cpu, tmp_path / "out.h5", [4e3])
    (tmp_path / "out.h5").unlink()
    with pytest.raises(InputError, match=r"out-4km\.h5 exists"):
        run(cpu, tmp_path / "out.h5", [4e3], save_field=True, power_every=1e3)
    run(cpu, tmp_path / "out.h5", [4e3], power_every=1e3, force=True)
    with pytest.raises(ValidationError, match=r"output\.snapshots: 30000 m given, the link ends at 20000 m"):
        settings([30e3])


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_rows_of_all_ranks(comm, tmp_path_factory):
    folder = comm.control.bcast(str(tmp_path_factory.mktemp("snapshots")))
    fibre = {"preset": "graded-index-62.5", "groups": 2}
    inputs = settings([6e3]).model_dump(exclude_unset=True) | {"fibre": fibre}
    two = RunFile.model_validate(inputs)
    run_link(two, f"{folder}/two.h5", comm=comm, warn=lambda _: None)
    if comm.rank == 0:
        run_link(
            RunFile.model_validate(inputs), f"{folder}/one.h5", comm=solo(comm.device), warn=lambda _: None
        )
        one, two = (read_result(f"{folder}/{name}-6km.h5")["field"] for name in ("one", "two"))
        assert abs(one - two).max() < 1e-12 * abs(one).max()
    comm.control.barrier()

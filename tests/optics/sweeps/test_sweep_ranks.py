"""A sweep over ranks: points of their own, or all ranks on each."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.optics import sweep
from wavefabric.optics.link import run as links
from wavefabric.runtime.exchange import solo


@pytest.mark.parallel(2)
@pytest.mark.slow
def test_each_rank_runs_points_of_its_own(comm, shared_run_file, monkeypatch):
    folder, axes = shared_run_file.parent, {"signal.launch_power": "0:8:4 dBm", "solver.step": "2 km, 4 km"}
    runs = []
    plain = links._Link.run
    monkeypatch.setattr(links._Link, "run", lambda link: runs.append(link.writer.path) or plain(link))
    result = sweep(shared_run_file, axes, folder / "apart.h5", comm=comm)
    everybody = comm.control.all_gather(runs)
    assert [len(each) for each in everybody] == [3, 3]
    assert len(set(everybody[0] + everybody[1])) == 6
    if comm.rank == 0:
        one = sweep(shared_run_file, axes, folder / "one.h5", comm=solo(comm.device))
        for name in ("q_squared_db", "evm", "delay", "local_error", "energy_drift", "steps"):
            assert np.array_equal(one[name], result[name], equal_nan=True), name
        assert sorted(path.name for path in folder.iterdir()) == ["apart.h5", "link.toml", "one.h5"]
    comm.control.barrier()


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_all_ranks_run_each_point(comm, shared_run_file):
    folder, axes = shared_run_file.parent, {"signal.launch_power": "0:4:4 dBm"}
    result = sweep(shared_run_file, axes, folder / "together.h5", comm=comm, together=True)
    if comm.rank == 0:
        one = sweep(shared_run_file, axes, folder / "one.h5", comm=solo(comm.device))
        np.testing.assert_allclose(result["q_squared_db"], one["q_squared_db"], rtol=1e-9)
        assert read_result(result.path).attrs()["axes"] == "signal.launch_power"
        assert sorted(path.name for path in folder.iterdir()) == ["link.toml", "one.h5", "together.h5"]
    comm.control.barrier()


@pytest.mark.parallel(2)
def test_ranks_agree_on_the_points(comm, shared_run_file):
    with pytest.raises(InputError, match="points: rank 0 has"):
        sweep(shared_run_file, {"seed": [1, 2 + comm.rank]}, comm=comm)

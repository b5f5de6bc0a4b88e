"""A run file over ranks: the same Q² as with one, checkpoints, Ctrl-C, and what is refused."""

import os
import signal

import numpy as np
import pytest

from wavefabric.base.errors import FieldLost, InputError
from wavefabric.base.results import read_result
from wavefabric.optics.link import run as links
from wavefabric.optics.run_file import load
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RankCheckpoint

RUN = """\
seed = 3
[fibre]
preset = "graded-index-62.5"
groups = {groups}
[link]
length = "40 km"
spans = 2
noise_figure = "5 dB"
mix_groups = {mix}
[signal]
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 16
launch_power = "6 dBm"
channels = 2
spacing = "50 GHz"
centre_frequency = "193.4 THz"
[receiver]
osnr = "20 dB"
[solver]
step = "{step}"
exchange = "{exchange}"
[output]
save_field = true
figures = false
checkpoint_every = 5
checkpoint_interval = "0 s"
"""


@pytest.fixture
def folder(comm, tmp_path_factory):
    """One folder for all ranks."""
    return comm.control.bcast(tmp_path_factory.mktemp("link") if comm.rank == 0 else None)


def parsed(comm, folder, mix=False, step="2 km", exchange="auto", groups=3):
    if comm.rank == 0:
        text = RUN.format(mix=str(mix).lower(), step=step, exchange=exchange, groups=groups)
        (folder / "run.toml").write_text(text)
    comm.control.barrier()
    return load.load(folder / "run.toml").with_solver(device="cpu", threads=1)


def received_q2(result):
    names = ("back_to_back", "span_1", "span_2")
    return {name: result[f"received/{name}/q_squared_db"] for name in names}


@pytest.mark.parallel(2)
@pytest.mark.parametrize(
    ("mix", "exchange"),
    [(True, "auto"), *(pytest.param(False, form, marks=pytest.mark.slow) for form in ("auto", "dense"))],
)
def test_a_run_file_over_ranks_is_that_of_one(comm, folder, mix, exchange):
    # Half of 10 modes lies inside the third group, which is not cut if its modes mix.
    run = parsed(comm, folder, mix, exchange=exchange, groups=4 if mix else 3)
    done = links.run_link(run, folder / "ranks.h5", comm=comm)
    assert done.path == folder / "ranks.h5"
    assert bool(done.payload) == (comm.rank == 0)
    if comm.rank:
        return
    links.run_link(run, folder / "one.h5")
    ranks, one = read_result(folder / "ranks.h5"), read_result(folder / "one.h5")
    assert sorted(ranks) == sorted(one)
    for key in one:
        if key == "run_file":
            continue
        got, wanted = ranks[key], one[key]
        if getattr(wanted, "dtype", None) is None or wanted.dtype.kind not in "fc":
            assert np.array_equal(got, wanted)
            continue
        # Received symbols are kept in single precision.
        tolerance = 1e-6 if key.endswith("constellation") else 1e-9
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * np.nanmax(abs(wanted)), err_msg=key)
    attrs = ranks.attrs("solver")
    assert (attrs["ranks"], attrs["transport"]) == (comm.size, comm.label)
    assert attrs["exchange"] == ("dense" if exchange == "dense" else "factored")
    assert attrs["bytes_per_step"] > 0
    assert one.attrs("solver")["bytes_per_step"] == 0
    assert sorted(p.name for p in folder.iterdir()) == ["one.h5", "ranks.h5", "run.toml"]


class Stop:
    """Sends Ctrl-C to one rank at a step."""

    def __init__(self, comm, rank, step):
        self.mine, self.step = comm.rank == rank, step

    def start(self, total, what):
        self.inside = what.startswith("span 2")

    def update(self, done, text=""):
        if self.mine and self.inside and done == self.step:
            os.kill(os.getpid(), signal.SIGINT)

    def finish(self):
        pass


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_an_interrupted_run_resumes_to_the_bit(comm, folder):
    run = parsed(comm, folder)
    links.run_link(run, folder / "whole.h5", comm=comm)
    for step in (7, 13):
        path = folder / f"parts-{step}.h5"
        with pytest.raises(KeyboardInterrupt):
            links.run_link(run, path, progress=Stop(comm, 0, step), comm=comm)
        comm.control.barrier()
        assert path.with_name(path.name + ".checkpoint").exists()
        assert not path.exists()
        links.run_link(run, path, comm=comm)
        comm.control.barrier()
        if comm.rank == 0:
            whole, parts = read_result(folder / "whole.h5"), read_result(path)
            for key in whole:
                assert np.array_equal(parts[key], whole[key], equal_nan=key.startswith("received")), key
            assert parts.attrs("solver")["steps"] == whole.attrs("solver")["steps"] == 40
    if comm.rank == 0:
        names = ["parts-13.h5", "parts-7.h5", "run.toml", "whole.h5"]
        assert sorted(p.name for p in folder.iterdir()) == names


@pytest.mark.parallel(2)
def test_ctrl_c_while_one_rank_saves_stops_all_at_the_same_step(comm, folder, monkeypatch):
    """Others have agreed to go on after that checkpoint: it counts from the next one on."""
    save, saved = RankCheckpoint.save, []

    def pressed(*inputs):
        if comm.rank == 1 and not saved:
            os.kill(os.getpid(), signal.SIGINT)
        saved.append(inputs)
        save(*inputs)

    monkeypatch.setattr(RankCheckpoint, "save", pressed)
    with pytest.raises(KeyboardInterrupt):
        links.run_link(parsed(comm, folder), folder / "r.h5", comm=comm)
    assert comm.control.all_gather(len(saved)) == [2, 2]


@pytest.mark.parallel(2)
def test_a_checkpoint_of_other_ranks_is_refused(comm, folder):
    run = parsed(comm, folder)
    with pytest.raises(KeyboardInterrupt):
        links.run_link(run, folder / "r.h5", progress=Stop(comm, 0, 7), comm=comm)
    comm.control.barrier()
    if comm.rank == 0:
        with pytest.raises(InputError, match=rf"saved by {comm.size} ranks \(factored, modes"):
            links.run_link(run, folder / "r.h5")
    comm.control.barrier()
    # Nothing was touched: the same ranks go on.
    assert links.run_link(run, folder / "r.h5", comm=comm).path.exists()


@pytest.mark.parallel(2)
def test_refusals_of_a_run_file_reach_all_ranks(comm, folder):
    run = parsed(comm, folder)
    if comm.rank == 0:
        (folder / "there.h5").write_text("old")
    comm.control.barrier()
    with pytest.raises(InputError, match=r"there\.h5 exists"):
        links.run_link(run, folder / "there.h5", comm=comm)
    with pytest.raises(InputError, match='kerr: "svd" given with several ranks'):
        links.run_link(run.with_solver(kerr="svd"), folder / "svd.h5", comm=comm)


@pytest.mark.parallel([2])
def test_a_lost_field_ends_all_ranks(comm, folder):
    run = parsed(comm, folder, step="40 km")
    signal_table = run.signal.model_copy(update={"launch_power": 1e4})
    run = run.model_copy(update={"signal": signal_table})
    with pytest.raises(FieldLost, match="is not finite"):
        links.run_link(run, folder / "lost.h5", comm=comm)
    comm.control.barrier()
    assert sorted(p.name for p in folder.iterdir()) == ["run.toml"]


@pytest.mark.parallel([2])
def test_a_rank_that_cannot_write_is_said_by_all(comm, folder, monkeypatch):
    """Rank 0 fails at the end, while the others are sending it their rows."""
    run = parsed(comm, folder)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wavefabric.base.results.file._dataset", fail)
    with pytest.raises(InputError, match="No space left"):
        links.run_link(run, folder / "full.h5", comm=comm)


def test_exchange_that_disagrees_with_kerr_is_refused():
    run = load.RunFile.model_validate(
        {
            "fibre": {"preset": "single-mode"},
            "link": {"length": 80e3},
            "signal": {
                "symbol_rate": 32e9,
                "symbols": 64,
                "samples_per_symbol": 4,
                "launch_power": 1e-3,
                "channels": 1,
                "centre_frequency": 193.4e12,
            },
            "solver": {"step": 1e3, "kerr": "factored", "exchange": "factored"},
        }
    )
    with pytest.raises(InputError, match=r'solver\.exchange: "dense" given with kerr = "factored"'):
        run.with_solver(exchange="dense")


@pytest.mark.parallel(2)
def test_another_run_file_on_another_rank_is_refused(comm, folder):
    run = parsed(comm, folder)
    if comm.rank:
        run = run.with_solver(kerr="dense")
    with pytest.raises(InputError, match=r"run file, solver: rank 0 has .*, rank 1 has .*; allowed"):
        links.run_link(run, folder / "no.h5", comm=comm)
    assert not (folder / "no.h5").exists()

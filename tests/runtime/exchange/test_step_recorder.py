"""Steps that are recorded while ranks exchange: what counts, what is written, what is refused."""

from contextlib import nullcontext

import numpy as np
import pytest
from fake_gpus import together

from wavefabric.base.errors import InputError
from wavefabric.collectives import direct_all_gather, in_sequence, load, to_json
from wavefabric.collectives.schedule import scaled
from wavefabric.runtime.exchange import solo


def gather(comm, size, dtype=np.float64):
    """An exchange of ``size`` elements of each rank, and its schedule."""
    schedule = direct_all_gather([size] * comm.size)
    return comm.bind(schedule, {"data": comm.allocate((size * comm.size,), dtype)}), schedule


@pytest.fixture
def path(comm, tmp_path):
    return comm.control.bcast(tmp_path) / "step.json"


@pytest.mark.parallel([2, 4])
def test_starts_inside_a_step_are_recorded_in_their_order(comm, path):
    before, _ = gather(comm, 2)
    with comm.recording(path) as recorder:
        large, first = gather(comm, 3)
        small, second = gather(comm, 5, np.float32)
        large.run()
        with recorder.step():
            before.run()  # bound before the recording
            small.start()
            large.run()
            small.finish()
            small.run()
        large.run()
        with pytest.raises(InputError, match="recording: a second step"), recorder.step():
            pass
    wanted = in_sequence("recorded step, 3 exchanges", [second, scaled(first, 2), second], 4)
    comm.control.barrier()
    assert to_json(recorder.schedule) == to_json(load(path)) == to_json(wanted)
    # What is bound without a recorder is left as it is.
    after, _ = gather(comm, 2)
    assert {"start", "run"} < vars(large).keys()
    assert not {"start", "run"} & (vars(before).keys() | vars(after).keys())
    with pytest.raises(InputError, match=r"recording: .*step.json exists; allowed"), comm.recording(path):
        raise AssertionError("the run began")
    with comm.recording(path, force=True) as recorder, recorder.step():
        gather(comm, 7)[0].run()
    assert recorder.schedule.sizes[0].max() == 7


@pytest.mark.parallel(2)
def test_the_second_step_of_the_first_run_is_recorded(comm):
    class Run:
        def __init__(self, exchanges):
            self.exchanges = iter(exchanges)

        def step(self):
            next(self.exchanges).run()

        def last(self):
            self.step()

    with comm.recording() as recorder:
        run, other = (Run([gather(comm, size)[0] for size in sizes]) for sizes in ((1, 2, 3), (4, 5)))
        for each in (run, other):
            recorder.watch(each, "step", "last")
        other.step()
        other.step()
        run.step()
        recorder.build_schedule()
        assert recorder.schedule is None
        run.last()  # one step, although it calls another
        run.step()
        assert vars(run).keys() == {"exchanges"}
    assert recorder.schedule.sizes[0].tolist() == [[2, 2]] * 2


@pytest.mark.parallel(2)
def test_ranks_whose_steps_start_other_exchanges_are_refused(comm, path):
    def recorded():
        with comm.recording(path) as recorder:
            for number, size in enumerate((1, 2)):
                exchange, _ = gather(comm, size)
                with recorder.step() if number == comm.rank else nullcontext():
                    exchange.run()

    with pytest.raises(
        InputError, match=r"recorded step: rank 0 has 1 exchange, .*, rank 1 has 1 exchange, "
    ):
        recorded()
    assert comm.step_recorder is None
    assert not path.exists()


@pytest.mark.parallel(2)
@pytest.mark.parametrize("steps", [0, 1])
def test_a_step_that_was_not_recorded_is_told_in_one_line(comm, path, capsys, steps):
    with comm.recording(path) as recorder:
        for _ in range(steps):
            with recorder.step():
                pass
    why = "no exchange was started in the step" if steps else "no second step was taken"
    line = f"wavefabric: warning: recording: {why}; {path} was not written\n"
    assert capsys.readouterr().err == (line if comm.rank == 0 else "")
    assert not path.exists()


def test_one_rank_is_refused():
    with pytest.raises(InputError, match="recording: one rank"), solo("cpu").recording():
        pass


@pytest.mark.parametrize("transport", ["p2p", "nccl"])
def test_transports_between_gpus_are_recorded_alike(transports, transport):
    def work(comm):
        with comm.recording() as recorder, recorder.step():
            exchange, schedule = gather(comm, 3)
            exchange.run()
            exchange.start()
            exchange.finish()
        return to_json(recorder.schedule), schedule

    (text, schedule), (other, _) = together(transports, transport, 2, work)
    assert text == other == to_json(in_sequence("recorded step, 2 exchanges", [schedule] * 2, 8))

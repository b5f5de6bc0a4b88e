"""Checkpoints of several ranks: whole or not at all, whatever dies when. Ranks are threads here."""

import threading

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.runtime.lifecycle.checkpoint import file as checkpoint_file
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RankCheckpoint
from wavefabric.runtime.lifecycle.collective_checks import on_all_ranks, on_first_rank

RUN = "this run"


class Killed(BaseException):
    """Stands for kill -9."""


class ThreadControl:
    """The control plane among threads."""

    def __init__(self, rank, size, slots, barrier):
        self.rank, self.size, self._slots, self._barrier = rank, size, slots, barrier

    def all_gather(self, obj):
        self._slots[self.rank] = obj
        self._barrier.wait(20)
        result = list(self._slots)
        self._barrier.wait(20)
        return result

    def bcast(self, obj, root=0):
        return self.all_gather(obj)[root]


class ThreadRank:
    def __init__(self, control):
        self.rank, self.size, self.control = control.rank, control.size, control


def on_ranks(size, work):
    """What ``work(comm)`` gives or raises on each rank."""
    slots, barrier, result = [None] * size, threading.Barrier(size), [None] * size

    def one(rank):
        try:
            result[rank] = work(ThreadRank(ThreadControl(rank, size, slots, barrier)))
        except BaseException as error:
            result[rank] = error
            if isinstance(error, Killed):
                barrier.abort()  # as those who wait for a dead rank are ended

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return result


def field(rank, generation):
    return np.random.default_rng([rank, generation]).standard_normal((3 + rank, 4, 5))


def save(path, size, generation, fingerprint=RUN, layout="as slabs"):
    def work(comm):
        arrays = {"p": field(comm.rank, generation), "empty": np.zeros(0)}
        state = {"step": generation, "seconds": {"simulation": comm.rank + 0.1}}
        RankCheckpoint(comm, path, fingerprint, layout).save(arrays, state)

    return on_ranks(size, work)


def load(path, size, fingerprint=RUN, layout="as slabs"):
    return on_ranks(size, lambda comm: RankCheckpoint(comm, path, fingerprint, layout).load())


def check(path, size, generation):
    """That a generation comes back, bit for bit."""
    for rank, (arrays, state) in enumerate(load(path, size)):
        assert arrays["p"].tobytes() == field(rank, generation).tobytes()
        assert arrays["empty"].shape == (0,)
        assert state == {"step": generation, "seconds": {"simulation": rank + 0.1}}
    states = on_ranks(size, lambda comm: RankCheckpoint(comm, path, RUN, "as slabs").read_state())
    assert [state["step"] for state in states] == [generation] * size


def refused(result, *words):
    """One line, the same on all ranks."""
    assert all(isinstance(error, InputError) for error in result), result
    (text,) = {str(error) for error in result}
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.checkpoint"


def names(path):
    return sorted(result.name.removeprefix(path.name) for result in path.parent.iterdir())


@pytest.mark.parametrize("size", [2, 3])
def test_there_and_back(path, size):
    for generation in range(4):
        assert save(path, size, generation) == [None] * size
        check(path, size, generation)
        # One generation, in turn in one slot and the other.
        assert names(path) == ["", *(f".rank{r}of{size}.{generation % 2}" for r in range(size))]
    assert checkpoint_file.read_state(path, RUN)["step"] == 3
    assert on_ranks(size, lambda comm: RankCheckpoint(comm, path, RUN).exists()) == [True] * size
    on_ranks(size, lambda comm: RankCheckpoint(comm, path, RUN).remove())
    assert names(path) == []
    assert on_ranks(size, lambda comm: RankCheckpoint(comm, path, RUN).exists()) == [False] * size


def test_one_rank_is_the_plain_file(path):
    save(path, 1, 5)
    assert names(path) == [""]
    ((arrays, state),) = load(path, 1)
    plain, plain_state = checkpoint_file.load(path, RUN)
    assert state == plain_state
    assert arrays.keys() == plain.keys()
    assert arrays["p"].tobytes() == plain["p"].tobytes()
    assert on_ranks(1, lambda comm: RankCheckpoint(comm, path, RUN).read_state()) == [plain_state]
    on_ranks(1, lambda comm: RankCheckpoint(comm, path, RUN).remove())
    assert names(path) == []


def test_into(path):
    save(path, 2, 1)
    targets = [np.empty((3 + rank, 4, 5)) for rank in range(2)]

    def work(comm):
        files = RankCheckpoint(comm, path, RUN, "as slabs")
        return files.load({"p": targets[comm.rank]})

    for rank, (arrays, _) in enumerate(on_ranks(2, work)):
        assert arrays["p"] is targets[rank]
        np.testing.assert_array_equal(targets[rank], field(rank, 1))


# --- Kills -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("victims", "moment", "survives"),
    [
        # Before and after a rank has its part on the disk; the manifest is what counts.
        ({0}, "before part", 1),
        ({2}, "before part", 1),
        ({0, 1, 2}, "before part", 1),
        ({0}, "within part", 1),
        ({1, 2}, "within part", 1),
        ({0}, "after part", 1),
        ({0, 1, 2}, "after part", 1),
        ({0}, "before manifest", 1),
        ({0}, "within manifest", 1),
        ({0}, "after manifest", 2),
        ({1}, "before cleaning", 2),
    ],
)
def test_a_kill_leaves_one_generation_whole(path, monkeypatch, victims, moment, survives):
    save(path, 3, 0)
    save(path, 3, 1)
    kept, removed = checkpoint_file.save, checkpoint_file.remove
    when, _, what = moment.partition(" ")

    def rank_of(name):
        return int(name.partition(".rank")[2].partition("of")[0])

    def dying_save(target, *rest):
        hit = what == "manifest" if target == path else what == "part" and rank_of(target.name) in victims
        if hit and when == "before":
            raise Killed
        if hit and when == "within":
            target.with_name(target.name + ".partial").write_bytes(b"WFCHECK1 and no more")
            raise Killed
        kept(target, *rest)
        if hit:
            raise Killed

    def dying_remove(target):
        if what == "cleaning" and target.name.endswith(".1") and rank_of(target.name) in victims:
            raise Killed
        removed(target)

    monkeypatch.setattr(checkpoint_file, "save", dying_save)
    monkeypatch.setattr(checkpoint_file, "remove", dying_remove)
    result = save(path, 3, 2)
    assert any(isinstance(error, Killed) for error in result)
    monkeypatch.undo()
    check(path, 3, survives)
    # And the run goes on from there.
    for generation in (3, 4):
        assert save(path, 3, generation) == [None] * 3
        check(path, 3, generation)
    on_ranks(3, lambda comm: RankCheckpoint(comm, path, RUN).remove())
    assert names(path) == []


@pytest.mark.parametrize("who", ["a part", "the manifest"])
def test_a_full_disk(path, monkeypatch, who):
    """All ranks are told, and the last generation is left."""
    save(path, 2, 1)
    kept = checkpoint_file.save

    def full(target, *rest):
        if (target == path) == (who == "the manifest") and "rank0" not in target.name:
            raise OSError(28, "No space left on device", str(target))
        kept(target, *rest)

    monkeypatch.setattr(checkpoint_file, "save", full)
    result = save(path, 2, 2)
    assert [(type(error), error.errno) for error in result] == [(OSError, 28)] * 2
    monkeypatch.undo()
    check(path, 2, 1)


@pytest.mark.parametrize("size", [1, 3])
def test_a_full_disk_is_survived_while_an_earlier_checkpoint_is_whole(path, monkeypatch, size):
    layout = "" if size == 1 else "as slabs"

    def attempt(last=False):
        def work(comm):
            return RankCheckpoint(comm, path, RUN, layout).save({}, {"step": 2}, last)

        return on_ranks(size, work)

    def full(file, *_):
        file.write(b"some of it")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(checkpoint_file, "_write", full)
        # Nothing to fall back on, so the run must not go on as if it were safe.
        assert all(isinstance(error, OSError) for error in attempt())
        assert names(path) == []
    save(path, size, 1, layout=layout)
    before = names(path)
    with monkeypatch.context() as broken:
        broken.setattr(checkpoint_file, "_write", full)
        with pytest.warns(RuntimeWarning, match=r"run\.checkpoint\S*: No space .*; the run continues"):
            assert attempt() == [None] * size
        result = attempt(last=True)
        assert all(isinstance(error, OSError) and path.name in error.filename for error in result)
    assert names(path) == before
    result = load(path, size, layout=layout)
    assert [state["step"] for _, state in result] == [1] * size


# --- What is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "now"), [(2, 3), (3, 2), (1, 2), (2, 1)])
def test_another_number_of_ranks(path, before, now):
    save(path, before, 1)
    more = "ranks (as slabs)" if before > 1 else "rank,"
    refused(load(path, now), f"saved by {before} {more}", f"this run has {now} rank")
    if before > 1:
        check(path, before, 1)


def test_another_layout(path):
    save(path, 2, 1)
    refused(
        load(path, 2, layout="as blocks"),
        "2 ranks (as slabs)",
        "2 ranks (as blocks)",
        "remove it to start anew",
    )
    check(path, 2, 1)


def test_another_run(path):
    save(path, 2, 1)
    refused(load(path, 2, fingerprint="another"), "another run")


def test_no_checkpoint(path):
    refused(load(path, 2), "no such checkpoint")


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda part: part.unlink(), ["is missing"]),
        (lambda part: part.write_bytes(part.read_bytes()[:-30]), ["damaged"]),
        (lambda part: part.write_bytes(b"x" * 5000), ["damaged"]),
    ],
)
def test_one_part_is_harmed(path, rank, harm, words):
    save(path, 2, 1)
    part = path.with_name(f"{path.name}.rank{rank}of2.0")
    harm(part)
    refused(load(path, 2), part.name, *words)
    refused(on_ranks(2, lambda comm: RankCheckpoint(comm, path, RUN, "as slabs").read_state()), part.name)


def test_a_part_of_another_save(path, tmp_path):
    save(path, 2, 1)
    other = tmp_path / "other"
    other.mkdir()
    save(other / path.name, 2, 2)
    part = f"{path.name}.rank1of2.0"
    (other / part).replace(tmp_path / part)
    refused(load(path, 2), f"{path}: its part {part} was saved at another time")
    states = on_ranks(2, lambda comm: RankCheckpoint(comm, path, RUN, "as slabs").read_state())
    refused(states, f"{path}: its part {part} was saved at another time")


def test_remove_takes_all_that_is_its_own(path):
    save(path, 3, 1)
    save(path, 2, 1)
    strange = path.with_name(path.name + ".rank1of2.0.mine")
    for name in (strange, path.with_name(path.name + ".rank7of9.1.partial")):
        name.touch()
    on_ranks(2, lambda comm: RankCheckpoint(comm, path, RUN).remove())
    assert list(path.parent.iterdir()) == [strange]


def test_all_ranks_may_remove_at_once(path, monkeypatch):
    """What one has listed another may have removed already."""
    save(path, 2, 1)
    gone = [path.with_name(path.name + f".rank{rank}of2.1") for rank in range(2)]
    listed = type(path).iterdir
    monkeypatch.setattr(type(path), "iterdir", lambda self: [*gone, *listed(self)])
    assert on_ranks(2, lambda comm: RankCheckpoint(comm, path, RUN).remove()) == [None, None]
    monkeypatch.undo()
    assert names(path) == []


# --- Agreement ---------------------------------------------------------------------------------------------


def test_agree_runs_on_one_rank():
    ran = []

    def work(comm):
        return on_first_rank(comm, lambda: ran.append(comm.rank) or "answer")

    assert on_ranks(3, work) == ["answer"] * 3
    assert ran == [0]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (InputError("output: exists"), InputError, "output: exists"),
        (OSError(13, "Permission denied"), PermissionError, "[Errno 13] Permission denied"),
        (KeyError("gone"), RuntimeError, "KeyError: 'gone'"),
    ],
)
def test_errors_are_everybodys(error, kind, text):
    def raises(comm, who):
        if comm.rank in who:
            raise error
        return comm.rank

    for result in (
        on_ranks(3, lambda comm: on_first_rank(comm, lambda: raises(comm, {0}))),
        on_ranks(3, lambda comm: on_all_ranks(comm, lambda: raises(comm, {0, 2}))),
    ):
        assert result[0] is error
        assert [(type(other), str(other)) for other in result[1:]] == [(kind, text)] * 2
    assert on_ranks(3, lambda comm: on_all_ranks(comm, lambda: raises(comm, set()))) == [0, 1, 2]

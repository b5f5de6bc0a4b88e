"""One owner of an output: locks of the living and of the dead."""

import fcntl
import json
import os
import subprocess
import sys
import threading

import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results.lock import FileLock, lock_path, locked

HOLD = """
import sys, time
from wavefabric.base.results.lock import FileLock
held = FileLock(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def owner(path, **changes):
    """A lock file as somebody else would have made it."""
    facts = {"host": "elsewhere", "machine": "another", "process": 7, "started": "1", "token": "t"} | changes
    lock_path(path).write_text(json.dumps(facts))


def test_taken_and_given_back(tmp_path):
    path = tmp_path / "a.h5"
    held = FileLock(path)
    result = json.loads((tmp_path / "a.h5.lock").read_text())
    assert result["process"] == os.getpid()
    held.check()
    held.release()
    assert os.listdir(tmp_path) == []


def test_another_process_has_it_until_it_is_killed(tmp_path):
    path = tmp_path / "a.h5"
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=rf"output: .*a\.h5 is in use by process {child.pid}; allowed"):
            FileLock(path)
    finally:
        child.kill()
    child.wait()
    child.stdout.close()
    assert lock_path(path).exists(), "nobody could remove it"
    FileLock(path).release()
    assert os.listdir(tmp_path) == []


def test_a_lock_of_another_machine_names_it(tmp_path):
    path = tmp_path / "a.h5"
    owner(path)
    with open(lock_path(path), "r+") as elsewhere:
        fcntl.flock(elsewhere, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="in use by process 7 on elsewhere; allowed"):
            FileLock(path)
    held = FileLock(path)
    held.check()
    held.release()
    assert os.listdir(tmp_path) == []


def test_whoever_was_taken_for_dead_notices(tmp_path):
    path = tmp_path / "a.h5"
    held = FileLock(path)
    os.unlink(lock_path(path))
    with pytest.raises(InputError, match="somebody has removed its lock"):
        held.check()
    owner(path)
    with pytest.raises(InputError, match="process 7 on elsewhere has taken over"):
        held.check()
    held.release()
    assert lock_path(path).exists(), "the lock of the other stays"


def test_a_file_that_is_no_lock_stays(tmp_path):
    path = tmp_path / "a.h5"
    lock_path(path).write_text("mine")
    with pytest.raises(InputError, match=r"a\.h5\.lock is there and is no lock"):
        FileLock(path)
    assert lock_path(path).read_text() == "mine"
    assert os.listdir(tmp_path) == ["a.h5.lock"]


def test_a_thread_shares_its_own_and_no_other(tmp_path):
    path, refused = tmp_path / "a.h5", []

    def other():
        try:
            with locked(path):
                pass
        except InputError as error:
            refused.append(str(error))

    with locked(path), locked(None), locked(tmp_path / "." / "a.h5"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert os.listdir(tmp_path) == []


def test_where_there_are_no_locks(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(RuntimeWarning, match=r"a\.h5: cannot be locked \(Function not implemented\)"):
        held = FileLock(tmp_path / "a.h5")
    held.release()
    assert os.listdir(tmp_path) == []


def test_a_lock_file_that_its_owner_removes_meanwhile(tmp_path, monkeypatch):
    """Whoever opened it before has locked a file without a name."""
    path, flock = tmp_path / "a.h5", fcntl.flock
    first = FileLock(path)

    def late(*inputs):
        monkeypatch.undo()
        first.release()
        flock(*inputs)

    monkeypatch.setattr(fcntl, "flock", late)
    second = FileLock(path)
    second.check()
    with pytest.raises(InputError, match="in use"):
        FileLock(path)
    second.release()


@pytest.mark.parametrize("attempt", range(10))
def test_of_many_that_find_it_void_one_gets_it(tmp_path, attempt):
    path, got, refused, start = tmp_path / "a.h5", [], [], threading.Barrier(16)
    owner(path, process=2**22 + 1)

    def take():
        start.wait(20)
        try:
            got.append(FileLock(path))
        except InputError:
            refused.append(1)

    threads = [threading.Thread(target=take) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 15)
    got[0].check()
    got[0].release()
    assert os.listdir(tmp_path) == []

"""One owner of an output: locks of this machine and of others, of the living and of the dead."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from wavefabric.errors import InputError
from wavefabric.results import lock
from wavefabric.results.lock import FileLock, lock_path, locked

HOLD = """
import sys, time
from wavefabric.results.lock import FileLock
held = FileLock(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def owner(path, **changes):
    """A lock file as somebody else would have made it."""
    facts = {"host": "elsewhere", "machine": "another", "process": 7, "started": "1", "token": "t"} | changes
    lock_path(path).write_text(json.dumps(facts))


def age(path, seconds):
    then = time.time() - seconds
    os.utime(lock_path(path), (then, then))


def test_taken_and_given_back(tmp_path):
    path = tmp_path / "a.h5"
    held = FileLock(path)
    found = json.loads((tmp_path / "a.h5.lock").read_text())
    assert found["process"] == os.getpid()
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
    # Not waited for yet: a process that has ended but is still listed does not count.
    deadline = time.monotonic() + 20
    while lock.started(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    FileLock(path).release()
    child.wait()
    child.stdout.close()
    assert os.listdir(tmp_path) == []


def test_number_of_a_process_that_is_used_again(tmp_path):
    path = tmp_path / "a.h5"
    mine = FileLock(path)
    facts = json.loads(lock_path(path).read_text())
    mine.release()
    owner(path, **facts | {"started": "0"})
    FileLock(path).release()


def test_another_machine_is_believed_for_two_minutes(tmp_path):
    path = tmp_path / "a.h5"
    owner(path)
    age(path, 100)
    with pytest.raises(InputError, match="process 7 on elsewhere, last seen 100 s ago"):
        FileLock(path)
    age(path, 130)
    held = FileLock(path)
    held.check()
    held.release()
    assert os.listdir(tmp_path) == []


def test_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "TOUCH_SECONDS", 0.02)
    path = tmp_path / "a.h5"
    held = FileLock(path)
    age(path, 1000)
    deadline = time.monotonic() + 20
    while time.time() - lock_path(path).stat().st_mtime > 900 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert time.time() - lock_path(path).stat().st_mtime < 900
    held.release()


def test_whoever_was_taken_for_dead_notices(tmp_path):
    path = tmp_path / "a.h5"
    held = FileLock(path)
    owner(path)
    with pytest.raises(InputError, match="process 7 on elsewhere has taken over"):
        held.check()
    held.release()
    assert lock_path(path).exists(), "the lock of the other stays"


def test_a_file_that_is_no_lock_stays(tmp_path):
    path = tmp_path / "a.h5"
    lock_path(path).write_text("mine")
    age(path, 10000)
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

    with locked(path, None) as outer, locked(tmp_path / "." / "a.h5") as inner:
        assert outer == inner
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert os.listdir(tmp_path) == []


def test_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    held = FileLock(tmp_path / "a.h5")
    with pytest.raises(InputError, match="in use"):
        FileLock(tmp_path / "a.h5")
    held.release()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("attempt", range(10))
def test_of_many_that_find_it_void_one_gets_it(tmp_path, attempt):
    path, got, refused, start = tmp_path / "a.h5", [], [], threading.Barrier(16)
    owner(path, machine=lock._machine(), process=2**22 + 1)

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

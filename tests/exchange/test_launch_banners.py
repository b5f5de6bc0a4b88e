"""What mpiexec says when ranks end badly is understood and not passed on; what ranks say is."""

import pytest

from wavefabric.exchange.launch.banners import Death, Sieve

HYDRA = """
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 4324 RUNNING AT node7
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
"""
RULE = "-" * 74 + "\n"
PRTE = f"""{RULE}prterun noticed that process rank 2 with PID 4673 on node vm exited on
signal 11 (Segmentation fault).
{RULE}"""
MPIRUN = f"""{RULE}Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{RULE}{RULE}mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).
{RULE}"""
ABORT = f"""{RULE}MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
  Proc: [[42231,1],1]
  Errorcode: 3

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
{RULE}Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 1
"""
FULL = f"""{RULE}There are not enough slots available in the system to satisfy the 4
slots that were requested by the application:
{RULE}"""


def sift(text, pieces=1):
    passed, death = [], Death()
    sieve = Sieve(passed.append, death, set())
    data = text.encode()
    size = max(1, len(data) // pieces)
    for first in range(0, len(data), size):
        sieve.feed(data[first : first + size])
    sieve.close()
    return b"".join(passed).decode(), death


@pytest.mark.parametrize("pieces", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("banner", "death"),
    [
        (HYDRA, Death(None, 4324, 9)),
        (PRTE, Death(2, 4673, 11)),
        (MPIRUN, Death(1, 0, 9)),
        (ABORT, Death()),
        ("[vm:03679] PMIX ERROR: PMIX_ERR_UNREACH in file pmix_server.c at line 3146\n", Death()),
        (PRTE + "\0", Death(2, 4673, 11)),
        ("[mpiexec@vm] Sending Ctrl-C to processes as requested\n", Death()),
    ],
)
def test_banners(banner, death, pieces):
    assert sift("before\n\nmore\n" + banner + "after\n", pieces) == ("before\n\nmore\nafter\n", death)


@pytest.mark.parametrize("pieces", [1, 7, 10_000])
@pytest.mark.parametrize(
    "text",
    [FULL, "a\n\n\nb", RULE + "a table\n" * 60, RULE + "cut", "\n\n", "Killed (signal 9) is a word\n", "ü\n"],
)
def test_everything_else_passes(text, pieces):
    assert sift(text, pieces) == (text, Death())


def test_a_bar_without_line_ends_is_not_held_back():
    passed = []
    sieve = Sieve(passed.append, Death(), set())
    sieve.feed(b"\x1b[2K\rtime steps 10/100")
    assert passed == [b"\x1b[2K\rtime steps 10/100"]
    sieve.feed(b"plain so far")
    assert len(passed) == 1


def test_what_ranks_say_alike_is_said_once():
    lines = [
        "wavefabric: rank 1 of 3: grid: 7 given\n",
        "wavefabric: rank 0 of 3: grid: 7 given\n",
        "wavefabric: rank 2 of 3: grid: 8 given\n",
        "hello\n",
        "hello\n",
    ]
    assert sift("".join(lines))[0] == lines[0] + "".join(lines[2:])

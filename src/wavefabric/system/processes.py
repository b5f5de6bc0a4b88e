"""Child processes: ending with their parent, and noticing that nobody waits for this one any more."""

import contextlib
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(number: int, parent: int | None = None) -> None:
    """Have Linux send this process a signal when its parent dies. Elsewhere nothing.

    A parent may die before this is called: whoever knows its process number gives it as ``parent``.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    parent = parent or os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def follow_parent(parent: int) -> None:
    """In a new process: heed signals, and get SIGTERM when ``parent`` is gone, even if it was killed."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # ignored by what runs in the background of a script
    die_with_parent(signal.SIGTERM, parent)


def abandoned(parent: int) -> bool:
    """Whether ``parent``, which started this process, is gone, and with it whoever read what it prints.

    A parent that is gone is not enough: a shell that has ended leaves what it put in the background to go on,
    with its output in a file or nowhere.
    """
    return os.name == "posix" and os.getppid() != parent and _nobody_reads()


def _nobody_reads() -> bool:
    """Whether stdout and stderr are pipes without a reader; one of them may be closed or /dev/null."""
    nowhere, poll, outputs = os.stat(os.devnull), select.poll(), 0
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if not os.path.samestat(os.fstat(number), nowhere):
                poll.register(number, 0)
                outputs += 1
    # Without a reader a pipe or a socket has an error; a file has none.
    return 0 < outputs == len(poll.poll(0))

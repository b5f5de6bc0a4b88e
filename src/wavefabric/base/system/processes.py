"""End child processes with their parent, and detect that this process was abandoned."""

import contextlib
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(number: int, parent: int | None = None) -> None:
    """Let Linux send this process the signal ``number`` when its parent dies; no effect on other systems.

    The parent may die before this call: pass its process ID as ``parent`` if it is known.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    parent = parent or os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def follow_parent(parent: int) -> None:
    """Reset signal handlers in a new process, and let it get SIGTERM when ``parent`` ends, even if killed."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # ignored in background jobs of a script
    die_with_parent(signal.SIGTERM, parent)


def abandoned(parent: int) -> bool:
    """Return whether ``parent``, which started this process, has ended, and nobody reads the output.

    The end of the parent is not enough: background jobs of a shell continue after it ends, with their output
    in a file or nowhere.
    """
    return os.name == "posix" and os.getppid() != parent and _nobody_reads()


def _nobody_reads() -> bool:
    """Return whether stdout and stderr are pipes without a reader (or one is, and the other is unused)."""
    nowhere, poll, outputs = os.stat(os.devnull), select.poll(), 0
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if not os.path.samestat(os.fstat(number), nowhere):
                poll.register(number, 0)
                outputs += 1
    # A pipe or socket without a reader reports an error; a file does not.
    return 0 < outputs == len(poll.poll(0))

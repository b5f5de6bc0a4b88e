"""Errors that one rank meets are raised on all ranks, so that none waits for another that has given up."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from wavefabric.errors import InputError
from wavefabric.results.lock import FileLock, locked

if TYPE_CHECKING:
    from wavefabric.exchange import Communicator

_T = TypeVar("_T")


def on_first_rank(comm: Communicator, call: Callable[[], _T]) -> _T:
    """Run ``call`` on rank 0; all ranks get its (small) return value, or raise its error. Collective.

    Raises
    ------
    InputError, OSError
        If ``call`` did so on rank 0, with its message; RuntimeError on other ranks for other errors.
    """
    if comm.size == 1:
        return call()
    value, error = _attempt(call) if comm.rank == 0 else (None, None)
    value, description = comm.control.bcast((value, describe(error)))
    if description is not None:
        raise error or rebuild(description)
    return value


def on_all_ranks(comm: Communicator, call: Callable[[], _T]) -> _T:
    """Run ``call``, which is not collective, on every rank; if it fails on any, all raise one error.

    Raises
    ------
    InputError, OSError
        As `on_first_rank`.
    """
    if comm.size == 1:
        return call()
    value, error = _attempt(call)
    descriptions = comm.control.all_gather(describe(error))
    failed = next((rank for rank, each in enumerate(descriptions) if each is not None), None)
    if failed is not None:
        raise error if error is not None and failed == comm.rank else rebuild(descriptions[failed])
    return value  # type: ignore[return-value]


@contextlib.contextmanager
def locked_by_first_rank(comm: Communicator, path: str | Path | None, key: str) -> Iterator[list[FileLock]]:
    """Hold the lock of a file on rank 0, for all ranks; entering is collective. Others get an empty list.

    Raises
    ------
    InputError
        On all ranks, if another process holds it; ``key`` is what the message calls the file.
    """
    with contextlib.ExitStack() as stack:
        locks: list[FileLock] = []
        on_first_rank(comm, lambda: locks.extend(stack.enter_context(locked(path, key=key))))
        yield locks


def describe(error: BaseException | None) -> tuple | None:
    """An error as a tuple that can be pickled; None for None."""
    if error is None:
        return None
    if isinstance(error, OSError) and error.errno is not None:
        return OSError, (error.errno, error.strerror, error.filename)
    if isinstance(error, InputError):
        return InputError, (str(error),)
    return RuntimeError, (f"{type(error).__name__}: {error}",)


def rebuild(description: tuple) -> BaseException:
    """The error that `describe` described."""
    kind, arguments = description
    return kind(*arguments)


def _attempt(call: Callable[[], _T]) -> tuple[_T | None, Exception | None]:
    try:
        return call(), None
    except Exception as error:
        return None, error

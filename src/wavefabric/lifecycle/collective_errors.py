"""Errors that one rank meets are raised on all ranks, so that none waits for another that has given up."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from wavefabric.errors import InputError
from wavefabric.results.lock import locked

if TYPE_CHECKING:
    from wavefabric.exchange import Communicator

_T = TypeVar("_T")


def on_first_rank(comm: Communicator, call: Callable[[], _T]) -> _T:
    """Run ``call`` on rank 0; all ranks get its (small) return value or raise its error. Collective.

    Other ranks raise InputError and OSError as they are, and RuntimeError for other errors.
    """
    if comm.size == 1:
        return call()
    value, error = _attempt(call) if comm.rank == 0 else (None, None)
    value, told = comm.control.bcast((value, _for_all(error)))
    if told is not None:
        raise error or told
    return value


def on_all_ranks(comm: Communicator, call: Callable[[], _T]) -> _T:
    """Run ``call``, which is not collective, on every rank; if one fails, all raise as `on_first_rank`."""
    if comm.size == 1:
        return call()
    value, error = _attempt(call)
    errors = comm.control.all_gather(_for_all(error))
    for rank, told in enumerate(errors):
        if told is not None:
            raise error if error is not None and rank == comm.rank else told
    return value  # type: ignore[return-value]


@contextlib.contextmanager
def locked_by_first_rank(comm: Communicator, path: str | Path | None, key: str) -> Iterator[None]:
    """Hold the lock of a file on rank 0, for all ranks; entering is collective. Errors: `FileLock`."""
    with contextlib.ExitStack() as stack:
        on_first_rank(comm, lambda: stack.enter_context(locked(path, key)))
        yield


def _for_all(error: Exception | None) -> Exception | None:
    """An error as all ranks can raise it: without what cannot be sent."""
    match error:
        case None:
            return None
        case OSError(errno=int()):
            return OSError(error.errno, error.strerror, error.filename)
        case InputError():
            return InputError(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")


def _attempt(call: Callable[[], _T]) -> tuple[_T | None, Exception | None]:
    try:
        return call(), None
    except Exception as error:
        return None, error

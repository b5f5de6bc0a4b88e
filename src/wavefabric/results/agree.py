"""Errors that one rank sees, raised on all ranks alike, so that none waits for another that has gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from wavefabric.errors import InputError

_T = TypeVar("_T")


def agree(comm: Any, call: Callable[[], _T]) -> _T:
    """Run ``call`` on rank 0 alone; all ranks get its answer, or raise its error.

    Parameters
    ----------
    comm : Communicator
        Its ``rank``, ``size`` and ``control`` are used.
    call : callable
        Its answer must be small, since it is pickled.

    Raises
    ------
    InputError, OSError
        If ``call`` did so on rank 0, with its message; RuntimeError on other ranks for other errors.
    """
    if comm.size == 1:
        return call()
    answer, error = None, None
    if comm.rank == 0:
        try:
            answer = call()
        except Exception as fault:
            error = fault
    answer, told = comm.control.bcast((answer, describe(error)))
    if told is not None:
        raise error or rebuild(told)
    return answer


def together(comm: Any, call: Callable[[], _T]) -> _T:
    """Run ``call`` on every rank; if it fails on any, all raise the error of the lowest of those.

    Parameters
    ----------
    comm : Communicator
        Its ``rank``, ``size`` and ``control`` are used.
    call : callable
        Not collective. Each rank keeps its own answer.

    Raises
    ------
    InputError, OSError
        As `agree`.
    """
    if comm.size == 1:
        return call()
    answer, error = None, None
    try:
        answer = call()
    except Exception as fault:
        error = fault
    told = comm.control.all_gather(describe(error))
    first = next((rank for rank, found in enumerate(told) if found is not None), None)
    if first is not None:
        raise error if error is not None and first == comm.rank else rebuild(told[first])
    return answer  # type: ignore[return-value]


def describe(error: BaseException | None) -> tuple | None:
    """An error as what can be pickled; None for none."""
    if error is None:
        return None
    if isinstance(error, OSError) and error.errno is not None:
        return OSError, (error.errno, error.strerror, error.filename)
    if isinstance(error, InputError):
        return InputError, (str(error),)
    return RuntimeError, (f"{type(error).__name__}: {error}",)


def rebuild(told: tuple) -> BaseException:
    """The error again that `describe` described."""
    kind, words = told
    return kind(*words)

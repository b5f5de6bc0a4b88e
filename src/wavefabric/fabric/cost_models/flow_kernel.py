"""The flow-level simulation, and max–min fair shares: what ``flow.cpp`` of `wavefabric.kernels` takes."""

from typing import NamedTuple

import numpy as np

from wavefabric.kernels.cpu_launch import call_kernel


class Transfers(NamedTuple):
    """What is moved: arrays with an element for each transfer, but `after`."""

    src: np.ndarray
    dst: np.ndarray
    pair: np.ndarray  # of `SharedLinks`; −1: within a rank
    size: np.ndarray  # B
    delay: np.ndarray  # s before the first byte
    work: np.ndarray  # s that the receiver takes to add it up, or a rank to copy
    follows: np.ndarray  # transfer before it from the same rank to the same, −1: none
    first_after: np.ndarray  # successors of transfer t: after[first_after[t]:first_after[t + 1]]
    after: np.ndarray


class SharedLinks(NamedTuple):
    """Resources, such as links, that pairs of ranks share.

    Pair p uses ``resource[first[p]:first[p + 1]]``; ``fraction`` is the part of its bytes that crosses each.
    """

    first: np.ndarray
    resource: np.ndarray
    fraction: np.ndarray  # of the pair's bytes, as `resource`
    capacity: np.ndarray  # B/s of each resource
    most: float  # B/s of one transfer


_DOUBLE = ("size", "delay", "work", "fraction", "capacity")


def fair_shares(flows: np.ndarray, links: SharedLinks, rate: np.ndarray) -> None:
    """Write max–min fair rates of different `flows`, int64, to `rate`, which has those of all flows, B/s.

    Progressive filling: the resource that leaves least to each of its flows fixes theirs; what they use
    elsewhere is taken off, and so on (Bertsekas & Gallager, *Data Networks*, 2nd ed., section 6.5.2). Flow f
    is pair f of `links`.
    """
    success = np.zeros(1, np.bool_)
    call_kernel("fair_shares_double", flows, _typed(links), rate, success)
    _check(success)


def simulate(
    transfers: Transfers, links: SharedLinks, waits: np.ndarray, ranks: int, engines: int, times: np.ndarray
) -> float:
    """Return the seconds of all transfers.

    `waits`, int64, is the number of transfers that each waits for, written on the way, as is `times`, float64
    (transfers, 2), their begin and end. At most `engines` leave a GPU at once; 0: any number.
    """
    seconds, success = np.zeros(1), np.zeros(1, np.bool_)
    groups = _typed(transfers), _typed(links)
    call_kernel("simulate_double", groups, waits, ranks, engines, times, seconds, success)
    _check(success)
    return float(seconds[0])


def _check(success: np.ndarray) -> None:
    if not success[0]:
        raise MemoryError("a simulation of flows")


def _typed(group):
    """Return the same with arrays as the kernel reads them."""
    kinds = (np.float64 if name in _DOUBLE else np.int64 for name in group._fields)
    return type(group)(
        *(
            np.ascontiguousarray(value, kind) if isinstance(value, np.ndarray) else value
            for kind, value in zip(kinds, group, strict=True)
        )
    )

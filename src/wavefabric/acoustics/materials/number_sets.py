"""Numbers for sets of values: points of equal values get equal numbers, in the order of first appearance."""

import numpy as np

from wavefabric.kernels.cpu_launch import call_kernel


def number_sets(
    values: np.ndarray,
    points: int,
    positions: np.ndarray,
    table: np.ndarray,
    count: np.ndarray,
    numbers: np.ndarray,
) -> None:
    """Number the sets of a block of points; ``count``, int64 (1,), is how many sets are in the table then.

    ``values`` are float32 or float64, (values of a set, points and more), of which so many ``points`` count;
    they are equal if all their bits are. ``positions`` is a hash table, int32 (a power of two): number of a
    set, or −1. ``table`` has the sets by number, (most sets, values of a set); what is beyond ``count`` is
    free. ``numbers``, of each point, int32, are left unfinished where a set more than the table holds is met:
    ``count`` is then one more than its length.
    """
    name = "number_sets_float" if values.dtype == np.float32 else "number_sets_double"
    call_kernel(name, values, len(values), points, positions, table, numbers, values[0].size, count)

"""Numbers for sets of values: points of equal values get equal numbers, in the order of first appearance."""

from typing import Any

import numpy as np

from wavefabric.system.numba_cache import njit

_JIT: dict[str, Any] = dict(nogil=True, error_model="numpy")


@njit(**_JIT)
def number_sets(values, points, positions, table, count, numbers):
    """Number the sets of a block of points; gives how many sets are in the table then.

    ``values`` are bits, unsigned, (values of a set, points and more), of which so many ``points`` count.
    ``positions`` is a hash table, int32 (a power of two): number of a set, or −1. ``table`` has the sets by
    number, (most sets, values of a set); what is beyond ``count`` is free. ``numbers``, of each point, int32,
    are left unfinished where a set more than the table holds is met: then one more than its length is
    returned.
    """
    columns = values.shape[0]
    last = positions.size - 1
    number = -1
    for i in range(points):
        same = number >= 0
        for k in range(columns):
            if same and table[number, k] != values[k, i]:
                same = False
        if not same:  # than the point before
            # Multiplicative hashing by the golden ratio (Knuth), its high bits brought down.
            mixed = np.uint64(0)
            for k in range(columns):
                mixed = (mixed ^ np.uint64(values[k, i])) * np.uint64(0x9E3779B97F4A7C15)
                mixed ^= mixed >> np.uint64(32)
            at = np.int64(mixed & np.uint64(last))
            while True:
                number = positions[at]
                if number < 0:
                    if count == table.shape[0]:
                        return count + 1
                    number = count
                    positions[at] = number
                    for k in range(columns):
                        table[number, k] = values[k, i]
                    count += 1
                    break
                same = True
                for k in range(columns):
                    if table[number, k] != values[k, i]:
                        same = False
                if same:
                    break
                at = (at + 1) & last
        numbers[i] = number
    return count

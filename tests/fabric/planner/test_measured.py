"""Predicted steps beside all those that were measured on H200s, and the choices that they lead to."""

import re
from collections import defaultdict

import pytest
from measured import rows

#: Rows that are off by more than `MOST`, and why.
MOST = 0.15
_COLUMNS = "columns of 2048 points were never timed alone with those kernels"
OUTSIDE = {
    "2 ranks, factored, mpi": "chunks of the fibre reached 10 GB/s through host memory, overlaps 13 to 16",
    "4 ranks, dense, p2p": "measured with a still earlier code",
    "4 ranks, global, homogeneous, p2p": _COLUMNS,
    "4 ranks, global, tissues, p2p": _COLUMNS,
    "4 ranks, global, tissues, nccl": _COLUMNS,
}


@pytest.fixture(scope="module")
def measured():
    return rows()


def test_steps_are_predicted(measured):
    assert len(measured) > 90
    outside = {row.what for row in measured if abs(row.ratio - 1) > MOST}
    assert outside == OUTSIDE.keys()


def problem(row):
    """What rows have in common that were measured together: all but cut, form and transport."""
    shared = r"p2p, signals|p2p|nccl|mpi-cuda|mpi|dense|factored|local|\dx\dx\d"
    shared += "|global" if row.what.startswith("2") else ""
    return row.section, re.sub(rf", ({shared})\b", "", row.what)


def test_the_fastest_is_chosen(measured):
    groups = defaultdict(list)
    for row in measured:
        if "ranks, " in row.what:
            groups[problem(row)].append(row)
    groups = {key: group for key, group in groups.items() if len(group) > 1}
    assert len(groups) > 10
    assert max(map(len, groups.values())) == 12
    for key, group in groups.items():
        chosen = min(group, key=lambda row: row.predicted)
        assert chosen.measured <= 1.05 * min(row.measured for row in group), key

"""Rows of the table of kernels, and what launches refuse."""

import numpy as np
import pytest

from wavefabric.acoustics.solver.adjoint import kernels as adjoint_kernels
from wavefabric.acoustics.solver.kernels import TABLE
from wavefabric.runtime.device import get_device
from wavefabric.runtime.kernels.library import library
from wavefabric.runtime.kernels.table import KernelArgument, kernel_table


def test_a_row():
    table = kernel_table("items scale(counted array field,\n    medium factor, int axis)", "a.b", "c.cu")
    (row,) = table.rows.values()
    assert (row.form, row.name, table.package, table.source) == ("items", "scale", "a.b", "c.cu")
    assert row.arguments == (
        KernelArgument("array", "counted", "field"),
        KernelArgument("medium", "", "factor"),
        KernelArgument("int", "", "axis"),
    )


@pytest.mark.parametrize(
    "text",
    ["boxes scale(array a)", "items scale(arrow a)", "items scale(many array a)"],
    ids=lambda t: t[:12],
)
def test_unknown_words_are_refused(text):
    with pytest.raises(AssertionError, match="scale"):
        kernel_table(text, "", "")


@pytest.mark.parametrize("table", [TABLE, adjoint_kernels.TABLE], ids=["step", "adjoint step"])
def test_the_library_has_every_kernel_of_a_table(table):
    for name in table.rows:
        assert len({library().address(f"{name}_{real}") for real in ("float", "double")}) == 2


def test_arrays_must_be_contiguous(cpu):
    kernels = cpu.kernels(TABLE)
    field, clock = np.ones((2, 6), np.float32), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match=r"shape \(2, 3\) that is not contiguous"):
        kernels.add_pattern(field[:, ::2], field[:, :3].copy(), np.ones((1, 1), np.float32), clock)


def test_the_number_of_arguments_is_checked(cpu):
    with pytest.raises(ValueError, match="zip"):
        cpu.kernels(TABLE).tick(np.zeros(1, np.int64), 3)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_point_is_done_once_by_any_number_of_threads(threads, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)  # more threads than processors work too
    kernels = get_device("cpu", threads=threads).kernels(TABLE)
    for count in (1, 2, 5, 1000):
        field, pattern = np.zeros(count), np.arange(count) + 1.0
        for _ in range(20):
            kernels.add_pattern(field, pattern, np.ones((1, 1)), np.zeros(1, np.int64))
        assert (field == 20 * pattern).all()


def test_recorded_launches_are_repeated(cpu):
    kernels, clock = cpu.kernels(TABLE), np.zeros(1, np.int64)
    field, pattern, signal = np.zeros(5), np.arange(5.0), np.array([[1.0], [10.0], [100.0]])

    def work():
        kernels.add_pattern(field, pattern, signal, clock)
        kernels.tick(clock)

    repeat = cpu.graph(work, kernels_alone=True)
    assert clock.tolist() == [0]  # nothing ran
    for _ in range(3):
        repeat()
    assert clock.tolist() == [3]
    assert field.tolist() == [0, 111, 222, 333, 444]

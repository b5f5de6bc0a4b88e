"""What nccl-tests and rccl-tests print, in all versions; tests/data/nccl_tests describes the files."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.fabric.cost_models.bus_bandwidth import bus_factor
from wavefabric.fabric.io.nccl_tests import COLLECTIVES, NcclTestsTime, load_nccl_tests, read_nccl_tests

DATA = Path(__file__).parents[2] / "data" / "nccl_tests"
HEAD = "#       size         count      type   redop    root     time   algbw   busbw #wrong"
BOTH = f"{HEAD}     time   algbw   busbw #wrong"
OLD = "#       size    count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error"
RUN = "# all_reduce_perf\n# nThread 1 nGpus 8 minBytes 8 maxBytes 16 graph: 0\n"
EIGHT = NcclTestsTime(8, 12.5e-6, 1e7, 2e7)


@pytest.mark.parametrize(
    ("file", "ranks", "last"),
    [
        ("gb200-nvl72.txt", 72, NcclTestsTime(8 << 30, 20299e-6, 423.16e9, 834.57e9)),
        ("h100-pcie-2.txt", 2, NcclTestsTime(2 << 30, 18535e-6, 115.86e9, 115.86e9)),
        ("h20-16.txt", 16, NcclTestsTime(512, 46.58e-6, 0.01e9, 0.02e9)),
    ],
)
def test_published_tables(file, ranks, last):
    (table,) = load_nccl_tests(DATA / file)
    assert (table.collective, table.ranks, table.graph) == ("all-reduce", ranks, False)
    assert table.rows[-1] == pytest.approx(last)
    # Their bus bandwidth is ours.
    for row in table.rows[-1:]:
        assert row.algbw * bus_factor("all-reduce", ranks) == pytest.approx(row.busbw, rel=0.1)


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        (BOTH, "8 2 float sum -1 12.5 0.01 0.02 0 11.0 0.01 0.02 0"),
        (BOTH, "8 2 float sum -1 12.5 0.01 0.02 N/A 11.0 0.01 0.02 N/A"),
        (BOTH, "8 2 float sum -1 12.5 0.01 0.02 0"),  # in place alone, of a trace
        (HEAD, "8 2 float sum -1 12.5 0.01 0.02 N/A"),  # rccl-tests in place
        (OLD, "8 2 float sum 12.5 0.01 0.02 1e-07 11.0 0.01 0.02 0e+00"),
        (OLD.replace("redop", ""), "8 2 float 12.5 0.01 0.02 0e+00 11.0 0.01 0.02 0e+00"),
        (f"{BOTH} timestamp", "8 2 float sum -1 12.5 0.01 0.02 0 11 0.01 0.02 0 2026-01-31 10:11:12"),
        (BOTH.replace("time", "cputime"), "8 2 float sum -1 1.25e+01 0.01 0.02 0 11 0.01 0.02 0"),
        (BOTH.lstrip("#"), "8 2 float sum -1 12.5 0.01 0.02 0 11 0.01 0.02 0"),
        (
            BOTH.replace("#wrong", "#wrong i_min i_max i_p99 i_cv%"),
            "8 2 float sum -1 12.5 0.01 0.02 0 12 13 13 0.5 11 0.01 0.02 0 10 12 12 0.5",
        ),
    ],
)
def test_columns_of_all_versions(heading, row):
    (table,) = read_nccl_tests(
        f"{RUN}{heading}\n#   (B)  (elements)\n{row}\n# Avg bus bandwidth    : 0.02 \n#\n"
    )
    assert table.rows[0] == pytest.approx(EIGHT)
    for tag in ("[1,0]<stdout>:", "[1,0]<stdout>: ", "0: "):
        tagged = "\n".join(tag + line for line in f"{RUN}{heading}\n{row}".splitlines())
        assert read_nccl_tests(tagged) == [table]


def test_several_runs_and_their_ranks():
    row = "8 2 float sum -1 12.5 0.01 0.02 0 11.0 0.01 0.02 0"
    ranks = "".join(f"#  Rank {r:2d} Group {r % 2:2d} Pid 1 on host device {r} [0x00] X\n" for r in range(8))
    text = f"{RUN.replace('graph: 0', 'graph: 2')}{ranks}{BOTH}\n0 0 float sum -1 6 0 0 0 6 0 0 0\n{row}\n"
    text += "# Collective test concluded: all_reduce_perf\n"
    text += f"$ ./build/all_gather_perf_mpi -g 2 -t 2\n# nThread 2 nGpus 2 minBytes 8\n{BOTH}\n{row}\n"
    first, second = read_nccl_tests(text)
    assert (first.collective, first.ranks, first.graph) == ("all-reduce", 4, True)  # of one group of two
    assert (second.collective, second.ranks, second.graph) == ("all-gather", 4, False)
    assert len(first.rows) == len(second.rows) == 1  # without that of size 0


def test_the_name_of_the_file_tells_the_operation(tmp_path):
    text = f"# nThread 1 nGpus 8\n{BOTH}\n8 2 float sum -1 12.5 0.01 0.02 0 11.0 0.01 0.02 0\n"
    for stem, collective in (("alltoall-h100", "all-to-all"), ("reduce_scatter", "reduce-scatter")):
        (tmp_path / f"{stem}.txt").write_text(text)
        assert load_nccl_tests(tmp_path / f"{stem}.txt")[0].collective == collective
    assert read_nccl_tests(text, "gather")[0].collective == "gather"
    with pytest.raises(InputError, match="unknown operation; allowed: --collective all-reduce"):
        read_nccl_tests(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no table of times"),
        (f"{RUN}{BOTH}\n", "no table of times"),
        (f"{RUN}{BOTH}\n8 2 float sum -1 1 2 3\n", "line 4: 8 columns given; allowed: 13, as in the heading"),
        (f"{RUN}{BOTH}\n8 2 float sum -1 fast 0 0 0 1 0 0 0\n", 'time "fast" given'),
        (f"{RUN}{BOTH}\n8 2 float sum -1 0.00 0 0 0 1 0 0 0\n", "time of 0.00 us given; allowed: above 0"),
        (f"{RUN}{BOTH}\n8 2 float sum -1 1 0 0 3 1 0 0 0\n", '#wrong is "3"'),
        (f"{RUN}{BOTH}\n" + "8 2 float sum -1 1 0 0 0 1 0 0 0\n" * 2, "8 bytes given twice"),
        (
            f"# sendrecv_perf\n# nThread 1 nGpus 8\n{BOTH}\n",
            "sendrecv_perf.* given.*; allowed: all_reduce_perf",
        ),
        (f"# all_reduce_perf\n# nThread 1 nGpus 1\n{BOTH}\n", "table of 1 rank; allowed: 2 to 4096"),
    ],
)
def test_refusals(text, words):
    with pytest.raises(InputError, match=words) as error:
        read_nccl_tests(text)
    assert "\n" not in str(error.value)


@settings(max_examples=60)
@given(st.text(), st.sampled_from(COLLECTIVES))
def test_any_text_is_read_or_refused(text, collective):
    with contextlib.suppress(InputError):
        tables = read_nccl_tests(f"{RUN}{BOTH}\n8 2 float sum -1 1 0 0 0 1 0 0 0\n{text}", collective)
        assert tables[0].rows[0].bytes == 8

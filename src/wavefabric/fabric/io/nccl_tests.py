"""Reads tables of measured times that nccl-tests and rccl-tests print (`all_reduce_perf` and others)."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from wavefabric.base.errors import InputError, choice, ensure
from wavefabric.base.files.input import parsed
from wavefabric.base.units import counted, show
from wavefabric.collectives.sizes import MOST_RANKS

#: Programs of nccl-tests, and the collective operation that each times.
PROGRAMS = {
    "all_reduce_perf": "all-reduce",
    "all_gather_perf": "all-gather",
    "reduce_scatter_perf": "reduce-scatter",
    "alltoall_perf": "all-to-all",
    "broadcast_perf": "broadcast",
    "reduce_perf": "reduce",
    "gather_perf": "gather",
    "scatter_perf": "scatter",
}
COLLECTIVES = tuple(PROGRAMS.values())
_PROGRAM = re.compile(r"\b([a-z_]+_perf)(?:_mpi)?\b")
_RUN = re.compile(r"#?\s*nThread\s+(\d{1,6})\s+nGpus\s+(\d{1,6})\b(?:.*\bgraph:\s*(\d{1,6}))?")
_RANK = re.compile(r"#?\s*Rank\s+(\d{1,7})\b(?:\s+Group\s+(\d+))?.*\bdevice\b")
_HEADER = re.compile(r"#?\s*size\s+count\b.*time\s+algbw\s+busbw\b")
_ROW = re.compile(r"\s*\d{1,18}\s+\d{1,18}\s")
#: What ``mpirun --tag-output`` and ``srun --label`` put before a line.
_TAG = re.compile(r"^(?:\[\d+,\d+\]<std(?:out|err)>:?\s?|\d+: )")
_NUMBER = re.compile(r"\d+(\.\d+)?([eE][+-]?\d{1,2})?")


class NcclTestsTime(NamedTuple):
    """A row of a table: array size in bytes, time in s, algbw and busbw in B/s, as printed."""

    bytes: int
    seconds: float
    algbw: float
    busbw: float


@dataclass(frozen=True)
class NcclTestsTable:
    """Holds a table of one collective operation among ``ranks``; out-of-place times where it has them."""

    collective: str
    ranks: int
    graph: bool  # whether a CUDA graph launched the calls
    rows: list[NcclTestsTime] = field(default_factory=list)


def load_nccl_tests(path: str | Path, collective: str | None = None) -> list[NcclTestsTable]:
    """Read the tables of a file, whose name may tell the operation too, as ``all_reduce.txt`` does."""
    stem = Path(path).stem
    named = next(
        (value for key, value in PROGRAMS.items() if stem.startswith(key.removesuffix("_perf"))), None
    )
    return parsed(path, "nccl-tests", lambda text: read_nccl_tests(text, collective or named))


def read_nccl_tests(text: str, collective: str | None = None) -> list[NcclTestsTable]:
    """Return the tables in what nccl-tests or rccl-tests printed, also of several runs one after another.

    Lines of other programs are skipped, and so are rows of size 0. The columns are those of a table's
    heading, which differ between versions. ``collective``: operation of tables that name no program.
    `InputError`, in one line: no table, an unknown program, fewer than 2 ranks, a row with other columns
    than its heading, no time above 0, wrong elements, a size given twice.
    """
    tables: list[NcclTestsTable] = []
    program, graph, ranks, columns = None, False, 1, []
    members: dict[str, set[int]] = {}  # ranks by the group that NCCL_TESTS_SPLIT puts them in
    for number, line in enumerate(text.splitlines(), 1):
        line, where = _TAG.sub("", line), f"nccl-tests: line {number}"
        if match := _PROGRAM.search(line):
            program, columns = match[1], []
        elif match := _RUN.match(line):
            graph, ranks, members, columns = int(match[3] or 0) > 0, int(match[1]) * int(match[2]), {}, []
        elif match := _RANK.match(line):
            members.setdefault(match[2] or "0", set()).add(int(match[1]))
        elif _HEADER.match(line):
            columns = line.replace("cputime", "time").lstrip("# ").split()
            if program is not None:
                choice(where, program, PROGRAMS)
            operation = PROGRAMS.get(program or "", collective or "")
            ensure(operation, where, "table of unknown operation", f"--collective {', '.join(COLLECTIVES)}")
            if members:  # reports often show the last ranks alone
                last = (max(each) + 1 if len(members) == 1 else len(each) for each in members.values())
                ranks = max(last) if len(members) > 1 else max(ranks, *last)
            ensure(
                2 <= ranks <= MOST_RANKS, where, f"table of {counted(ranks, 'rank')}", f"2 to {MOST_RANKS}"
            )
            tables.append(NcclTestsTable(operation, ranks, graph))
        elif columns and _ROW.match(line):
            row = _row(line.split(), columns, where)
            again = row.bytes in (each.bytes for each in tables[-1].rows)
            ensure(not again, where, f"{row.bytes} bytes given twice", "each size once")
            tables[-1].rows.extend([row] if row.bytes else [])
    tables = [table for table in tables if table.rows]
    ensure(tables, "nccl-tests", "no table of times", "what all_reduce_perf and others print")
    return tables


def _row(words: list[str], columns: list[str], where: str) -> NcclTestsTime:
    """Read a row; of the two times out of place and in place take the first that is there."""
    names = [name for name in columns if name != "timestamp"]
    words = words[: len(words) - 2 * (len(columns) - len(names))]
    first, last = names.index("time"), len(names) - names[::-1].index("time") - 1
    if len(words) == len(names) - (last - first):  # in place only, as newer versions print of a trace
        names[first:last] = []
    ensure(len(words) == len(names), where, f"{len(words)} columns given", f"{len(names)}, as in the heading")
    values = dict(zip(reversed(names), reversed(words), strict=True))  # the first of equal names remains
    for name in ("time", "algbw", "busbw"):
        if not _NUMBER.fullmatch(values[name]):
            raise InputError(f"{where}: {name} {show(values[name])} given; allowed: a number from 0")
    ensure(float(values["time"]) > 0, where, f"time of {values['time']} us given", "above 0")
    wrong = values.get("#wrong", "N/A")
    right = wrong == "N/A" or (_NUMBER.fullmatch(wrong) and float(wrong) == 0)
    ensure(right, where, f"#wrong is {show(wrong)}", "times of right results, 0 or N/A")
    rates = (float(values[name]) * 1e9 for name in ("algbw", "busbw"))
    return NcclTestsTime(int(words[0]), float(values["time"]) * 1e-6, *rates)

"""Reads tables of measured times that nccl-tests and rccl-tests print (`all_reduce_perf` and others)."""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from wavefabric.base.errors import InputError, ensure, not_one_of
from wavefabric.base.files.input import parsed
from wavefabric.base.units import counted, show
from wavefabric.collectives.sizes import MOST_RANKS

#: Programs of nccl-tests by the name before ``_perf``, and the collective operation that each times.
PROGRAMS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}
COLLECTIVES = tuple(PROGRAMS.values())
_PROGRAM = re.compile(r"\b([a-z_]+)_perf(?:_mpi)?\b")
_RUN = re.compile(r"#?\s*nThread\s+(\d{1,6})\s+nGpus\s+(\d{1,6})\b(?:.*\bgraph:\s*(\d{1,6}))?")
_RANK = re.compile(r"#?\s*Rank\s+(\d{1,7})\b(?:\s+Group\s+(\d+))?.*\bdevice\b")
_HEADER = re.compile(r"#?\s*size\s+count\b.*time\s+algbw\s+busbw\b")
_ROW = re.compile(r"\s*\d{1,18}\s+\d{1,18}\s")
#: What ``mpirun --tag-output`` and ``srun --label`` put before a line.
_TAG = re.compile(r"^(?:\[\d+,\d+\]<std(?:out|err)>:?\s?|\d+: )")
_NUMBER = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)?")


@dataclass(frozen=True)
class NcclTestsTime:
    """Holds a row of a table: array size in bytes, time in s, algbw and busbw in B/s, as printed."""

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
    """Read the tables of a file, whose name may tell the operation too, as ``all_reduce.txt`` does.

    ``collective``: operation of tables that name no program. `InputError` as in `read_nccl_tests`.
    """
    named = next((PROGRAMS[name] for name in PROGRAMS if Path(path).stem.startswith(name)), None)
    return parsed(path, "nccl-tests", lambda text: read_nccl_tests(text, collective or named))


def read_nccl_tests(text: str, collective: str | None = None) -> list[NcclTestsTable]:
    """Return the tables in what nccl-tests or rccl-tests printed, also of several runs one after another.

    Lines of other programs are skipped, and so are rows of size 0. The columns are those of a table's
    heading, which differ between versions. ``collective``: operation of tables that name no program.
    `InputError`, in one line: no table, an unknown program, fewer than 2 ranks, a row with other columns
    than its heading, no time above 0, wrong elements, a size given twice.
    """
    tables: list[NcclTestsTable] = []
    program, graph, ranks = None, False, 1
    members: dict[str, set[int]] = {}  # ranks by the group that NCCL_TESTS_SPLIT puts them in
    columns: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        line, where = _TAG.sub("", line), f"nccl-tests: line {number}"
        if match := _PROGRAM.search(line):
            program, columns = match[1], []
        elif match := _RUN.match(line):
            graph, ranks, members, columns = int(match[3] or 0) > 0, int(match[1]) * int(match[2]), {}, []
        elif match := _RANK.match(line):
            members.setdefault(match[2] or "0", set()).add(int(match[1]))
        elif _HEADER.match(line):
            columns = line.replace("#wrong", "wrong").replace("cputime", "time").lstrip("# ").split()
            if len(members) == 1:  # reports often show the last ranks alone
                ranks = max(ranks, 1 + max(max(each) for each in members.values()))
            elif members:
                ranks = max(map(len, members.values()))
            tables.append(NcclTestsTable(_operation(program, collective, where), ranks, graph))
            ensure(
                2 <= ranks <= MOST_RANKS, where, f"table of {counted(ranks, 'rank')}", f"2 to {MOST_RANKS}"
            )
        elif columns and _ROW.match(line):
            row = _row(line.split(), columns, where)
            if row.bytes in (each.bytes for each in tables[-1].rows):
                raise InputError(f"{where}: {row.bytes} bytes given twice; allowed: each size once")
            tables[-1].rows.extend([row] if row.bytes else [])
    tables = [table for table in tables if table.rows]
    ensure(tables, "nccl-tests", "no table of times", "what all_reduce_perf and others print")
    return tables


def _operation(program: str | None, collective: str | None, where: str) -> str:
    if program in PROGRAMS:
        return PROGRAMS[program]
    if program is not None:
        raise InputError(f"{where}: {not_one_of(f'{program}_perf', [f'{name}_perf' for name in PROGRAMS])}")
    ensure(collective, where, "table of unknown operation", f"--collective {', '.join(COLLECTIVES)}")
    return str(collective)


def _row(words: list[str], columns: list[str], where: str) -> NcclTestsTime:
    """Read a row; of the two times out of place and in place take the first that is there."""
    names = [name for name in columns if name != "timestamp"]
    words = words[: len(words) - 2 * (len(columns) - len(names))]
    first, last = names.index("time"), len(names) - names[::-1].index("time") - 1
    if len(words) == len(names) - (last - first):  # in place only, as newer versions print of a trace
        names[first:last] = []
    if len(words) != len(names):
        raise InputError(f"{where}: {len(words)} columns given; allowed: {len(names)}, as in the heading")
    values = dict(zip(reversed(names), reversed(words), strict=True))  # the first of equal names remains
    for name in ("time", "algbw", "busbw"):
        if not _NUMBER.fullmatch(values[name]):
            raise InputError(f"{where}: {name} {show(values[name])} given; allowed: a number from 0")
    seconds = float(values["time"]) * 1e-6
    ensure(0 < seconds < math.inf, where, f"time of {values['time']} us given", "above 0")
    wrong = values.get("wrong", "N/A")
    if wrong != "N/A" and not (_NUMBER.fullmatch(wrong) and float(wrong) == 0):
        raise InputError(f"{where}: #wrong is {show(wrong)}; allowed: times of right results, 0 or N/A")
    rates = (float(values[name]) * 1e9 for name in ("algbw", "busbw"))
    return NcclTestsTime(int(words[0]), seconds, *rates)

"""Implement `wavefabric report`, which writes an HTML page about a result."""

from pathlib import Path

from wavefabric.cli.common.options import OutputOptions, argument, option, options
from wavefabric.cli.common.parse import parse_size
from wavefabric.cli.common.show import conclude
from wavefabric.report import write_report


@options()
class ReportOptions(OutputOptions):
    """Options of the results, the pages, and the fabric and size for times of schedules."""

    out: Path = argument("A result, or a folder: HDF5, or JSON of what has a page.")
    output: Path | None = option("Page. [default: OUT.html, index.html of a folder]", "--output", "-o")
    fabric: str | None = option("Schedules: the fabric that they are timed on, a name or a file.")
    bytes: int = option("Schedules: bytes of the whole array.", default="64M", read=parse_size)


def command(options: ReportOptions) -> None:
    """Write one HTML page about a result: whether it worked, how fast it was, and its figures.

    It needs no network and no other file. Results are those of `run`, `kwave`, `sweep` and `simulate`,
    schedules, tunings, plans and what `train --json` printed. Of any
    other folder each result has a page, and an index leads to them.

    Examples:

    wavefabric report link.h5

    wavefabric report ring.json --fabric lightpath:4x8 --bytes 16M

    wavefabric report results --force
    """
    how = {"fabric": options.fabric, "nbytes": options.bytes}
    report = write_report(options.out, options.output, options.force, **how)
    facts = {"pages": [content.facts() for content in report.contents]}
    # Users open the first page, or the index of a folder: its name is printed last.
    conclude(options.as_json, facts, [*report.pages[1:], report.pages[0]])

"""Run measurements between ranks: define their options, start the ranks, print and write the results."""

import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wavefabric.base.errors import InputError
from wavefabric.cli.common import ranks as common_ranks
from wavefabric.cli.common.options import option, options
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.ranks import PANEL, RankOptions
from wavefabric.cli.common.show import console, plain
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.exchange.transports import TRANSPORTS

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.fabric.execution.timing import Ranks

TRANSPORTS_HELP = f"{', '.join(list(TRANSPORTS)[:0:-1])}, comma between, or all."


@options()
class RankedOptions(RankOptions):
    """Options of a measurement between ranks; ``transport`` is passed to the launcher."""

    transport: str | None = None
    transports: str = option(TRANSPORTS_HELP, "--transports", "--transport", default="all", panel=PANEL)
    device: str = option("auto, cpu or cuda: a GPU for each rank.", default="auto")
    threads: int | None = option("CPU threads of a rank.", limits=(1,))


@options()
class MeasureOptions(RankedOptions):
    """Options of a measurement between ranks, with the number of samples."""

    repeats: int = option("Samples of each time; the median counts.", default=5)


def start_ranks(options: RankedOptions, as_json: bool, least: int = 2) -> "Ranks":
    """Start the ranks of a measurement if necessary, and return at least ``least`` ranks; collective."""
    from wavefabric.fabric.execution.timing import Ranks
    from wavefabric.runtime.device.select import cuda_count

    names = parse_list(options.transports)
    # Only the launcher can enable device memory in MPI.
    seen = "mpi-cuda" in names or ("all" in names and find_spec("libucx") is not None)
    seen = seen and (options.ranks or 1) > 1 and options.device != "cpu" and cuda_count() > 0
    session = replace(options, transport="mpi-cuda" if seen else None)
    session.check()
    common_ranks.start(session, None, lambda: _ring(session.count), as_json)
    gpus = session.gpus(lambda: _ring(session.count)) if environment.ranks() > 1 else None
    ranks = Ranks(names, options.device, options.threads, gpus, least)
    options.invocation.comm = ranks.base
    return ranks


def _ring(ranks: int) -> "Schedule":
    """Return the exchange that placements are optimised for: each rank sends to both ring neighbours."""
    from wavefabric.collectives import point_to_point

    pairs = [(r, (r + step) % ranks) for r in range(ranks) for step in (1, -1)]
    return point_to_point("ring", ranks, [(a, b, 1) for a, b in pairs if a != b])


def check_free(name: str, folder: Path | None, plot: bool, force: bool) -> None:
    """Raise `InputError`, before measuring, if `show_measurement` could not write its JSON or picture."""
    names = ([f"{name}.json"] if folder is not None else []) + ([f"{name}.png"] if plot else [])
    for path in ((folder or Path()) / each for each in names):
        if path.exists() and not force:
            raise InputError(f"--output: {path} exists; allowed: another folder, or --force")
        if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
            raise InputError(f"--output: {path} is no regular file; allowed: another folder")


def show_measurement(
    module: ModuleType, result: dict[str, Any], as_json: bool, output: Path | None, plot: bool | None
) -> None:
    """Print a measurement as tables or JSON; write NAME.json if ``output`` is given, NAME.png if ``plot``."""
    from wavefabric.base.files.output import made_folder, write_text

    written, result = [], plain(result)
    stem = (output or Path()) / result["benchmark"]
    if plot is None:
        plot = not as_json or output is not None
    with made_folder(stem.parent, "--output"):
        if output is not None:
            written.append(stem.with_name(f"{stem.name}.json"))
            write_text(written[0], json.dumps(result, indent=1) + "\n", "--output", force=True)
        if plot and result.get("cases") != []:  # nothing could be measured: nothing to draw
            picture = stem.with_name(f"{stem.name}.png")
            written += module.plot(result, picture) or [picture]
    if as_json:
        print(json.dumps(result))
        return
    screen = console(markup=True)
    for each in module.table(result):
        screen.print(each)
    machine = result.get("machine", {})
    chip = machine.get("gpu") or f"{machine.get('cpu', '?')}, {machine.get('threads', '?')} threads"
    screen.print(f"{machine.get('device', '?')}: {chip}; wavefabric {machine.get('wavefabric', '?')}")
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True, markup=False)

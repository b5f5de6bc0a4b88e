"""Benchmark ``ultrasound-breakdown``: where the time of a step of the local decomposition goes."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.no_exchange import NoExchange, without_transfers
from benchmarks.rank_steps import RankSteps, even_grid, grouped, left_over
from papers.common import log2_ticks
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.acoustics.parallel.layouts import HaloExchange
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import BLUE, GREEN, GREY, ORANGE
from wavefabric.cli.bench.common import Triple, result_of, rows, silent
from wavefabric.cli.bench.ultrasound_cases import Stepper
from wavefabric.cli.common.parse import parse_list, parse_shape
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.timing import Ranks
from wavefabric.runtime.exchange.communicator import Communicator

OVERLAPS = (2, 4, 8, 16, 32)
SIZES = {"cpu": (64, 64, 128), "cuda": (512, 512, 1024)}
#: Parts of a step and their colours.
PARTS = {"compute": BLUE, "pack": GREEN, "exchange": ORANGE, "idle": GREY}


def run(
    ranks: Ranks,
    shape: Triple | None = None,
    overlaps: Sequence[int] = OVERLAPS,
    grids: Sequence[Triple] = (),
    media: Sequence[str] = ("homogeneous",),
    precision: str = "single",
    repeats: int = 5,
    progress: Callable[[str], object] = silent,
) -> dict[str, Any]:
    """Time steps and their parts, each alone; collective.

    The whole grid is by default of `SIZES`; it is cut into blocks all along z, and as nearly alike as can be,
    unless ``grids`` are given. What does not fit is left out, and said so.

    Gives ``cases``, one per medium, grid, overlap and transport, in ms per step: ``ms`` (the step itself),
    ``compute`` (the same with overlaps never filled), ``pack`` (packing and unpacking alone),
    ``exchange`` (messages alone, ready when they start), ``idle`` = ms − their sum if that is positive,
    else ``hidden`` = what overlapped; and ``speed_up`` over MPI through host memory. ``left_out``: cuts
    whose blocks are shorter than the overlap.
    """
    shape = shape or SIZES["cuda" if ranks.on_gpu else "cpu"]
    steps = RankSteps(ranks, [shape], media, precision, repeats)
    chosen = list(grids) or list(dict.fromkeys([(1, 1, ranks.size), even_grid(ranks.size)]))
    plans, left_out = [], list[str]()
    for medium, grid, overlap in product(media, chosen, overlaps):
        options = Decomposition("local", grid, overlap)
        if steps.cut(medium, shape, options, left_out):
            plans.append((medium, options))
    cases, computed = [], {}
    for comm in ranks.each():
        for plan in plans:
            medium, options = plan
            progress(f"{comm.label}: {medium}, {report.shape_words(options.grid)}, overlap {options.overlap}")
            bench = _Case(steps, comm, medium, shape, options)
            if plan not in computed:
                computed[plan] = bench.compute()
            cases.append(bench.run(computed[plan]))
    facts = {"shape": list(shape), "precision": precision, "repeats": repeats, "left_out": left_out}
    return result_of(ranks, "ultrasound-breakdown", _sped_up(cases), **facts)


def parse_blocks(text: str) -> tuple[int, int, int]:
    """Read blocks along x, y and z: ``1x2x2``."""
    nx, ny, nz = parse_shape(text, "--grid", "blocks along x, y and z, such as 1x2x2", (3,))
    return nx, ny, nz


def parse_overlaps(text: str) -> list[int]:
    """Read whole numbers from 1 with commas between."""
    words = parse_list(text)
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise InputError(f"--overlaps: {text!r} given; allowed: whole numbers from 1, comma between")
    return [int(word) for word in words]


def _sped_up(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With ``speed_up`` over the step of the same case through MPI and host memory, where there is one."""

    def key(case):
        return case["medium"], tuple(case["grid"]), case["overlap"]

    staged = {key(case): case["ms"] for case in cases if case["transport"] == "mpi"}
    return [case | {"speed_up": staged[key(case)] / case["ms"] if staged else None} for case in cases]


class _Case:
    """One medium, cut and transport."""

    def __init__(
        self, steps: RankSteps, comm: Communicator, medium: str, shape: Triple, options: Decomposition
    ):
        self.steps, self.comm = steps, comm
        self.medium, self.shape, self.options = medium, shape, options

    def stepper(self) -> Stepper:
        return self.steps.stepper(self.comm, self.medium, self.shape, self.options)

    def compute(self) -> float:
        """ms of a step that never fills its overlaps."""
        stepper = self.stepper()
        halo = stepper.stages.layout.halo  # type: ignore[attr-defined]
        stepper.stages.layout.finish_exchanges()  # their memory is freed
        halo.exchanges = {count: NoExchange() for count in halo.exchanges}
        stepper.begin_anew()
        return self.time(stepper)

    def run(self, compute: float) -> dict[str, Any]:
        stepper = self.stepper()
        halo: HaloExchange = stepper.stages.layout.halo  # type: ignore[attr-defined]
        #: Fields of each exchange of a step.
        starts: list[list] = []

        def noted(start: Callable[[list], None], fields: list) -> None:
            starts.append(list(fields))
            start(fields)

        for exchange in halo.exchanges.values():
            exchange.start = partial(noted, exchange.start)  # type: ignore[method-assign]
        stepper.begin_anew(1)  # a graph would tell nobody
        for exchange in halo.exchanges.values():
            del exchange.start  # the class's own again
        stepper.begin_anew()
        times = self.steps.times(stepper)
        # A fused step leaves an exchange under way.
        stepper.stages.layout.finish_exchanges()
        nothing = without_transfers(self.comm, self.comm.one_sided)
        cut = decompose(self.shape, self.comm.size, self.options)
        packing = HaloExchange(stepper.stages.coefficients, nothing, cut)

        def fill(halo: HaloExchange) -> None:
            for fields in starts:
                halo.fill(fields)

        def messages() -> None:
            for fields in starts:
                halo.exchanges[len(fields)].exchange.start()
                halo.exchanges[len(fields)].exchange.finish()

        pack = self.time(lambda: fill(packing))
        if self.comm.one_sided:
            # Packing is sending, where kernels store in other ranks' memory.
            sending = max(0.0, self.time(lambda: fill(halo)) - pack)
        else:
            sending = self.time(messages)
        rest = times["ms"] - compute - pack - sending
        return times | {
            "transport": self.comm.label,
            "medium": self.medium,
            "grid": list(self.options.grid or ()),
            "overlap": self.options.overlap,
            "bytes_sent_a_step": sum(halo.exchanges[len(fields)].bytes for fields in starts),
            "compute": compute,
            "pack": pack,
            "exchange": sending,
            "idle": max(0.0, rest),
            "hidden": max(0.0, -rest),
            "finite": stepper.finite(),
        }

    def time(self, work: Callable[[], Any]) -> float:
        return self.steps.times(work)["ms"]


def _grouped(result: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Cases by medium and blocks."""
    cases = [case | {"blocks": report.shape_words(case["grid"])} for case in result["cases"]]
    return grouped(cases, "medium", "blocks")


def table(result: dict[str, Any]) -> list:
    """A table a medium and grid of blocks."""
    tables: list = []
    cells = [f"{{{key}:.3g}}" for key in ("ms", *PARTS, "hidden")]
    for (medium, grid), cases in _grouped(result).items():
        for case in cases:
            case["mib"] = case["bytes_sent_a_step"] / 2**20
            case["times"] = "-" if case["speed_up"] is None else f"{case['speed_up']:.2f}"
        cases.sort(key=lambda case: case["overlap"])
        tables.append(
            report.table(
                f"{report.shape_words(result['shape'])}, {medium}, {grid} blocks",
                ("overlap", "<", "step ms", *PARTS, "hidden", "MiB sent", "x MPI"),
                rows(cases, "{overlap}", "{via}", *cells, "{mib:.1f}", "{times}"),
                "parts are timed alone; hidden: by how much they add up to more than the step",
            )
        )
    return tables + left_over(result)


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw stacked bars of the parts by overlap and transport, and speed-ups over MPI, a row a grid."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    groups = _grouped(result)
    rows = max(1, len(groups))
    with report.figure(path, (10.5, 0.8 + 3.2 * rows), "y") as figure:
        panels = figure.subplots(rows, 2, squeeze=False, width_ratios=(2, 1))
        for (left, right), ((medium, grid), cases) in zip(panels, groups.items(), strict=False):
            transports = report.distinct(cases, "transport")
            _part_bars(left, cases, transports)
            names = ", ".join(report.transport_name(name) for name in transports)
            left.set_title(f"{medium}, {grid} blocks: {names}", fontsize=9)
            _speed_ups(right, cases, transports)
        handles: list = [Patch(color=colour, label=part) for part, colour in PARTS.items()]
        handles.append(Line2D([], [], color="black", linewidth=1, label="the step"))
        figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9)


def _part_bars(axes, cases: list[dict[str, Any]], transports: list[str]) -> None:
    overlaps = sorted({case["overlap"] for case in cases})
    width = 0.8 / len(transports)
    for case in cases:
        x, below = overlaps.index(case["overlap"]) + width * transports.index(case["transport"]), 0.0
        for part, colour in PARTS.items():
            axes.bar(x, case[part], width * 0.9, bottom=below, color=colour)
            below += case[part]
        axes.plot([x - 0.45 * width, x + 0.45 * width], [case["ms"]] * 2, color="black", linewidth=1)
    middle = [at + 0.4 - width / 2 for at in range(len(overlaps))]
    axes.set_xticks(middle, [str(overlap) for overlap in overlaps])
    axes.set(xlabel="overlap (points)", ylabel="ms per step")


def _speed_ups(axes, cases: list[dict[str, Any]], transports: list[str]) -> None:
    for number, name in enumerate(transports):
        points = sorted((c["overlap"], c["speed_up"]) for c in cases if c["transport"] == name)
        if all(value is not None for _, value in points):
            axes.plot(*zip(*points, strict=True), label=report.transport_name(name), **report.look(number))
    if axes.lines:
        axes.legend(fontsize=8)
    log2_ticks(axes, sorted({case["overlap"] for case in cases}))
    axes.set(xlabel="overlap (points)", ylabel="times faster than MPI")

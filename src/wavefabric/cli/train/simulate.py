"""Implement `wavefabric train MODEL`, which simulates training iterations on fabrics and compares them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.base.files.output import check_output
from wavefabric.cli.common.files import PICTURES, load_fabric
from wavefabric.cli.common.options import OutputOptions, argument, changed, option, options, refuse
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.planning_options import PlanningOptions
from wavefabric.cli.common.progress import make_progress
from wavefabric.cli.common.show import conclude
from wavefabric.cli.train.table import facts, show_case, show_comparison
from wavefabric.cli.train.work import WorkOptions, make_work
from wavefabric.collectives.sizes import MOST_RANKS
from wavefabric.fabric import AnyFabric
from wavefabric.fabric.electrical.families import FAMILIES
from wavefabric.training.compare import Case, check_lists, compare
from wavefabric.training.comparison_picture import draw_comparison
from wavefabric.training.fabrics import fabric_for
from wavefabric.training.iteration.faults import parse_slow_links, with_slow_links
from wavefabric.training.strategies.strategy_text import save_strategy
from wavefabric.training.traces.chakra import write_chakra
from wavefabric.training.traces.chakra.messages import schema
from wavefabric.training.traces.perfetto import write_perfetto
from wavefabric.training.traces.timeline import draw_timeline

Fabrics = Sequence[str | AnyFabric]
#: Options that ``--compare`` does not allow.
_SINGLE = ("trace", "chakra", "save_strategy")


@options("Fabric")
class TrainFabricOptions:
    """Options of the fabric between the GPUs, and of communication over it."""

    gpus: str | None = option("How many work; with --compare several, such as 4,16,64. [default: all]")
    fabric: str = option(
        "Name or file, as of `collective cost`. switch, lightpath, ring, mesh, torus and hypercube without "
        "numbers are as large as needed.",
        default="switch",
    )
    slow_link: str | None = option("Links of an electrical fabric that are slower, such as GPU0-switch:4.")
    collective: str = option(
        "{wavefabric.training.communication.algorithms:CHOICES}; lumorph-2 and lumorph-4 are recursive:2 and "
        "recursive:4.",
        default="ring",
        checked=False,
    )
    policy: str = option(
        "Order of calls: {wavefabric.training.iteration.engine:POLICIES}.", default="batched"
    )


@options()
class ResultOptions(OutputOptions):
    """Options of the model to simulate, of comparisons, and of the output files."""

    model: str = argument(
        "Name, such as bert-large (`wavefabric train models`); a file (JSON); a Chakra trace (NAME of "
        "NAME.0.et, …); or a time step: fibre:MODESxSAMPLES or ultrasound:NXxNYxNZ[:local].",
        "MODEL",
    )
    compare: bool = option("Compare all of --gpus, --fabric and --collective, lists.", default=False)
    output: Path | None = option(
        "Picture: the timeline; with --compare throughput over GPUs.", "--output", "-o", endings=PICTURES
    )
    trace: Path | None = option("Chrome trace (JSON), for Perfetto.", endings=(".json",))
    chakra: Path | None = option("Chakra trace: files NAME.RANK.et.")
    save_strategy: Path | None = option("Strategy (JSON), which --strategy reads.", endings=(".json",))

    @property
    def pictured(self) -> bool:
        """Whether a timeline or trace is written, which shows every layer."""
        return not self.compare and any((self.output, self.trace, self.chakra))


def _parse_gpus(text: str) -> list[int]:
    """Parse numbers of GPUs, with commas between."""
    words = parse_list(text)
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) <= 9 and 1 <= int(word) <= MOST_RANKS):
            allowed = f"whole numbers from 1 to {MOST_RANKS}, such as 16 or 4,16,64"
            raise InputError(f"--gpus: {text} given; allowed: {allowed}")
    return [int(word) for word in words]


def command(
    work: WorkOptions, where: TrainFabricOptions, circuits: PlanningOptions, result: ResultOptions
) -> None:
    """Time of a training iteration on a fabric, what of it is communication, and what bounds it.

    Examples:

    wavefabric train bert-large --gpus 256 --fabric lightpath --collective lumorph-4 -o timeline.png

    wavefabric train gpt-7b --gpus 64 --strategy tensor:8,pipeline:2,sharded --precision bf16

    wavefabric train ncf --gpus 4,16,64,256 --fabric switch,lightpath --collective ring,lumorph-2 --compare
    """
    # Families stay names: `compare` builds them as large as needed.
    fabrics = [word if word in FAMILIES else load_fabric(word) for word in parse_list(where.fabric)]
    collectives = parse_list(where.collective)
    options = make_work(result.model, work, where.policy)
    if where.gpus is not None:
        gpus = _parse_gpus(where.gpus)
    elif options.gpus is not None:
        gpus = [options.gpus]
    elif len(fabrics) == 1 and not isinstance(fabrics[0], str):
        gpus = [fabrics[0].ranks]
    else:
        raise InputError("--gpus: none given; allowed: a number such as 16, or one --fabric with numbers")
    check_lists(gpus, fabrics, collectives)
    if not result.compare:
        for name, values in (("gpus", gpus), ("fabric", fabrics), ("collective", collectives)):
            if len(values) > 1:
                text = getattr(where, name)
                raise InputError(f"--{name}: {text} given; allowed: one, or several with --compare")
    healthy: Fabrics = fabrics
    if where.slow_link is not None:
        if result.compare:
            refuse(changed(where, "slow_link"), "with --compare", "with one simulation")
        healthy = [fabric_for(word, gpus[0]) if isinstance(word, str) else word for word in fabrics]
        fabrics = [with_slow_links(fabric, parse_slow_links(where.slow_link)) for fabric in healthy]
    inputs = (result.model, work.strategy, work.device, *options.files)
    _check_files(result, inputs, gpus[0], options.is_model)
    for count in gpus:
        options.check(count)
    # A search shows its own progress bar.
    single = len(gpus) * len(fabrics) * len(collectives) == 1
    progress = make_progress(result.as_json or single or options.searched)
    how: dict[str, Any] = {"policy": where.policy, "circuits": changed(circuits), "progress": progress}
    cases = compare(options.make, gpus, fabrics, collectives, merge=not result.pictured, **how)
    without: list[Case] = []
    if where.slow_link is not None or work.straggler is not None:
        plain = make_work(result.model, replace(work, straggler=None), where.policy)
        without = compare(plain.make, gpus, healthy, collectives, **how)
    planned = (name if value is True else f"{name} {value}" for name, value in changed(circuits).items())
    title = ", ".join([options.title, f"{where.policy} calls", *planned])
    if result.compare:
        written = [] if result.output is None else [draw_comparison(result.output, cases, title)]
        results = {"work": title, "cases": [facts(*pair) for pair in zip_longest(cases, without)]}
        conclude(result.as_json, results, written, show_comparison(cases, title))
    else:
        written = _write_files(cases[0], result, options.name)
        plain_case = without[0] if without else None
        results = {"work": title, **facts(cases[0], plain_case)}
        shown = show_case(cases[0], title, options.memory, plain_case)
        conclude(result.as_json, results, written, shown)


def _check_files(result: ResultOptions, inputs: Sequence[str | Path], gpus: int, with_strategy: bool) -> None:
    """Raise `InputError` for output files that cannot or must not be written."""
    if result.compare:
        refuse(changed(result, *_SINGLE), "with --compare", "with one simulation")
    if not with_strategy:
        refuse(changed(result, "save_strategy"), "without a model", "with a model")
    if result.trace is not None and result.trace == result.save_strategy:
        raise InputError(f"--trace: {result.trace} given, and --save-strategy; allowed: another name")
    for name, path in changed(result, "trace", "save_strategy").items():
        check_output(path, result.force, f"--{name.replace('_', '-')}", inputs=inputs)
    if result.chakra is not None:
        schema()
        if result.chakra.name in ("", ".."):  # Path("") is Path(".")
            shown = f"{result.chakra} or nothing" if str(result.chakra) == "." else result.chakra
            raise InputError(f"--chakra: {shown} given; allowed: NAME of the files NAME.RANK.et")
        for rank in range(gpus):
            check_output(f"{result.chakra}.{rank}.et", result.force, "--chakra", inputs=inputs)


def _write_files(case: Case, result: ResultOptions, name: str) -> list[Path]:
    """Write the files that ``result`` asks for; ``name`` of the work is in the title; return their paths."""
    written: list[Path] = []
    workload = case.iteration.workload
    if result.output is not None:
        words = f"{name} on {case.gpus} GPUs of {case.fabric.name}, {case.collective}"
        written.append(draw_timeline(result.output, case.iteration, title=words, force=result.force))
    if result.trace is not None:
        written.append(write_perfetto(result.trace, case.iteration, result.force))
    if result.chakra is not None:
        written += write_chakra(result.chakra, case.iteration, force=result.force)
    if result.save_strategy is not None and workload is not None:
        written.append(save_strategy(result.save_strategy, workload.model, workload.strategy, result.force))
    return written

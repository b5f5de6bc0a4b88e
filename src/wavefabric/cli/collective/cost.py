"""Implement `wavefabric collective cost`: times of schedules on a fabric, compared with the lower bound."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError, choice, ensure, not_one_of
from wavefabric.cli.collective import algorithm as source
from wavefabric.cli.collective.algorithm import AlgorithmOptions
from wavefabric.cli.collective.facts import Costed, circuit_facts, in_order, rows_of, show_costs
from wavefabric.cli.collective.setting import PLANNING, CircuitOptions, FabricSetting, make_setting
from wavefabric.cli.common.files import PICTURES
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.parse import FACTOR_HELP, parse_sizes
from wavefabric.cli.common.show import conclude
from wavefabric.collectives.builders.messages import near_square
from wavefabric.collectives.candidates import Candidates, Choice
from wavefabric.collectives.conditions import kind
from wavefabric.collectives.registry import ALGORITHMS, options_of, why_refused
from wavefabric.collectives.synthesis.deadline import now
from wavefabric.fabric import AnyFabric, PhotonicFabric
from wavefabric.fabric.candidates import algorithm_grid, candidates_on
from wavefabric.fabric.cost_models.cost import check_sizes, cost, model_for
from wavefabric.fabric.draw.pictures import draw_costs
from wavefabric.fabric.io.nccl_tests import NcclTestsTime, load_nccl_tests
from wavefabric.fabric.photonic.link_budget import LinkBudget
from wavefabric.fabric.rank_order import depends_on_pair

#: Options that not all algorithms have.
_SPECIAL = ("radix", "grid", "pieces")
#: Words that ``--algorithms`` takes instead of names.
_EVERY = ("all", "auto")
#: Word that ``--algorithms`` takes for the fastest schedule of every method, and seconds to search for it.
_OPTIMAL, _SECONDS = "optimal", 60.0


@options()
class CostOptions(source.ScheduleOptions):
    """Options of the schedules to cost, and of the cost model."""

    bytes: str | None = option(
        "Of the whole array: 64M, or 64K,1M, or 64K:1G. K, M, G: 2^10, … [default: 64M; of a recorded step "
        "its own]"
    )
    factor: int | None = option(FACTOR_HELP)
    algorithms: str | None = option(
        "Compare these, such as ring,recursive:4,double-tree:8,hierarchical:2x8 (radix, or pieces; nodes and "
        "GPUs of each); all: every algorithm, with all parameters worth trying; auto: the fastest of these; "
        "optimal: for each size the fastest of every method, as `make optimal` finds it."
    )
    model: str = option(
        "auto, {wavefabric.fabric.cost_models.cost:COST_MODELS}.", default="auto", also=("auto",)
    )
    engines: int | None = option(
        "flow: copy engines, transfers that a GPU sends at once. [default: any]",
        limits=(1,),
        allowed="1 or more",
    )
    protocol: str | None = option(
        "kernel: {wavefabric.collectives.plans.plan:PROTOCOLS}. [default: the faster]"
    )
    graph: bool = option(
        "kernel: calls as nodes of a CUDA graph, without the host's launch time.", default=False
    )
    nccl_tests: Path | None = option(
        "What nccl-tests or rccl-tests printed: show its times, of its sizes unless --bytes is given."
    )
    rounds: bool = option("Show every round.", default=False)
    output: Path | None = option("Picture: time over size.", "--output", "-o", endings=PICTURES)


def command(algorithm: source.RankedAlgorithmOptions, circuit: CircuitOptions, options: CostOptions) -> None:
    """Time of a schedule on a fabric under a model, and of the least that any schedule needs.

    Examples:

    wavefabric collective cost recursive all-reduce --radix 4 --fabric lightpath:8x8 --bytes 64K:1G

    wavefabric collective cost all-reduce --algorithms ring,recursive:4 --fabric dgx-a100 -o compare.png

    wavefabric collective cost all-reduce --algorithms all,recursive:4 --fabric lightpath:4x8

    wavefabric collective cost ring all-reduce --fabric dgx-1 --order auto
    """
    if options.engines is not None and options.model != "flow":
        raise InputError(f"--engines: {options.engines} given; allowed: with --model flow")
    bytes_each = parse_sizes("64M" if options.bytes is None else options.bytes, "--bytes", options.factor)
    words, setting = options.words, make_setting(circuit)
    ranks = setting.fabric.ranks if algorithm.ranks is None else algorithm.ranks
    if model_for(setting.fabric, ranks, options.model) != "kernel":
        refuse(changed(options, "protocol", "graph"), f"with --model {options.model}", "with --model kernel")
    left_out: dict[str, str] = {}
    if options.algorithms is None:
        schedule = source.schedule_from(words, algorithm, setting.fabric)
        grid = None
        if words and algorithm.grid is None:
            grid = algorithm_grid(words[0], schedule.ranks, setting.fabric)
        chosen = {schedule.name: Costed(schedule, schedule.name, grid)}
        times = _measured(options.nccl_tests, kind(schedule)[0], schedule.ranks)
    else:
        refuse(changed(circuit, "circuits"), "with --algorithms", "with one schedule")
        chosen = _compared(options.algorithms, words, algorithm, setting.fabric, left_out)
        times = _measured(options.nccl_tests, words[0] if words else "", ranks)
    bytes_each = sorted(times) if times and options.bytes is None else bytes_each
    if options.algorithms and words and _OPTIMAL in _listed(options.algorithms):
        chosen[_OPTIMAL] = _optimal(words[0], algorithm, setting.fabric, bytes_each, options.model)
    recorded = None if times else source.own_bytes(each.schedule for each in chosen.values())
    bytes_each = [recorded] if options.bytes is None and recorded else bytes_each
    chosen = {name: replace(each, measured=times) for name, each in chosen.items()}
    costed = _all_costed(chosen, setting, bytes_each, options, left_out)
    written = []
    if options.output is not None:
        costs = {name: list(each.costs) for name, each in costed.items()}
        written.append(draw_costs(options.output, bytes_each, costs, setting.fabric.name))
    reorder = depends_on_pair(setting.fabric) and any(
        each.schedule.communication_rounds for each in costed.values()
    )
    rate = getattr(setting.fabric, "laser_bandwidth", 0.0)
    shown = show_costs(costed, bytes_each, options.rounds, reorder, rate)
    lines = (f"left out: {name} ({why})" for name, why in left_out.items())
    facts = rows_of(costed, bytes_each, options.rounds) | ({"left_out": left_out} if left_out else {})
    conclude(options.as_json, facts, written, chain(shown, lines))


def _measured(path: Path | None, collective: str, ranks: int) -> dict[int, NcclTestsTime]:
    """Return the times of an operation in a file of nccl-tests by bytes of the array; {} without a file."""
    if path is None:
        return {}
    tables = {(table.collective, table.ranks): table.rows for table in load_nccl_tests(path, collective)}
    actual = ", ".join(f"{operation} of {count} ranks" for operation, count in tables)
    allowed = f"{collective} of {ranks} ranks, as costed"
    ensure((collective, ranks) in tables, "--nccl-tests", f"{path} holds {actual}", allowed)
    return {row.bytes: row for row in tables[collective, ranks]}


def _listed(text: str) -> list[str]:
    """Return the words of ``--algorithms``."""
    return [word.strip() for word in text.split(",")]


def _compared(
    text: str, words: list[str] | None, options: AlgorithmOptions, fabric: AnyFabric, left_out: dict[str, str]
) -> dict[str, Costed]:
    """Build the schedules of ``--algorithms``, not costed yet; note omitted ones in ``left_out``."""
    if not words or len(words) != 1:
        actual = " ".join(words) if words else "nothing"
        raise InputError(f"COLLECTIVE: {actual} given with --algorithms; allowed: one, such as all-reduce")
    requests: dict[str, tuple[AlgorithmOptions, Choice | None]] = {}
    words_listed = _listed(text)
    for word in words_listed:
        name = word.partition(":")[0]
        if word in requests or words_listed.count(word) > 1:
            raise InputError(f"--algorithms: {word} given twice; allowed: each once")
        if word == _OPTIMAL:
            continue
        if word in _EVERY:
            each = _every(words[0], options, fabric, left_out)
            requests |= {k: one for k, one in each.items() if k not in (*requests, *words_listed)}
            continue
        if name not in ALGORITHMS:
            raise InputError(
                f"--algorithms: {not_one_of(name or text, ALGORITHMS, ', '.join((*_EVERY, _OPTIMAL)))}"
            )
        requests[word] = _settings(word, words[0], options), None
    for name, value in changed(options, *_SPECIAL).items():
        if name == "pieces" and _OPTIMAL in words_listed:
            continue
        if f"--{name}" in options.present() and all(
            getattr(settings, name) != value for settings, _ in requests.values()
        ):
            raise InputError(f"--{name}: {value} given; allowed: with an algorithm that has a use for it")
    pipelined = any(settings.parts > 1 for settings, _ in requests.values())
    elements, costed = options.message_sizes(words[0]), {}
    for word, (settings, candidate) in requests.items():
        name = word.partition(":")[0]
        schedule = source.build_by_name(name, words[0], settings, fabric, elements)
        grid = algorithm_grid(name, schedule.ranks, fabric) if settings.grid is None else None
        # If any schedule is pipelined, labels of trees say that they are not.
        tree = name in ("tree", "double-tree", "binomial") and pipelined and settings.parts == 1
        costed[word] = Costed(schedule, f"{word}, pieces 1" if tree else word, grid, choice=candidate)
    return costed


def _optimal(
    collective: str, options: AlgorithmOptions, fabric: AnyFabric, sizes: list[int], model: str
) -> Costed:
    """Find the fastest schedule of each size on an electrical fabric; return all costs with the methods."""
    if isinstance(fabric, PhotonicFabric):
        raise InputError(f"--algorithms: optimal given with photonic {fabric.name}; allowed: electrical ones")
    if options.ranks not in (None, fabric.ranks):
        refuse(changed(options, "ranks"), "with --algorithms optimal", f"{fabric.ranks}, or without")
    choice("COLLECTIVE", collective, dict.fromkeys(c for a in ALGORITHMS.values() for c in a.collectives))
    from wavefabric.fabric.fastest import fastest_schedule  # and the solvers, which no other algorithm needs

    cut = options.cut(collective)
    fastest = [
        fastest_schedule(collective, fabric, size, cut, model=model, until=now() + _SECONDS / len(sizes))
        for size in sizes
    ]
    costs, methods = tuple(each.cost for each in fastest), tuple(each.method for each in fastest)
    return Costed(fastest[-1].schedule, _OPTIMAL, costs=costs, methods=methods)


def _every(
    collective: str, options: AlgorithmOptions, fabric: AnyFabric, left_out: dict[str, str]
) -> dict[str, tuple[AlgorithmOptions, Choice]]:
    """Return all algorithms for ``collective`` among the ranks, by their words in ``--algorithms``.

    Parameters that an option sets are not varied.
    """
    choice("COLLECTIVE", collective, dict.fromkeys(c for a in ALGORITHMS.values() for c in a.collectives))
    ranks = options.ranks or fabric.ranks
    candidates = candidates_on(fabric, collective, range(ranks))
    runnable: dict[str, tuple[AlgorithmOptions, Choice]] = {}
    refusals: dict[str, str] = {}
    for candidate in candidates.choices:
        name = word = candidate.algorithm
        fixed = _settings(name, collective, options)
        usual = algorithm_grid(name, ranks, fabric) or near_square(ranks)
        if fixed.grid is None and candidate.grid not in (None, usual):
            word += ":" + "x".join(map(str, candidate.grid))
        if fixed.radix is None and candidate.radix not in (None, 2):
            word += f":{candidate.radix}"
        if fixed.parts == 1 and candidate.pieces > 1:
            word += f":{candidate.pieces}"
        settings = _settings(word, collective, options)
        if why := why_refused(name, collective, ranks, **settings.registry(name, ranks, fabric)):
            refusals[word] = why
        else:
            runnable.setdefault(word, (settings, candidate))
    if not runnable:
        raise InputError(f"--algorithms: all given; {next(iter((refusals | candidates.left_out).values()))}")
    left_out |= candidates.left_out | refusals
    return runnable


def _all_costed(
    chosen: dict[str, Costed], setting: FabricSetting, sizes: list[int], request: CostOptions, left_out: dict
) -> dict[str, Costed]:
    """Return the schedules with their costs.

    Schedules that ``all`` or ``auto`` chose go to ``left_out``, with the reason, if the fabric cannot run
    them; with ``auto`` they are also dropped if they are the fastest at no size.
    """
    costed, failures = {}, {}
    for name, each in chosen.items():
        try:
            costed[name] = each if each.costs else _costed(each, setting, sizes, request)
        except InputError as error:
            if each.choice is None:
                raise
            failures[each.choice] = str(error)
    if not costed:
        raise InputError(next(iter(failures.values())))
    choices = tuple(each.choice for each in chosen.values() if each.choice is not None)
    left_out |= Candidates(choices, {}).without(failures).left_out
    if "auto" in _listed(request.algorithms or ""):
        fastest = [in_order(costed.values(), k)[0] for k in range(len(sizes))]
        costed = {n: each for n, each in costed.items() if each.choice is None or each in fastest}
    return costed


def _settings(word: str, collective: str, options: AlgorithmOptions) -> AlgorithmOptions:
    """Return the options for one word of ``--algorithms``, with the grid, radix or pieces after its colons.

    Options that the algorithm does not have are removed: they are for the algorithms it is compared with.
    """
    name, *parameters = word.split(":")
    allowed_options = options_of(name, collective)
    unused: dict[str, Any] = {o: None for o in _SPECIAL if o not in allowed_options}
    options = replace(options, **unused)
    takes = next((each for each in ("radix", "pieces") if each in allowed_options), None)
    for text in parameters:
        if "grid" in allowed_options and "x" in text.strip("x"):
            options = replace(options, grid=text)
        elif takes and text.isascii() and text.isdigit() and len(text) < 7:
            options = replace(options, **{takes: int(text)})
        else:
            allowed = "a radix or pieces" if takes else f"no number, {name} has no radix and no pieces"
            raise InputError(f"--algorithms: {word} given; allowed: {allowed} behind the colon")
    return options


def _costed(each: Costed, setting: FabricSetting, sizes: list[int], request: CostOptions) -> Costed:
    """Return ``each`` with its costs for all sizes, with one order of GPUs and one plan of circuits."""
    schedule, elements = each.schedule, source.whole_array(each.schedule)
    # The order is optimised for the largest size, where bandwidths of links matter most.
    fabric, order = setting.in_order(schedule, max(sizes) / elements, request.model)
    options: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    if setting.options.reconfigure != "always":
        refuse(changed(setting.options, "circuits", "incremental", "budget"), "with --reconfigure", "without")
        options = {name: getattr(setting.options, name) for name in ("reconfigure", *PLANNING)}
    elif isinstance(fabric, PhotonicFabric):
        check_sizes(schedule, fabric, 1.0)
        plan = setting.plan_circuits(schedule)
        facts = circuit_facts(plan)
        options = {"plan": plan, "incremental": setting.options.incremental}
        if setting.options.budget:
            options["budget"] = fabric.budget or LinkBudget()
    elif request.engines is not None:
        options["engines"] = request.engines
    elif model_for(fabric, schedule.ranks, request.model) == "kernel":
        options = {"protocol": request.protocol or "auto", "graph": request.graph}
    costs = tuple(cost(schedule, fabric, size / elements, request.model, **options) for size in sizes)
    return replace(each, order=order, costs=costs, circuits=facts)

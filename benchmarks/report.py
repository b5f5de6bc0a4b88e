"""The report: tables and pictures of what is there, beside the paper's numbers and goals for eight GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import ultrasound_scaling
from benchmarks.parts import ALGORITHMS, COLLECTIVES, COMPARISONS, Part
from benchmarks.runner import DONE, devices, read_json, read_record
from papers.fibre import scaling
from wavefabric.base.files.output import replacing
from wavefabric.base.results.provenance import stamp
from wavefabric.fabric.execution import measure_fabric
from wavefabric.fabric.execution.report import size_words, transport_name, unavailable

FIBRE = "fibre fibre-copies fibre-mpi-cuda fibre-mpi"
#: Cut along z alone, which is what is drawn over the number of ranks.
ALONG_Z = "ultrasound-1d ultrasound-copies ultrasound-mpi-cuda ultrasound-mpi"
VERSUS = "local-vs-global local-vs-global-copies large"
#: GPUs of the goals.
RANKS = 8


class Outcome(NamedTuple):
    """The result of a part that is done."""

    part: Part
    path: Path
    result: dict[str, Any]


@dataclass(frozen=True)
class Results:
    """The folder of a suite, whose parts may be done or not; ``pictures``: whether to draw."""

    root: Path
    parts: Sequence[Part]
    machine: dict[str, Any]
    small: bool
    pictures: bool = True

    def record(self, part: Part) -> dict[str, Any]:
        """How a part ended; its state is ``missing`` where it was not run."""
        state, why = ("left out", part.left_out) if part.left_out else ("missing", "not run")
        return read_record(self.root / "parts", part.name) or {"state": state, "why": why, "said": []}

    def of(self, kinds: str, file: str) -> list[Outcome]:
        """Results of these kinds of parts, in ascending ranks."""
        results = []
        for part in sorted(self.parts, key=lambda part: part.ranks):
            path = self.root / "parts" / part.name / file
            if part.name.rpartition("-")[0] in kinds.split() and self.record(part)["state"] == DONE:
                results += [Outcome(part, path, result) for result in [read_json(path)] if result]
        return results

    def picture(self, path: Path, caption: str, plot: Callable[..., object] | None = None, *what: Any):
        """A picture of the report, drawn by ``plot``, or that of a part."""
        if plot and self.pictures:
            plot(*what, path)
        return f"![{caption}]({path.relative_to(self.root)})" if path.exists() else ""


def write_report(results: Results) -> list[Path]:
    """Write ``report.md``; a section whose results have another form, as another version's may, says so."""
    lines = ["# Benchmark suite", _introduction(results)]
    for title, section in _SECTIONS.items():
        blocks: list[str] = []
        try:
            blocks.extend(filter(None, section(results)))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:  # InputError too
            blocks.append(f"Cannot be shown: {type(error).__name__}: {error}")
        lines += [f"## {title}", *(blocks or ["Missing: no part of it is done."])]
    path = results.root / "report.md"
    with replacing(path) as partial:
        partial.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return [path, *sorted(results.root.glob("*.png"))]


def _introduction(results: Results) -> str:
    machine, records = results.machine, [results.record(part) for part in results.parts]
    commit = f" (commit {machine['git_commit'][:12]})" if machine["git_commit"] else ""
    facts = [f"{len(machine['gpus']) or 1} x {', '.join(devices(machine))}", machine["system"]]
    facts += [f"Python {machine['python']}", f"driver {machine['driver'] or '-'}"]
    facts += [f"{name}={text}" for name, text in machine["environment"].items()]
    facts += [f"{name} {version}" for name, version in machine["versions"].items()]
    programs = {record["program"] for record in records if record["state"] == DONE}
    several = " Measured **by several versions of the program**." if len(programs) > 1 else ""
    return f"wavefabric {machine['wavefabric']}{commit} on {', '.join(facts)}.{several} Written {stamp()}."


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown; columns whose heading begins with ``<`` are to the left, others to the right."""
    rules = ["---" if heading.startswith("<") else "--:" for heading in columns]
    lines = [[heading.lstrip("<") for heading in columns], rules, *rows]
    cells = ([text.replace("|", "\\|").replace("\n", " ") for text in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _blocks(shown: Iterable[Any]) -> Iterator[str]:
    """What ``table(result)`` of a benchmark gives, as Markdown: lines, and `rich.table.Table`."""
    for each in shown:
        if isinstance(each, str):
            yield each
            continue
        columns = [("<" if column.justify == "left" else "") + str(column.header) for column in each.columns]
        rows = zip(*(map(str, column.cells) for column in each.columns), strict=True)
        pieces = [f"**{each.title}**" if each.title else "", _table(columns, rows), str(each.caption or "")]
        yield "\n\n".join(filter(None, pieces))


def _merged(result: Sequence[Outcome]) -> dict[str, Any]:
    """One result with the cases of all."""
    cases = [case | {"ranks": each.part.ranks} for each in result for case in each.result["cases"]]
    missing = {name: why for each in result for name, why in each.result["unavailable"].items()}
    return result[-1].result | {"cases": cases, "earlier": [], "unavailable": missing}


def _each(name: str, kinds: str) -> Callable[[Results], Iterator[str]]:
    """The tables of a benchmark for each part, and the picture of the last one."""

    def section(results: Results) -> Iterator[str]:
        package = "benchmarks" if name in COMPARISONS else "wavefabric.cli.bench"
        module = import_module(f"{package}.{name.replace('-', '_')}")
        result = results.of(kinds, f"{name}.json")
        for each in result:
            yield from (f"`{each.part.name}`", *_blocks(module.table(each.result)))
        for each in result[-1:]:
            yield results.picture(each.path.with_suffix(".png"), each.part.name)

    return section


def _fibre(results: Results) -> Iterator[str]:
    """T_K/T_1 over K."""
    if outcome := results.of(FIBRE, "fibre-scaling.json"):
        result = scaling.combine([each.path for each in outcome])
        yield from _blocks(scaling.table(result))
        if result["curves"]:
            path = results.root / "fibre-over-ranks.png"
            yield results.picture(path, "T_K/T_1 over the number of ranks K", scaling.plot, result)
    yield from _each("fibre-scaling", FIBRE)(results)


def _ultrasound(results: Results) -> Iterator[str]:
    """Weak and strong scaling."""
    more = f"{ALONG_Z} ultrasound ultrasound-2d ultrasound-3d ultrasound-heterogeneous"
    if result := results.of(more, "ultrasound-scaling.json"):
        yield from _blocks(ultrasound_scaling.table(_merged(result)))
    along_z = [each for each in results.of(ALONG_Z, "ultrasound-scaling.json") if each.result["cases"]]
    if along_z:
        path, caption = results.root / "ultrasound-scaling.png", "Points a second and rank, cut along z"
        yield results.picture(path, caption, ultrasound_scaling.plot, _merged(along_z))


def _runs(results: Results, collective: str) -> Iterator[tuple[int, str, dict[str, Any], Outcome]]:
    """Ranks, algorithm with transport, and case of all that was measured of a collective operation."""
    kinds = " ".join(f"{collective}-{name} {collective}-{name}-kernels" for name in ALGORITHMS)
    for each in results.of(kinds, "collective-run.json"):
        name = each.part.name.removeprefix(f"{collective}-").rpartition("-")[0].removesuffix("-kernels")
        for case in each.result["cases"]:
            protocol = "" if case["protocol"] == "auto" else f", {case['protocol']}"
            yield each.part.ranks, f"{name}, {transport_name(case['transport'])}{protocol}", case, each


def _collectives(results: Results) -> Iterator[str]:
    """Times of schedules beside predictions and NCCL's own operations."""
    for each in results.of("fabric", "fabric.json"):
        notes = "; ".join(line for line in measure_fabric.table(each.result) if isinstance(line, str))
        yield f"{each.part.ranks} ranks, parts/{each.part.name}/fabric.toml: {notes}"
    for collective in COLLECTIVES:
        runs = list(_runs(results, collective))
        for ranks in sorted({count for count, *_ in runs}):
            mine = [(name, case["rows"], each) for count, name, case, each in runs if count == ranks]
            yield from _times(f"{collective}, {ranks} ranks", mine)
        for *_, each in runs[-1:]:
            yield from unavailable(each.result)
            yield results.picture(each.path.with_suffix(".png"), each.part.name)
    for each in results.of("tune", "candidates.json"):
        yield f"Fastest algorithms on {each.part.ranks} ranks: parts/{each.part.name}/tuning.json"
        yield results.picture(each.path.with_name("tuning.png"), each.part.name)


def _times(title: str, runs: list[tuple[str, list[dict[str, Any]], Outcome]]) -> Iterator[str]:
    sizes = sorted({row["bytes"] for _, rows, _ in runs for row in rows})
    shown, lines = sorted({*sizes[::2], *sizes[-1:]}), []

    def add(name: str, rows: Iterable[dict[str, Any]], key: str, *ratios: str) -> None:
        at = {row["bytes"]: row for row in rows if row.get(key) is not None}
        fractions = {
            size: "; ".join(f"{row[r]:.2f}" if row.get(r) else "-" for r in ratios)
            for size, row in at.items()
        }
        cells = [f"{at[size][key]:.0f} ({fractions[size]})" if size in at else "" for size in shown]
        lines.extend([[name, *cells]] * bool(at))

    for name, rows, _ in runs:
        add(name, rows, "us", "ratio", "over_own")
        add(f"{name}, in a graph", rows, "graph_us", "over_own_graph")
    add("NCCL's own", (row for *_, each in runs for row in each.result["own"] or ()), "us")
    wrong = sum(row["wrong"] for _, rows, _ in runs for row in rows)
    yield f"**{title}: µs (predicted over it; NCCL's own over it)**, {wrong} wrong elements"
    yield _table(("<", *map(size_words, shown)), lines)


def _link(results: Results) -> Iterator[str]:
    """The whole link, with its total time."""
    lines = []
    for each in results.of("link", "link.json"):
        solver, whole = each.result["solver"], results.record(each.part)["seconds"]
        times = f"{solver['seconds']:.1f}", f"{solver['seconds'] / solver['steps'] * 1e3:.3g}", f"{whole:.1f}"
        ranks, via = str(each.part.ranks), solver.get("transport", "-")
        lines.append([ranks, via, str(solver["steps"]), *times, f"{solver['energy_drift']:.1e}"])
    heads = ("ranks", "<", "steps", "propagation s", "ms per step", "whole command s", "energy drift")
    if lines:
        yield "A short link:" if results.small else "120 modes × 60 channels × 160 km:"
        yield _table(heads, lines)


def _goals(results: Results) -> Iterator[str]:
    """A row a goal: what eight GPUs are to reach, what was measured, what the paper has."""
    if results.small:
        yield "**Small sizes**: these numbers show that the commands work, not what the machine can do."
        return

    def measured(kinds: str, file: str, key: str, **wanted: str) -> dict[str, float]:
        """By transport."""
        result = [each.result["cases"] for each in results.of(kinds, file) if each.part.ranks == RANKS]
        cases = [case for cases in result for case in cases if wanted.items() <= case.items()]
        return {transport_name(case["transport"]): case[key] for case in cases if case[key]}

    fibre = {
        form: measured(FIBRE, "fibre-scaling.json", "ratio", exchange=form) for form in ("factored", "dense")
    }
    weak = measured(ALONG_Z, "ultrasound-scaling.json", "efficiency", kind="weak", form="local")
    paper = [f"{transport_name(name)} {ratio}" for (name, k), ratio in scaling.PAPER.items() if k == RANKS]
    rows = []
    for what, values, least, most, theirs in (
        ("fibre: T_8/T_1, 15 modes a GPU, factored", fibre["factored"], 0, 1.2, "-"),
        ("fibre: T_8/T_1, 15 modes a GPU, dense", fibre["dense"], 0, 2.0, ", ".join(paper)),
        ("ultrasound: weak scaling at 8, local, cut along z", weak, 0.9, float("inf"), "-"),
    ):
        shown = ", ".join(f"{name} {value:.2f}" for name, value in values.items()) or "missing"
        good = ", ".join(name for name, value in values.items() if least <= value <= most)
        goal = f"at most {most}" if least == 0 else f"{least} or more"
        rows.append([what, goal, shown, good or ("no" if values else "-"), theirs])
    runs = [case for name in COLLECTIVES for ranks, _, case, _ in _runs(results, name) if ranks == RANKS]
    lines = [row for case in runs if case["transport"] == "p2p" for row in case["rows"]]
    ratios = [row["ratio"] for row in lines if row["ratio"]]
    good = sum(abs(ratio - 1) <= 0.15 for ratio in ratios)
    shown = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "missing"
    count = f"{good} of {len(ratios)} times" if ratios else "-"
    rows.append(["collective operations on 8 GPUs: predicted over measured", "within 15%", shown, count, "-"])
    yield _table(("<", "goal", "measured", "reached", "<the paper, K80"), rows)


def _parts(results: Results) -> Iterator[str]:
    """Every part with its command and what became of it."""
    rows = []
    for part in results.parts:
        record = results.record(part)
        line = record.get("command") or part.line(results.root / "parts")
        why = ": ".join(filter(None, [record["why"], *record["said"][-1:]]))
        rows.append([part.name, record["state"], str(record.get("seconds", "")), f"`{line}`", why])
    yield f"{sum(row[1] == DONE for row in rows)} of {len(rows)} done."
    yield _table(("<part", "<", "s", "<command", "<why"), rows)


_SECTIONS: dict[str, Callable[[Results], Iterator[str]]] = {
    "Goals": _goals,
    "Fibre over ranks": _fibre,
    "Ultrasound over ranks": _ultrasound,
    "Global and local decomposition": _each("local-vs-global", VERSUS),
    "Cuts and placements": _each("ultrasound-cuts", "cuts"),
    "Exchange": _each("exchange", "exchange exchange-mpi-cuda exchange-mpi"),
    "Collective operations": _collectives,
    "Link": _link,
    "One step of the fibre": _each("fibre-step", "fibre-step"),
    "One ultrasound step": _each("ultrasound-step", "ultrasound-step"),
    "Parts": _parts,
}

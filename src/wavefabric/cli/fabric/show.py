"""Implement `wavefabric fabric show`, which shows a fabric and lower bounds on collectives over it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.base.files.input import naming
from wavefabric.base.units import counted, time_words
from wavefabric.cli.common.files import PICTURES, load_fabric, read_text
from wavefabric.cli.common.options import OutputOptions, argument, changed, option, options, refuse
from wavefabric.cli.common.show import conclude, pairs_table, rate_text, table
from wavefabric.fabric import AnyFabric, PhotonicFabric, presets
from wavefabric.fabric import save as save_fabric
from wavefabric.fabric.bounds.bound import bound
from wavefabric.fabric.draw.pictures import draw_fabric
from wavefabric.fabric.electrical.families import EXAMPLES
from wavefabric.fabric.io.files import IMPORTERS, format_of, import_fabric
from wavefabric.fabric.io.importers.nccl_xml import LACKING


@options("Import")
class ImportOptions:
    """Options of the fabric: its name or file, or a file of NCCL or nvidia-smi to import."""

    name: str | None = argument(
        "A preset, a family with numbers, or a file: TOML, NCCL's XML, what nvidia-smi topo -m, "
        "rocm-smi --showtopo or amd-smi topology prints, ASTRA-sim's network.",
        "NAME | FILE",
        default=None,
    )
    import_nccl: Path | None = option("NCCL topology (XML).")
    import_smi: Path | None = option("Output of nvidia-smi topo -m.")
    sm: int | None = option(
        "nvidia-smi, or with --nvlinks: compute capability times ten (70, 80, 90), for bandwidths. "
        "[default: what the file says, or the number of NVLinks of a GPU tells]",
        limits=(10, 999),
        allowed="compute capability times ten, such as 80 or 90",
    )
    nvlinks: int | None = option("NCCL: NVLinks of each GPU to NVSwitches, where the file names none.")
    gcn: str | None = option("rocm-smi, amd-smi: architecture of the GPUs, such as gfx942, for bandwidths.")

    def fabric(self) -> AnyFabric:
        """Load the fabric by its name, or from a file whose content determines the format."""
        nccl = self.import_nccl is not None
        path = Path(str(self.name or self.import_nccl or self.import_smi))
        flag = "fabric" if self.name else "--import-nccl" if nccl else "--import-smi"
        text = read_text(path, flag) if self.name is None or path.is_file() else ""
        kind = format_of(text) if self.name else "xml" if nccl else "nvidia-smi"
        formats = IMPORTERS[kind][1] if kind in IMPORTERS else ()
        numbers = {key: value for key, value in changed(self, *_FORMATS).items() if key not in formats}
        if kind == "xml" and self.nvlinks is None:
            numbers |= changed(self, "sm")
        for key, value in numbers.items():
            refuse({key: value}, f"with {path}", _FORMATS[key])
        if kind not in IMPORTERS:
            return load_fabric(str(self.name))
        with naming(path):
            return import_fabric(text, kind, nvlinks=self.nvlinks, sm=self.sm, gcn=self.gcn)


#: Options of some formats, and what they are allowed with.
_FORMATS = {
    "nvlinks": "with NCCL's topology",
    "sm": "with nvidia-smi's table, or --nvlinks",
    "gcn": "with a table of rocm-smi or amd-smi",
}


@options()
class ShowOptions(OutputOptions):
    """Options of the output files."""

    save: Path | None = option("Write it as TOML.", endings=(".toml",))
    output: Path | None = option("Picture.", "--output", "-o", endings=PICTURES)


def command(imported: ImportOptions, options: ShowOptions) -> None:
    """Show a fabric, or without an argument all that are known by name.

    Examples:

    wavefabric fabric show

    wavefabric fabric show dgx-1 -o dgx-1.png

    wavefabric fabric show --import-nccl topo.xml --save mine.toml
    """
    inputs = changed(imported, "name", "import_nccl", "import_smi")
    if len(inputs) > 1:
        allowed = "one of NAME, --import-nccl, --import-smi"
        raise InputError(f"NAME: {len(inputs)} fabrics given; allowed: {allowed}")
    save, output = options.save, options.output
    if not inputs:
        refuse(changed(options, "save", "output") | changed(imported), "without a fabric", "with one")
        show_list(options.as_json)
        return
    fabric = imported.fabric()
    facts, written = fabric_facts(fabric), []
    if save is not None:
        written.append(save_fabric(save, fabric, options.force))
    if output is not None:
        written.append(draw_fabric(fabric, output, force=options.force))
    conclude(options.as_json, facts, written, show(facts))


def show_list(as_json: bool) -> None:
    """Print the presets and families of fabrics."""
    known = presets()
    rows = ((name, text, EXAMPLES.get(name, "")) for name, text in known.items())
    made = table(("|name", "<what", "|other sizes"), rows)
    made.columns[0].style = "bold"
    conclude(as_json, {"presets": known, "families": EXAMPLES}, shown=[made])


_COMMON = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")
#: Size for which bounds are shown: large, so that bandwidth counts.
_BYTES = 1 << 30


def fabric_facts(fabric: AnyFabric) -> dict[str, Any]:
    """Return the facts about a fabric that the command prints, with bounds and notes."""
    facts: dict[str, Any] = {"name": fabric.name, "description": fabric.description, "source": fabric.source}
    numbers = {key: value for key, value in vars(fabric).items() if isinstance(value, int | float | None)}
    if isinstance(fabric, PhotonicFabric):
        facts |= {"kind": "photonic", "ranks": fabric.ranks, **numbers, "tile_bandwidth": fabric.bandwidth}
        facts["budget"] = fabric.budget and vars(fabric.budget)
    else:
        counts = Counter((link.kind, link.bandwidth, link.latency) for link in fabric.links)
        names = ("kind", "bandwidth", "latency", "links")
        links = [dict(zip(names, (*same, count), strict=True)) for same, count in counts.items()]
        facts |= {"kind": "electrical", "ranks": fabric.ranks, "switches": fabric.switches, "links": links}
        facts |= {**numbers, "kernels": fabric.kernels and vars(fabric.kernels)}
        facts["multicast_switches"] = fabric.multicast_switches
        facts["transports"] = [vars(each) for each in fabric.transports]
    return {**facts, "bounds": _bounds(fabric), "notes": _notes(fabric)}


def _notes(fabric: AnyFabric) -> list[str]:
    """Return notes on links that are missing in the file from which the fabric was imported."""
    lacks = "the file names none between GPUs, so these are joined by PCIe alone"
    unless = "if they have NVLinks (files for virtual machines leave them out)"
    advice = f"{unless}, add them with --nvlinks, such as --nvlinks 12 --sm 80"
    notes = f"NVLinks: {lacks}; {advice}", f"xGMI links: {lacks}"
    return [note for end, note in zip(LACKING, notes, strict=True) if fabric.description.endswith(end)]


def _bounds(fabric: AnyFabric) -> list[dict[str, Any]]:
    """Return bounds on the common collectives: smallest latency (s), largest rate (B/s), and the reason."""
    rows = []
    for collective in _COMMON if fabric.ranks > 1 else ():
        limit = bound(collective, fabric, _BYTES)
        rate = _BYTES / limit.transfer if limit.transfer else None
        rows.append({"collective": collective, "latency": limit.latency, "algbw": rate, "why": limit.why})
    return rows


def show(facts: dict[str, Any]) -> Iterator[Any]:
    """Yield the printed output: tables of a fabric, and notes."""
    lines = [("fabric", facts["name"]), ("what", facts["description"]), ("source", facts["source"])]
    lines += _photonic_lines(facts) if facts["kind"] == "photonic" else _electrical_lines(facts)
    yield pairs_table((name, text) for name, text in lines if text)
    if facts["bounds"]:
        columns = ("|operation", "latency", "bytes of the array / time", "<why")
        made = table(columns, title="what no schedule can beat, for an array of 1 GiB")
        for row in facts["bounds"]:
            rate = rate_text(row["algbw"]) if row["algbw"] else "-"
            made.add_row(row["collective"], time_words(row["latency"]), rate, row["why"])
        yield made
    yield from facts["notes"]


def _photonic_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    wafers = -(-facts["rows"] // facts["wafer_rows"]) * -(-facts["columns"] // facts["wafer_columns"])
    tiles = f"{facts['ranks']}: {facts['rows']} x {facts['columns']}"
    ports, agreed = facts["serdes_ports"], facts["synchronisation"]
    drives = "" if ports is None else f", of which its chip drives {ports} at once"
    between = f"{facts['fibres']} fibres between wafers"
    budget = ", ".join(f"{key} {value:g}" for key, value in (facts["budget"] or {}).items())
    return [
        ("tiles", f"{tiles}, on {counted(wafers, 'wafer')}"),
        ("wavelengths", f"{facts['lasers']} a tile{drives}, {rate_text(facts['laser_bandwidth'])} each"),
        ("a tile sends", f"{rate_text(facts['tile_bandwidth'])} at most"),
        ("waveguides", f"{facts['waveguides']} between neighbours, each way; {between}"),
        ("alpha", f"{time_words(facts['alpha'])} a round"),
        ("set-up", time_words(facts["reconfiguration"]) + _after(agreed, ", and {} to agree")),
        ("link budget", budget.replace("_", " ")),
    ]


def _after(seconds: float, text: str) -> str:
    """Return ``text`` with its placeholder replaced by ``seconds`` in words; "" for zero seconds."""
    return text.format(time_words(seconds)) if seconds else ""


def _kernels_text(kernels: dict[str, float]) -> str:
    times = ("launch", "signal", "packet", "move", "issue")
    text = ", ".join(f"{time_words(kernels[key])} {key}" for key in times if kernels[key])
    writes, memory = rate_text(kernels["bandwidth"]), rate_text(kernels["memory"])
    return f"{text}; {writes} to another GPU, {memory} in memory"


def _transport_text(transport: dict[str, Any]) -> str:
    rates = {"flow_bandwidth": "a transfer", "host_bandwidth": "through host memory"}
    parts = [f"{time_words(transport['alpha'])} a round"] if transport["alpha"] is not None else []
    parts += [f"{rate_text(transport[key])} {what}" for key, what in rates.items() if transport[key]]
    parts += [f"{time_words(transport['overhead'])} a wait of the host"] if transport["overhead"] else []
    parts += ["all-gather in a ring"] if transport["ring"] else []
    return ", ".join(parts)


def _links_text(kind: str, bandwidth: float, latency: float, links: int) -> str:
    return f"{links} {kind} one way, {rate_text(bandwidth)}" + _after(latency, ", {}")


def _electrical_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    switches = ", ".join(facts["switches"][:12]) + (", …" if len(facts["switches"]) > 12 else "")
    rates = (facts[name] for name in ("copy_bandwidth", "flow_bandwidth", "reduce_bandwidth"))
    copy, flow, reduce = (rate_text(rate) if rate else "" for rate in rates)
    issue = {"a round": "round_overhead", "a further peer": "peer_overhead", "a sum": "reduce_overhead"}
    taken = [f"{time_words(facts[key])} {what}" for what, key in issue.items() if facts[key]]
    return [
        ("GPUs", str(facts["ranks"])),
        ("switches", switches or "none"),
        (
            "multicast",
            facts["multicast_switches"] and f"and sums by {', '.join(facts['multicast_switches'])}",
        ),
        *(("links", _links_text(**link)) for link in facts["links"]),
        ("alpha", f"{time_words(facts['alpha'])} a round; in the flow model, a transfer"),
        ("a GPU", copy and f"{copy} out, and as much in, at most"),
        ("a transfer", flow and f"{flow} at most"),
        ("a sum", reduce and reduce + _after(facts["reduce_alpha"], ", after {}")),
        ("a host takes", ", ".join(taken)),
        ("kernels", facts["kernels"] and _kernels_text(facts["kernels"])),
        *((each["name"], _transport_text(each)) for each in facts["transports"]),
        ("through GPUs", "data may pass" if facts["forwards"] else "no data pass"),
    ]

"""`wavefabric fabric show`: what a fabric is made of, and what no schedule on it can beat."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavefabric.cli.collective import source
from wavefabric.cli.common.ranks import first
from wavefabric.cli.common.show import console
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.fabric import AnyFabric

#: Families that take numbers, with an example each.
EXAMPLES = {
    "ring": "ring:8",
    "mesh": "mesh:4x4",
    "torus": "torus:4x4",
    "hypercube": "hypercube:3",
    "switch": "switch:256",
    "lightpath": "lightpath:8x8",
}
_IMPORT = "Import"


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME | FILE",
            help="A preset, a family with numbers, or a file: TOML, NCCL's XML, nvidia-smi topo -m.",
            show_default=False,
        ),
    ] = None,
    import_nccl: Annotated[
        Path | None,
        typer.Option(
            "--import-nccl", help="NCCL topology (XML).", rich_help_panel=_IMPORT, show_default=False
        ),
    ] = None,
    import_smi: Annotated[
        Path | None,
        typer.Option(
            "--import-smi", help="Output of nvidia-smi topo -m.", rich_help_panel=_IMPORT, show_default=False
        ),
    ] = None,
    sm: Annotated[
        int | None,
        typer.Option(
            "--sm",
            help="nvidia-smi, or with --nvlinks: compute capability times ten (70, 80, 90), for bandwidths. "
            "\\[default: what the file says, or 80]",
            rich_help_panel=_IMPORT,
        ),
    ] = None,
    nvlinks: Annotated[
        int | None,
        typer.Option(
            "--nvlinks",
            help="NCCL: NVLinks of each GPU to NVSwitches, where the file names none.",
            rich_help_panel=_IMPORT,
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write it as TOML.", show_default=False)] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Picture.", show_default=False)
    ] = None,
    force: source.Force = False,
    as_json: source.Json = False,
) -> None:
    """Show a fabric, or without an argument all that are known by name.

    Examples:

    wavefabric fabric show

    wavefabric fabric show dgx-1 -o dgx-1.png

    wavefabric fabric show --import-nccl topo.xml --save mine.toml
    """
    if not first():
        return
    given = [each for each in (name, import_nccl, import_smi) if each is not None]
    if len(given) > 1:
        raise InputError(
            f"NAME: {len(given)} fabrics given; allowed: one of NAME, --import-nccl, --import-smi"
        )
    source.check_target(save, force, (".toml",), "--save")
    source.check_target(output, force, (".png", ".svg", ".pdf"))
    if not given:
        options = (("--save", save), ("--output", output), ("--sm", sm), ("--nvlinks", nvlinks))
        for option, value in options:
            if value is not None:
                raise InputError(f"{option}: {value} given without a fabric; allowed: with one")
        show_list(as_json)
        return
    fabric = find(name, import_nccl, import_smi, sm, nvlinks)
    written = []
    told = facts(fabric)
    if save is not None:
        from wavefabric.fabric import save as save_fabric

        save_fabric(save, fabric, force)
        written.append(save)
    if output is not None:
        from wavefabric.fabric.draw.draw import draw_fabric

        written.append(draw_fabric(fabric, output, force=force))
    if as_json:
        source.say_json({**told, "written": [str(p) for p in written]})
        return
    show(told)
    source.say_written(written)


def find(
    name: str | None,
    import_nccl: Path | None = None,
    import_smi: Path | None = None,
    sm: int | None = None,
    nvlinks: int | None = None,
) -> AnyFabric:
    """A fabric by name, or from a file by its content.

    Raises
    ------
    InputError
    """
    if sm is not None and not 10 <= sm <= 999:
        raise InputError(f"--sm: {sm} given; allowed: compute capability times ten, such as 80 or 90")
    found = import_nccl
    if name is not None and Path(name).is_file() and Path(name).suffix != ".toml":
        text = source.read_text(Path(name), "fabric")
        if "GPU0" in text and "=" not in text.split("GPU0", 1)[0] and not text.lstrip().startswith("<"):
            import_smi = Path(name)
        found = Path(name) if text.lstrip().startswith("<") else None
    if found is None and nvlinks is not None:
        raise InputError(
            f"--nvlinks: {nvlinks} given with {name or import_smi}; allowed: with NCCL's topology"
        )
    if import_smi is not None:
        return _smi(import_smi, sm)
    if sm is not None and nvlinks is None:
        allowed = "with nvidia-smi's table, or --nvlinks"
        raise InputError(f"--sm: {sm} given with {name or import_nccl}; allowed: {allowed}")
    if found is not None:
        return _nccl(found, nvlinks, sm)
    assert name is not None
    return source.load_fabric(name)


def _nccl(path: Path, nvlinks: int | None, sm: int | None):
    from wavefabric.fabric.io.importers.nccl_xml import read_nccl_xml

    text = source.read_text(path, "--import-nccl")
    with source.named(path):
        return read_nccl_xml(text, nvlinks=nvlinks, sm=sm)


def _smi(path: Path, sm: int | None):
    from wavefabric.fabric.io.importers.nvidia_smi import read_topo

    text = source.read_text(path, "--import-smi")
    with source.named(path):
        return read_topo(text) if sm is None else read_topo(text, sm=sm)


def show_list(as_json: bool) -> None:
    """Presets and families."""
    from wavefabric.fabric import presets

    known = presets()
    if as_json:
        source.say_json({"presets": known, "families": EXAMPLES})
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what", overflow="fold")
    table.add_column("other sizes", no_wrap=True)
    for name, text in known.items():
        table.add_row(name, text, EXAMPLES.get(name, ""))
    console().print(table)


def facts(fabric: AnyFabric) -> dict[str, Any]:
    """What is worth knowing about a fabric."""
    from wavefabric.fabric import PhotonicFabric

    told: dict[str, Any] = {"name": fabric.name, "description": fabric.description, "source": fabric.source}
    if isinstance(fabric, PhotonicFabric):
        names = (
            "rows",
            "columns",
            "wafer_rows",
            "wafer_columns",
            "lasers",
            "serdes_ports",
            "laser_bandwidth",
        )
        names += ("waveguides", "fibres", "alpha", "reconfiguration", "synchronisation", "tile_pitch")
        told |= {"kind": "photonic", "ranks": fabric.ranks, **{n: getattr(fabric, n) for n in names}}
        told["tile_bandwidth"] = fabric.bandwidth
        told["budget"] = None if fabric.budget is None else vars(fabric.budget)
    else:
        told |= {
            "kind": "electrical",
            "ranks": fabric.ranks,
            "switches": list(fabric.switches),
            "links": [
                {"kind": kind, "bandwidth": bandwidth, "latency": latency, "links": count}
                for (kind, bandwidth, latency), count in _links(fabric).items()
            ],
            **{name: getattr(fabric, name) for name in _ELECTRICAL},
        }
    told["bounds"] = bounds(fabric)
    told["notes"] = _notes(fabric)
    return told


def _notes(fabric: AnyFabric) -> list[str]:
    """What a fabric lacks that was made of a file."""
    from wavefabric.fabric.io.importers.nccl_xml import LACKING

    nvlinks, xgmi = LACKING
    if fabric.description.endswith(nvlinks):
        return [
            "NVLinks: the file names none, so GPUs are joined by PCIe alone; if they have NVLinks (files for "
            "virtual machines leave them out), add them with --nvlinks, such as --nvlinks 12 --sm 80"
        ]
    if fabric.description.endswith(xgmi):
        return ["xGMI links: the file names none, so GPUs are joined by PCIe alone"]
    return []


#: Numbers of an electrical fabric.
_ELECTRICAL = (
    "alpha",
    "copy_bandwidth",
    "flow_bandwidth",
    "forwards",
    "reduce_bandwidth",
    "reduce_alpha",
    "round_overhead",
    "peer_overhead",
    "reduce_overhead",
)


def _links(fabric) -> Counter:
    return Counter((link.kind, link.bandwidth, link.latency) for link in fabric.links)


#: Size for which bounds are shown: large, so that bandwidth counts.
_BYTES = 1 << 30


def bounds(fabric: AnyFabric) -> list[dict[str, Any]]:
    """For the common collectives: least latency, most bytes a second, and why."""
    from wavefabric.fabric.bounds.bounds import bound

    found = []
    for collective in ("all-gather", "reduce-scatter", "all-reduce", "all-to-all"):
        if fabric.ranks < 2:
            break
        limit = bound(collective, fabric, _BYTES)
        found.append(
            {
                "collective": collective,
                "latency": limit.latency,
                "algbw": _BYTES / limit.transfer if limit.transfer else None,
                "why": limit.why,
            }
        )
    return found


def show(told: dict[str, Any]) -> None:
    """Print a fabric's table."""
    from rich import box
    from rich.table import Table

    from wavefabric.cli.collective.make import pairs_table
    from wavefabric.fabric.draw.scene import time_words

    out = console()
    out.print(pairs_table(_photonic_lines(told) if told["kind"] == "photonic" else _electrical_lines(told)))
    if told["bounds"]:
        title = "what no schedule can beat, for an array of 1 GiB"
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title)
        for heading in ("operation", "latency", "bytes of the array / time"):
            table.add_column(heading, justify="left" if heading == "operation" else "right", no_wrap=True)
        table.add_column("why", overflow="fold")
        for each in told["bounds"]:
            rate = speed(each["algbw"]) if each["algbw"] else "-"
            table.add_row(each["collective"], time_words(each["latency"]), rate, each["why"])
        out.print(table)
    for note in told["notes"]:
        out.print(note, soft_wrap=True)


def _photonic_lines(told: dict[str, Any]) -> list[tuple[str, str]]:
    from wavefabric.fabric.draw.scene import time_words

    wafers = -(-told["rows"] // told["wafer_rows"]) * -(-told["columns"] // told["wafer_columns"])
    ports, plural = told["serdes_ports"], "s" if wafers > 1 else ""
    agreed = told["synchronisation"]
    drives = "" if ports is None else f", of which its chip drives {ports} at once"
    lines = [
        ("fabric", told["name"]),
        ("what", told["description"]),
        ("source", told["source"]),
        (
            "tiles",
            f"{told['ranks']}: {told['rows']} x {told['columns']}, on {wafers} wafer{plural}",
        ),
        ("wavelengths", f"{told['lasers']} a tile{drives}, {speed(told['laser_bandwidth'])} each"),
        ("a tile sends", f"{speed(told['tile_bandwidth'])} at most"),
        (
            "waveguides",
            f"{told['waveguides']} between neighbours, each way; {told['fibres']} fibres between wafers",
        ),
        ("alpha", f"{time_words(told['alpha'])} a round"),
        (
            "set-up",
            time_words(told["reconfiguration"]) + (f", and {time_words(agreed)} to agree" if agreed else ""),
        ),
    ]
    if told["budget"]:
        numbers = ", ".join(f"{key} {value:g}" for key, value in told["budget"].items())
        lines.append(("link budget", numbers.replace("_", " ")))
    return [(name, text) for name, text in lines if text]


def _electrical_lines(told: dict[str, Any]) -> list[tuple[str, str]]:
    from wavefabric.fabric.draw.scene import time_words

    lines = [("fabric", told["name"]), ("what", told["description"]), ("source", told["source"])]
    switches = ", ".join(told["switches"][:12]) + (", …" if len(told["switches"]) > 12 else "")
    lines += [("GPUs", str(told["ranks"])), ("switches", switches or "none")]
    for link in told["links"]:
        late = f", {time_words(link['latency'])}" if link["latency"] else ""
        lines.append(("links", f"{link['links']} {link['kind']} one way, {speed(link['bandwidth'])}{late}"))
    lines.append(("alpha", f"{time_words(told['alpha'])} a round; in the flow model, a transfer"))
    if told["copy_bandwidth"]:
        lines.append(("a GPU", f"{speed(told['copy_bandwidth'])} out, and as much in, at most"))
    if told["flow_bandwidth"]:
        lines.append(("a transfer", f"{speed(told['flow_bandwidth'])} at most"))
    if told["reduce_bandwidth"]:
        after = f", after {time_words(told['reduce_alpha'])}" if told["reduce_alpha"] else ""
        lines.append(("a sum", f"{speed(told['reduce_bandwidth'])}{after}"))
    issue = {"a round": "round_overhead", "a further peer": "peer_overhead", "a sum": "reduce_overhead"}
    taken = [f"{time_words(told[key])} {what}" for what, key in issue.items() if told[key]]
    if taken:
        lines.append(("a host takes", ", ".join(taken)))
    lines.append(("through GPUs", "data may pass" if told["forwards"] else "no data pass"))
    return [(name, text) for name, text in lines if text]


def speed(value: float) -> str:
    """B/s with a unit that suits."""
    for unit, size in (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6)):
        if value >= size * 0.99995:  # that is rounded to 1
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} B/s"

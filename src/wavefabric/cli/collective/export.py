"""Implement `wavefabric collective export`: from our JSON to MSCCL's XML or MSCCL++'s JSON, or back."""

from dataclasses import MISSING
from pathlib import Path

from wavefabric.base.errors import InputError, choice
from wavefabric.base.files.input import naming
from wavefabric.base.files.output import check_output
from wavefabric.cli.collective.algorithm import read_proved
from wavefabric.cli.collective.circuit_file import circuits_text
from wavefabric.cli.common.files import load_fabric, write_all
from wavefabric.cli.common.options import OutputOptions, argument, changed, option, options
from wavefabric.cli.common.show import conclude
from wavefabric.collectives import to_json
from wavefabric.collectives.formats.msccl.write import to_msccl
from wavefabric.collectives.formats.mscclpp.write import to_mscclpp
from wavefabric.fabric import PhotonicFabric
from wavefabric.fabric.photonic.planning import plan_circuits

#: Formats, and the options of each.
_FORMATS = {"json": (), "msccl": ("proto", "instances", "slots", "shared"), "mscclpp": ("proto", "instances")}


@options()
class ExportOptions(OutputOptions):
    """Options of the input file, and of the output file and its format."""

    file: Path = argument("Schedule: JSON, MSCCL XML, MSCCL++ JSON.")
    output: Path = option("x.xml (MSCCL), or x.json.", "--output", "-o", default=MISSING)
    format: str | None = option("{json,msccl,mscclpp} [default: by the ending of OUTPUT]")
    fabric: str | None = option("Photonic: write circuits for it too, as x.circuits.json.", "--fabric", "-f")


@options()
class MscclOptions:
    """Options of how MSCCL or MSCCL++ executes the exported schedule."""

    proto: str = option("{wavefabric.collectives.schedule:PROTOCOLS} (not MSCCL++).", default="Simple")
    instances: int = option("Parts of each chunk, on channels of their own.", default=1)
    slots: int = option("MSCCL: of a connection's buffer; no deadlock with so many.", default=8)
    shared: bool | None = option(
        "MSCCL: one thread block to send to a peer and receive from it, or two. "
        "[default: two while there are enough]",
        "--shared/--apart",
    )


def command(options: ExportOptions, msccl: MscclOptions) -> None:
    """Convert a schedule; it is proved first.

    Examples:

    wavefabric collective export ring.json -o ring.xml

    wavefabric collective export other.xml -o other.json

    wavefabric collective export ring.json --format mscclpp -o plan.json
    """
    file, output, format_, fabric = options.file, options.output, options.format, options.fabric
    if format_ is not None:
        choice("--format", format_, _FORMATS)
    endings = (".xml", ".json") if format_ is None else (".xml",) if format_ == "msccl" else (".json",)
    check_output(output, options.force, "--output", endings=endings, inputs=[file])
    format_ = format_ or ("msccl" if output.suffix.lower() == ".xml" else "json")
    for name, value in changed(msccl).items():
        if name not in _FORMATS[format_]:
            shown = "" if name == "shared" else f" {value}"
            actual = f"--{'apart' if value is False else name}:{shown} given with {output}"
            mscclpp = "" if name in ("slots", "shared") else ", or --format mscclpp"
            raise InputError(f"{actual}; allowed: with a name that ends in .xml{mscclpp}")
    circuits = output.with_name(output.stem + ".circuits.json")
    if fabric is not None:
        check_output(circuits, options.force, "--output")
    schedule = read_proved(file)
    write = {"json": to_json, "msccl": to_msccl, "mscclpp": to_mscclpp}[format_]
    with naming(file):
        texts = {output: write(schedule, **{name: getattr(msccl, name) for name in _FORMATS[format_]})}
    if fabric is not None:
        wafer = load_fabric(fabric)
        if not isinstance(wafer, PhotonicFabric):
            raise InputError(f"--fabric: {fabric} is electrical; allowed: photonic, or without")
        texts[circuits] = circuits_text(plan_circuits(schedule, wafer))
    written = write_all(texts, options.force)
    conclude(options.as_json, {"schedule": schedule.name}, written)

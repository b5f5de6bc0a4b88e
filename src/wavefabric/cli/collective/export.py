"""`wavefabric collective export`: from our JSON to MSCCL's XML, or back."""

from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.collective.algorithm import read_proved
from wavefabric.cli.collective.circuit_file import circuits_text
from wavefabric.cli.common.files import check_target, load_fabric, write_all
from wavefabric.cli.common.options import OutputOptions, changed, option, options
from wavefabric.cli.common.show import conclude
from wavefabric.collectives import to_json
from wavefabric.collectives.formats.msccl.write import to_msccl
from wavefabric.errors import InputError
from wavefabric.fabric import PhotonicFabric
from wavefabric.fabric.photonic.planning import plan_circuits
from wavefabric.files.input import naming


@options()
class MscclOptions:
    """How an MSCCL file carries a schedule out."""

    proto: str = option("MSCCL: {wavefabric.collectives.schedule:PROTOCOLS}.", default="Simple")
    instances: int = option("MSCCL: parts of each chunk, on channels of their own.", default=1)
    slots: int = option("MSCCL: of a connection's buffer; no deadlock with so many.", default=8)
    shared: bool | None = option(
        "MSCCL: one thread block to send to a peer and receive from it, or two. "
        "\\[default: two while there are enough]",
        "--shared/--apart",
    )


def command(
    file: Annotated[Path, typer.Argument(help="Schedule: JSON, or MSCCL XML.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="x.xml (MSCCL), or x.json.")],
    msccl: MscclOptions,
    options: OutputOptions,
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", "-f", help="Photonic: write circuits for it too, as x.circuits.json."),
    ] = None,
) -> None:
    """Convert a schedule, by the ending of OUTPUT; it is proved first.

    Examples:

    wavefabric collective export ring.json -o ring.xml

    wavefabric collective export other.xml -o other.json
    """
    check_target(output, options.force, (".xml", ".json"), inputs=[file])
    to_xml = output.suffix.lower() == ".xml"
    for name, value in () if to_xml else changed(msccl).items():
        shown = "" if name == "shared" else f" {value}"
        actual = f"--{'apart' if value is False else name}:{shown} given with {output}"
        raise InputError(f"{actual}; allowed: with a name that ends in .xml")
    circuits = output.with_name(output.stem + ".circuits.json")
    if fabric is not None:
        check_target(circuits, options.force, (".json",))
    schedule = read_proved(file)
    if to_xml:
        with naming(file):
            texts = {output: to_msccl(schedule, **vars(msccl))}
    else:
        texts = {output: to_json(schedule)}
    if fabric is not None:
        wafer = load_fabric(fabric)
        if not isinstance(wafer, PhotonicFabric):
            raise InputError(f"--fabric: {fabric} is electrical; allowed: photonic, or without")
        texts[circuits] = circuits_text(plan_circuits(schedule, wafer))
    written = write_all(texts, options.force)
    conclude(options.as_json, {"schedule": schedule.name}, written)

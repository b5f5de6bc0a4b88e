"""`wavefabric collective export`: from our JSON to MSCCL's XML, or back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.collective import source
from wavefabric.cli.common.ranks import first
from wavefabric.errors import InputError


def command(
    file: Annotated[Path, typer.Argument(help="Schedule: JSON, or MSCCL XML.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="x.xml (MSCCL), or x.json.", show_default=False)
    ],
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", "-f", help="Photonic: circuits for it, as x.circuits.json beside."),
    ] = None,
    proto: Annotated[str, typer.Option("--proto", help="MSCCL: Simple, LL or LL128.")] = "Simple",
    instances: Annotated[
        int, typer.Option("--instances", help="MSCCL: parts of each chunk, on channels of their own.")
    ] = 1,
    slots: Annotated[
        int, typer.Option("--slots", help="MSCCL: of a connection's buffer; no deadlock with so many.")
    ] = 8,
    shared: Annotated[
        bool | None,
        typer.Option(
            "--shared/--apart",
            help="MSCCL: one thread block to send to a peer and receive from it, or two. "
            "\\[default: two while there are enough]",
        ),
    ] = None,
    force: source.Force = False,
    as_json: source.Json = False,
) -> None:
    """Convert a schedule, by the ending of OUTPUT; it is proved first.

    Examples:

    wavefabric collective export ring.json -o ring.xml

    wavefabric collective export other.xml -o other.json
    """
    from wavefabric.cli.collective.circuits import circuits_text
    from wavefabric.cli.collective.files import write_all
    from wavefabric.collectives import verify

    if not first():
        return
    source.check_target(output, force, (".xml", ".json"), inputs=[file])
    options = {"proto": proto, "instances": instances, "slots": slots, "shared": shared}
    if output.suffix.lower() != ".xml":
        plain = {"proto": "Simple", "instances": 1, "slots": 8, "shared": None}
        for name in (n for n in options if options[n] != plain[n]):
            shown = "" if name == "shared" else f" {options[name]}"
            option = "--apart" if options[name] is False else f"--{name}"
            raise InputError(f"{option}:{shown} given with {output}; allowed: with a name that ends in .xml")
    beside = output.with_name(output.stem + ".circuits.json")
    if fabric is not None:
        source.check_target(beside, force, (".json",))
    schedule = source.read(file)
    with source.named(file):
        verify(schedule)
    texts = {}
    if output.suffix.lower() == ".xml":
        from wavefabric.collectives.formats.msccl.write import to_msccl

        with source.named(file):
            texts[output] = to_msccl(schedule, proto=proto, instances=instances, slots=slots, shared=shared)
    else:
        from wavefabric.collectives import to_json

        texts[output] = to_json(schedule)
    if fabric is not None:
        from wavefabric.fabric import PhotonicFabric

        place = source.load_fabric(fabric)
        if not isinstance(place, PhotonicFabric):
            raise InputError(f"--fabric: {fabric} is electrical; allowed: photonic, or without")
        from wavefabric.fabric.photonic.planning import plan_circuits

        texts[beside] = circuits_text(plan_circuits(schedule, place))
    written = write_all(texts, force)
    if as_json:
        source.say_json({"schedule": schedule.name, "written": [str(p) for p in written]})
        return
    source.say_written(written)

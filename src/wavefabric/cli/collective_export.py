"""`wavefabric collective export`: from our JSON to MSCCL's XML, or back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli import collective_source as source
from wavefabric.cli.ranks import first
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
    force: source.Force = False,
    as_json: source.Json = False,
) -> None:
    """Convert a schedule, by the ending of OUTPUT; it is proved first.

    Examples:

    wavefabric collective export ring.json -o ring.xml

    wavefabric collective export other.xml -o other.json
    """
    from wavefabric.cli.collective_circuits import circuits_text, write_text
    from wavefabric.collectives import verify

    if not first():
        return
    source.check_target(output, force, (".xml", ".json"))
    if output.suffix.lower() != ".xml" and proto != "Simple":
        raise InputError(f"--proto: {proto} given with {output}; allowed: with an output that ends in .xml")
    beside = output.with_name(output.stem + ".circuits.json")
    if fabric is not None:
        source.check_target(beside, force, (".json",))
    schedule = source.read(file)
    with source.named(file):
        verify(schedule)
    texts = {}
    if output.suffix.lower() == ".xml":
        from wavefabric.collectives.msccl.write import to_msccl

        with source.named(file):
            texts[output] = to_msccl(schedule, proto=proto)
    else:
        from wavefabric.collectives import to_json

        texts[output] = to_json(schedule)
    if fabric is not None:
        from wavefabric.fabric import PhotonicFabric

        place = source.load_fabric(fabric)
        if not isinstance(place, PhotonicFabric):
            raise InputError(f"--fabric: {fabric} is electrical; allowed: photonic, or without")
        from wavefabric.fabric.photonic.assign import plan

        texts[beside] = circuits_text(plan(schedule, place))
    written = [write_text(path, text) for path, text in texts.items()]
    if as_json:
        typer.echo(json.dumps({"schedule": schedule.name, "written": [str(p) for p in written]}, indent=2))
        return
    source.say_written(written)

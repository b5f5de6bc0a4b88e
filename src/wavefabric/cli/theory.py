"""Implement `wavefabric theory`, which shows the expected Q² of a fibre link without a simulation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from wavefabric.cli.common.options import Json, argument
from wavefabric.cli.common.show import conclude, heading, table
from wavefabric.optics.link.build import build_fibre
from wavefabric.optics.link.expected import channel_expectations, expected_of, group_expectations
from wavefabric.optics.link.result import channel_cells
from wavefabric.optics.run_file.load import load


def command(
    file: Annotated[Path, argument("Run file (TOML) of a fibre link.")], as_json: Json = False
) -> None:
    """Show the Q² that theory expects of a fibre link, by mode group and distance, in seconds.

    Nonlinear interference by the Gaussian-noise model for many modes with corrections for the modulation
    format, noise of amplifiers and of the OSNR.
    """
    run = load(file)
    fibre = build_fibre(run)
    expected = expected_of(run, fibre)
    rows, channels = group_expectations(expected, fibre), channel_expectations(run, expected)
    content = {"groups": rows} | ({"channels": channels} if channels else {})
    conclude(as_json, content, shown=_receiver_tables(run.title, rows, channels))


def _receiver_tables(title: str, rows: list[dict[str, Any]], channels: list[dict[str, Any]]) -> Iterator[Any]:
    if title:
        yield heading(title)
    parts = "NLI", "ASE", "OSNR noise", "steps", "recovery"
    columns = ("group", "modes", "|received", "Q² mean", "Q² min", *parts)
    lines = []
    for row in rows:
        for name, received in row["received"].items():
            levels = [value for key, value in received.items() if key.endswith("_db")]
            cells = ("–" if value is None else f"{value:.2f}" for value in levels)
            lines.append((str(row["group"]), str(row["modes"]), name.replace("_", " "), *cells))
    yield table(columns, lines)
    if channels:
        yield table(*channel_cells(channels), title="channels at the farthest receiver")
    yield "Q² in dB over modes and channels; then the signal over each part of the noise alone, in dB"
    yield "NLI: nonlinear interference of the fibre; steps: what steps above the resonance limit add"
    yield "recovery: what the receiver's carrier phase and equaliser add"

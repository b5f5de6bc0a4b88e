"""Implement `wavefabric theory`, which shows the expected Q² of a fibre link without a simulation."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from wavefabric.cli.common.options import Json, argument, option
from wavefabric.cli.common.show import conclude, heading, table
from wavefabric.optics.link.build import build_fibres
from wavefabric.optics.link.expected import (
    channel_expectations,
    expected_elements,
    expected_of,
    group_expectations,
)
from wavefabric.optics.link.result import channel_cells
from wavefabric.optics.link.transfer import ModalFigures, modal_figures
from wavefabric.optics.run_file.load import load


def command(
    file: Annotated[Path, argument("Run file (TOML) of a fibre link.")],
    elements: Annotated[bool, option("Show the signal after each element of the link too.")] = False,
    delays: Annotated[
        bool, option("Show the link's group delays and mode-dependent loss over the channels' band too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the Q² that theory expects of a fibre link, by mode group and distance, in seconds.

    Nonlinear interference by the Gaussian-noise model for many modes with corrections for the modulation
    format, noise of amplifiers and of the OSNR.
    """
    run = load(file)
    fibres = build_fibres(run)
    listed = {"elements": expected_elements(run, fibres)} if elements else {}
    expected = expected_of(run, fibres)
    rows, channels = group_expectations(expected, fibres["fibre"]), channel_expectations(run, expected)
    figures = modal_figures(run, fibres=fibres) if delays else None
    tables = chain(
        _receiver_tables(run.title, rows, channels), _element_table(**listed), _delay_table(figures)
    )
    modal = {} if figures is None else {"modal": figures.arrays()}
    content = {"groups": rows} | ({"channels": channels} if channels else {}) | listed | modal
    conclude(as_json, content, shown=tables)


def _delay_table(figures: ModalFigures | None) -> Iterator[Any]:
    if figures is None:
        return
    spread, loss = figures.delay_spread * 1e12, figures.mode_dependent_loss_db
    lines = [
        ("differential group delay" if figures.delays.shape[1] == 2 else "delay spread", "ps", spread),
        ("mode-dependent loss", "dB", loss),
    ]
    cells = [(name, unit, f"{x.mean():.3g}", f"{x.min():.3g}", f"{x.max():.3g}") for name, unit, x in lines]
    yield table(("<", "<unit", "mean", "min", "max"), cells)
    low, high = figures.frequencies[[0, -1]] / 1e12
    count = len(figures.frequencies)
    yield f"of the principal states, at {count} frequencies from {low:.6g} to {high:.6g} THz"


def _element_table(elements: list[dict[str, Any]] | None = None) -> Iterator[Any]:
    if elements is None:
        return
    lines = []
    for number, row in enumerate(elements, start=1):
        kind, distance, gain, power, dispersion, *ratios = row.values()
        levels = gain, power, dispersion * 1e3, *ratios
        cells = ("–" if value is None else f"{value:.2f}" for value in levels)
        lines.append((str(number), kind, f"{distance / 1e3:g}", *cells))
    columns = ("number", "<element", "km", "gain", "power", "dispersion", "OSNR", "S/NLI", "GSNR")
    yield table(columns, lines)
    yield "after each element: gain in dB, mean power of a signal in dBm, dispersion of the first mode, ps/nm"
    yield "then of the worst signal in dB: OSNR, and GSNR with interference, in 12.5 GHz; signal over NLI"


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

"""Implement `wavefabric compare`, which says how much two results differ."""

from dataclasses import asdict
from pathlib import Path

from wavefabric.acoustics.pictures.compare_fields import compared_fields
from wavefabric.acoustics.pictures.recorded_result import read_any_result
from wavefabric.base.errors import InputError
from wavefabric.base.files.output import save_figure
from wavefabric.base.results.compare import compare
from wavefabric.cli.common.failure import FAILED
from wavefabric.cli.common.files import PICTURES
from wavefabric.cli.common.options import OutputOptions, argument, option, options
from wavefabric.cli.common.show import conclude, table


@options()
class CompareOptions(OutputOptions):
    """Options of the comparison: the two results, quantities, a tolerance, a picture."""

    first: Path = argument("Result file (HDF5) of any run, or k-Wave's output: the reference.")
    second: Path = argument("The other result.")
    output: Path | None = option(
        "Picture of the fields that differ most: first, second, difference (.png, .svg, .pdf).",
        "--output",
        "-o",
        endings=PICTURES,
    )
    quantity: list[str] | None = option("Compare this one; may be repeated. [default: all that both have]")
    tolerance: float | None = option(
        "Exit with 1 if a quantity differs by more than this fraction of its largest value.", limits=(0,)
    )


def command(options: CompareOptions) -> None:
    """Compare two results: the largest difference of each quantity, and where it is.

    Differences are relative to the largest value of the first result. Results may be k-Wave's output,
    k-wave-python's and ours, and those of fibres and sweeps. Points that both have are compared, so a result
    may have a PML that the other one lacks.

    Examples:

    wavefabric compare kwave_out.h5 ours.h5 -o compare.png

    wavefabric compare before.h5 after.h5 --tolerance 1e-4
    """
    results = read_any_result(options.first), read_any_result(options.second)
    first, second = results
    rows = compare(first, second, options.quantity or ())
    names = first.quantities(), second.quantities()
    only = [sorted({*one} - {*two}) for one, two in (names, names[::-1])]
    if not rows:
        raise InputError(
            f"{second.path}: has no quantity of {first.path}; allowed: results with a common one"
        )
    written = None
    if options.output is not None:
        written = [save_figure(compared_fields(first, second, rows), options.output, "--output", dpi=130)]
    cells = [
        (
            each.quantity,
            f"{each.largest:.3g}",
            f"{each.l2:.3g}",
            f"{each.magnitude:.4g} {each.units}",
            each.where,
        )
        for each in rows
    ]
    heads = "|quantity", "largest difference", "L2 difference", "largest value", "<where it differs most"
    lines = [
        f"only in {each.path}: {', '.join(keys)}" for each, keys in zip(results, only, strict=True) if keys
    ]
    facts = {"quantities": [asdict(each) for each in rows], "only_first": only[0], "only_second": only[1]}
    conclude(options.as_json, facts, written, [table(heads, cells), *lines])
    if options.tolerance is not None and any(not each.largest <= options.tolerance for each in rows):
        raise SystemExit(FAILED)

"""Implement `wavefabric export`, which writes quantities of a result for other programs."""

from pathlib import Path

from wavefabric.acoustics.pictures.recorded_result import read_any_result
from wavefabric.base.results.export import export
from wavefabric.cli.common.options import OutputOptions, argument, option, options
from wavefabric.cli.common.show import conclude


@options()
class ResultExportOptions(OutputOptions):
    """Options of the export: the result, the file, and which quantities are written."""

    file: Path = argument("Result file (HDF5) of any run, or k-Wave's output.")
    output: Path = option(
        "File to write: .csv, .nc (NetCDF), .mat (MATLAB), .vtk (ParaView), .nii or .nii.gz (NIfTI).",
        "--output",
        "-o",
        required=True,
    )
    quantity: list[str] | None = option(
        "Write this one, e.g. p_max_all or q_squared_db; may be repeated. [default: all that fit the format]"
    )


def command(options: ResultExportOptions) -> None:
    """Write quantities of a result as CSV, NetCDF, MATLAB, VTK or NIfTI.

    CSV is one table in long form: coordinates, then quantities of the same dimensions, units in the header.
    VTK has fields, NIfTI one field in 3-D, both in mm.

    Examples:

    wavefabric export link.h5 -o q2.csv --quantity q_squared_db

    wavefabric export out.h5 -o out.vtk
    """
    keys = export(read_any_result(options.file), options.output, options.quantity or (), options.force)
    conclude(options.as_json, {"quantities": keys}, [options.output], [", ".join(keys)])

"""Implement `wavefabric fabric calibrate`, which fits a fabric to tables of nccl-tests."""

from pathlib import Path
from typing import Annotated

from wavefabric.base.errors import InputError
from wavefabric.cli.common.files import load_fabric
from wavefabric.cli.common.options import OutputOptions, argument, option, options
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.show import conclude
from wavefabric.fabric import save
from wavefabric.fabric.execution import calibrate as module
from wavefabric.fabric.io.nccl_tests import load_nccl_tests

NCCL_TESTS_HELP = "What all_reduce_perf or another program of nccl-tests or rccl-tests printed"
COLLECTIVE_HELP = "Of tables that name no program: {wavefabric.fabric.io.nccl_tests:COLLECTIVES}."


@options()
class CalibrateOptions(OutputOptions):
    """Options of the measured tables, NCCL's algorithms, and the fabric file."""

    nccl_tests: list[Path] | None = option(f"{NCCL_TESTS_HELP}; may be given again.")
    collective: str | None = option(COLLECTIVE_HELP)
    algorithms: str | None = option(
        "Only these of NCCL's, as NCCL_ALGO sets: ring,double-tree,nvls,nvls-tree,direct (double-tree: Tree)."
    )
    name: str | None = option("Of the fabric. [default: FABRIC calibrated]")
    output: Path | None = option("Fabric (TOML).", "--output", "-o", endings=(".toml",))


def command(
    fabric: Annotated[str, argument("A preset, a family with numbers, or a file.", "FABRIC")],
    options: CalibrateOptions,
) -> None:
    """Fit latencies and bandwidths of a fabric to what nccl-tests measured; compare with the prediction.

    Predicted is the fastest of NCCL's algorithms: ring, double-tree and, where switches add, nvls and
    nvls-tree.

    Example: wavefabric fabric calibrate hgx-h100 --nccl-tests all_reduce.txt -o calibrated.toml
    """
    if not options.nccl_tests:
        raise InputError(f"--nccl-tests: none given; allowed: {NCCL_TESTS_HELP.lower()}")
    tables = [t for path in options.nccl_tests for t in load_nccl_tests(path, options.collective)]
    used = parse_list(options.algorithms or "")
    fitted, facts = module.calibrate(load_fabric(fabric), tables, options.name, used)
    written = [] if options.output is None else [save(options.output, fitted, options.force)]
    conclude(options.as_json, facts, written, module.show(facts))

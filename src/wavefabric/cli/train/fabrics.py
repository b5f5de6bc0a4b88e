"""Numbers of GPUs and fabrics as the command line has them."""

from __future__ import annotations

from wavefabric.cli.common.files import load_fabric
from wavefabric.cli.common.options import changed, option, options
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.planning_options import PlanningOptions
from wavefabric.collectives.arguments import MOST_RANKS
from wavefabric.errors import InputError
from wavefabric.fabric import AnyFabric
from wavefabric.fabric.electrical.families import FAMILIES


@options("Fabric")
class TrainFabricOptions:
    """What the GPUs are joined by, and how they use it."""

    gpus: str | None = option("How many work; with --compare several, such as 4,16,64. \\[default: all]")
    fabric: str = option(
        "Name or file, as of `collective cost`. switch, lightpath, ring, mesh, torus and hypercube without "
        "numbers are as large as needed.",
        default="switch",
    )
    collective: str = option(
        "{wavefabric.training.communication.algorithms:CHOICES}; lumorph-2 and lumorph-4 are recursive:2 and "
        "recursive:4.",
        default="ring",
        checked=False,
    )
    policy: str = option(
        "Order of calls: {wavefabric.training.iteration.engine:POLICIES}.", default="batched"
    )


def parse_gpus(text: str) -> list[int]:
    """Numbers with commas between."""
    words = parse_list(text)
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) <= 9 and 1 <= int(word) <= MOST_RANKS):
            allowed = f"whole numbers from 1 to {MOST_RANKS}, such as 16 or 4,16,64"
            raise InputError(f"--gpus: {text} given; allowed: {allowed}")
    return [int(word) for word in words]


def parse_fabrics(text: str) -> list[str | AnyFabric]:
    """Fabrics with commas between; names of families stay names, to be as large as is needed."""
    return [word if word in FAMILIES else load_fabric(word) for word in parse_list(text)]


def planning_words(circuits: PlanningOptions) -> list[str]:
    """What is not planned as by default: ``sharing paper``, ``incremental``."""
    given = changed(circuits).items()
    return [name if value is True else f"{name} {value}" for name, value in given]


def all_gpus(fabrics: list[str | AnyFabric]) -> list[int]:
    """All of the GPUs of the only fabric."""
    if len(fabrics) == 1 and not isinstance(fabrics[0], str):
        return [fabrics[0].ranks]
    raise InputError("--gpus: none given; allowed: a number such as 16, or one --fabric with numbers")

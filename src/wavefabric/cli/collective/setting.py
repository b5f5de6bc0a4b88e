"""Define on which fabric a schedule is costed and drawn, the order of its GPUs, and options of circuits."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from wavefabric.base.errors import InputError
from wavefabric.cli.collective.algorithm import FABRIC_HELP
from wavefabric.cli.collective.circuit_file import load_circuits
from wavefabric.cli.common.files import load_fabric
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.planning_options import PANEL, PlanningOptions
from wavefabric.collectives import Schedule
from wavefabric.fabric import AnyFabric, PhotonicFabric
from wavefabric.fabric.photonic.check import check_plan
from wavefabric.fabric.photonic.circuit_plan import CircuitPlan
from wavefabric.fabric.photonic.planning import plan_circuits
from wavefabric.fabric.rank_order import best_order, reordered

#: Options of planning circuits.
PLANNING = ("routing", "sharing", "oversubscribed", "seed")
#: Note printed if rank r is GPU r and another order might take less time.
ORDER_NOTE = "rank r is GPU r; --order auto looks for a better one"
ORDER_HELP = "GPU of rank 0, 1, …, such as 0,2,1,3; or auto: look for a better one."


@options(PANEL)
class CircuitOptions(PlanningOptions):
    """Options of the fabric, the order of its GPUs, and photonic circuits."""

    fabric: str | None = option(FABRIC_HELP, "--fabric", "-f", panel="Options")
    order: str | None = option(ORDER_HELP, panel="Options")
    seed: int = option("Of random choices.", default=0, limits=(0,))
    circuits: Path | None = option("Circuits of this file (JSON), for its fabric.")
    budget: bool = option(
        "Wavelengths carry what their link budget allows, and no more than the fabric says.", default=False
    )
    reconfigure: str = option(
        "Set up {wavefabric.fabric.cost_models.photonic:RECONFIGURE}.", default="always"
    )


@options(PANEL)
class DrawnCircuitOptions(CircuitOptions):
    """Circuit options of `wavefabric collective draw`; the others have fixed values."""

    oversubscribed: str = "split"
    budget: bool = False
    reconfigure: str = "always"


@dataclass(frozen=True)
class FabricSetting:
    """A fabric, the circuit plan of ``--circuits`` if given, and the options of both."""

    fabric: AnyFabric
    options: CircuitOptions
    plan: CircuitPlan | None
    order: tuple[int, ...] | Literal["auto"] | None

    def plan_circuits(self, schedule: Schedule) -> CircuitPlan:
        """Return the circuit plan of the file, after proving that it carries ``schedule``; else make one."""
        assert isinstance(self.fabric, PhotonicFabric)
        if self.plan is None:
            return plan_circuits(
                schedule, self.fabric, **{name: getattr(self.options, name) for name in PLANNING}
            )
        check_plan(self.plan, schedule)
        return self.plan

    def in_order(
        self, schedule: Schedule, element_bytes: float, model: str = "auto"
    ) -> tuple[AnyFabric, tuple[int, ...] | None]:
        """Return the fabric with its GPUs in the order of ranks, and this order; None without ``--order``."""
        numbers = self.order
        if numbers is None or isinstance(self.fabric, PhotonicFabric):
            return self.fabric, None
        if numbers == "auto":
            numbers = best_order(schedule, self.fabric, element_bytes, model=model, seed=self.options.seed)
        elif len(numbers) < schedule.ranks:
            actual = f"{len(numbers)} GPUs given for the {schedule.ranks} ranks of {schedule.name}"
            raise InputError(f"--order: {actual}; allowed: a GPU for each rank")
        return reordered(self.fabric, numbers), numbers[: schedule.ranks]


def make_setting(options: CircuitOptions) -> FabricSetting:
    """Load the fabric of ``--fabric``, or else of ``--circuits``; `InputError` for options without effect."""
    named = None if options.fabric is None else load_fabric(options.fabric)
    plan = None
    if options.circuits is not None and (named is None or isinstance(named, PhotonicFabric)):
        plan = load_circuits(options.circuits)
        if named not in (None, plan.fabric):
            actual = f"{options.circuits} is for {plan.fabric.name}"
            raise InputError(f"--circuits: {actual}; allowed: this fabric, or no --fabric")
        named = plan.fabric
        refuse(changed(options, *PLANNING), "with --circuits", "one of the two")
    if named is None:
        raise InputError("--fabric: none given; allowed: a name such as lightpath:4x8 or dgx-1, or a file")
    if not isinstance(named, PhotonicFabric):
        others = [field.name for field in fields(options) if field.name not in ("seed", "fabric", "order")]
        refuse(changed(options, *others), f"with electrical {named.name}", "with photonic ones")
        if options.order != "auto":
            allowed = "with photonic ones, or --order auto"
            refuse(changed(options, "seed"), f"with electrical {named.name}", allowed)
    return FabricSetting(named, options, plan, check_order(options.order, named))


def check_order(text: str | None, fabric: AnyFabric) -> tuple[int, ...] | Literal["auto"] | None:
    """Parse ``--order``: GPUs of the fabric, each once, or ``auto``; return None without the option."""
    if text is not None and isinstance(fabric, PhotonicFabric):
        actual = f"{text[:60]} given with photonic {fabric.name}"
        raise InputError(f"--order: {actual}; allowed: with electrical ones, rank r is tile r here")
    if text is None or text == "auto":
        return text
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 7 for word in words):
        raise InputError(f"--order: {text[:60]} given; allowed: auto, or GPUs with a comma between")
    numbers = tuple(map(int, words))
    try:
        reordered(fabric, numbers)
    except InputError as error:
        raise InputError(f"--{error}") from None
    return numbers


def order_text(order: Sequence[int]) -> str:
    """Return an order as text, in the form of ``--order``."""
    return ",".join(map(str, order))

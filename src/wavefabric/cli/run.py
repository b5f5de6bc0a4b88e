"""Implement `wavefabric run`, which simulates a run file or k-Wave input file and writes a result file.

With ``--plan`` a plan sets the options of the ranks.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wavefabric.base.errors import InputError, quoted
from wavefabric.cli.common.decomposition import GRID
from wavefabric.cli.common.files import is_hdf5, read_json
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.progress import naming_no_resume
from wavefabric.cli.common.ranks import PANEL
from wavefabric.cli.run_options import RunOptions, RunRankOptions
from wavefabric.runtime.device import describe
from wavefabric.runtime.device.select import cuda_count
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.exchange.launch.environment import PROTOCOL

if TYPE_CHECKING:
    from wavefabric.fabric.planner import RunPlan


#: Options that need ``--plan auto``.
_PLANNING = ("fabric", "device_file", "max_error")


@options(PANEL)
class PlannedRankOptions(RunRankOptions):
    """Options of ranks, and of making a plan that replaces them."""

    plan: str | None = option(
        "auto: predict every way to share the run among the ranks, and take the best; or a JSON file of "
        "`wavefabric plan -o`."
    )
    fabric: str | None = option("With --plan auto: fabric between the GPUs, a preset or a file.")
    device_file: str | None = option(
        "With --plan auto: how fast the device is, as of `wavefabric plan`. [default: by the GPU's name]"
    )
    max_error: float | None = option(
        "With --plan auto: class of error allowed, such as 1e-3. [default: 0, the answers of one rank]"
    )

    @contextlib.contextmanager
    def planned(self, options: RunOptions) -> Iterator[tuple[RunOptions, Self]]:
        """Yield the options of the run and of its ranks, with the choices of the plan if there is one.

        The environment variable for the plan's protocol is set only inside the block.
        """
        before = os.environ.get(PROTOCOL)
        try:
            yield self._planned(options)
        finally:
            os.environ.pop(PROTOCOL, None)
            os.environ |= {} if before is None else {PROTOCOL: before}

    def _planned(self, options: RunOptions) -> tuple[RunOptions, Self]:
        if self.plan is None:
            refuse(changed(self, *_PLANNING), "without --plan", "with --plan auto")
            return options, self
        if self.count == 1:
            refuse(changed(self, "plan"), "for one rank", "with --ranks 2 or more")
        by_hand = changed(self, *GRID) | changed(options, "exchange")
        refuse(by_hand | changed(self, "transport", "placement"), "with --plan", "without")
        # The variable counts only if our launcher, which made the plan, started these ranks.
        inherited = environment.expected_ranks() is not None and os.environ.get(environment.PLAN)
        followed = inherited or self._record(options.file)
        record = json.loads(followed)
        if record["protocol"]:
            os.environ[PROTOCOL] = record["protocol"]
        several_hosts = environment.ranks() > 1 and environment.local_size() != self.count
        order = () if record["cpu"] or several_hosts else tuple(record["order"])
        blocks = dict(record["options"])
        exchange = {"exchange": blocks.pop("exchange")} if "exchange" in blocks else {}
        carrier = record["carrier"].partition(", ")[0]
        return replace(options, **exchange), replace(
            self, transport=carrier, order=order, followed=followed, **blocks
        )

    def _record(self, file: Path) -> str:
        """Make or read the plan, check that it fits the run, and return its candidate as JSON."""
        if self.plan != "auto":
            refuse(changed(self, *_PLANNING), "with a plan's file", "with --plan auto")
            plan = _read(Path(str(self.plan)), self.count)
        else:
            from wavefabric.cli.plan import make_plan

            device = self.device_file or _known_device(self.device)
            plan = make_plan(file, self.count, self.fabric, device, {"max_error": self.max_error or 0.0})
        if not plan.cpu and (self.device == "cpu" or not cuda_count()):
            actual = f"a plan for GPUs ({plan.device}), and ranks on CPUs"
            raise InputError(f"--plan: {actual}; allowed: a device file of this CPU")
        if self.plan != "auto":
            from wavefabric.fabric.planner.plan_runs import file_problem

            if (here := file_problem(file)) != (plan.problem, plan.steps):
                actual = f"{self.plan} is for {plan.problem}, {plan.steps} steps"
                raise InputError(f"--plan: {actual}; allowed: a plan for {here[0]}, {here[1]} steps")
        elif environment.rank() == 0:
            step = f"{1e3 * plan.shared.seconds.step:.3g} ms per step"
            print(f"plan: {plan.shared.words}, {step}: {plan.reason_of(plan.shared)}", file=sys.stderr)
        return plan.record()


def command(options: RunOptions, ranks: PlannedRankOptions) -> None:
    """Simulate the link of a run file, or a k-Wave input file.

    The same command again goes on where a killed one stopped.
    """
    ranks = ranks.checked(options.device, options.threads)
    ranks.check_files(options.force, options.file, options.output)
    with naming_no_resume(), ranks.planned(options) as (options, ranks):
        if is_hdf5(options.file):
            refuse(changed(options, "exchange", "verify_step"), "with a k-Wave file", "with run files")
            from wavefabric.cli.kwave_run import run_and_show

            run_and_show(options, ranks)
            return
        refuse(changed(ranks, *GRID), "with a run file", "with k-Wave files")
        if ranks.count == 1:
            refuse(changed(options, "exchange"), "for one rank", "with --ranks 2 or more")
        from wavefabric.cli.run_fibre import run_link_file

        run_link_file(options, ranks)


def _read(path: Path, ranks: int) -> "RunPlan":
    from wavefabric.fabric.planner.plan import read_plan

    content = read_json(path, "--plan")
    try:
        plan = read_plan(content)
    except InputError as error:
        raise InputError(f"--plan: {path} is no plan ({error})") from None
    if plan.ranks != ranks:
        raise InputError(f"--plan: {path} is for {plan.ranks} ranks; allowed: a plan for {ranks}")
    return plan


def _known_device(device: str | None) -> str:
    """Return the name of the built-in device file for this machine's GPU; `InputError` if there is none."""
    from wavefabric.fabric.planner.rates import DEVICE_NAMES

    gpus = [] if device == "cpu" else [gpu["model"] for gpu in describe()["gpus"]]
    for name in DEVICE_NAMES:
        if gpus and name.lower() in gpus[0].lower():
            return name
    here = quoted(gpus[0]) if gpus else "a CPU"
    raise InputError(
        f"--device-file: missing, none is known of {here}; allowed: a file of wavefabric bench solver-rates"
    )

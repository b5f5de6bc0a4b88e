"""`run --plan`: options of ranks taken from a plan instead of from the user."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from wavefabric.cli.common.decomposition import DecompositionOptions
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.ranks import PANEL, RankOptions, is_rank_zero, on_ranks
from wavefabric.cli.run_options import RunOptions
from wavefabric.errors import InputError, quoted
from wavefabric.exchange.launch import environment
from wavefabric.system.variables import PLAN, PROTOCOL

if TYPE_CHECKING:
    from wavefabric.planner import RunPlan


@options(PANEL)
class PlannedOptions:
    """How a plan is made for this run."""

    plan: str | None = option(
        "auto: predict every way to share the run among the ranks, and take the best; or a JSON file of "
        "`wavefabric plan -o`."
    )
    fabric: str | None = option("With --plan auto: fabric between the GPUs, a preset or a file.")
    device_file: str | None = option(
        "With --plan auto: how fast the device is, as of `wavefabric plan`. \\[default: by the GPU's name]"
    )
    max_error: float | None = option(
        "With --plan auto: class of error allowed, such as 1e-3. \\[default: 0, the answers of one rank]"
    )

    @staticmethod
    @contextlib.contextmanager
    def for_one_run() -> Iterator[None]:
        """What `apply` says to ranks and results by the environment holds for one run."""
        before = {name: os.environ.get(name) for name in (PLAN, PROTOCOL)}
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                os.environ |= {} if value is None else {name: value}

    def apply(
        self, file: Path, options: RunOptions, ranks: RankOptions, cut: DecompositionOptions
    ) -> tuple[RunOptions, RankOptions, DecompositionOptions]:
        """The same options as a plan says; without one as they are."""
        # What the starter of these ranks has planned; nobody else may say so.
        inherited = os.environ.pop(PLAN, "") if environment.expected_ranks() is not None else ""
        os.environ.pop(PLAN, None)
        if self.plan is None:
            refuse(changed(self), "without --plan", "with --plan auto")
            return options, ranks, cut
        if ranks.count == 1:
            refuse(changed(self, "plan"), "for one rank", "with --ranks 2 or more")
        by_hand = changed(cut) | changed(options, "exchange") | changed(ranks, "transport", "placement")
        refuse(by_hand, "with --plan", "without")
        record = json.loads(inherited or self._record(file, ranks))
        os.environ[PLAN] = json.dumps(record)
        if record["protocol"]:
            os.environ[PROTOCOL] = record["protocol"]
        several_hosts = on_ranks() and environment.local_size() != ranks.count
        order = () if record["cpu"] or several_hosts else tuple(record["order"])
        blocks = dict(record["options"])
        exchange = {"exchange": blocks.pop("exchange")} if "exchange" in blocks else {}
        placed = replace(ranks, transport=record["carrier"].partition(", ")[0], order=order)
        return replace(options, **exchange), placed, replace(cut, **blocks)

    def _record(self, file: Path, ranks: RankOptions) -> str:
        """The chosen candidate, the same on all ranks."""
        from wavefabric.device.select import cuda_count

        if self.plan != "auto":
            inputs = changed(self, "fabric", "device_file", "max_error")
            refuse(inputs, "with a plan's file", "with --plan auto")
            plan = _read(Path(str(self.plan)), ranks.count)
        else:
            from wavefabric.cli.plan import make_plan

            device = self.device_file or _known_device(ranks)
            plan = make_plan(file, ranks.count, self.fabric, device, {"max_error": self.max_error or 0.0})
        if not plan.cpu and (ranks.device == "cpu" or not cuda_count()):
            actual = f"a plan for GPUs ({plan.device}), and ranks on CPUs"
            raise InputError(f"--plan: {actual}; allowed: a device file of this CPU")
        if self.plan != "auto":
            from wavefabric.planner.files import file_problem

            if (here := file_problem(file)) != (plan.problem, plan.steps):
                actual = f"{self.plan} is for {plan.problem}, {plan.steps} steps"
                raise InputError(f"--plan: {actual}; allowed: a plan for {here[0]}, {here[1]} steps")
        elif is_rank_zero():
            step = f"{1e3 * plan.shared.seconds.step:.3g} ms a step"
            typer.echo(f"plan: {plan.shared.words}, {step}: {plan.reason_of(plan.shared)}", err=True)
        return plan.record()


def _read(path: Path, ranks: int) -> RunPlan:
    from wavefabric.cli.common.files import read_json
    from wavefabric.planner.plan import read_plan

    content = read_json(path, "--plan")
    try:
        plan = read_plan(content)
    except InputError as error:
        raise InputError(f"--plan: {path} is no plan ({error})") from None
    if plan.ranks != ranks:
        raise InputError(f"--plan: {path} is for {plan.ranks} ranks; allowed: a plan for {ranks}")
    return plan


def _known_device(ranks: RankOptions) -> str:
    """The device file of this machine's GPU, by its name."""
    from wavefabric.device import describe
    from wavefabric.planner.rates import DEVICE_NAMES

    gpus = [] if ranks.device == "cpu" else [gpu["model"] for gpu in describe()["gpus"]]
    for name in DEVICE_NAMES:
        if gpus and name.lower() in gpus[0].lower():
            return name
    here = quoted(gpus[0]) if gpus else "a CPU"
    raise InputError(
        f"--device-file: missing, none is known of {here}; allowed: a file of wavefabric bench solver-rates"
    )
